"""Frames and logs for tests: small segments and a dense index, so that little data goes everywhere."""

import random
from collections.abc import Sequence

from log.config import LogConfig
from log.disk import Disk
from log.frame import HEADER_BYTES, Frame, FrameKind
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog

DIRECTORY = "data/log"
LOG_ID = 7
SMALL = LogConfig(
    segment_bytes_max=4096, index_interval_bytes=512, reserve_chunk_bytes=4096, zero_ahead_bytes=2048, open_files_max=2
)

Entry = tuple[int, int, int, int, bytes]
"""A test's note of a frame: index, epoch, base offset, span, payload."""


def frame(
    index: int, epoch: int = 1, *, offset: int | None = None, span: int = 1, payload: bytes | None = None
) -> Frame:
    """Returns a frame whose payload names its index and epoch; without an `offset` it follows from the index."""
    content = f"{index}@{epoch}".encode() if payload is None else payload
    kind = FrameKind.RECORDS if span else FrameKind.CONTROL
    base_offset = index - 1 if offset is None else offset
    return Frame.of(
        content, index=index, epoch=epoch, base_offset=base_offset, span=span, kind=kind, tag=3, timestamp_ms=5
    )


def frames(first: int, last: int, epoch: int = 1, *, size: int = 20) -> list[Frame]:
    """Frames `first` to `last`, inclusive, with payloads of `size` bytes."""
    return [
        frame(index, epoch, payload=f"{index}@{epoch}".encode().ljust(size, b".")) for index in range(first, last + 1)
    ]


def memory_disk(seed: int = 0, **settings: int) -> MemoryDisk:
    return MemoryDisk(random.Random(seed), **settings)


def open_log(
    disk: Disk, config: LogConfig = SMALL, *, directory: str = DIRECTORY, log_id: int = LOG_ID
) -> SegmentedLog:
    return SegmentedLog.open(disk, directory, config, log_id=log_id)


def entry(each: Frame) -> Entry:
    return (each.index, each.epoch, each.base_offset, each.span, bytes(each.payload))


def entries(read: Sequence[Frame]) -> list[Entry]:
    return [entry(each) for each in read]


def content(log: SegmentedLog) -> list[Entry]:
    """The whole log, through its public face."""
    return entries(log.read(log.first_index or log.last_index + 1, 1 << 30))


def numbers(log: SegmentedLog) -> list[tuple[int, int]]:
    """The whole log as (index, epoch)."""
    return [(index, epoch) for index, epoch, *_ in content(log)]


def size_of(*written: Frame) -> int:
    return sum(HEADER_BYTES + len(each.payload) for each in written)
