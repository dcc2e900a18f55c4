"""The values that administrators stored: a file of JSON as RocketMQ writes it (KVConfigManager), and a journal.

The journal has the changes since the file (`change_journal.py`), so that one change costs one line. The file is
replaced when the journal has become as long as the file.
"""

import posixpath
from collections.abc import Mapping
from typing import Final

import attrs

from log.disk import Disk, read_file, replace_file
from rocketmq_compat.change_journal import JOURNAL_BYTES_MIN, ChangeJournal
from rocketmq_compat.remoting import fastjson
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.json_body import JsonBody

_NAMESPACE: Final = "namespace"
_KEY: Final = "key"
_VALUE: Final = "value"


class KvConfigTable(JsonBody):
    """The content of the file: values by namespace and key, and the sequence of the last journal line before it."""

    config_table: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    sequence: int = 0


@attrs.define
class DamagedKvFile(Exception):
    """The file has other content than a name server writes. It is unchanged."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.detail}"


class KvFile:
    """The file at `path`, whose directory is made if it is missing. `read` comes first."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._directory, self._name = posixpath.split(path)
        self._directory = self._directory or "."
        self._journal = ChangeJournal(disk, f"{path}.journal")
        self._file_bytes = 0

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Returns the stored values, empty without a file. Raises `DamagedKvFile`, and the disk's `StorageError`."""
        values: dict[str, dict[str, str]] = {}
        sequence = 0
        content = read_file(self._disk, self._path)
        if content is not None:
            self._file_bytes = len(content)
            try:
                table = KvConfigTable.decode(content)
            except BadBody as error:
                raise DamagedKvFile(self._path, str(error)) from None
            values, sequence = {name: dict(each) for name, each in table.config_table.items()}, table.sequence
        changes, is_damaged = self._journal.replay(sequence)
        if is_damaged:
            raise DamagedKvFile(f"{self._path}.journal", "a line is not whole")
        for change in changes:
            namespace, key, value = change[_NAMESPACE], change[_KEY], change[_VALUE]
            if value is None:
                values.get(namespace, {}).pop(key, None)
            else:
                values.setdefault(namespace, {})[key] = value
        return {name: each for name, each in values.items() if each}

    def change(self, namespace: str, key: str, value: str | None) -> bool:
        """Add a change, None for a removed value, durably.

        Returns True if the file should be written. Raises `StorageError`.
        """
        self._make_directory()
        self._journal.append({_NAMESPACE: namespace, _KEY: key, _VALUE: value})
        return self._journal.end > max(JOURNAL_BYTES_MIN, self._file_bytes)

    def write(self, values: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the file; it is durable afterwards. Raises `StorageError` as the disk does."""
        self._make_directory()
        table = KvConfigTable(config_table=values, sequence=self._journal.sequence)
        content = fastjson.dumps(table).encode()
        replace_file(self._disk, self._directory, self._name, content)
        self._file_bytes = len(content)
        self._journal.clear()

    def _make_directory(self) -> None:
        if not self._disk.exists(self._directory):
            self._disk.make_directory(self._directory)
