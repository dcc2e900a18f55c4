"""Decides when a client is answered, and with which status: RocketMQ's rules (CommitLog, HAService,
GroupTransferService).

A record waits for the flush and for its copies at the same time, and is answered when both are decided. If both failed,
the status of the copies wins. 10, 11 and 12 answer a record that is stored on the master, with a weaker promise.
"""

import enum
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import attrs

from rocketmq_compat.replication.model import ReplicationConfig


class SendStatus(enum.IntEnum):
    """The outcome of records that were stored; the numbers are RocketMQ's response codes."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    """SYNC_FLUSH: they were not flushed in `syncFlushTimeout`."""
    SLAVE_NOT_AVAILABLE = 11
    """SYNC_MASTER 4.x: there is no slave, or none that is near. The answer did not wait."""
    FLUSH_SLAVE_TIMEOUT = 12
    """SYNC_MASTER: too few slaves have reported them in `slaveTimeout`."""


class PutRefusal(enum.IntEnum):
    """The reason why records were certainly not stored; the numbers are RocketMQ's response codes."""

    SYSTEM_ERROR = 1
    SERVICE_NOT_AVAILABLE = 14


COPIES_4X = 2
"""A SYNC_MASTER of 4.x waits for one slave, however many there are."""


def copies_needed(config: ReplicationConfig, in_sync: int) -> int:
    """Returns the number of copies that records need, including the master's.

    `in_sync` counts the near copies (`in_sync_copies`). If the number adapts itself in 5.x, more copies than are in
    sync are refused, as below the minimum (CommitLog.calcNeedAckNums). Otherwise the answer waits for them in vain.
    """
    if not config.sync_master:
        return 1
    if config.flavor == "4.x":
        return COPIES_4X
    if config.auto_in_sync_replicas:
        return max(min(config.in_sync_replicas, in_sync), config.min_in_sync_replicas)
    return config.in_sync_replicas


def in_sync_copies(config: ReplicationConfig, log_end: int, reports: Iterable[int]) -> int:
    """Returns how many copies are in sync, the master's included (HAService.inSyncReplicasNums): one report a slave."""
    return 1 + sum(log_end - report < config.in_sync_gap_bytes_max for report in reports)


def is_slave_available(config: ReplicationConfig, end: int, reports: Sequence[int]) -> bool:
    """Returns True if waiting makes sense in 4.x (HAService.isSlaveOK): the best slave is near `end`."""
    return bool(reports) and end - max(reports) < config.slave_fallbehind_bytes_max


def copied_end(log_end: int, reports: Sequence[int], copies: int) -> int:
    """Returns the end of the log that `copies` copies have, including the master's, or -1 if there are fewer copies."""
    if copies <= 1:
        return log_end
    if len(reports) < copies - 1:
        return -1
    return sorted(reports, reverse=True)[copies - 2]


@attrs.define(eq=False)
class WaitingPut:
    """Records up to `end` were appended at `offset`; a status is None until it is decided."""

    token: int
    offset: int
    end: int
    flush: SendStatus | None
    copies: SendStatus | None

    @property
    def status(self) -> SendStatus | None:
        """The client's answer, None while something is undecided."""
        if self.flush is None or self.copies is None:
            return None
        return self.copies if self.copies is not SendStatus.SEND_OK else self.flush


class PutWaits:
    """All waiting records in the order of the log, so that the next one to answer is always at the front."""

    __slots__ = ("_copies", "_flush")

    def __init__(self) -> None:
        self._flush: deque[tuple[float, WaitingPut]] = deque()
        self._copies: dict[int, deque[tuple[float, WaitingPut]]] = {}

    def add(self, put: WaitingPut, flush_deadline: float, copies: int, copies_deadline: float) -> None:
        """Wait for whichever of both is undecided."""
        if put.flush is None:
            self._flush.append((flush_deadline, put))
        if put.copies is None:
            self._copies.setdefault(copies, deque()).append((copies_deadline, put))

    @property
    def copies_awaited(self) -> tuple[int, ...]:
        """The numbers of copies that are waited for."""
        return tuple(self._copies)

    @property
    def deadline(self) -> float:
        """The time at which the first wait is over; infinity without one."""
        fronts = [waiting[0][0] for waiting in (self._flush, *self._copies.values()) if waiting]
        return min(fronts, default=math.inf)

    def first_end(self, copies: int) -> float:
        """Returns the end of the first records that wait for so many copies; infinity without any."""
        waiting = self._copies.get(copies)
        return waiting[0][1].end if waiting else math.inf

    def take_flushed(self, end: int) -> Iterator[WaitingPut]:
        """Yields the records that can be answered after a flush up to `end`."""
        while self._flush and self._flush[0][1].end <= end:
            put = self._flush.popleft()[1]
            put.flush = SendStatus.SEND_OK
            if put.status is not None:
                yield put

    def take_copied(self, copies: int, end: int) -> Iterator[WaitingPut]:
        """Yields the records that can be answered once `copies` copies have the log up to `end`."""
        waiting = self._copies.get(copies)
        while waiting and waiting[0][1].end <= end:
            put = waiting.popleft()[1]
            put.copies = SendStatus.SEND_OK
            if put.status is not None:
                yield put
        self._forget_empty(copies)

    def take_expired(self, now: float) -> Iterator[WaitingPut]:
        """Yields the records that can be answered because a wait is over."""
        while self._flush and self._flush[0][0] <= now:
            put = self._flush.popleft()[1]
            put.flush = SendStatus.FLUSH_DISK_TIMEOUT
            if put.status is not None:
                yield put
        for copies in self.copies_awaited:
            waiting = self._copies[copies]
            while waiting and waiting[0][0] <= now:
                put = waiting.popleft()[1]
                put.copies = SendStatus.FLUSH_SLAVE_TIMEOUT
                if put.status is not None:
                    yield put
            self._forget_empty(copies)

    def _forget_empty(self, copies: int) -> None:
        if not self._copies.get(copies, True):
            del self._copies[copies]
