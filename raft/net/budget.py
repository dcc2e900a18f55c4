"""Budget: what all connections of a process make it hold, under one total.

Counted are, for each connection: what has arrived of an unfinished frame, record or handshake, requests without an
answer, answers that have not left, and what the connection costs by itself. It is counted after each chunk and each
flush, so a record costs nothing.

At the limit nothing more is read, so senders feel TCP's back-pressure, until an eighth of it is free again. Members of
the cluster keep a quarter of the total: the others stop at three. Those that hold little go on, out of half of that
quarter: a stranger may be a member, and a client that asks for little should not wait for those that hoard.

Back-pressure does not help against those who never finish a frame or never read: they are closed. Of those that hold
no less than an equal share go, the youngest first,

- strangers, of which no request was understood yet: at once;
- after `PATIENCE_S`, clients, and then those that have proven who they are;
- after the same time a member, if members fill the whole total: that which holds the most.

One process has one budget, that of its reactor. It also counts connections by address, and how fast they come.
"""

import enum
import math
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import attrs

MEMBERS_SHARE: Final = 4
"""Members keep one of so many parts of the total."""
FREED_SHARE: Final = 8
"""Reading goes on when one of so many parts of a limit is free."""
LITTLE_BYTES: Final = 64 * 1024
"""A connection that holds less than this, and than 1/64 of the total, goes on for a while; a handshake needs no more."""
PATIENCE_S: Final = 1.0
LOOK_S: Final = 0.1
"""While room is short, this often it all is counted again, and looked for those that are to be closed."""
NO_LIMIT: Final = 2**31 - 1

CROWDED_OUT: Final = "closed to make room: the process holds all the bytes for its connections that it may"


class Standing(enum.IntEnum):
    """The other end of a connection, as far as it is known; the lower are closed before the higher."""

    STRANGER = 0
    """Nothing of it was understood yet."""
    CLIENT = 1
    KNOWN = 2
    """A client that has proven who it is."""
    MEMBER = 3
    """A process of the cluster, or one that this process has dialled."""


class Account:
    """The place of one connection in the budget."""

    __slots__ = ("charged", "has_room", "is_wanted", "own_bytes", "standing")

    def __init__(self, own_bytes: int, standing: Standing = Standing.MEMBER) -> None:
        self.own_bytes = own_bytes
        """The bytes that it costs by itself."""
        self.standing = standing
        self.charged = 0
        """The bytes that it is charged for; for the budget alone to set."""
        self.has_room = True
        """False while it is held up."""
        self.is_wanted = True
        """False while its owner wants nothing to be read."""


class Holder(Protocol):
    """A connection."""

    account: Account

    def held_bytes(self) -> int:
        """Returns the bytes that it holds now."""

    def read_on(self) -> None:
        """Read again, and take what was read, after it was held up."""

    def close(self, reason: str) -> None:
        """Close it, after which it is not in the budget any more."""


@attrs.frozen(kw_only=True)
class BudgetLimits:
    """The bounds of one process."""

    total_bytes: int
    per_address_max: int = NO_LIMIT
    """Connections at once from one address that are none of members."""
    accepts_per_s: float = math.inf
    """Connections that are accepted in a second; more of them wait to be accepted."""

    @property
    def others_bytes(self) -> int:
        """The part of the total for all that are no members."""
        return self.total_bytes - self.total_bytes // MEMBERS_SHARE


