"""The final log of one partition on one node, as the dump of a run has it: records in order, those of aborted transactions hidden.

What a transaction wrote is held back until the marker that ends it: only then it is known which it was.
"""

from typing import Final

import attrs

from jepsen_like.history.files import DumpWriter
from jepsen_like.systems.kafka.batch_values import values_of, whole_batches
from jepsen_like.workload.payload import decode_value
from kafka_compat.markers import read_marker

HIDDEN: Final = -1
"""The value of a record whose transaction did not commit is taken from this, so that it lies below it."""


@attrs.define
class _Held:
    """The records of a batch that wait to be written."""

    offset: int
    epoch: int
    values: list[int]
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
                found = values_of(records, position, header)
                values = [decode_value(value)[0] for at, value in found if self.offset <= at < end]
                first = max(self.offset, header.base_offset)
                producer_id = header.producer_id if header.is_transactional else None
                if producer_id is not None:
                    self._open.add(producer_id)
                self._held.append(_Held(first, header.leader_epoch, values, header.size, producer_id))
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
                held.values = held.values if commits else [HIDDEN - value for value in held.values]

    def _write(self) -> None:
        for held in self._held:
            self.writer.record(self.node, held.offset, held.epoch, held.values, size=held.size, obj=self.object)
        self._held = []
