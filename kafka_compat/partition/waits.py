"""Fetch requests that wait at a leader for data, and all requests that wait in one leadership."""

import attrs

from kafka_compat.model import NO_EPOCH
from kafka_compat.partition.acks import WaitingProduces
from log.values import frozen


@frozen
class WaitingFetch:
    """A fetch that found less than `min_bytes` at `fetch_offset`.

    `leader_epoch` is NO_EPOCH if the client sent none.
    """

    token: int
    fetch_offset: int
    min_bytes: int
    deadline: float
    leader_epoch: int = NO_EPOCH
    read_committed: bool = False


@attrs.define
class Waits:
    """Everything that waits at a leader, by token. It outlives the leader epoch if the same replica leads again.

    How many there are is bounded by the shell: a connection has one request at a time.
    """

    replicated: WaitingProduces = attrs.field(factory=WaitingProduces)
    """acks=-1: for the high watermark."""
    flushed: WaitingProduces = attrs.field(factory=WaitingProduces)
    """acks=1 where only a flushed copy counts."""
    followers: dict[int, WaitingFetch] = attrs.field(factory=dict)
    """For the log end."""
    consumers: dict[int, WaitingFetch] = attrs.field(factory=dict)
    """For the high watermark, or the last stable offset."""

    def earliest_deadline(self) -> float:
        """Returns the earliest deadline of all requests; infinity without a waiting one."""
        times = [each.deadline for each in (*self.replicated, *self.flushed)]
        times += [each.deadline for each in (*self.followers.values(), *self.consumers.values())]
        return min(times, default=float("inf"))
