"""One command of the remoting protocol, and the frame that carries it. Pure.

    length 4 (of the rest) · serialization 1 · header length 3 · header · body

The header is JSON, or RocketMQ's binary form (code 2, language 1, version 2, opaque 4, flag 4, remark length 4, remark,
ext length 4, and each ext field as key length 2, key, value length 4, value; big endian). An answer has the `opaque`
and the serialization of its request. `raft.net.decoder.BodyDecoder(FRAME_BYTES_MAX)` cuts out the frames for `decode`.

Clients write JSON differently: ext values can be numbers and booleans (the C++ client), `language` an unknown name. All
of it is read; for any frame, `decode` raises no error but `MalformedFrame`. Sources: RemotingCommand.java,
RocketMQSerializable.java.
"""

import enum
import json
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from log.values import frozen
from raft.net.decoder import Buffer
from rocketmq_compat.remoting.codes import LANGUAGE_NAMES, LANGUAGES, PROTOCOL_VERSION, LanguageCode
from rocketmq_compat.remoting.errors import MalformedFrame, UnencodableCommand

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024 - 4
"""The largest frame, without its length's four bytes, that RocketMQ's sides accept (NettyDecoder.java)."""
HEADER_BYTES_MAX: Final = 256 * 1024
"""The largest header that is read.

The properties of a message, at most 32,767 bytes, take at worst six times their size in JSON.
"""
ANSWER_HEADER_BYTES_MAX: Final = 2**24 - 1
"""The largest header of an answer: the range of three bytes.

The answer to a batch has 33 bytes for each of its messages.
"""
IS_RESPONSE: Final = 1
IS_ONEWAY: Final = 2

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_WORD = struct.Struct("!I")
_PREFIX = struct.Struct("!II")
_FIXED = struct.Struct("!hBhiii")
"""The binary header up to the length of the remark."""
_LENGTH = struct.Struct("!i")
_KEY_LENGTH = struct.Struct("!h")
_NO_EXT: Final[Mapping[str, str]] = MappingProxyType({})
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Serialization(enum.IntEnum):
    """The encoding of a header (SerializeType.java)."""

    JSON = 0
    ROCKETMQ = 1


