"""Rewriting a run of sealed segments: what compaction writes, and nothing reads before it has taken effect.

The batches go to new files of a generation of their own, which no manifest names. `finish` makes them durable; then
`StoreLog.end_replacement` puts a manifest in force that names them instead of the old ones. A crash before that leaves
the old segments and some leftover files, which the next opening of the log removes; a crash after it, the new ones.
"""

from collections.abc import Iterable, Sequence

from log.batch import StoredBatch
from log.batch_index import BatchIndex
from log.config import StoreConfig
from log.disk import Disk
from log.file_pool import FilePool
from log.frame import HEADER_BYTES, Address, Buffer, buffers_of
from log.manifest import SealedSegment, file_name
from log.store_recovery import StoreSegment

_WRITE_BYTES = 1 << 18


class Replacement:
    """Made by `StoreLog.begin_replacement`. `write` and `finish` may be called in any thread, one at a time."""

    def __init__(
        self,
        disk: Disk,
        pool: FilePool,
        directory: str,
        replaced: Sequence[SealedSegment],
        end_offset: int,
        *,
        log_id: int,
        generation: int,
        config: StoreConfig,
    ) -> None:
        """Use `StoreLog.begin_replacement`."""
        self.replaced = tuple(replaced)
        """The segments that are to be replaced."""
        self.segments: list[StoreSegment] = []
        """The segments that take their place."""
        self.finished = False
        self._disk = disk
        self._pool = pool
        self._directory = directory
        self._log_id = log_id
        self._generation = generation
        self._config = config
        self._first_offset = self._next_offset = replaced[0].first_offset
        self._end_offset = end_offset
        self._epoch = 0

    def write(self, batches: Iterable[StoredBatch]) -> None:
        """Write batches behind those written before. Not durable yet.

        Raises `ValueError` unless their offsets ascend within those of the replaced segments, and their epochs do not
        fall. Raises `NoSpace` on a full disk; then the replacement must be abandoned.
        """
        assert not self.finished, "a finished replacement takes no more"
        buffers: list[Buffer] = []
        waiting, segment = 0, self.segments[-1] if self.segments else None
        for batch in batches:
            if objection := batch.objection(self._next_offset, self._epoch):
                raise ValueError(objection)
            if batch.end_offset > self._end_offset:
                raise ValueError(f"the batch at offset {batch.base_offset} lies behind the replaced segments")
            if segment is None or segment.size + waiting >= self._config.segment_bytes_max or waiting >= _WRITE_BYTES:
                self._put(segment, buffers, waiting)
                buffers, waiting = [], 0
                segment = self._segment_for(batch)
            index = segment.index
            assert index is not None, "a segment that is written to has an index"
            index.note(batch.base_offset, batch.timestamp_ms, segment.size + waiting)
            address = Address(segment.end + waiting)
            buffers += [batch.header(log_id=self._log_id, address=address, durable_end=0), *buffers_of(batch.payload)]
            waiting += HEADER_BYTES + len(batch.payload)
            self._next_offset, self._epoch = batch.end_offset, batch.epoch
        self._put(segment, buffers, waiting)

    def finish(self) -> None:
        """Make all files and their names durable, because a manifest names only files that survive a power cut."""
        for segment in self.segments:
            segment.seal()
            segment.file.sync()
        if self.segments:
            self._disk.sync_directory(self._directory)
        self.finished = True

    def abandon(self) -> None:
        """Remove what was written; the replaced segments stay."""
        for segment in self.segments:
            segment.file.close()
            self._disk.remove(segment.file.path)
        self.segments.clear()

    def _segment_for(self, batch: StoredBatch) -> StoreSegment:
        """The segment to go on with: the last one, or behind it another one if it is full."""
        newest = self.segments[-1] if self.segments else None
        if newest is not None and newest.size < self._config.segment_bytes_max:
            return newest
        # A run keeps the place where it began, whatever left it.
        base = newest.end if newest is not None else self.replaced[0].base
        first_offset = batch.base_offset if newest is not None else self._first_offset
        path = f"{self._directory}/{file_name(base, self._generation)}"
        index = BatchIndex(self._config.index_interval_bytes)
        segment = StoreSegment(base, self._pool.file(path, create=True), first_offset, self._generation, index=index)
        self.segments.append(segment)
        segment.file.cut(0)
        return segment

    @staticmethod
    def _put(segment: StoreSegment | None, buffers: Sequence[Buffer], size: int) -> None:
        if segment is not None and buffers:
            segment.file.write_at(segment.size, buffers)
            segment.size += size
