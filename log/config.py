"""The sizes of a log, checked as they are made."""

import attrs
from attrs.validators import ge, gt

KIB = 1024
MIB = 1024 * KIB


@attrs.frozen(kw_only=True)
class LogConfig:
    """Sizes in bytes. Raises `ValueError` if one is invalid."""

    segment_bytes_max: int = attrs.field(default=64 * MIB, validator=ge(4 * KIB))
    """A segment that has reached this is sealed by the next write; it may be longer by one write."""
    index_interval_bytes: int = attrs.field(default=4 * KIB, validator=gt(0))
    """About one frame in so many bytes is held in memory (24 bytes each); a lookup reads no further than this."""
    reserve_chunk_bytes: int = attrs.field(default=MIB, validator=gt(0))
    """`reserve` allocates this far ahead when there is room, so that most calls need no disk."""
    zero_ahead_bytes: int = attrs.field(default=512 * KIB, validator=ge(0))
    """Zeros kept behind the end, so that the sync of a small append need not grow the file; 0 = none."""
    spare_files_max: int = attrs.field(default=2, validator=ge(0))
    """Retired segments kept to be written to again: their blocks are there, so that no sync waits for their allocation.
    """
    cached_segments_max: int = attrs.field(default=2, validator=ge(0))
    """The page cache keeps this many of the newest sealed segments; older ones are dropped from it."""
    open_files_max: int = attrs.field(default=64, validator=gt(0))
    """Sealed segments kept open for reading."""


@attrs.frozen(kw_only=True)
class StoreConfig:
    """The sizes of a store of many logs. Raises `ValueError` if a number is invalid."""

    segment_bytes_max: int = attrs.field(default=64 * MIB, validator=ge(4 * KIB))
    """A segment that has reached this is sealed by the next append; it may be longer by one append."""
    index_interval_bytes: int = attrs.field(default=4 * KIB, validator=gt(0))
    """About one batch in so many bytes has an entry in its segment's index (24 bytes each)."""
    open_files_max: int = attrs.field(default=512)
    """Descriptors for the files of all logs together; keep it below the process's own bound (`ulimit -n`).

    More logs than this may be written to between two flushes, but then files are synced one by one to close them.
    """
    threads: int = attrs.field(default=16, validator=gt(0))
    """This many files are flushed, or logs opened, side by side; 1 = one after the other, in the caller's thread."""

    @open_files_max.validator
    def _is_enough(self, attribute: "attrs.Attribute[int]", value: int) -> None:
        if value < self.threads + 2:
            raise ValueError("need open_files_max >= threads + 2: each thread holds a file open")
