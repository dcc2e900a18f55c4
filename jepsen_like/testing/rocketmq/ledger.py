"""The acknowledgements of brokers to the clients of a test, compared with the copies and their mode's losses.

An acknowledgement promises: the master has the message; with SEND_OK of a SYNC_MASTER so many of its slaves have it,
too. A wiped disk loses all; a power cut takes what need not have been flushed. Any other copy must hold what was
promised, no matter which broker is the master now. A message that is left on other copies than the master's is not
lost: an operator can bring it back.
"""

from collections.abc import Collection, Iterable, Mapping

import attrs

from jepsen_like.testing.ledger import NOTHING_LOST, show, show_first
from rocketmq_compat.replication.acks import SendStatus

WIPED, WITHOUT_POWER, OVERWRITTEN = "was wiped", "lost its power", "may have been overwritten"

QueueName = tuple[str, int]
"""A topic, and the number of a queue."""


@attrs.frozen
class CopyPromise:
    """The promise of a group's settings."""

    slaves_awaited: int
    """Slaves that have a message when SEND_OK is answered."""
    is_flushed: bool
    """SYNC_FLUSH: a copy counts once it is flushed."""
    compares: bool
    """haDivergence=refuse: no copy ever takes another's place."""


@attrs.frozen
class HeldMessage:
    """A message as one copy has it."""

    record: bytes
    body: bytes


@attrs.define
class QueueCopy:
    """A queue as one broker has it: from the offset `start` on, by offset."""

    start: int = 0
    messages: dict[int, HeldMessage] = attrs.field(factory=dict)


@attrs.frozen
class GroupCopies:
    """The copies of one group of brokers."""

    master: int
    queues: Mapping[int, Mapping[QueueName, QueueCopy]]
    """By broker, then by queue."""
    diverged: frozenset[int] = frozenset()
    """Slaves whose logs leave the master's: they wait for an operator."""


@attrs.define
class AcknowledgedMessage:
    """A message that a broker acknowledged; `since` counts the harms before it was sent."""

    queue: QueueName
    offset: int
    body: bytes
    status: SendStatus
    master: int
    since: int
    seen: dict[int, int] = attrs.field(factory=dict)
    """The copies that a check has found it on, with the harms before that."""

    def __str__(self) -> str:
        return f"{self.queue[0]}-{self.queue[1]}: offset {self.offset}, {show(self.body)}"


@attrs.frozen
class RocketVerdict:
    """The result of `check`, in words."""

    acknowledged: int
    """Messages that are known to be acknowledged."""
    compared: int
    """Queues with messages of which all copies were compared."""
    broken: tuple[str, ...] = ()
    """Promises that do not hold."""
    allowed: tuple[str, ...] = ()
    """Messages that no copy has any more, as their mode allows after what was done to the brokers."""
    elsewhere: tuple[str, ...] = ()
    """Messages that the master does not have, and another copy does: an operator can promote that one."""
    expired: int = 0
    """Acknowledged messages that have left their queue by retention."""

    @property
    def valid(self) -> bool:
        """True if every promise holds; a loss that the mode allows breaks none."""
        return not self.broken

    def __str__(self) -> str:
        told = f"{self.acknowledged} acknowledged, {self.compared} queues compared"
        told += f", {self.expired} have left their queue" if self.expired else ""
        found = [*show_first(self.broken), *show_first(self.allowed), *show_first(self.elsewhere)]
        return f"{told}: " + ("; ".join(found) or NOTHING_LOST)


