"""FlushSchedule: when what was written is flushed, and from when on it counts.

With `before-ack` a write counts when a flush that began after it has ended. With `interval` and `none` it counts once
the operating system has it: a node that loses power can lose what it acknowledged. But terms and votes, and what is
written behind them, always wait for a flush, which begins at once: a node that forgot its vote could vote twice in a
term, and logs would part for good. One flush is under way at a time, outside of the loop, and covers everything that
was written when it began (group commit).
"""

import math
from collections.abc import Callable
from typing import assert_never

from log.flush import Flush
from log.policy import FlushPolicy
from raft.model import WriteId
from raft.storage import RaftStorage, StorageFlush


class FlushSchedule:
    """Begins and ends the flushes of one node's log."""

    def __init__(
        self,
        storage: RaftStorage,
        clock: Callable[[], float],
        *,
        policy: FlushPolicy,
        interval_s: float,
        stall_s: float,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._policy = policy
        self._interval_s = interval_s
        self._stall_s = stall_s
        self.due = math.inf
        """The time at which the next flush is due, if it waits for one; else infinite."""
        self.stalls_at = math.inf
        """The time from which the flush under way takes too long; infinite without one."""
        self._flush: StorageFlush | None = None
        self._begun = 0.0
        self._is_wanted = False

    @property
    def is_under_way(self) -> bool:
        """True while a flush is under way."""
        return self._flush is not None

    @property
    def delays_entries(self) -> bool:
        """True if the next entry waits for the flush under way, as it does if acknowledgements do."""
        return self._policy is FlushPolicy.BEFORE_ACK and self._flush is not None

    @property
    def counted(self) -> WriteId:
        """The last write that counts: what is written, or what is durable, if that is waited for."""
        awaits_all = self._policy is FlushPolicy.BEFORE_ACK or self._storage.owes_state
        return self._storage.durable if awaits_all else self._storage.written

    def age(self, now: float) -> float:
        """Returns for how many seconds the flush has been under way."""
        return now - self._begun

    def want(self) -> None:
        """Flush soon, even if nothing is written: what left the log leaves the disk with the next flush."""
        self._is_wanted = True

    def begin_if_due(self) -> Flush | None:
        """Returns the flush that begins now, to be carried out; None if none is due, or one is under way."""
        if self._flush is not None or not (self._is_wanted or (not self._storage.is_durable and self._is_due())):
            return None
        self._is_wanted = False
        self.due = math.inf
        self._flush = self._storage.begin_flush()
        self._begun = self._clock()
        self.stalls_at = self._begun + self._stall_s
        return self._flush.flush

    def _is_due(self) -> bool:
        """Returns True if what was written should be flushed now."""
        match self._policy:
            case FlushPolicy.BEFORE_ACK:
                return True
            case _ if self._storage.owes_state:
                return True
            case FlushPolicy.INTERVAL:
                if self.due == math.inf:
                    self.due = self._clock() + self._interval_s
                return self._clock() >= self.due
            case FlushPolicy.NONE:
                # A sealed segment keeps its file open, and its index in memory, until a flush has proved it.
                return self._storage.log.sealed_pending
            case _:
                assert_never(self._policy)

    def end(self) -> None:
        """Process the flush under way, which has ended without an error."""
        assert self._flush is not None, "a flush ended that was not begun"
        flush, self._flush = self._flush, None
        self.stalls_at = math.inf
        self._storage.end_flush(flush)
        # A flush takes few files away: the rest goes with the next.
        self._is_wanted |= self._storage.log.retiring and self._storage.log.sealed_pending

    def settle(self) -> None:
        """Process a flush that has ended without a call of `end`."""
        if self._flush is not None and self._flush.done:
            flush, self._flush = self._flush, None
            self._storage.end_flush(flush)