@frozen
class Command:
    """A request or an answer. `ext` are the fields of its code, all as text; `remoting.headers` interprets them."""

    code: int
    """A `RequestCode` or a `ResponseCode`, or a number that is neither."""
    opaque: int = 0
    """Matches an answer to its request; unique among the requests of one connection that wait."""
    ext: Mapping[str, str] = _NO_EXT
    body: Buffer = b""
    remark: str | None = None
    """In words, why a request is refused."""
    flag: int = 0
    language: int = LanguageCode.JAVA
    version: int = PROTOCOL_VERSION
    serialization: Serialization = Serialization.JSON
    more: tuple[Buffer, ...] = ()
    """Continues `body` where a command is sent, so that parts of a file need not be joined.

    Empty in a decoded command.
    """

    @property
    def is_response(self) -> bool:
        """True if it answers a request of the other side."""
        return bool(self.flag & IS_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """True for a request without an answer."""
        return bool(self.flag & IS_ONEWAY)

    def answer(
        self,
        code: int,
        *,
        ext: Mapping[str, str] = _NO_EXT,
        body: Buffer = b"",
        remark: str | None = None,
        more: tuple[Buffer, ...] = (),
    ) -> "Command":
        """Returns the answer to this request. It names Java as its language, like all servers that clients have met."""
        return Command(code, self.opaque, ext, body, remark, IS_RESPONSE, serialization=self.serialization, more=more)


# Encoding


def encode(command: Command) -> list[Buffer]:
    """Returns the pieces of the command's frame; only the header is a copy.

    Raises `UnencodableCommand` if a number or a text does not fit the header, or the frame would be over the bound.
    """
    try:
        header = _json_header(command) if command.serialization is Serialization.JSON else _binary_header(command)
    except (struct.error, UnicodeEncodeError, TypeError) as error:
        raise UnencodableCommand(f"code {command.code}: {error}") from None
    length = _WORD.size + len(header) + len(command.body) + sum(map(len, command.more))
    header_bytes_max = ANSWER_HEADER_BYTES_MAX if command.is_response else HEADER_BYTES_MAX
    if length > FRAME_BYTES_MAX or len(header) > header_bytes_max:
        raise UnencodableCommand(f"code {command.code}: a header of {len(header)} bytes in a frame of {length}")
    head = _PREFIX.pack(length, command.serialization << 24 | len(header)) + header
    return [head, *(each for each in (command.body, *command.more) if len(each))]


def _json_header(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": int(command.code),
        "extFields": dict(command.ext),
        "flag": command.flag,
        "language": LANGUAGE_NAMES.get(command.language, "OTHER"),
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    return _to_json(header).encode()


def _binary_header(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    fixed = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    pieces: list[bytes] = []
    for name, value in command.ext.items():
        key, content = name.encode(), value.encode()
        pieces += (_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(content)), content)
    ext = b"".join(pieces)
    return b"".join((fixed, remark, _LENGTH.pack(len(ext)), ext))


# Decoding


def decode(frame: Buffer, header_bytes_max: int = HEADER_BYTES_MAX) -> Command:
    """Returns the command of a frame without its length; the body is a view. Raises `MalformedFrame` for anything else.

    Who asks takes headers up to `ANSWER_HEADER_BYTES_MAX`.
    """
    if len(frame) < _WORD.size:
        raise MalformedFrame(f"a frame of {len(frame)} bytes has no room for the length of its header")
    (word,) = _WORD.unpack_from(frame)
    serialization, header_bytes = word >> 24, word & 0xFFFFFF
    end = _WORD.size + header_bytes
    if end > len(frame) or header_bytes > header_bytes_max:
        raise MalformedFrame(f"a header of {header_bytes} bytes in a frame of {len(frame)}")
    header = bytes(frame[_WORD.size : end])
    body: Buffer = memoryview(frame)[end:] if end < len(frame) else b""
    match serialization:
        case Serialization.JSON:
            return _from_json(header, body)
        case Serialization.ROCKETMQ:
            return _from_binary(header, body)
        case _:
            raise MalformedFrame(f"serialization {serialization} is unknown")


def _from_json(header: bytes, body: Buffer) -> Command:
    try:
        fields = json.loads(header.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"the header is no JSON: {error}") from None
    if type(fields) is not dict:
        raise MalformedFrame("the header is no JSON object")
    remark = fields.get("remark")
    if remark is not None and type(remark) is not str:
        raise MalformedFrame("the remark is no text")
    found = fields.get("extFields") or {}
    if type(found) is not dict:
        raise MalformedFrame("extFields is no object")
    ext = {name: value if type(value) is str else _text_of(value) for name, value in found.items() if value is not None}
    if b"\\ud" in header or b"\\uD" in header:
        _require_unicode(remark or "", ext)
    return Command(
        _whole(fields, "code", None),
        _whole(fields, "opaque", 0),
        ext,
        body,
        remark,
        _whole(fields, "flag", 0),
        _language(fields.get("language")),
        _whole(fields, "version", 0),
    )


def _whole(fields: Mapping[str, Any], name: str, default: int | None) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not _INT_MIN <= value <= _INT_MAX:
        raise MalformedFrame(f"{name} is no number of 32 bits")
    return value


def _language(value: object) -> int:
    match value:
        case str():
            return LANGUAGES.get(value, LanguageCode.OTHER)
        case int() if 0 <= value <= 255:
            return value
        case _:
            return LanguageCode.OTHER


def _text_of(value: object) -> str:
    """Returns the text of an ext value: booleans as in Java, numbers as they are, other values as JSON."""
    try:
        return _to_json(value)
    except RecursionError:
        raise MalformedFrame("an ext field is nested too deep") from None


def _require_unicode(remark: str, ext: Mapping[str, str]) -> None:
    """Half of a surrogate pair can be written in JSON, but not in UTF-8."""
    try:
        for text in (remark, *ext, *ext.values()):
            text.encode()
    except UnicodeEncodeError:
        raise MalformedFrame("a text with half of a surrogate pair") from None


def _from_binary(header: bytes, body: Buffer) -> Command:
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
        start = _FIXED.size + remark_bytes
        (ext_bytes,) = _LENGTH.unpack_from(header, start) if remark_bytes >= 0 else (-1,)
        position = start + _LENGTH.size
        end = position + ext_bytes
        if remark_bytes < 0 or ext_bytes < 0 or end > len(header):
            raise MalformedFrame(
                f"a remark of {remark_bytes} and ext of {ext_bytes} bytes in a header of {len(header)}"
            )
        ext = _read_ext(header, position, end)
        remark = header[_FIXED.size : start].decode() if remark_bytes else None
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"the header is not whole: {error}") from None
    return Command(code, opaque, ext, body, remark, flag, language, version, Serialization.ROCKETMQ)


def _read_ext(header: bytes, position: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    while position < end:
        (key_bytes,) = _KEY_LENGTH.unpack_from(header, position)
        start = position + _KEY_LENGTH.size + key_bytes
        if key_bytes < 0 or start + _LENGTH.size > end:
            raise MalformedFrame(f"an ext field whose name has {key_bytes} bytes is not whole")
        (value_bytes,) = _LENGTH.unpack_from(header, start)
        value_start = start + _LENGTH.size
        next_position = value_start + value_bytes
        if value_bytes < 0 or next_position > end:
            raise MalformedFrame(f"an ext field of {value_bytes} bytes is not whole")
        name = header[position + _KEY_LENGTH.size : start].decode()
        ext[name] = header[value_start:next_position].decode()
        position = next_position
    return ext
