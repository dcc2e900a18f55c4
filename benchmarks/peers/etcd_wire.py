"""gRPC to etcd over cleartext HTTP/2, as far as `Put` and `Txn` need it: frames made by hand, header lists compressed
to six bytes.

The first request of a connection puts its headers into the server's table, all others point there. An answer counts
when its stream has brought one whole gRPC message and then ended; a gRPC error ends the stream without a message. Flow
control is kept in both directions: what the server's windows hold back waits, and the server's side gets all the room
there is at once.

The server pings with almost every request, to learn how large its windows should be. For requests that fit the windows
anyway the answer rides on a later request: the server then asks less often, which spares both sides half of their
wake-ups.
"""

import struct
from collections.abc import Iterator

from jepsen_like.bench.conversation import LoadShape, NotAnAnswer, payload

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_BYTES_MAX = 16384
WINDOW_DEFAULT = 65535
INITIAL_WINDOW_SIZE = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PONG_EVERY = 32
"""Requests between two answers to pings."""
KEY_PREFIX = b"bench/"
INDEXED_HEADERS = bytes((0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62))
"""POST, http, then path, authority, content-type and te from the table, where they lie newest first."""


def key_of(lane: int, number: int) -> bytes:
    """The key that a connection writes its `number`th record of a batch to."""
    return KEY_PREFIX + b"%d/%d" % (lane, number)


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return bytes((number << 3 | 2,)) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_message(lane: int, load: LoadShape) -> tuple[str, bytes]:
    """Method and gRPC message: a `PutRequest`, or a `TxnRequest` with a put for each record of a batch."""
    puts = [
        field(1, key_of(lane, number)) + field(2, payload(load.record_bytes, number)) for number in range(load.batch)
    ]
    method, body = ("Put", puts[0]) if load.batch == 1 else ("Txn", b"".join(field(2, field(2, put)) for put in puts))
    return method, struct.pack("!BI", 0, len(body)) + body


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """One frame."""
    return struct.pack("!HBBBI", len(body) >> 8, len(body) & 255, kind, flags, stream) + body


def literal(name: str, value: str) -> bytes:
    """A header that the server puts into its table."""
    return b"\x40" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


class EtcdConversation:
    """See `Conversation`."""

    def __init__(self, load: LoadShape, lane: int) -> None:
        self.greeted = False
        self.owed = b""
        self.refusal = ""
        method, self._message = write_message(lane, load)
        self._first_headers: bytes | None = (
            b"\x83\x86"
            + literal(":path", f"/etcdserverpb.KV/{method}")
            + literal(":authority", "etcd")
            + literal("content-type", "application/grpc")
            + literal("te", "trailers")
        )
        self._stream = -1
        self._room = WINDOW_DEFAULT
        self._room_of_stream = 0
        self._room_of_new_streams = WINDOW_DEFAULT
        self._held = memoryview(b"")
        self._answered: set[int] = set()
        self._pongs = b""
        self._pongs_wait = len(self._message) <= FRAME_BYTES_MAX
        self._rest = b""

    def hello(self) -> bytes:
        """The preface, and all the room that a client can give."""
        return PREFACE + frame(SETTINGS, 0, 0, b"") + frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", 2**31 - 65536))

    def request(self) -> bytes:
        """Headers, and as much of the message as the server has room for."""
        self._stream += 2
        headers, self._first_headers = self._first_headers or INDEXED_HEADERS, None
        self._room_of_stream = self._room_of_new_streams
        self._held = memoryview(self._message)
        pongs = b""
        if self._pongs and self._stream // 2 % PONG_EVERY == 0:
            pongs, self._pongs = self._pongs, b""
        return pongs + frame(HEADERS, END_HEADERS, self._stream, headers) + b"".join(self._data())

    def _data(self) -> Iterator[bytes]:
        """Yields the parts of the held message that may be sent now."""
        while self._held:
            size = min(len(self._held), self._room, self._room_of_stream, FRAME_BYTES_MAX)
            if size <= 0:
                return
            part, self._held = self._held[:size], self._held[size:]
            self._room -= size
            self._room_of_stream -= size
            yield frame(DATA, 0 if self._held else END_STREAM, self._stream, part.tobytes())

    def take(self, chunk: bytes) -> int:
        """Streams that ended with their message count."""
        if self._rest:
            chunk = self._rest + chunk
        done = at = 0
        while len(chunk) - at >= 9:
            high, low, kind, flags, stream = struct.unpack_from("!HBBBI", chunk, at)
            end = at + 9 + (high << 8 | low)
            if end > len(chunk):
                break
            if kind == HEADERS:
                if flags & END_STREAM:
                    done += self._end_stream(stream)
            elif kind == DATA:
                self._message_arrived(stream, chunk[at + 9 : end])
            else:
                self._control(kind, flags, stream, chunk[at + 9 : end])
            at = end
        self._rest = chunk[at:]
        return done

    def _end_stream(self, stream: int) -> int:
        if stream in self._answered:
            self._answered.remove(stream)
            return 1
        self.refusal = "a gRPC error"
        return 0

    def _message_arrived(self, stream: int, body: bytes) -> None:
        if len(body) < 5 or body[0] != 0 or int.from_bytes(body[1:5], "big") != len(body) - 5:
            raise NotAnAnswer(f"{body[:16]!r} is not one whole gRPC message")
        self._answered.add(stream)

    def _control(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(body), 6):
                name, value = struct.unpack_from("!HI", body, at)
                if name == INITIAL_WINDOW_SIZE:
                    self._room_of_stream += value - self._room_of_new_streams
                    self._room_of_new_streams = value
            self.owed += frame(SETTINGS, ACK, 0, b"") + b"".join(self._data())
            self.greeted = True
        elif kind == PING and not flags & ACK:
            if self._pongs_wait:
                self._pongs += frame(PING, ACK, 0, body)
            else:
                self.owed += frame(PING, ACK, 0, body)
        elif kind == WINDOW_UPDATE:
            room = int.from_bytes(body, "big")
            if stream == 0:
                self._room += room
            elif stream == self._stream:
                self._room_of_stream += room
            self.owed += b"".join(self._data())
        elif kind == RST_STREAM:
            self.refusal = f"stream reset with error {int.from_bytes(body, 'big')}"
        elif kind == GOAWAY:
            self.refusal = f"the server goes away: {body[8:80]!r}"
