"""AMQP 0-9-1 as far as a client with one channel and one request at a time needs it. Pure: requests to bytes, and answers from bytes."""

import enum
import struct
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

GREETING: Final = b"AMQP\x00\x00\x09\x01"
CHANNEL: Final = 1
FRAME_BYTES_MAX: Final = 128 * 1024
"""The size of a frame that both sides agree on."""
HEARTBEAT_S: Final = 2
"""A server closes a connection on which it has received nothing for twice as long."""
CAPABILITIES: Final = ("publisher_confirms", "basic.nack", "authentication_failure_close")
PERSISTENT: Final = 2
MANDATORY: Final = 1
"""A message that reaches no queue is returned."""
DURABLE: Final = 0b10
_FRAME: Final = struct.Struct(">BHI")
_END: Final = b"\xce"
_METHOD: Final = struct.Struct(">HH")
_TAG: Final = struct.Struct(">QB")
_CONTENT: Final = struct.Struct(">HHQHB")
_DELIVERY_MODE: Final = 0x1000
"""The flag of the one property that is given with a message."""
BASIC: Final = 60


class FrameKind(enum.IntEnum):
    """The kinds of frames."""

    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8


class Method(enum.Enum):
    """The methods that are sent or understood: class and number."""

    START = (10, 10)
    START_OK = (10, 11)
    TUNE = (10, 30)
    TUNE_OK = (10, 31)
    OPEN = (10, 40)
    OPEN_OK = (10, 41)
    CLOSE = (10, 50)
    CHANNEL_OPEN = (20, 10)
    CHANNEL_OPEN_OK = (20, 11)
    CHANNEL_CLOSE = (20, 40)
    DECLARE = (50, 10)
    DECLARE_OK = (50, 11)
    PUBLISH = (60, 40)
    RETURN = (60, 50)
    GET = (60, 70)
    GET_OK = (60, 71)
    GET_EMPTY = (60, 72)
    ACK = (60, 80)
    NACK = (60, 120)
    CONFIRM = (85, 10)
    CONFIRM_OK = (85, 11)


WITH_CONTENT: Final = (Method.RETURN, Method.GET_OK)
"""A header and a body follow these."""


class WrongFrames(ValueError):
    """Bytes that are not this protocol."""


@attrs.frozen
class Heard:
    """A method of the server: its arguments, and the message that came with it."""

    method: Method
    arguments: bytes
    body: bytes = b""


# -------------------------------------------------------------------- requests


def start_ok(user: str, password: str) -> bytes:
    """Returns the answer to the server's greeting: who this is, and what it understands."""
    able = b"".join(_short(name) + b"t\x01" for name in CAPABILITIES)
    properties = _short("product") + b"S" + _long(b"quorumlog") + _short("capabilities") + b"F" + _long(able)
    secret = f"\0{user}\0{password}".encode()
    return _method(Method.START_OK, _long(properties) + _short("PLAIN") + _long(secret) + _short("en_US"), channel=0)


def tune_ok() -> bytes:
    """Returns the agreement on sizes and heartbeats."""
    return _method(Method.TUNE_OK, struct.pack(">HIH", CHANNEL, FRAME_BYTES_MAX, HEARTBEAT_S), channel=0)


def open_connection(host: str) -> bytes:
    """Returns the request for a virtual host."""
    return _method(Method.OPEN, _short(host) + _short("") + b"\0", channel=0)


def open_channel() -> bytes:
    """Returns the request for the one channel."""
    return _method(Method.CHANNEL_OPEN, _short(""))


def confirm() -> bytes:
    """Returns the request that each message be confirmed."""
    return _method(Method.CONFIRM, b"\0")


def declare(queue: str, arguments: Mapping[str, str]) -> bytes:
    """Returns the request for a durable queue."""
    table = b"".join(_short(name) + b"S" + _long(value.encode()) for name, value in arguments.items())
    return _method(Method.DECLARE, b"\0\0" + _short(queue) + bytes([DURABLE]) + _long(table))


