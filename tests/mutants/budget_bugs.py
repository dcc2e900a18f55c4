"""Deliberate bugs of the budget of a process: bytes that count for no one, and room that is taken from the wrong side."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

BUDGET, CONNECTION, LISTENER = "raft.net.budget", "raft.net.connection", "raft.net.listener"
HELD = "self.account.own_bytes + self.outbound_bytes + self.session.held_bytes()"


def _bug(name: str, story: str, module: str, old: str, new: str) -> Mutant:
    return plant(name, story, module, old, new, oracles=["room"], judge="room")


BUDGET_BUGS: Sequence[Mutant] = (
    _bug("budget-forgets-answers", "answers that are not read count for nothing", CONNECTION,
         HELD, HELD.replace(" + self.outbound_bytes", "")),
    _bug("budget-forgets-unfinished-frames", "what has arrived of a frame counts for nothing", CONNECTION,
         "            held += self.decoder.held_bytes\n", "            held += 0\n"),
    _bug("budget-forgets-requests", "requests without an answer count for nothing", CONNECTION,
         HELD, HELD.replace(" + self.session.held_bytes()", "")),
    _bug("budget-charges-no-taken-requests", "what a chunk leaves with the session is charged to nobody", CONNECTION,
         " or self.decoder.pending_bytes or self.session.held_bytes():\n", " or self.decoder.pending_bytes:\n"),
    _bug("budget-charges-no-unread-answers", "a flush that leaves answers behind charges them to nobody", CONNECTION,
         "        if outbound or self.account.charged != CONNECTION_BYTES:", "        if self.account.charged != CONNECTION_BYTES:"),
    _bug("budget-takes-what-was-read", "requests that were read are served although there is no room for their answers",
         CONNECTION, "            return self.reactor.budget.is_short and self.is_short\n", "            return False\n"),
    _bug("budget-forgets-handshakes", "what arrives of a handshake of TLS counts for nothing", "raft.net.tls",
         "            self._shaking_bytes += len(chunk)\n", "            self._shaking_bytes += 0\n"),
    _bug("budget-keeps-nothing-for-members", "clients may fill the whole total", BUDGET,
         "self.total_bytes - self.total_bytes // MEMBERS_SHARE", "self.total_bytes"),
    _bug("budget-counts-members-as-others", "what a member holds is charged to the clients", BUDGET,
         "        holder.account.standing = standing\n        self.charge(holder, charged)\n",
         "        self.charge(holder, charged)\n        holder.account.standing = standing\n"),
    _bug("budget-charges-the-dead", "what a closed connection held is never given back", BUDGET,
         "        self._holders.pop(holder, None)\n        self.charge(holder, 0)\n",
         "        self._holders.pop(holder, None)\n"),
    _bug("budget-closes-the-oldest", "the oldest clients have to go, and those who crowd them out stay", BUDGET,
         "for each in reversed(self._holders) if", "for each in self._holders if"),
    _bug("budget-closes-who-holds-little", "a client goes because it is young, whatever it holds", BUDGET,
         "if each.account.charged * len(others) >= self.others_bytes", "if each.account.charged"),
    _bug("budget-has-no-patience", "clients are closed at once, although waiting would have done", BUDGET,
         "        is_patient = now < self._short_since + PATIENCE_S\n", "        is_patient = False\n"),
    _bug("budget-lets-all-go-on", "all are read on while there is no room, not those alone that hold little", BUDGET,
         "_resume_at(self.limits.total_bytes) and holder.account.charged < self._little\n",
         "_resume_at(self.limits.total_bytes)\n"),
    _bug("connection-keeps-its-last-frame", "a closed connection keeps what had arrived of a frame", CONNECTION,
         "        self.decoder = _ENDED\n", ""),
    _bug("listener-has-no-place-for-members", "clients may take the last places of a port", LISTENER,
         "        most = self._limits.connections_max - self._limits.member_places\n",
         "        most = self._limits.connections_max\n"),
    _bug("listener-keeps-no-descriptor", "clients may take the last descriptors", LISTENER,
         "connection.fileno() >= _descriptors_for_others()", "connection.fileno() >= _descriptors_for_connections()"),
    _bug("listener-counts-members-of-an-address", "members count for their address", LISTENER,
         "        if standing is Standing.MEMBER and guest.is_counted:\n", "        if not guest.greeted:\n"),
    _bug("listener-accepts-at-any-pace", "connections are accepted as fast as they come", LISTENER,
         "            if not self._budget.arrivals.may_accept(trio.current_time()):\n", "            if self._closed:\n"),
)  # fmt: skip
