"""The errors of logs.

Three families: the disk failed (the owner ends the process), the disk is full (definite: nothing was written), and the
stored bytes are wrong (never repaired silently). Built with attrs, so that every error pickles.
"""

import attrs


class LogError(Exception):
    """Root of what this package raises on purpose; wrong use is `ValueError`, a bug `AssertionError`."""


class StorageError(LogError):
    """A call to the disk failed or was refused."""


@attrs.define
class StorageFailed(StorageError):
    """A disk call failed. A failed write or sync is never retried, because it is unknown what the disk holds."""

    operation: str
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.operation} of {self.path} failed: {self.detail}"


@attrs.define
class NoSpace(StorageError):
    """The disk is full. Definite: the log holds what it held before the call."""

    operation: str
    path: str

    def __str__(self) -> str:
        return f"no space left on the disk: {self.operation} of {self.path}"


@attrs.define
class DirectoryLocked(StorageError):
    """Another log object has the directory open: `by_this_process`, or another one."""

    path: str
    by_this_process: bool = False

    def __str__(self) -> str:
        holder = "this process has" if self.by_this_process else "another process has"
        return f"{self.path} is locked: {holder} this log open"


@attrs.define
class CorruptLog(LogError):
    """Bytes that were durable are damaged; nothing was cut.

    `position` is the byte in `file` where the damaged frame begins. When its header is whole, `index`, `epoch` and
    `base_offset` name the frame, so that it can be fetched again from a peer.
    """

    file: str
    position: int
    reason: str
    index: int | None = None
    epoch: int | None = None
    base_offset: int | None = None

    def __str__(self) -> str:
        named = "" if self.index is None else f" (index {self.index}, epoch {self.epoch}, offset {self.base_offset})"
        return f"{self.file} is damaged at byte {self.position}{named}: {self.reason}"


@attrs.define
class ForeignLog(CorruptLog):
    """The bytes are whole, but of another log or version: this is no damage, and recovery sets nothing aside."""


@attrs.define
class IndexOutOfRange(LogError):
    """The log does not hold this index; it holds `first_index` to `last_index`, both inclusive, 0 = none."""

    index: int
    first_index: int
    last_index: int

    def __str__(self) -> str:
        return f"index {self.index} is not in the log, which holds {self.first_index} to {self.last_index}"


@attrs.define
class OffsetOutOfRange(LogError):
    """The log does not hold this offset; it holds `start_offset` up to `end_offset`, exclusive."""

    offset: int
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} is not in the log, which holds [{self.start_offset}, {self.end_offset})"


@attrs.define
class UnknownLog(LogError):
    """The store holds no log of this name."""

    name: str

    def __str__(self) -> str:
        return f"there is no log {self.name!r}"


@attrs.define
class LogExists(LogError):
    """The store holds a log of this name already."""

    name: str

    def __str__(self) -> str:
        return f"there is a log {self.name!r} already"
