"""A journal of the changes of a table whose file is replaced as a whole: with it, one change costs one line.

    {"version": 1, "crc32c": …, "content": {"sequence": 7, …}}

A line counts if its sequence is above the file's. A crash tears the last line only; any other malformed line is damage.
"""

import contextlib
import json
import posixpath
from collections.abc import Mapping
from typing import Any, Final

from log.disk import Disk, read_file
from log.errors import NoSpace
from log.frame import checksum

SEQUENCE: Final = "sequence"
JOURNAL_BYTES_MIN: Final = 64 * 1024
"""A journal that is shorter never has its file replaced."""
_VERSION: Final = 1


class ChangeJournal:
    """The journal at `path`, whose directory is there. `replay` comes first."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.sequence = 0
        """Of the last change."""
        self.end = 0
        """The size in bytes."""
        self._disk = disk
        self._path = path

    def replay(self, after: int) -> tuple[list[dict[str, Any]], bool]:
        """Returns the changes above this sequence, and True if the journal is damaged.

        Raises `StorageFailed` if the disk fails.
        """
        self.sequence, self.end = after, 0
        lines = (read_file(self._disk, self._path) or b"").splitlines(keepends=True)
        changes: list[dict[str, Any]] = []
        at, is_damaged = 0, False
        for line in lines:
            at += len(line)
            content = decode_line(line) if line.endswith(b"\n") else None
            sequence = None if content is None else content.get(SEQUENCE)
            if content is None or type(sequence) is not int:
                continue
            is_damaged |= self.end + len(line) != at
            self.end = at
            if sequence > self.sequence:
                self.sequence = sequence
                changes.append(content)
        return changes, is_damaged

    def append(self, change: Mapping[str, Any]) -> None:
        """Add a change; durable when it returns.

        Raises `NoSpace` (the journal is unchanged then), `StorageFailed`, and `ValueError` for values outside of JSON.
        """
        self.sequence += 1
        line = encode_line({**change, SEQUENCE: self.sequence})
        is_new = not self._disk.exists(self._path)
        with contextlib.closing(self._disk.open(self._path, create=True)) as file:
            if file.size() != self.end:
                file.cut(self.end)  # a line that a crash has torn
            try:
                file.write_at(self.end, [line])
                file.sync()
            except NoSpace:
                file.cut(self.end)
                raise
        if is_new:
            self._disk.sync_directory(posixpath.dirname(self._path) or ".")
        self.end += len(line)

    def clear(self) -> None:
        """Empty the journal, because the file holds all of its changes."""
        if self.end:
            with contextlib.closing(self._disk.open(self._path, create=True)) as file:
                file.cut(0)
            self.end = 0


def encode_line(content: Mapping[str, Any]) -> bytes:
    """Returns a line with its checksum.

    Raises `ValueError` for content that JSON changes, for instance keys that are not text.
    """
    encoded = _canonical(content)
    if json.loads(encoded) != content:
        raise ValueError("a checkpoint holds only what JSON can hold, with texts as keys")
    return b'{"version": %d, "crc32c": %d, "content": %b}\n' % (_VERSION, checksum(encoded), encoded)


def decode_line(line: bytes) -> dict[str, Any] | None:
    """Returns the content of a line, or None unless it is whole and of this version."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            return None
        content = found.get("content")
        whole = isinstance(content, dict) and checksum(_canonical(content)) == found.get("crc32c")
    except (ValueError, RecursionError):
        return None
    return content if whole else None


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