def publish(queue: str, body: bytes) -> bytes:
    """Returns a persistent message for a queue, which is returned if there is none."""
    head = _CONTENT.pack(BASIC, 0, len(body), _DELIVERY_MODE, PERSISTENT)
    method = _method(Method.PUBLISH, b"\0\0" + _short("") + _short(queue) + bytes([MANDATORY]))
    return method + _frame(FrameKind.HEADER, head) + _frame(FrameKind.BODY, body)


def get(queue: str) -> bytes:
    """Returns the request for the next message, which stays in the queue until it is acknowledged."""
    return _method(Method.GET, b"\0\0" + _short(queue) + b"\0")


def ack(tag: int) -> bytes:
    """Returns the acknowledgement of a message."""
    return _method(Method.ACK, _TAG.pack(tag, 0))


def _method(method: Method, arguments: bytes, channel: int = CHANNEL) -> bytes:
    return _frame(FrameKind.METHOD, _METHOD.pack(*method.value) + arguments, channel)


def _frame(kind: FrameKind, payload: bytes, channel: int = CHANNEL) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + _END


def _short(text: str) -> bytes:
    return bytes([len(text.encode())]) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


# -------------------------------------------------------------------- answers


def tag_of(heard: Heard) -> int:
    """Returns the tag of an acknowledgement, or of a message that was got. Raises `WrongFrames`."""
    if len(heard.arguments) < _TAG.size:
        raise WrongFrames(f"no tag in {heard.method.name}")
    return int(_TAG.unpack_from(heard.arguments)[0])


def reason_of(heard: Heard) -> tuple[int, str]:
    """Returns code and words of a close or a return. Raises `WrongFrames`."""
    try:
        code, size = struct.unpack_from(">HB", heard.arguments)
    except struct.error as error:
        raise WrongFrames(f"no reason in {heard.method.name}") from error
    return int(code), heard.arguments[3 : 3 + size].decode(errors="replace")


@attrs.define
class FrameDecoder:
    """Takes what the server sends, in pieces of any size."""

    _rest: bytearray = attrs.field(factory=bytearray)
    _begun: Heard | None = None
    """A method whose message is not whole yet."""
    _missing: int = 0
    """The bytes that its body lacks; negative before its header."""

    def feed(self, chunk: bytes) -> Iterator[Heard]:
        """Yields the methods that are whole now. Raises `WrongFrames`."""
        self._rest += chunk
        while len(self._rest) >= _FRAME.size:
            kind, _, size = _FRAME.unpack_from(self._rest)
            if size > FRAME_BYTES_MAX or self._rest.startswith(GREETING[:4]):
                raise WrongFrames(f"no frame of this protocol: {bytes(self._rest[:8])!r}")
            whole = _FRAME.size + size + 1
            if len(self._rest) < whole:
                return
            payload, end = bytes(self._rest[_FRAME.size : whole - 1]), self._rest[whole - 1 : whole]
            del self._rest[:whole]
            if end != _END:
                raise WrongFrames("a frame without its end")
            if (heard := self._take(kind, payload)) is not None:
                yield heard

    def _take(self, kind: int, payload: bytes) -> Heard | None:
        if kind == FrameKind.HEARTBEAT:
            return None
        if kind == FrameKind.METHOD and self._begun is None:
            return self._begin(payload)
        if kind == FrameKind.HEADER and self._begun is not None and self._missing < 0 and len(payload) >= 12:
            self._missing = struct.unpack_from(">Q", payload, 4)[0]
        elif kind == FrameKind.BODY and self._begun is not None and len(payload) <= self._missing:
            self._begun = attrs.evolve(self._begun, body=self._begun.body + payload)
            self._missing -= len(payload)
        else:
            raise WrongFrames(f"a frame of kind {kind} out of turn")
        if self._missing:
            return None
        found, self._begun = self._begun, None
        return found

    def _begin(self, payload: bytes) -> Heard | None:
        try:
            method = Method(_METHOD.unpack_from(payload))
        except (struct.error, ValueError) as error:
            raise WrongFrames(f"an unknown method: {payload[:4]!r}") from error
        heard = Heard(method, payload[_METHOD.size :])
        if method not in WITH_CONTENT:
            return heard
        self._begun, self._missing = heard, -1
        return None
