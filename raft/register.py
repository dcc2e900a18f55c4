"""The register machine: integers, strings or bytes under keys of the same kinds, with write, compare-and-set and read.

Commands and queries are msgpack arrays:

- `["w", key, value]` writes; the result is nil;
- `["c", key, expected, new]` writes `new` if the key holds `expected` (nil: holds nothing); the result is
  `[swapped, seen]`, where `seen` is what the key held before;
- `["r", key]` is the query; the result is the value, nil if there is none.
"""

from typing import Any

import attrs
import msgpack

from raft.errors import InvalidRequest

WRITE = "w"
COMPARE_AND_SET = "c"
READ = "r"

_KEY_TYPES = (int, str, bytes)
_VALUE_TYPES = (int, str, bytes, type(None))
_LENGTHS = {WRITE: 3, COMPARE_AND_SET: 4, READ: 2}


@attrs.define
class RegisterMachine:
    """A `SnapshotMachine`; its state is one dictionary."""

    values: dict[int | str | bytes, int | str | bytes | None] = attrs.field(factory=dict)

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Raises `InvalidRequest` unless `command` is a command, or a query if `read_only`, of the register machine."""
        _parse(command, read_only=read_only)

    def apply(self, index: int, command: bytes) -> bytes:
        """Write or compare-and-set. Returns the packed result."""
        name, key, *operands = _parse(command, read_only=False)
        if name == WRITE:
            self._put(key, operands[0])
            return _pack(None)
        expected, new = operands
        seen = self.values.get(key)
        # 1 == True in Python, but booleans are no values here, so plain comparison is exact.
        swapped = seen == expected
        if swapped:
            self._put(key, new)
        return _pack([swapped, seen])

    def query(self, command: bytes) -> bytes:
        """Returns the packed value of a key, nil if there is none."""
        _, key = _parse(command, read_only=True)
        return _pack(self.values.get(key))

    def snapshot(self) -> bytes:
        """Returns all keys and values, one after the other."""
        packed: bytes = msgpack.packb([part for pair in self.values.items() for part in pair])
        return packed

    def check_snapshot(self, snapshot: bytes) -> None:
        """See `CheckedMachine`."""
        RegisterMachine().restore(snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Replace the state by that of `snapshot`."""
        parts: list[Any] = msgpack.unpackb(snapshot)
        self.values = dict(zip(parts[::2], parts[1::2], strict=True))

    def _put(self, key: int | str | bytes, value: int | str | bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)  # holding nil and holding nothing look the same
        else:
            self.values[key] = value


def _parse(command: bytes, *, read_only: bool) -> list[Any]:
    try:
        parts: Any = msgpack.unpackb(command, max_array_len=4, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise InvalidRequest(f"a register command is a msgpack array: {error}") from None
    name = parts[0] if type(parts) is list and parts else None
    if type(name) is not str or len(parts) != _LENGTHS.get(name) or (name == READ) != read_only:
        expected = '["r", key]' if read_only else '["w", key, value] or ["c", key, expected, new]'
        raise InvalidRequest(f"the register machine takes {expected} here")
    assert type(parts) is list
    if type(parts[1]) not in _KEY_TYPES:
        raise InvalidRequest("a key is an integer, a string or bytes")
    if any(type(value) not in _VALUE_TYPES for value in parts[2:]):
        raise InvalidRequest("a value is an integer, a string, bytes or nil")
    return parts


def _pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed
