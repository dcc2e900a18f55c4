"""The tables of a broker on disk: topics, groups, consumer offsets and delay offsets, each a file of JSON.

    {"version": 1, "crc32c": …, "content": {…}}

A file is replaced as a whole, so a crash leaves the old or the new one. A table whose entries change singly also has a
journal (`change_journal.py`); its file is replaced when the journal has become as long as the file. `read` names a
missing or damaged file, so that the broker can report the loss to its operator. `derived_topics` returns the topics
that are still known then. The contents belong to their owners: this module only demands an object.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from log.disk import Disk, read_file, replace_file
from rocketmq_compat.change_journal import JOURNAL_BYTES_MIN, SEQUENCE, ChangeJournal, decode_line, encode_line
from rocketmq_compat.storage.dispatch import QueueKey

CONFIG_NAME: Final = "config"

_CHANGES: Final = "changes"
_OF_TABLE: Final = "dataVersion"
"""The version of a table, in its file and in each line of its journal."""


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

    @property
    def journal(self) -> str:
        """The name of the file of its changes."""
        return f"{self}.journal"

    @property
    def member(self) -> str:
        """The name of the table's entries in the file. Raises `KeyError` for a table without a journal."""
        return {CheckpointName.TOPICS: "topicConfigTable", CheckpointName.GROUPS: "subscriptionGroupTable"}[self]

    @property
    def has_journal(self) -> bool:
        """True if single entries of the table are written."""
        return self in (CheckpointName.TOPICS, CheckpointName.GROUPS)


@attrs.frozen
class ReadCheckpoint:
    """The content of a file and its journal.

    If `trouble` is a sentence that names the file, `content` is the part known without it.
    """

    content: Mapping[str, Any]
    trouble: str | None = None


class BrokerCheckpoints:
    """The files of one broker; `write` and `append` may be called in any thread, one at a time for each name."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises `StorageFailed` if the disk fails."""
        self._disk = disk
        self._directory = f"{directory}/{CONFIG_NAME}"
        disk.make_directory(self._directory)
        self._tables: dict[CheckpointName, _JournaledTable] = {}

    def read(self, name: CheckpointName) -> ReadCheckpoint:
        """Returns the content of the file and its journal. Raises `StorageFailed` if the disk fails."""
        path = f"{self._directory}/{name.file}"
        found = read_file(self._disk, path)
        content = None if found is None else decode_checkpoint(found)
        trouble = f"{path} is missing" if found is None else f"{path} is damaged" if content is None else None
        if not name.has_journal:
            return ReadCheckpoint(content or {}, trouble)
        known = dict(content or {})
        table = self._tables[name] = _JournaledTable(
            ChangeJournal(self._disk, self._journal_path(name)), len(found or b"")
        )
        changes, is_damaged = table.journal.replay(int(known.pop(SEQUENCE, 0)))
        entries = dict(known.get(name.member) or {})
        for change in changes:
            for key, value in change[_CHANGES].items():
                if value is None:
                    entries.pop(key, None)
                else:
                    entries[key] = value
            known[name.member], known[_OF_TABLE] = entries, change[_OF_TABLE]
        if is_damaged:
            table.file_bytes = 0  # the table is written as a whole next
            trouble = trouble or f"{self._journal_path(name)} is damaged"
        return ReadCheckpoint(known, trouble)

    def present(self) -> list[str]:
        """Returns the names of the tables that have a file, or a journal."""
        return [
            str(name)
            for name in CheckpointName
            if self._disk.exists(f"{self._directory}/{name.file}")
            or (name.has_journal and self._disk.exists(self._journal_path(name)))
        ]

    def write(self, name: CheckpointName, content: Mapping[str, Any]) -> None:
        """Replace the file, durably.

        Raises `NoSpace` (the old one stays), `StorageFailed`, or `ValueError` for values outside of JSON.
        """
        if not name.has_journal:
            replace_file(self._disk, self._directory, name.file, encode_checkpoint(content))
            return
        table = self._table(name)
        encoded = encode_checkpoint({**content, SEQUENCE: table.journal.sequence})
        replace_file(self._disk, self._directory, name.file, encoded)
        table.file_bytes = len(encoded)
        table.journal.clear()

    def wants_file(self, name: CheckpointName) -> bool:
        """Returns True if the table should be written as a whole: its journal is long, or its file is missing."""
        table = self._table(name)
        return not table.file_bytes or table.journal.end > max(JOURNAL_BYTES_MIN, table.file_bytes)

    def append(self, name: CheckpointName, changes: Mapping[str, Any], version: Mapping[str, Any]) -> None:
        """Add changed entries to the journal, None for a removed one, with the version of the table.

        Durable when it returns. Raises `NoSpace`, `StorageFailed` and `ValueError` as `write` does.
        """
        self._table(name).journal.append({_CHANGES: changes, _OF_TABLE: version})

    def _journal_path(self, name: CheckpointName) -> str:
        return f"{self._directory}/{name.journal}"

    def _table(self, name: CheckpointName) -> "_JournaledTable":
        if name not in self._tables:
            self.read(name)
        return self._tables[name]


@attrs.define
class _JournaledTable:
    """A table with a journal, and how long its file is."""

    journal: ChangeJournal
    file_bytes: int


encode_checkpoint, decode_checkpoint = encode_line, decode_line


def derived_topics(queues: Iterable[QueueKey]) -> dict[str, int]:
    """Returns the topics of these queues with the least number of queues each, for use without their file."""
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    return counts
