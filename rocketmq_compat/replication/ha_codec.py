"""The HA stream as bytes: frames of `raft.net.framing` (length, type, and a CRC-32C of everything) around fixed
layouts, big endian.

`FRAME_BYTES_MAX` bounds a connection. Decoding is total: any bytes give a message, or a `WireError`, after which the
connection is useless. Integers lie in range, epoch tables are in order and lie within the log; the decider judges if a
message is *true*. A push also carries the checksum of its payload, which may come from the disk: the slave compares it.
"""

import itertools
import struct
from typing import assert_never

import crc32c

from raft.net.errors import WireError
from raft.net.framing import Frame, FrameDecoder, encode_frame, encode_frame_in_pieces
from rocketmq_compat.replication.messages import (
    FetchBack,
    HaMessage,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Payload,
    Push,
    Report,
    Tables,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import EPOCHS_MAX, MasterEpoch

HANDSHAKE = 96
WELCOME = 97
REFUSED = 98
PUSH = 99
REPORT = 100
HEARTBEAT = 101
FETCH = 102
TABLES_WANTED = 103
TABLES = 104
WELCOME_IN_DOUBT = 105
HEARTBEAT_IN_DOUBT = 106
PROOF = 107
PROOF_REFUSED = 108
"""Before all others, where there is a secret: messages of `raft.trust`, and the end of those that prove nothing."""

FRAME_BYTES_MAX = (16 << 20) + (64 << 10)
"""The largest append of a client is a remoting frame of 16 MiB; it travels in one push."""
NAME_BYTES_MAX = 255
REASON_BYTES_MAX = 1024
OFFSET_MAX = 2**62
EPOCH_MAX = 2**61
"""No start of a master gets here, each of which adds 32 bits at most; so there is room for all that follow."""

_HANDSHAKE = struct.Struct("!BIQQHB")
_EPOCH = struct.Struct("!QQ")
_WELCOME = struct.Struct("!QQ")
_REFUSED = struct.Struct("!q")
_PUSH = struct.Struct("!QQQI")
_NUMBER = struct.Struct("!Q")
_FETCH = struct.Struct("!QQ")


def ha_decoder() -> FrameDecoder:
    """Returns the decoder of one connection; its frames are given to `decode`."""
    return FrameDecoder(FRAME_BYTES_MAX)


def encode(message: HaMessage) -> tuple[Payload, ...]:
    """Returns the message as buffers, to be sent in order; the payload of a push is not copied."""
    match message:
        case Handshake():
            return (encode_frame(HANDSHAKE, _handshake(message)),)
        case Welcome(push_from=push_from, confirm_offset=confirm, is_sure=is_sure):
            return (encode_frame(WELCOME if is_sure else WELCOME_IN_DOUBT, _WELCOME.pack(push_from, confirm)),)
        case HandshakeRefused(reason=reason, agreed_end=agreed):
            return (encode_frame(REFUSED, _REFUSED.pack(agreed) + _cut(reason, REASON_BYTES_MAX)),)
        case Push():
            fields = _PUSH.pack(message.offset, message.epoch, message.confirm_offset, message.crc)
            crc = crc32c.crc32c(message.payload, crc32c.crc32c(fields))
            return encode_frame_in_pieces(PUSH, (fields, message.payload), crc)
        case Report(end=end):
            return (encode_frame(REPORT, _NUMBER.pack(end)),)
        case Heartbeat(confirm_offset=confirm, is_sure=is_sure):
            return (encode_frame(HEARTBEAT if is_sure else HEARTBEAT_IN_DOUBT, _NUMBER.pack(confirm)),)
        case FetchBack(offset=offset, end=end):
            return (encode_frame(FETCH, _FETCH.pack(offset, end)),)
        case TablesWanted():
            return (encode_frame(TABLES_WANTED, b""),)
        case Tables(payload=payload):
            return encode_frame_in_pieces(TABLES, (payload,), crc32c.crc32c(payload))
        case _:
            assert_never(message)


def _cut(text: str, bytes_max: int) -> bytes:
    return text.encode()[:bytes_max].decode(errors="ignore").encode()


def _handshake(message: Handshake) -> bytes:
    name = message.broker_name.encode()
    if len(name) > NAME_BYTES_MAX:
        raise ValueError(f"a broker name of {len(name)} bytes is over the bound of {NAME_BYTES_MAX}")
    head = _HANDSHAKE.pack(
        message.checks_divergence, message.slave_id, message.log_start, message.log_end, len(message.epochs), len(name)
    )
    return head + name + b"".join([_EPOCH.pack(each.epoch, each.start) for each in message.epochs])


def decode(frame: Frame) -> HaMessage:
    """Returns the message of one frame; the payload of a push is a view of it. Raises `WireError` for anything else."""
    kind, body, _ = frame
    try:
        message = _decode(kind, memoryview(body))
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"a message of type {kind} is malformed: {error}") from None
    return message


