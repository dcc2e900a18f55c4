"""A master that may lack records: it takes no records until it has copied back the records that its slaves hold.

A start finds out if a copy is in doubt: its log was cut for damage, is shorter than it had been, or its disk is another
one (`CopyDoubt`). A master without a doubt gets one when a slave shows a log that goes on where its own ends, while it
has appended nothing since the start. Its next append would be other bytes than the slave's.

In doubt, a master

- begins no epoch and takes no records, so that its log stays a beginning of every sound copy;
- asks a slave whose log goes on where its own ends for the rest, push by push, and welcomes it when it has all of it;
- asks each slave for its tables, if it has lost some of its own;
- is sure again when its log has come as far as it ever was (the floor). If the floor is unknown, or no copy reaches it
  any more, it is sure when all slaves that it ever took were compared, and as many as the settings require
  (`slaves_expected`): another disk knows no slave. If only the power was cut, and acknowledged records are flushed, it
  waits no longer than for a silent connection (`silence_s_max`).

So acknowledged records are kept as long as one copy has them, and no order of starts lets a short log count. An
operator gives up a slave that never comes back (`LossAccepted`).
"""

import math

import attrs

from log.values import frozen
from rocketmq_compat.replication.copy_log import CopyLog


@frozen
class Source:
    """The slave from which a master copies back, up to `end`."""

    connection: int
    slave_id: int
    end: int


@attrs.define
class CopyBack:
    """A master's knowledge of its slaves while it is in doubt.

    `slaves` are all that it ever took, according to its disk.
    """

    log: CopyLog
    expected: int
    slaves: set[int]
    patience_s: float = math.inf
    source: Source | None = None
    waits_until: float = math.inf
    """The time until which a master that has all acknowledged records waits."""
    compared: set[int] = attrs.field(factory=set)
    """Slaves whose logs and tables have nothing that this master lacks."""

    def begin(self, now: float) -> None:
        """Begin to wait for slaves."""
        doubt = self.log.doubt
        if doubt is not None and doubt.is_flushed:
            self.waits_until = now + self.patience_s

    def is_settled(self, now: float) -> bool:
        """Returns True if the doubt is over: no other copy has records that this one lacks."""
        doubt = self.log.doubt
        if doubt is None or self.source is not None:
            return False
        return (self.log.has_floor and not doubt.lacks_tables) or self._has_compared_all or now >= self.waits_until

    @property
    def _has_compared_all(self) -> bool:
        return self.slaves <= self.compared and len(self.compared) >= self.expected

    @property
    def awaited(self) -> str:
        """The slaves that the master waits for, in words for operators."""
        known = sorted(self.slaves - self.compared)
        more = self.expected - len(self.compared) - len(known)
        names = [f"slave {each}" for each in known] + ([f"{more} more of its slaves"] if more > 0 else [])
        return " and ".join(names) or "slaves"

    @property
    def objection(self) -> str:
        """The reason why it takes no records."""
        log, doubt = self.log, self.log.doubt
        assert doubt is not None, "asked while in doubt"
        if self.source is not None:
            return f"this master copies back what slave {self.source.slave_id} has, and is at {log.log_end} of {self.source.end}: try again later"
        had = "" if doubt.floor is None else f", and it had come to {doubt.floor.end}"
        return f"this master may lack messages: its log ends at {log.log_end}{had}; it waits for {self.awaited}"

    def reads_from(self, connection: int) -> bool:
        """Returns True if the master copies back what comes by this connection."""
        return self.source is not None and self.source.connection == connection

    def on_closed(self, connection: int) -> None:
        """Note that a connection ended; the bytes copied on it stay."""
        if self.reads_from(connection):
            self.source = None
