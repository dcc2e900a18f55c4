"""The file of what administrators stored at a name server: JSON as RocketMQ writes it (KVConfigManager), replaced as a whole."""

import contextlib
import posixpath
from collections.abc import Mapping

import attrs

from log.disk import Disk, replace_file
from rocketmq_compat.remoting import fastjson
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.json_body import JsonBody


@attrs.frozen(kw_only=True)
class KvConfigTable(JsonBody):
    """What the file holds: values by namespace and key."""

    config_table: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)


@attrs.define
class DamagedKvFile(Exception):
    """The file is not what a name server writes. Nothing was changed."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.detail}"


class KvFile:
    """The file at `path`, whose directory is made if it is missing."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._directory, self._name = posixpath.split(path)
        self._directory = self._directory or "."

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Returns what it holds, nothing if there is none. Raises `DamagedKvFile`, and `StorageError` as the disk does."""
        if not self._disk.exists(self._path):
            return {}
        with contextlib.closing(self._disk.open(self._path, create=False)) as file:
            content = file.read_at(0, file.size())
        try:
            return KvConfigTable.decode(content).config_table
        except BadBody as error:
            raise DamagedKvFile(self._path, str(error)) from None

    def write(self, values: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the file; it is durable afterwards. Raises `StorageError` as the disk does."""
        if not self._disk.exists(self._directory):
            self._disk.make_directory(self._directory)
        content = fastjson.dumps(KvConfigTable(config_table=values)).encode()
        replace_file(self._disk, self._directory, self._name, content)
