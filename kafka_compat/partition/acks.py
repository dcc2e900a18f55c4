"""Produce requests that wait for their acknowledgement, and the rules that answer them.

With acks=-1 a batch waits for the high watermark. With acks=1, for the leader's flush if only flushed copies count.
"""

from collections import deque
from collections.abc import Iterator

from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class WaitingProduce:
    """A batch from `base_offset` to `end_offset` was appended; its answer is due by `deadline`."""

    token: int
    base_offset: int
    end_offset: int
    deadline: float


class WaitingProduces:
    """Produces in the order of their batches, but for duplicates, which wait for a batch that is in the log already."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[WaitingProduce] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[WaitingProduce]:
        return iter(self._waiting)

    def add(self, waiting: WaitingProduce) -> None:
        """Insert it in the order of ends, so that the first one reached is always at the front."""
        late: list[WaitingProduce] = []
        while self._waiting and self._waiting[-1].end_offset > waiting.end_offset:
            late.append(self._waiting.pop())
        self._waiting.append(waiting)
        self._waiting.extend(reversed(late))

    def take_reached(self, end: int) -> Iterator[WaitingProduce]:
        """Take out and yield the requests whose batch ends at or below `end`."""
        waiting = self._waiting
        while waiting and waiting[0].end_offset <= end:
            yield waiting.popleft()

    def take_expired(self, now: float) -> list[WaitingProduce]:
        """Take out and return the requests whose deadline has come."""
        over = [each for each in self._waiting if each.deadline <= now]
        if over:
            self._waiting = deque(each for each in self._waiting if each.deadline > now)
        return over

    def all(self) -> list[WaitingProduce]:
        """Take out and return all."""
        taken, self._waiting = list(self._waiting), deque()
        return taken


def refused_before_append(acks: int, isr_size: int, min_isr: int) -> KafkaErrorCode:
    """Returns the error that the number of acknowledgements asked for meets before anything is appended, or NONE."""
    if acks not in (-1, 0, 1):
        return KafkaErrorCode.INVALID_REQUIRED_ACKS
    if acks == -1 and isr_size < min_isr:
        return KafkaErrorCode.NOT_ENOUGH_REPLICAS
    return KafkaErrorCode.NONE


def decide_replicated(maximal_isr_size: int, min_isr: int) -> KafkaErrorCode:
    """Returns the outcome of acks=-1 once the high watermark has passed the batch.

    That is NOT_ENOUGH_REPLICAS_AFTER_APPEND if fewer replicas than the min ISR may have the batch.
    """
    return KafkaErrorCode.NONE if maximal_isr_size >= min_isr else KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
