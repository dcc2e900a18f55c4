"""The facts of one log of a store, for what systems make of it."""

from log.errors import StorageFailed
from log.store_log import StoreLog


class LogFacts:
    """A log on top of a store's: where it begins and ends, in the offsets of its owner."""

    def __init__(self, log: StoreLog) -> None:
        self.store_log = log
        """The log below: segments and their facts."""

    @property
    def start_offset(self) -> int:
        """The first offset that may be read: where a batch begins, or the end of an empty log."""
        return self.store_log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that follows the last one: where the next append goes."""
        return self.store_log.end_offset

    @property
    def durable_offset(self) -> int:
        """Everything before this offset survives a power cut."""
        return self.store_log.durable_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, with 80 for each batch that are the store's own."""
        return self.store_log.size_bytes

    @property
    def failed(self) -> StorageFailed | None:
        """The failure that ended this log, or None."""
        return self.store_log.failed

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest batch; 0 = none."""
        return self.store_log.last_epoch

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """The epochs that have appended something, in order: (epoch, its first offset)."""
        return [(each.epoch, each.first_index) for each in self.store_log.epochs]