def _decode(kind: int, body: memoryview) -> HaMessage:
    match kind:
        case _ if kind == HANDSHAKE:
            return _decoded_handshake(body)
        case _ if kind in (WELCOME, WELCOME_IN_DOUBT):
            push_from, confirm = _WELCOME.unpack(body)
            return Welcome(_offset(push_from), _offset(confirm), kind == WELCOME)
        case _ if kind == REFUSED:
            (agreed,) = _REFUSED.unpack_from(body)
            if not -1 <= agreed <= OFFSET_MAX or len(body) > _REFUSED.size + REASON_BYTES_MAX:
                raise WireError("a refusal is malformed")
            return HandshakeRefused(str(body[_REFUSED.size :], "utf-8"), agreed)
        case _ if kind == PUSH:
            offset, epoch, confirm, crc = _PUSH.unpack_from(body)
            payload = body[_PUSH.size :]
            if not payload:
                raise WireError("a push of nothing")
            return Push(_offset(offset), _epoch(epoch), _offset(confirm), crc, payload)
        case _ if kind == REPORT:
            return Report(_offset(*_NUMBER.unpack(body)))
        case _ if kind in (HEARTBEAT, HEARTBEAT_IN_DOUBT):
            return Heartbeat(_offset(*_NUMBER.unpack(body)), kind == HEARTBEAT)
        case _ if kind == FETCH:
            offset, end = _FETCH.unpack(body)
            if not _offset(offset) < _offset(end):
                raise WireError(f"a fetch from {offset} to {end}")
            return FetchBack(offset, end)
        case _ if kind == TABLES_WANTED:
            if body:
                raise WireError("a request for tables is malformed")
            return TablesWanted()
        case _ if kind == TABLES:
            return Tables(body)
        case _:
            raise WireError(f"a message of type {kind} is not of the HA stream")


def _decoded_handshake(body: memoryview) -> Handshake:
    checks, slave_id, log_start, log_end, count, name_bytes = _HANDSHAKE.unpack_from(body)
    start = _HANDSHAKE.size + name_bytes
    if count > EPOCHS_MAX or len(body) != start + count * _EPOCH.size or checks > 1:
        raise WireError("a handshake is malformed")
    if not _offset(log_start) <= _offset(log_end):
        raise WireError(f"a handshake of a log from {log_start} to {log_end}")
    epochs = tuple([MasterEpoch(_epoch(epoch), begin) for epoch, begin in _EPOCH.iter_unpack(body[start:])])
    for earlier, other in itertools.pairwise(epochs):
        if earlier.epoch >= other.epoch or earlier.start >= other.start:
            raise WireError("the epochs of a handshake are out of order")
    if epochs and not log_start <= epochs[0].start <= epochs[-1].start <= log_end:
        raise WireError("the epochs of a handshake lie outside of its log")
    name = str(body[_HANDSHAKE.size : start], "utf-8")
    return Handshake(name, slave_id, bool(checks), log_start, log_end, epochs)


def _offset(number: int) -> int:
    if number > OFFSET_MAX:
        raise WireError(f"offset {number} is out of range")
    return number


def _epoch(number: int) -> int:
    if not 0 < number <= EPOCH_MAX:
        raise WireError(f"epoch {number} is out of range")
    return number
