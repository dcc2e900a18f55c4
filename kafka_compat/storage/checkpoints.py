"""Small files of a broker: its identity, the partition of each log, and the high watermarks.

`run_record.py` has one more. Each holds msgpack followed by a CRC-32C, and is replaced as a whole. Start offsets need
no file: a log keeps its own.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs
import msgpack

from kafka_compat.model import TopicPartition
from log.disk import Disk, read_file, replace_file, write_file
from log.errors import LogError
from log.frame import checksum

META_NAME: Final = "broker"
HIGH_WATERMARKS_NAME: Final = "high-watermarks"
IDENTITY_NAME: Final = "partition"
"""In the directory of a log."""
_VERSION: Final = 1


@attrs.define
class ForeignDirectory(LogError):
    """The directory belongs to another broker or cluster. It is unchanged."""

    directory: str
    detail: str

    def __str__(self) -> str:
        return f"{self.directory} {self.detail}"


def encode_checked(*values: object) -> bytes:
    """Returns values as msgpack, with a version before and a checksum after them."""
    content: bytes = msgpack.packb([_VERSION, *values])
    return content + checksum(content).to_bytes(4, "little")


def read_checked(disk: Disk, path: str) -> list[Any] | None:
    """Returns the values in a file, or None if it is missing or damaged."""
    content = read_file(disk, path)
    if content is None or len(content) < 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
        return None
    version, *values = msgpack.unpackb(content[:-4])
    return values if version == _VERSION else None


@attrs.frozen
class BrokerMeta:
    """The broker that owns the directory. The incarnation is absent, because each start is a new one.

    `found` is true if the file stated the owner. Otherwise the file was missing or damaged, and has been written.
    """

    cluster_id: str
    broker_id: int
    found: bool = attrs.field(default=True, eq=False)

    @classmethod
    def claim(cls, disk: Disk, directory: str, *, cluster_id: str, broker_id: int) -> Self:
        """Returns the owner in the file; a missing or damaged file is written.

        Raises `ForeignDirectory` for another broker's directory.
        """
        wanted = cls(cluster_id, broker_id)
        found = read_checked(disk, f"{directory}/{META_NAME}")
        if found is None:
            replace_file(disk, directory, META_NAME, encode_checked(cluster_id, broker_id))
            return attrs.evolve(wanted, found=False)
        if cls(*found) != wanted:
            raise ForeignDirectory(
                directory,
                f"belongs to broker {found[1]} of cluster {found[0]!r}, not to broker {broker_id} of {cluster_id!r}",
            )
        return wanted


def write_identity(disk: Disk, directory: str, partition: TopicPartition, topic_id: bytes) -> None:
    """Record durably which partition the log in `directory` is of. Only then the log may be written to."""
    write_file(disk, f"{directory}/{IDENTITY_NAME}", [encode_checked(partition.topic, partition.partition, topic_id)])
    disk.sync_directory(directory)


def read_identity(disk: Disk, directory: str) -> tuple[TopicPartition, bytes] | None:
    """Returns the partition and topic id of the log in `directory`, or None if the file is missing or damaged."""
    found = read_checked(disk, f"{directory}/{IDENTITY_NAME}")
    return (TopicPartition(found[0], found[1]), found[2]) if found is not None else None


class HighWatermarks:
    """The high-watermark checkpoint of all partitions: one file, written every few seconds.

    A value that is too old is still true. A damaged file counts as missing: a replica learns its high watermark again,
    but the loss that the file would have shown in its log stays undetected.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the file. Raises `StorageFailed` if the disk fails."""
        self._disk = disk
        self._directory = directory
        found = read_checked(disk, f"{directory}/{HIGH_WATERMARKS_NAME}")
        self.found = found is not None
        """True if the file was present and whole."""
        self._values = {(bytes(each[0]), int(each[1])): int(each[2]) for each in (found[0] if found else ())}

    def of(self, topic_id: bytes, partition: int) -> int:
        """Returns the high watermark in the file that was read; 0 if it has none."""
        return self._values.get((topic_id, partition), 0)

    def write(self, values: Mapping[tuple[bytes, int], int]) -> None:
        """Replace the file, durably, by these values for (topic id, partition).

        May be called in any thread, one at a time. Raises `NoSpace` on a full disk, which leaves the file unchanged.
        """
        rows = [(topic_id, partition, offset) for (topic_id, partition), offset in values.items()]
        replace_file(self._disk, self._directory, HIGH_WATERMARKS_NAME, encode_checked(rows))
