"""What a broker keeps besides its messages: topics, groups, consumer offsets and delay offsets, each a file of JSON.

    {"version": 1, "crc32c": …, "content": {…}}

A file is replaced as a whole, so a crash leaves the old or the new one. One that is missing or damaged is named by `read`, so that the
broker can tell its operator what it has to do without; `derived_topics` is what is still known of topics then. What the contents are is
for their owners: this module only demands an object.
"""

import contextlib
import enum
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from log.disk import Disk, replace_file
from log.frame import checksum
from rocketmq_compat.storage.dispatch import QueueKey

CONFIG_NAME: Final = "config"
_VERSION: Final = 1


class CheckpointName(enum.StrEnum):
    """The files, named as in RocketMQ."""

    TOPICS = "topics"
    GROUPS = "subscriptionGroup"
    CONSUMER_OFFSETS = "consumerOffset"
    DELAY_OFFSETS = "delayOffset"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self}.json"


@attrs.frozen
class ReadCheckpoint:
    """What a file holds. If `trouble`, a sentence that names the file, is not None, `content` is empty."""

    content: Mapping[str, Any]
    trouble: str | None = None


class BrokerCheckpoints:
    """The files of one broker; `write` may be called in any thread, one at a time for each name."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises `StorageFailed` if the disk fails."""
        self._disk = disk
        self._directory = f"{directory}/{CONFIG_NAME}"
        disk.make_directory(self._directory)

    def read(self, name: CheckpointName) -> ReadCheckpoint:
        """Returns what the file holds. Raises `StorageFailed` if the disk fails."""
        path = f"{self._directory}/{name.file}"
        if not self._disk.exists(path):
            return ReadCheckpoint({}, f"{path} is missing")
        with contextlib.closing(self._disk.open(path, create=False)) as file:
            content = decode_checkpoint(file.read_at(0, file.size()))
        return ReadCheckpoint({}, f"{path} is damaged") if content is None else ReadCheckpoint(content)

    def write(self, name: CheckpointName, content: Mapping[str, Any]) -> None:
        """Replace the file, durably. Raises `NoSpace` (the old one stays) or `StorageFailed`, and `ValueError` for what JSON cannot hold."""
        replace_file(self._disk, self._directory, name.file, encode_checkpoint(content))


def encode_checkpoint(content: Mapping[str, Any]) -> bytes:
    """Returns a file. Raises `ValueError` for what is not read as it was written, for instance keys that are no text."""
    encoded = _canonical(content)
    if json.loads(encoded) != content:
        raise ValueError("a checkpoint holds only what JSON can hold, with texts as keys")
    return b'{"version": %d, "crc32c": %d, "content": %b}\n' % (_VERSION, checksum(encoded), encoded)


def decode_checkpoint(file: bytes) -> dict[str, Any] | None:
    """Returns the content of a file; None unless it is whole and of this version."""
    try:
        found = json.loads(file)
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            return None
        content = found.get("content")
        whole = isinstance(content, dict) and checksum(_canonical(content)) == found.get("crc32c")
    except (ValueError, RecursionError):
        return None
    return content if whole else None


def derived_topics(queues: Iterable[QueueKey]) -> dict[str, int]:
    """Returns the topics of these queues, and how many queues each had at least: what is known without the file of topics."""
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    return counts


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