@attrs.define
class CopyLedger:
    """Acknowledgements may come from several threads: they are only ever appended."""

    promise: CopyPromise
    acknowledged: int = 0
    _messages: dict[str, dict[tuple[QueueName, int], list[AcknowledgedMessage]]] = attrs.field(factory=dict)
    """By name of the group and by place; a place is given again by a master that lost it or never had it."""
    _harms: list[tuple[frozenset[int], str]] = attrs.field(factory=list)
    _broken: list[str] = attrs.field(factory=list)

    @property
    def now(self) -> int:
        """The number of harms so far: only later ones can take what is sent from now on."""
        return len(self._harms)

    def on_acknowledged(self, name: str, message: AcknowledgedMessage) -> None:
        """The master of the group `name` told a client that this message is stored."""
        self.acknowledged += 1
        known = self._messages.setdefault(name, {}).setdefault((message.queue, message.offset), [])
        for each in known:
            if each.body == message.body:
                return
            if each.master == message.master and self._harm(each.master, each.since, each) is None:
                self._broken.append(f"{each}, and {show(message.body)} were acknowledged at the same place of {name}")
        known.append(message)

    def on_harm(self, nodes: Collection[int], harm: str, group: Collection[int]) -> None:
        """These brokers of a group lost what they held, or a part of it."""
        self._harms.append((frozenset(nodes), harm))
        if not self.promise.compares:
            self._harms.append((frozenset(group), OVERWRITTEN))

    def on_promoted(self, group: Collection[int]) -> None:
        """An operator promoted this slave. Where nothing is compared, copies may be overwritten from now on."""
        if not self.promise.compares:
            self._harms.append((frozenset(group), OVERWRITTEN))

    def on_broken(self, what: str) -> None:
        """Something else happened that may never happen."""
        self._broken.append(what)

    def queues(self, name: str) -> set[QueueName]:
        """Returns the queues of a group with acknowledged messages."""
        return {queue for queue, _ in self._messages.get(name, {})}

    # ---------------------------------------------------------------- the verdict

    def verdict(self, groups: Mapping[str, GroupCopies]) -> RocketVerdict:
        """Hold the promises against the copies of all groups, by name."""
        broken, allowed, elsewhere, expired = list(self._broken), [], [], 0
        for name, copies in sorted(groups.items()):
            broken += self._differences(copies)
            for message in self._of(name):
                held = _queue_of(copies, copies.master, message)
                if message.offset < held.start:
                    expired += 1
                    continue
                present = _copies_with(copies, message)
                complaint = self._complaint(message, copies, present)
                if complaint is not None:
                    broken.append(f"{message}, {complaint}")
                elif not present:
                    allowed.append(f"{message}, is lost as the mode allows: {self._excuse(message)}")
                elif copies.master not in present:
                    elsewhere.append(f"{message}, is not on master {copies.master} but on {_brokers(present)}")
                message.seen |= dict.fromkeys(present, self.now)
        compared = {
            (name, queue)
            for name, each in groups.items()
            for found in each.queues.values()
            for queue, copy in found.items()
            if copy.messages
        }
        return RocketVerdict(self.acknowledged, len(compared), tuple(broken), tuple(allowed), tuple(elsewhere), expired)

    def _of(self, name: str) -> list[AcknowledgedMessage]:
        places = self._messages.get(name, {})
        return [message for place in sorted(places) for message in places[place]]

    def _complaint(self, message: AcknowledgedMessage, copies: GroupCopies, present: Collection[int]) -> str | None:
        """Returns what is wrong with where a message is; None if it is where it was promised to be."""
        due = {message.master: message.since, **message.seen}
        missing = [
            node for node, since in due.items() if node not in present and self._harm(node, since, message) is None
        ]
        if missing:
            return f"is lost on {_brokers(missing)}"
        if message.status is not SendStatus.SEND_OK:
            return None
        slaves = [node for node in copies.queues if node != message.master]
        taken = [node for node in slaves if self._harm(node, message.since, message) is not None]
        sure = self.promise.slaves_awaited - len(taken)
        found = len([node for node in slaves if node in present])
        if found < sure:
            return f"is on {found} of the {self.promise.slaves_awaited} slaves that had it"
        return None

    def _harm(self, node: int, since: int, message: AcknowledgedMessage) -> str | None:
        """Returns what may have taken a copy of this message since; None if nothing may have."""
        is_flushed = self.promise.is_flushed and message.status is not SendStatus.FLUSH_DISK_TIMEOUT
        for nodes, harm in self._harms[since:]:
            if node in nodes and not (harm == WITHOUT_POWER and is_flushed):
                return harm
        return None

    def _excuse(self, message: AcknowledgedMessage) -> str:
        harm = self._harm(message.master, message.since, message)
        status = message.status.name
        return f"{status} of broker {message.master}, which {harm}"

    def _differences(self, copies: GroupCopies) -> Iterable[str]:
        """Yields the first differences of slaves' copies from the master's, in words, but for known divergence."""
        if not self.promise.compares and self._harms:
            return
        own = copies.queues[copies.master]
        for node, queues in sorted(copies.queues.items()):
            if node == copies.master or node in copies.diverged:
                continue
            for queue in sorted({*own, *queues}):
                one, other = own.get(queue, QueueCopy()), queues.get(queue, QueueCopy())
                begin = max(one.start, other.start)
                offsets = [offset for offset in sorted({*one.messages, *other.messages}) if offset >= begin]
                at = next((each for each in offsets if one.messages.get(each) != other.messages.get(each)), None)
                if at is not None:
                    yield f"{queue[0]}-{queue[1]}: brokers {copies.master} and {node} differ at offset {at}"


def _queue_of(copies: GroupCopies, node: int, message: AcknowledgedMessage) -> QueueCopy:
    return copies.queues[node].get(message.queue, QueueCopy())


def _copies_with(copies: GroupCopies, message: AcknowledgedMessage) -> list[int]:
    found = {node: _queue_of(copies, node, message).messages.get(message.offset) for node in copies.queues}
    return sorted(node for node, held in found.items() if held is not None and held.body == message.body)


def _brokers(nodes: Collection[int]) -> str:
    listed = ", ".join(map(str, sorted(nodes)))
    return f"broker {listed}" if len(nodes) == 1 else f"brokers {listed}"
