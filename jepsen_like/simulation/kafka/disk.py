"""Damages the disk of a broker that is down, or lets parts of it vanish; what is left is for the next start to find.

Every fault leaves a trace: a bad checksum, a missing file, one that ends in a frame or before the high watermark.
"""

import contextlib
import random
from collections.abc import Mapping

from jepsen_like.simulation.kafka.logs import LoggedBatch, LogView
from kafka_compat.model import TopicPartition
from kafka_compat.storage.checkpoints import HIGH_WATERMARKS_NAME, HighWatermarks, read_identity
from log.frame import HEADER_BYTES
from log.memory_disk import MemoryDisk
from log.segment import SEGMENT_SUFFIX
from log.store import LOCK_NAME, LOGS_NAME, ROOM_NAME

UNCHECKED = (LOCK_NAME, ROOM_NAME)
"""Files without content that counts."""
SMALL_FILES = 0.25
"""The share of damages that strike another file than a segment."""


class DiskFaults:
    """The faults of one disk, whose logs hold what `views` say."""

    def __init__(
        self, disk: MemoryDisk, directory: str, views: Mapping[TopicPartition, LogView], rng: random.Random
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._views = views
        self._rng = rng

    def damage(self) -> str:
        """Damage some logs, or a small file. Returns what was struck; empty if there was nothing to damage."""
        if self._rng.random() < SMALL_FILES:
            return self._damage_file()
        struck = [partition for partition, view in self._some_views() if self._damage_log(partition, view)]
        return ", ".join(map(str, struck))

    def vanish(self) -> str:
        """Remove some logs, or a file that lies next to them. Returns what is gone."""
        if self._rng.random() < 1 / 3:
            small = [each for each in self._small_files() if f"/{LOGS_NAME}/" not in each]
            gone = self._rng.choice([f"{self._directory}/{HIGH_WATERMARKS_NAME}", *small])
            self._remove([gone])
            return gone
        struck = [partition for partition, _ in self._some_views()]
        for partition in struck:
            prefix = f"{self._log_directory(partition)}/"
            self._remove([path for path in self._disk.paths() if path.startswith(prefix)])
        return ", ".join(map(str, struck))

    # ---------------------------------------------------------------- how it is done

    def _some_views(self) -> list[tuple[TopicPartition, LogView]]:
        views = list(self._views.items())
        return [each for each in views if self._rng.random() < 0.7] or views

    def _log_directory(self, partition: TopicPartition) -> str:
        return f"{self._directory}/{LOGS_NAME}/{partition}"

    def _small_files(self) -> list[str]:
        names = (path for path in self._disk.paths() if not path.endswith(SEGMENT_SUFFIX))
        return [path for path in names if path.rpartition("/")[2] not in UNCHECKED and self._disk.content(path)]

    def _damage_file(self) -> str:
        small = self._small_files()
        if not small:
            return ""
        path = self._rng.choice(small)
        self._disk.flip_bit(path, self._rng.randrange(8 * len(self._disk.content(path))))
        return path

    def _damage_log(self, partition: TopicPartition, view: LogView) -> bool:
        """Flip a bit in a frame of a log, or cut its file inside or before one. Returns False for an empty log."""
        if not view.batches:
            return False
        path, at, batch = self._place(partition, self._rng.choice(view.batches))
        kind = self._rng.random()
        if kind < 0.3 and batch.info.base_offset < self._high_watermark(partition):
            self._cut(path, at - HEADER_BYTES)
        elif kind < 0.65:
            first, size = at - HEADER_BYTES, HEADER_BYTES + len(batch.content)
            self._disk.flip_bit(path, 8 * first + self._rng.randrange(8 * size))
        else:
            self._cut(path, self._rng.randrange(at - HEADER_BYTES + 1, at + len(batch.content)))
        return True

    def _cut(self, path: str, size: int) -> None:
        with contextlib.closing(self._disk.open(path, create=False)) as file:
            file.cut(size)
            file.sync()

    def _high_watermark(self, partition: TopicPartition) -> int:
        """Returns the high watermark in the checkpoint."""
        identity = read_identity(self._disk, self._log_directory(partition))
        values = HighWatermarks(self._disk, self._directory)
        return 0 if identity is None else values.of(identity[1], partition.partition)

    def _place(self, partition: TopicPartition, batch: LoggedBatch) -> tuple[str, int, LoggedBatch]:
        prefix = f"{self._log_directory(partition)}/"
        for path in reversed(self._disk.paths()):
            if path.startswith(prefix) and path.endswith(SEGMENT_SUFFIX):
                at = self._disk.content(path).find(batch.content)
                if at >= HEADER_BYTES:
                    return path, at, batch
        raise AssertionError(f"no file of {partition} holds {batch}")

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            if self._disk.exists(path):
                self._disk.remove(path)
                self._disk.sync_directory(path.rpartition("/")[0])
