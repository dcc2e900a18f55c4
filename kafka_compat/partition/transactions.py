"""The transactions of one log: which are open, which were aborted, and up to where all are decided.

- A transaction is open from its first batch to its marker. It stays undecided until the marker is committed: a reader
  must not see its records before, and no reader may see what follows them (the last stable offset, KIP-98).
- The aborted ones are kept as long as the log holds their records, so that a reader can leave those out.
- Before the first batch of a transaction a leader asks the transaction's coordinator if the partition belongs to it.
  A marker that comes meanwhile makes the answer void, or the batch would open a transaction without an end (KIP-890).

Leader and followers have the same state but for the questions, because both record every batch.
"""

from bisect import bisect_left
from collections import deque
from itertools import islice

import attrs

from kafka_compat.partition.model import AbortedTransaction, BatchKind, TransactionsSnapshot

VERIFYING_MAX = 10_000
"""Questions that wait at one log; one more drops the oldest."""


@attrs.define
class _Verifying:
    epoch: int
    guard: int
    lowest_sequence: int


class Transactions:
    """The transactions of one log. Offsets are inclusive."""

    __slots__ = ("_ending", "_last_guard", "_verifying", "aborted", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """The first offset of each open transaction by producer id, ascending."""
        self.aborted: list[AbortedTransaction] = []
        """By the offsets of their markers."""
        self._ending: deque[tuple[int, int]] = deque()
        """The first offset of each transaction whose marker may not be committed yet, and the marker's offset."""
        self._verifying: dict[int, _Verifying] = {}
        self._last_guard = 0

    # ------------------------------------------------------------ what the log holds

    def begin(self, producer_id: int, offset: int) -> None:
        """Record a batch of a transaction, perhaps its first one."""
        if producer_id not in self.open:
            self.open[producer_id] = offset
        if self._verifying:
            self._verifying.pop(producer_id, None)

    def end(self, producer_id: int, kind: BatchKind, offset: int) -> None:
        """Record a marker at `offset`. One that ends nothing leaves only a void question behind."""
        self._verifying.pop(producer_id, None)
        first = self.open.pop(producer_id, None)
        if first is None:
            return
        self._ending.append((first, offset))
        if kind is BatchKind.ABORT:
            self.aborted.append(AbortedTransaction(producer_id, first, offset))

    def forget_committed(self, high_watermark: int) -> None:
        """Forget the ends that are below the high watermark."""
        while self._ending and self._ending[0][1] < high_watermark:
            self._ending.popleft()

    def first_undecided(self, high_watermark: int) -> int | None:
        """Returns the first offset of a transaction that is open, or whose marker is not committed; None without."""
        if not (self.open or self._ending):
            return None
        self.forget_committed(high_watermark)
        firsts = [first for first, _ in self._ending]
        firsts += islice(self.open.values(), 1)
        return min(firsts, default=None)

    def aborted_between(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Returns the aborted transactions with records from `start` up to `end`, exclusive."""
        at = bisect_left(self.aborted, start, key=lambda each: each.last_offset)
        return tuple(each for each in islice(self.aborted, at, None) if each.first_offset < end)

    def trim(self, log_start: int) -> None:
        """Forget what lies before the start of the log. A transaction that began there stays open."""
        if self.aborted:
            del self.aborted[: bisect_left(self.aborted, log_start, key=lambda each: each.last_offset)]

    # ------------------------------------------------------------ questions to the coordinator

    def ask(self, producer_id: int, epoch: int, sequence: int) -> int:
        """Returns the guard of a question about this producer: its first batch has to give it back."""
        known = self._verifying.get(producer_id)
        if known is not None and known.epoch == epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
            return known.guard
        self._last_guard += 1
        if len(self._verifying) >= VERIFYING_MAX:
            del self._verifying[next(iter(self._verifying))]
        self._verifying[producer_id] = _Verifying(epoch, self._last_guard, sequence)
        return self._last_guard

    def is_verified(self, producer_id: int, epoch: int, guard: int) -> bool:
        """Returns True if the question with this guard is still open."""
        known = self._verifying.get(producer_id)
        return known is not None and (known.epoch, known.guard) == (epoch, guard)

    def lowest_sequence(self, producer_id: int) -> int | None:
        """Returns the lowest sequence number of a producer that waits for an answer, or None."""
        known = self._verifying.get(producer_id)
        return None if known is None else known.lowest_sequence

    # ------------------------------------------------------------ plain data

    def snapshot(self) -> TransactionsSnapshot:
        """Returns the state as plain data, without the questions."""
        return TransactionsSnapshot(tuple(self.open.items()), tuple(self._ending), tuple(self.aborted))

    def restore(self, snapshot: TransactionsSnapshot) -> None:
        """Replace the state. All questions are void."""
        self.open = dict(sorted(snapshot.open, key=lambda each: each[1]))
        self._ending = deque(snapshot.ending)
        self.aborted = list(snapshot.aborted)
        self._verifying.clear()