class Budget:
    """Counts and bounds; for the thread of the loop."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.is_short = False
        """True from when a limit is reached until enough is free again."""
        self.on_short: list[Callable[[], None]] = []
        """Called at the beginning of each shortage: someone has to `relieve` from then on."""
        self.members_bytes = 0
        self.others_bytes = 0
        self.peak_bytes = 0
        """The most that was ever held at once."""
        self.shortages = 0
        self.crowded_out = 0
        """Connections that were closed to make room."""
        self._others_max = limits.others_bytes
        self._little = min(LITTLE_BYTES, limits.total_bytes // 64)
        self._holders: dict[Holder, None] = {}
        """The oldest first."""
        self._held_up: dict[Holder, None] = {}
        self._short_since = math.inf
        self._looks_at = -math.inf
        self.arrivals = Arrivals(limits)

    @property
    def held_bytes(self) -> int:
        """The bytes of all connections."""
        return self.members_bytes + self.others_bytes

    # ---------------------------------------------------------------- counting

    def join(self, holder: Holder) -> None:
        """A connection has begun."""
        self._holders[holder] = None
        self.charge(holder, holder.held_bytes())

    def leave(self, holder: Holder) -> None:
        """A connection has ended."""
        self._held_up.pop(holder, None)
        self._holders.pop(holder, None)
        self.charge(holder, 0)

    def promote(self, holder: Holder, standing: Standing) -> None:
        """More is known of the other end; or, when it has just been accepted, nothing yet."""
        charged = holder.account.charged
        self.charge(holder, 0)
        holder.account.standing = standing
        self.charge(holder, charged)

    def charge(self, holder: Holder, held: int) -> None:
        """A connection holds so many bytes from now on."""
        change = held - holder.account.charged
        holder.account.charged = held
        if holder.account.standing is Standing.MEMBER:
            self.members_bytes += change
        else:
            self.others_bytes += change
        if change > 0:
            used = self.members_bytes + self.others_bytes
            self.peak_bytes = max(self.peak_bytes, used)
            if not self.is_short and (self.others_bytes >= self._others_max or used >= self.limits.total_bytes):
                self.is_short = True
                self.shortages += 1
                for notify in self.on_short:
                    notify()
        elif self.is_short:
            self._end_shortage()

    def _end_shortage(self) -> None:
        used = self.members_bytes + self.others_bytes
        if self.others_bytes > _resume_at(self._others_max) or used > _resume_at(self.limits.total_bytes):
            return
        self.is_short = False
        self._short_since = math.inf
        held_up, self._held_up = self._held_up, {}
        for holder in held_up:
            holder.read_on()

    # ---------------------------------------------------------------- room

    def admits(self, holder: Holder) -> bool:
        """Returns True if more may be read from a connection. It need not be asked unless room `is_short`."""
        if not self.is_short:
            return True
        if holder.account.standing is Standing.MEMBER:
            return self.held_bytes < self.limits.total_bytes or not self._is_large(holder)
        return self.held_bytes < _resume_at(self.limits.total_bytes) and holder.account.charged < self._little

    def hold_up(self, holder: Holder) -> None:
        """A connection is not read until there is room, when `Holder.read_on` is called."""
        self._held_up[holder] = None

    def _is_large(self, member: Holder) -> bool:
        """Returns True if a member holds more than its equal share of what members hold: one that is broken, say."""
        members = sum(each.account.standing is Standing.MEMBER for each in self._holders)
        return member.account.charged * members > self.members_bytes

    def relieve(self, now: float) -> None:
        """While room is short: count again, and close those for whom waiting is of no use."""
        if not self.is_short or now < self._looks_at:
            return
        self._looks_at = now + LOOK_S
        if not self._is_short_all_the_same():
            return
        self._short_since = min(self._short_since, now)
        is_patient = now < self._short_since + PATIENCE_S
        self._close_others(is_patient=is_patient)
        if self.held_bytes >= self.limits.total_bytes and not is_patient:
            self._close_member()
        if not is_patient:
            self._short_since = now

    def _is_short_all_the_same(self) -> bool:
        """Count again what has changed unseen, such as requests that ended without an answer."""
        for holder in tuple(self._holders):
            if holder in self._holders:  # the end of a shortage may have ended others
                self.charge(holder, holder.held_bytes())
        return self.is_short

    def _close_others(self, *, is_patient: bool) -> None:
        others = [each for each in reversed(self._holders) if each.account.standing is not Standing.MEMBER]
        large = [each for each in others if each.account.charged * len(others) >= self.others_bytes]
        for holder in sorted(large, key=lambda each: each.account.standing):
            if self.others_bytes <= _resume_at(self._others_max) or (
                is_patient and holder.account.standing > Standing.STRANGER
            ):
                return
            self._crowd_out(holder)

    def _close_member(self) -> None:
        members = [each for each in self._holders if each.account.standing is Standing.MEMBER]
        self._crowd_out(max(members, key=lambda each: each.account.charged))

    def _crowd_out(self, holder: Holder) -> None:
        self.crowded_out += 1
        holder.close(CROWDED_OUT)


class Arrivals:
    """Connections that come: how many from one address, and how fast. Those of one second may come at once."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.per_address_max = limits.per_address_max
        self._addresses: Counter[str] = Counter()
        self._per_s = limits.accepts_per_s
        self._left = max(limits.accepts_per_s, 1.0)
        self._looked_at = -math.inf

    def may_accept(self, now: float) -> bool:
        """Returns True if one more connection may be accepted now."""
        if self._per_s == math.inf:
            return True
        since_s = min(now - self._looked_at, 1.0 + 1.0 / self._per_s)
        self._left = min(self._left + since_s * self._per_s, max(self._per_s, 1.0))
        self._looked_at = now
        return self._left >= 1

    def note_accept(self) -> None:
        """A connection was accepted."""
        self._left -= 1

    def has_place_for(self, address: str) -> bool:
        """Returns True if an address may have one more connection."""
        return self._addresses[address] < self.per_address_max

    def count(self, address: str) -> None:
        """A connection from this address begins to count."""
        self._addresses[address] += 1

    def uncount(self, address: str) -> None:
        """A connection from this address counts no more: it has closed, or is that of a member."""
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]


def _resume_at(limit: int) -> int:
    return limit - limit // FREED_SHARE
