"""Append-only logs on disk: one log with epochs and truncation (`SegmentedLog`), or many in one directory (`LogStore`).

    import random

    from log import Frame, LogConfig, LogStore, MemoryDisk, SegmentedLog, StoredBatch

    disk = MemoryDisk(random.Random(7))  # or RealDisk()
    log = SegmentedLog.open(disk, "log", LogConfig(), log_id=1)
    log.append([Frame.of(b"first", index=1, epoch=1, base_offset=0, span=1)])
    log.flush()  # durable from here on
    print([bytes(frame.payload) for frame in log.read(1, bytes_max=1024)])

    store = LogStore.open(disk, "store")
    orders = store.create("orders")
    orders.append([StoredBatch.of(b"first", base_offset=0, span=1, epoch=1, timestamp_ms=0)])
    store.flush()

- Logs know offsets and epochs, and leave votes, topics and clients to their owners.
- `MemoryDisk` loses power on request, tears writes, rots, fills up and fails; `RealDisk` is the operating system's.
  Both are a `Disk`.
- Every error is a `LogError`. A `StorageError` is the disk's: after `StorageFailed` a log refuses every call, after
  `NoSpace` it is as before.
- `FlushPolicy` names when appends count, and `Retention` when old ones leave.

`log.segmented_log` and `log.store` explain the rules, `log.frame` the format on disk, `log.recovery` the opening.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from log.batch import StoredBatch
    from log.config import LogConfig, StoreConfig
    from log.disk import Disk, File, Lock, RealDisk
    from log.errors import (
        CorruptLog,
        DirectoryLocked,
        ForeignLog,
        IndexOutOfRange,
        LogError,
        LogExists,
        NoSpace,
        OffsetOutOfRange,
        StorageError,
        StorageFailed,
        UnknownLog,
    )
    from log.flush import Flush
    from log.frame import Frame, FrameKind
    from log.index import LogTail
    from log.memory_disk import MemoryDisk, PowerLoss
    from log.policy import FlushPolicy
    from log.recovery import RecoveryReport
    from log.retention import Retention, SegmentFacts
    from log.salvage import Amend, Floor
    from log.segmented_log import SegmentedLog
    from log.start import Start
    from log.store import LogStore
    from log.store_flush import FlushRound
    from log.store_log import StoreLog
    from log.store_salvage import StoreRepaired

__all__ = [
    "Amend",
    "CorruptLog",
    "DirectoryLocked",
    "Disk",
    "File",
    "Floor",
    "Flush",
    "FlushPolicy",
    "FlushRound",
    "ForeignLog",
    "Frame",
    "FrameKind",
    "IndexOutOfRange",
    "Lock",
    "LogConfig",
    "LogError",
    "LogExists",
    "LogStore",
    "LogTail",
    "MemoryDisk",
    "NoSpace",
    "OffsetOutOfRange",
    "PowerLoss",
    "RealDisk",
    "RecoveryReport",
    "Retention",
    "SegmentFacts",
    "SegmentedLog",
    "Start",
    "StorageError",
    "StorageFailed",
    "StoreConfig",
    "StoreLog",
    "StoreRepaired",
    "StoredBatch",
    "UnknownLog",
]

_MODULES = {
    "log.batch": "StoredBatch",
    "log.config": "LogConfig StoreConfig",
    "log.disk": "Disk File Lock RealDisk",
    "log.errors": (
        "CorruptLog DirectoryLocked ForeignLog IndexOutOfRange LogError LogExists NoSpace OffsetOutOfRange "
        "StorageError StorageFailed UnknownLog"
    ),
    "log.flush": "Flush",
    "log.frame": "Frame FrameKind",
    "log.index": "LogTail",
    "log.memory_disk": "MemoryDisk PowerLoss",
    "log.policy": "FlushPolicy",
    "log.recovery": "RecoveryReport",
    "log.retention": "Retention SegmentFacts",
    "log.salvage": "Amend Floor",
    "log.segmented_log": "SegmentedLog",
    "log.start": "Start",
    "log.store": "LogStore",
    "log.store_flush": "FlushRound",
    "log.store_log": "StoreLog",
    "log.store_salvage": "StoreRepaired",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
