"""One API of the protocol: its key, versions and messages, and the frames of its requests and responses.

A frame is a length of four bytes and a body (`raft.net.decoder.BodyDecoder` cuts them); a body is a header and a
message. The header has a version of its own. Requests have 1 and responses 0. In flexible versions requests have 2 and
responses 1, which add a section of tagged fields. The client id stays a string with a length of two bytes in both. The
response of ApiVersions always has header version 0, as its client knows no versions yet (KIP-511).
"""

import struct
from typing import Any, Generic, TypeVar

from kafka_compat.protocol import primitives
from kafka_compat.protocol.compiler import tags_reader, wire_of
from kafka_compat.protocol.errors import MalformedMessage, UnsupportedVersion
from kafka_compat.protocol.schema import version_range
from log.values import frozen
from raft.net.decoder import PREFIX, Buffer

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

API_VERSIONS_KEY = 18
NOT_FLEXIBLE = "32767"
REQUEST_START = struct.Struct(">hhi")
CORRELATION_ID = struct.Struct(">i")
PIECE_BYTES = 4096
"""Bytes and records of this size stay pieces of their own; shorter ones are joined."""

_CLIENT_ID = primitives.string(compact=False, nullable=True)
_skip_tags = tags_reader((), ())


@frozen
class RequestHeader:
    """The header of every request. The client id names the program to operators; it identifies no client."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


@frozen
class ApiRequest(Generic[RequestT]):
    """A request that arrived."""

    header: RequestHeader
    body: RequestT


@frozen
class Api(Generic[RequestT, ResponseT]):
    """An API of Kafka's protocol, with the versions that are supported here, both inclusive."""

    key: int
    name: str
    request: type[RequestT]
    response: type[ResponseT]
    versions: range
    flexible: range
    advertised_min: int
    """The lowest version that ApiVersions lists; lower than `versions` where clients need that."""

    @classmethod
    def of(
        cls,
        key: int,
        name: str,
        request: type[RequestT],
        response: type[ResponseT],
        *,
        versions: str,
        flexible: str = NOT_FLEXIBLE,
        advertised_min: int | None = None,
    ) -> "Api[RequestT, ResponseT]":
        """Returns the API, its versions written as in the tables (`3-13`, `9+`)."""
        supported = version_range(versions)
        least = supported.start if advertised_min is None else advertised_min
        return cls(key, name, request, response, supported, version_range(flexible), least)

    @property
    def version_max(self) -> int:
        """The highest supported version."""
        return self.versions.stop - 1

    def response_header_version(self, version: int) -> int:
        """Returns the version of the header of its responses."""
        return 1 if version in self.flexible and self.key != API_VERSIONS_KEY else 0

    def encode_request(self, header: RequestHeader, body: RequestT) -> list[Buffer]:
        """Returns a whole frame in pieces. Raises `CannotEncode`, and `KeyError` for an unsupported version."""
        version = header.api_version
        out: list[Buffer] = [REQUEST_START.pack(header.api_key, version, header.correlation_id)]
        _CLIENT_ID.write(out, header.client_id)
        if version in self.flexible:
            out.append(b"\0")
        self._wire(self.request, version).write(out, body)
        return frame_pieces(out)

    def decode_request_body(self, body: Buffer, position: int, version: int) -> RequestT:
        """Returns the request that begins at `position`, after its header. Raises `MalformedMessage`.

        Bytes after the request are ignored, as in Kafka: librdkafka's Metadata for all topics has three too many.
        """
        request: RequestT = self._wire(self.request, version).read(memoryview(body), position)[0]
        return request

    def encode_response(self, version: int, correlation_id: int, response: ResponseT) -> list[Buffer]:
        """Returns a whole frame in pieces. Raises `CannotEncode`, and `KeyError` for an unsupported version."""
        out: list[Buffer] = [CORRELATION_ID.pack(correlation_id)]
        if self.response_header_version(version):
            out.append(b"\0")
        self._wire(self.response, version).write(out, response)
        return frame_pieces(out)

    def decode_response(self, body: Buffer, version: int) -> tuple[int, ResponseT]:
        """Returns the correlation id and the response of a frame's body; raises `MalformedMessage`."""
        buffer = memoryview(body)
        correlation_id = decode_correlation_id(buffer)
        position = CORRELATION_ID.size
        if self.response_header_version(version):
            position = skip_tags(buffer, position)
        return correlation_id, self._whole(self.response, buffer, position, version)

    def _wire(self, cls: type, version: int) -> primitives.Wire:
        if version not in self.versions:
            raise KeyError(f"{self.name} has no version {version} here")
        return wire_of(cls, version, version in self.flexible)

    def _whole(self, cls: Any, buffer: memoryview, position: int, version: int) -> Any:
        value, end = self._wire(cls, version).read(buffer, position)
        if end != len(buffer):
            raise MalformedMessage(f"{len(buffer) - end} bytes follow the message", offset=end)
        return value


def decode_correlation_id(body: Buffer) -> int:
    """Returns the correlation id of a response, which identifies its request. Raises `MalformedMessage`."""
    if len(body) < CORRELATION_ID.size:
        raise MalformedMessage("the response ends within the field", "correlation_id")
    (correlation_id,) = CORRELATION_ID.unpack_from(body)
    return int(correlation_id)


def decode_request_start(buffer: memoryview) -> tuple[RequestHeader, int]:
    """Reads the part that all versions of the request header share: everything but the tagged fields.

    Returns the header and the position after it. Raises `MalformedMessage`.
    """
    try:
        key, version, correlation_id = REQUEST_START.unpack_from(buffer)
        client_id, position = _CLIENT_ID.read(buffer, REQUEST_START.size)
    except MalformedMessage as error:
        error.within("client_id")
        raise
    except UnicodeDecodeError:
        raise MalformedMessage("not UTF-8", "client_id", REQUEST_START.size) from None
    except struct.error:
        raise MalformedMessage("the frame ends within it", "header", len(buffer)) from None
    return RequestHeader(key, version, correlation_id, client_id), position


def skip_tags(buffer: memoryview, position: int) -> int:
    """Returns the position after a section of tagged fields, and ignores them all. Raises `MalformedMessage`."""
    try:
        return _skip_tags(buffer, position)[1]
    except IndexError:
        raise MalformedMessage("the frame ends within the tagged fields", "header", position) from None
    except MalformedMessage as error:
        error.within("header")
        raise


def build_unsupported(header: RequestHeader, detail: str) -> UnsupportedVersion:
    """Returns the error for a request that is not in the registry."""
    return UnsupportedVersion(detail, "header", 0, header.api_key, header.api_version, header.correlation_id)


def frame_pieces(out: list[Buffer]) -> list[Buffer]:
    """Returns the body with its length in front, short pieces joined, long ones as they are."""
    size = sum(map(len, out))
    if size < PIECE_BYTES:
        return [b"".join((PREFIX.pack(size), *out))]
    pieces: list[Buffer] = [PREFIX.pack(size)]
    first = 0
    for number, piece in enumerate(out):
        if len(piece) >= PIECE_BYTES:
            _add_joined(pieces, out[first:number])
            pieces.append(piece)
            first = number + 1
    _add_joined(pieces, out[first:])
    return pieces


def _add_joined(pieces: list[Buffer], short: list[Buffer]) -> None:
    """Add short pieces as one. The length goes with the first ones; later runs are pieces of their own."""
    if len(pieces) == 1:
        pieces[0] = b"".join((pieces[0], *short))
    elif short:
        pieces.append(b"".join(short))
