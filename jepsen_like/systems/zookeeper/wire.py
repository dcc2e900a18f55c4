"""ZooKeeper's client protocol, as far as registers need it. Pure: requests to bytes, and answers from bytes."""

import enum
import struct
from typing import Final

import attrs

FRAME_BYTES_MAX: Final = 1024 * 1024
PASSWORD_BYTES: Final = 16
LATEST: Final = -1
"""The version that a write gives which takes any."""
WORLD: Final = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")
"""One entry of access control: everyone may do everything."""
_HEADER: Final = struct.Struct(">iqi")
_LENGTH: Final = struct.Struct(">i")
_VERSION_AT: Final = 32
"""The place of the version in a `Stat`, behind four long numbers."""
_STAT_BYTES: Final = 68


class Operation(enum.IntEnum):
    """The operations that are sent, by the protocol's numbers."""

    CREATE = 1
    GET_DATA = 4
    SET_DATA = 5


class Code(enum.IntEnum):
    """The errors that have a meaning here, by the protocol's numbers."""

    OK = 0
    NO_NODE = -101
    BAD_VERSION = -103
    NODE_EXISTS = -110


class WrongFrame(ValueError):
    """Bytes that are not this protocol."""


@attrs.frozen
class Answer:
    """The answer to a request."""

    xid: int
    error: int
    body: bytes


@attrs.frozen
class NodeData:
    """The data of a node, and its version."""

    data: bytes
    version: int


def begin_session(timeout_ms: int) -> bytes:
    """Returns the request for a new session."""
    return _frame(struct.pack(">iqiqi", 0, 0, timeout_ms, 0, PASSWORD_BYTES) + bytes(PASSWORD_BYTES) + b"\0")


def create(xid: int, path: str) -> bytes:
    """Returns the request to make a node without data."""
    return _request(xid, Operation.CREATE, _text(path) + _buffer(b"") + WORLD + _LENGTH.pack(0))


def get_data(xid: int, path: str) -> bytes:
    """Returns the request for a node's data."""
    return _request(xid, Operation.GET_DATA, _text(path) + b"\0")


def set_data(xid: int, path: str, data: bytes, version: int = LATEST) -> bytes:
    """Returns the request to replace a node's data, if it has this version."""
    return _request(xid, Operation.SET_DATA, _text(path) + _buffer(data) + _LENGTH.pack(version))


def take_frame(received: bytearray) -> bytes | None:
    """Takes the next whole frame out of what was received; None while there is none. Raises `WrongFrame`."""
    if len(received) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack_from(received)
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise WrongFrame(f"a frame of {size} bytes")
    if len(received) < _LENGTH.size + size:
        return None
    frame = bytes(received[_LENGTH.size : _LENGTH.size + size])
    del received[: _LENGTH.size + size]
    return frame


def session_of(frame: bytes) -> int:
    """Returns the id of a session that has begun; 0 for one that was refused. Raises `WrongFrame`."""
    try:
        _, _, session = struct.unpack_from(">iiq", frame)
    except struct.error as error:
        raise WrongFrame("no answer to the begin of a session") from error
    return int(session)


def answer_of(frame: bytes) -> Answer:
    """Raises `WrongFrame`."""
    if len(frame) < _HEADER.size:
        raise WrongFrame("no header of an answer")
    xid, _, error = _HEADER.unpack_from(frame)
    return Answer(xid, error, frame[_HEADER.size :])


def node_data_of(body: bytes) -> NodeData:
    """Reads the body of an answer to `get_data`. Raises `WrongFrame`."""
    try:
        (size,) = _LENGTH.unpack_from(body)
        held = max(size, 0)
        stat = body[_LENGTH.size + held :]
        if len(stat) != _STAT_BYTES:
            raise WrongFrame(f"a stat of {len(stat)} bytes")
        (version,) = _LENGTH.unpack_from(stat, _VERSION_AT)
    except struct.error as error:
        raise WrongFrame("no data of a node") from error
    return NodeData(body[_LENGTH.size : _LENGTH.size + held], version)


def _request(xid: int, operation: Operation, body: bytes) -> bytes:
    return _frame(struct.pack(">ii", xid, operation) + body)


def _frame(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _buffer(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _text(text: str) -> bytes:
    return _buffer(text.encode())
