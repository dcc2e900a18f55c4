"""The log workload: append batches, read by offset, ask where the log ends."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.raft.records import ALL_OURS, RecordCodec
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import value_ids
from raft.record_batch import pack_batch
from raft.results import Appended, RecordBatch, Records, Tail

APPEND_PART, READ_PART = 0.6, 0.32
"""The rest is tail."""
AT_END_PART, RECENT_PART = 0.3, 0.5
"""Of the reads: at or just beyond the end, or among the newest; the rest anywhere."""
LEFT_PART = 0.05
"""Of the reads anywhere, once records leave the log: what has left it."""
RECENT_RECORDS = 64
BATCH_RECORDS_MAX = 4
BATCH_CHANCE = 0.2
READ_BYTES_MAX = 2048
ROWS_OF_ONE_READ_MAX = 4
"""A read brings a whole entry; more rows of it would weigh more than they tell."""
LAST_READS = 32
LOG = 0
"""The object of the history."""
TAIL = Request(Action.TAIL, lambda connection: connection.tail())


@attrs.define
class LogWorkload:
    """One log, object 0 of the history; records of `record_bytes`. `expires`: records may leave it, oldest first.

    The history begins at `begin` of the log, and counts from there.
    """

    record_bytes: int = 100
    expires: bool = False
    begin: int = 0
    codec: RecordCodec = ALL_OURS
    name: str = "log"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _end: int = 0
    _claimed: int = 0
    """The greatest end that an answer claimed since the final reads began."""
    _start: int = 0
    """The recent start of the log: most reads ask for offsets that it holds."""

    def request(self, rng: random.Random) -> Request:
        """Append, read or tail."""
        draw = rng.random()
        if draw < APPEND_PART:
            return self._append(rng.randint(2, BATCH_RECORDS_MAX) if rng.random() < BATCH_CHANCE else 1)
        if draw < APPEND_PART + READ_PART:
            return self._read_somewhere(rng)
        return TAIL

    def write(self, rng: random.Random) -> Request:
        """Append one record."""
        return self._append(1)

    def probe(self, rng: random.Random) -> Request:
        """Tail."""
        return TAIL

    def final_reads(self) -> Sequence[Request]:
        """The end, and the newest records with one beyond."""
        first = max(self._start, self._end - LAST_READS)
        self._claimed = 0
        return [TAIL, *(self._read(offset, anywhere=False) for offset in range(first, self._end + 1)), TAIL]

    def claimed_ends(self) -> Mapping[int, int]:
        """Of the one log."""
        return {LOG: self._claimed}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """Reads go on behind it."""
        start_offset -= self.begin
        if not self.expires or request.f is not Action.READ or start_offset <= request.offset:
            raise Nonsense(f"{request.f.name} at {request.offset} was answered by a log that begins at {start_offset}")
        self._start = max(self._start, start_offset)

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Offsets and values."""
        match answer:
            case Appended(base_offset, count, epoch) if request.f is Action.APPEND and count == len(request.values):
                if base_offset < self.begin:
                    raise Nonsense(f"an append landed at {base_offset} of a log that had reached {self.begin}")
                offset = base_offset - self.begin
                self._end = max(self._end, offset + count)
                return Seen(request.values, offset, epoch=epoch)
            case Records(committed_end, batches) if request.f is Action.READ:
                self._claim(self._within(committed_end))
                if not batches:
                    return Seen((NONE,), request.offset)
                return self._values_read(request.offset, batches[0])
            case Tail(committed_end, epoch) if request.f is Action.TAIL:
                end = self._within(committed_end)
                self._claim(end)
                return Seen((NONE,), end, epoch=epoch)
            case _:
                raise Nonsense(f"{type(answer).__name__} does not answer {request.f.name}")

    def _within(self, end: int) -> int:
        """Returns an end of the log as the history counts: a log that ends before its begin has nothing of it."""
        return max(0, end - self.begin)

    def _claim(self, committed_end: int) -> None:
        self._end = max(self._end, committed_end)
        self._claimed = max(self._claimed, committed_end)

    def _append(self, count: int) -> Request:
        values = [next(self._ids) for _ in range(count)]
        batch = pack_batch([self.codec.encode(value, self.record_bytes) for value in values])
        return Request(Action.APPEND, lambda connection: connection.append_batch(batch), a=values[0], values=values)

    def _read_somewhere(self, rng: random.Random) -> Request:
        draw = rng.random()
        if draw < AT_END_PART or not self._end:
            return self._read(self._end + rng.randint(0, 1), anywhere=False)
        if draw < AT_END_PART + RECENT_PART:
            offset = max(0, self._end - 1 - rng.randrange(RECENT_RECORDS))
        else:
            first = self._start if self._start < self._end and rng.random() > LEFT_PART else 0
            offset = rng.randrange(first, self._end)
        return self._read(offset, anywhere=True)

    def _read(self, offset: int, *, anywhere: bool) -> Request:
        place = self.begin + offset
        return Request(
            Action.READ, lambda connection: connection.read(place, READ_BYTES_MAX), offset=offset, anywhere=anywhere
        )

    def _values_read(self, offset: int, batch: RecordBatch) -> Seen:
        place = self.begin + offset
        skipped = place - batch.base_offset
        if not 0 <= skipped < batch.span:
            raise Nonsense(f"a read at {place} was answered from {batch.base_offset} on, {batch.span} records")
        records = batch.records()[skipped : skipped + ROWS_OF_ONE_READ_MAX]
        decoded = [self.codec.decode(record, at) for at, record in enumerate(records, place)]
        is_whole = all(is_whole for _, is_whole in decoded)
        return Seen([value for value, _ in decoded], offset, epoch=batch.epoch, is_whole=is_whole)
