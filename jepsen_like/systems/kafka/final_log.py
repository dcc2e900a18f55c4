"""The final log of one partition on one node, as the dump of a run has it: records in order, those of aborted transactions hidden.

What a transaction wrote is held back until the marker that ends it: only then it is known which it was.
"""

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from jepsen_like.history.files import DumpWriter
from jepsen_like.systems.kafka.batch_values import BatchRecord, records_of, whole_batches
from jepsen_like.workload.keyed import decode_keyed
from jepsen_like.workload.payload import decode_value
from kafka_compat.markers import read_marker

HIDDEN: Final = -1
"""The value of a record whose transaction did not commit is taken from this, so that it lies below it."""


@attrs.define
class _Held:
    """The records of a batch that wait to be written."""

    epoch: int
    values: list[tuple[int, int]]
    """Offset and value of each."""
    size: int
    producer_id: int | None
    """Of an open transaction."""


@attrs.define
class FinalLogWriter:
    """Writes one log. Records of a transaction that has no marker count as aborted."""

    writer: DumpWriter
    node: int
    object: int
    offset: int
    """The offset of the next record."""
    value_of: Callable[[BatchRecord], int]
    """Returns the value of a record."""
    _held: list[_Held] = attrs.field(factory=list)
    _open: set[int] = attrs.field(factory=set)

    def take(self, records: memoryview, end: int) -> None:
        """Take the batches from `offset` up to `end`. Raises `InvalidBatch`."""
        for position, header in whole_batches(records):
            if header.end_offset <= self.offset or header.base_offset >= end:
                continue
            if header.is_control:
                marker = read_marker(header, records[position : position + header.size])
                if marker is not None:
                    self._decide(header.producer_id, commits=marker.commits)
            else:
                # The checker wants each value; a damaged record gets one that no client sent.
                found = records_of(records, position, header)
                values = [(one.offset, self.value_of(one)) for one in found if self.offset <= one.offset < end]
                producer_id = header.producer_id if header.is_transactional else None
                if producer_id is not None:
                    self._open.add(producer_id)
                self._held.append(_Held(header.leader_epoch, values, header.size, producer_id))
            self.offset = min(end, header.end_offset)
            if not self._open:
                self._write()

    def close(self) -> None:
        """Write what is held back still."""
        for producer_id in tuple(self._open):
            self._decide(producer_id, commits=False)
        self._write()

    def _decide(self, producer_id: int, *, commits: bool) -> None:
        self._open.discard(producer_id)
        for held in self._held:
            if held.producer_id == producer_id:
                held.producer_id = None
                if not commits:
                    held.values = [(offset, HIDDEN - value) for offset, value in held.values]

    def _write(self) -> None:
        for held in self._held:
            size = held.size
            for offset, values in _runs(held.values):
                self.writer.record(self.node, offset, held.epoch, values, size=size, obj=self.object)
                size = 0
        self._held = []


def _runs(values: list[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yields where each row of consecutive offsets begins, and its values: compaction leaves gaps."""
    begin = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place][0] != values[place - 1][0] + 1:
            yield values[begin][0], [value for _, value in values[begin:place]]
            begin = place


def plain_value(record: BatchRecord) -> int:
    """Returns the id of a record that is its value."""
    return decode_value(record.value or b"")[0]


def keyed_value(record: BatchRecord) -> int:
    """Returns the id of a record with a key."""
    return decode_keyed(record.key, record.value, record.headers)[0]
