"""Peer messages as bytes: hand-written msgpack arrays, and the checks without which nothing from a peer is believed.

The body of a message is one array of integers, booleans and, for AppendEntries, entries. Nothing else is ever produced:
no maps, no extension types, no floats, so that a newer msgpack cannot change the wire (a golden test).

Decoding is total: any bytes give a message that the core may see, or a `ProtocolError`. Counts are bounded before
anything is allocated for them, integers lie in range, the indexes and offsets of entries are dense, and the CRC of
every batch holds. What decoding cannot know is whether a message is *true*: `raft.objections` holds that against what the core knows.
"""

import operator
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import crc32c
import msgpack

from log.frame import buffers_of
from raft.addresses import is_address
from raft.errors import ProtocolError
from raft.membership import Configuration, InvalidConfiguration, decode_stored
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestStanding,
    RequestVote,
    SnapshotReceived,
    StandingReply,
    TimeoutNow,
    VoteReply,
)
from raft.model import Batch, Entry, EntryKind, LogIndex, LogStart, Offset, Position, Term
from raft.net.crc import JOINING_BYTES, join_crcs
from raft.net.decoder import LARGE_BYTES, Buffer
from raft.net.framing import encode_frame, encode_frame_in_pieces

REQUEST_PRE_VOTE = 64
PRE_VOTE_REPLY = 65
REQUEST_VOTE = 66
VOTE_REPLY = 67
APPEND_ENTRIES = 68
APPEND_ACCEPTED = 69
APPEND_REJECTED = 70
INSTALL_SNAPSHOT = 71
SNAPSHOT_RECEIVED = 72
REQUEST_STANDING = 73
STANDING_REPLY = 74
TIMEOUT_NOW = 75

NUMBER_MAX = 2**62
"""Terms, indexes, offsets and ids end well below 64 bits, so that adding to one stays in the wire's range."""
SPAN_MAX = 2**32 - 1
CRC_MAX = 2**32 - 1
ENTRIES_MAX = 2**20
"""Entries in one message. The window of a peer is in bytes; this bounds what empty entries could cost."""

_ENTRY_FIELDS = 6
_OMITTED = ("directory_id", "is_transfer", "has_changed")
"""Fields that end a message and are left out while they are 0: a group whose members never change has no use for them."""
_LONG_BINARY = struct.Struct(">BI")
_LONG_BINARY_TAG = 0xC6
"""The tag that msgpack puts before binary data of more than 16 bits of length, as all from `LARGE_BYTES` on."""
_EMPTY_BINARY = b"\xc4\x00"
_FACTS_BYTES_MAX = 128
"""More than comes before the data in a message that carries one piece of it."""
_KINDS = {int(kind): kind for kind in EntryKind}
_Read = Callable[[object, str], object]
"""Returns the value of a field, checked, from what msgpack gave and its name."""


def unpack(body: Buffer, *, array_max: int) -> Any:
    """Returns the one value in `body`, which has no maps and no extension types. Raises `ProtocolError`.

    `array_max` bounds every array inside, since msgpack makes room for as many elements as an array claims to have.
    """
    try:
        return msgpack.unpackb(
            body, max_array_len=min(array_max, len(body)), max_map_len=0, max_ext_len=0, unicode_errors="strict"
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        detail = str(error)[:120] or type(error).__name__
        raise ProtocolError(f"not the msgpack that is due here: {detail}") from None


def unpack_array(body: Buffer, *, length: int, array_max: int) -> list[Any]:
    """Returns the one array of `length` that `body` must hold. Raises `ProtocolError` as `unpack` does."""
    values = unpack(body, array_max=array_max)
    if type(values) is not list or len(values) != length:
        raise ProtocolError(f"an array of {length} is due, not {kind_of(values)}")
    return values


def unpack_array_with_data(body: Buffer, *, length: int, array_max: int) -> list[Any]:
    """Like `unpack_array`, but long data at the end of the array is returned as a view of `body`, uncopied."""
    begin = _begin_of_data(body) if len(body) >= LARGE_BYTES else 0
    if begin:
        # To find whether an element begins there, let msgpack decode an empty binary in its place: the array must end
        # with that.
        head = bytes(body[: begin - _LONG_BINARY.size]) + _EMPTY_BINARY
        with suppress(ProtocolError):
            values = last = unpack_array(head, length=length, array_max=array_max)
            while type(last[-1]) is list and last[-1]:
                last = last[-1]
            if type(last[-1]) is bytes and not last[-1]:
                last[-1] = memoryview(body)[begin:]
                return values
    return unpack_array(body, length=length, array_max=array_max)


def crc_of_data(data: Buffer, body: Buffer, body_crc: int | None) -> int | None:
    """Returns the CRC of large data at the end of `body`, from that of the body; None if it has to be read."""
    if body_crc is None or type(data) is not memoryview or len(data) < JOINING_BYTES:
        return None
    return join_crcs(crc32c.crc32c(body[: -len(data)]), body_crc, len(data))


def _begin_of_data(body: Buffer) -> int:
    """Returns the position after a tag of long binary data that fills the rest of the body; 0 if there is none."""
    head = bytes(body[:_FACTS_BYTES_MAX])
    at = head.find(_LONG_BINARY_TAG)
    while at >= 0:
        begin = at + _LONG_BINARY.size
        if head[at:begin] == _LONG_BINARY.pack(_LONG_BINARY_TAG, len(body) - begin):
            return begin
        at = head.find(_LONG_BINARY_TAG, at + 1)
    return 0


def integer(value: object, name: str, low: int, high: int) -> int:
    """Returns `value` as an integer within bounds, both inclusive.

    Raises `ProtocolError` for anything else, booleans included.
    """
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"{name} must be an integer from {low} to {high}, not {kind_of(value)}")
    return value


def number(value: object, name: str) -> int:
    """Returns `value` as a term, an index, an offset or an id.

    Raises `ProtocolError` unless it is an integer from 0 to `NUMBER_MAX`.
    """
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise ProtocolError(f"{name} must be an integer from 0 to 2^62, not {kind_of(value)}")
    return value


def boolean(value: object, name: str) -> bool:
    """Returns `value` as a boolean. Raises `ProtocolError` for anything else."""
    if type(value) is not bool:
        raise ProtocolError(f"{name} must be a boolean, not {kind_of(value)}")
    return value


def binary(value: object, name: str) -> bytes:
    """Returns `value` as bytes. Raises `ProtocolError` for anything else."""
    if type(value) is not bytes:
        raise ProtocolError(f"{name} must be binary, not {kind_of(value)}")
    return value


def binary_or_view(value: object, name: str) -> Buffer:
    """Returns `value` as bytes, or as the view of them that `unpack_array_with_data` returns.

    Raises `ProtocolError` for anything else.
    """
    if type(value) is not bytes and type(value) is not memoryview:
        raise ProtocolError(f"{name} must be binary, not {kind_of(value)}")
    return value


def text(value: object, name: str, length_max: int) -> str:
    """Returns `value` as a string. Raises `ProtocolError` unless it is one of at most `length_max` characters."""
    if type(value) is not str or len(value) > length_max:
        raise ProtocolError(f"{name} must be a string of at most {length_max}, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """Returns a description of a wrong value, short whatever its size, because it ends up in logs."""
    match value:
        case bool() | None:
            return repr(value)
        case int() | float():
            return f"the number {value}"
        case bytes() | memoryview():
            return f"binary of {len(value)}"
        case str():
            return f"a string of {len(value)}"
        case list():
            return f"an array of {len(value)}"
        case _:
            return f"a {type(value).__name__}"


# -------------------------------------------------------------------- encoding


def encode_message(message: Message) -> tuple[Buffer, ...]:
    """Returns the frame that carries `message`, in pieces: one, or several so that large data is not copied."""
    match message:
        case AppendEntries():
            return _encode_append_entries(message)
        case InstallSnapshot(term=term, start=start, round=round_):
            places = (start.index, start.position.term, start.offset, start.applied.index, start.applied.term)
            members = (message.configuration,) if message.configuration else ()
            part = (message.offset, message.total, *members, start.snapshot)
            return _encode(INSTALL_SNAPSHOT, (term, round_, *places, *part))
        case _:
            message_type, values_of = PLAIN[type(message)]
            return _encode(message_type, values_of(message))


def _encode(message_type: int, values: tuple[object, ...]) -> tuple[bytes, ...]:
    return (encode_frame(message_type, msgpack.packb(values)),)


def _encode_append_entries(message: AppendEntries) -> tuple[Buffer, ...]:
    """Large data goes past msgpack, which would copy it more than once; the bytes are the same."""
    entries = message.entries
    base_offset = entries[0].base_offset if entries else 0
    facts = (message.term, message.prev_index, message.prev_term, message.commit_index, message.round, base_offset)
    if not any(len(entry.batch.data) >= LARGE_BYTES for entry in entries):
        rows = [(*_facts(entry), entry.batch.data) for entry in entries]
        return _encode(APPEND_ENTRIES, (*facts, rows))
    pieces: list[Buffer] = []
    crc = 0
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(facts) + 1)
    for fact in facts:
        packer.pack(fact)
    packer.pack_array_header(len(entries))
    for entry in entries:
        packer.pack_array_header(_ENTRY_FIELDS)
        for fact in _facts(entry):
            packer.pack(fact)
        data = entry.batch.data
        if len(data) < LARGE_BYTES:
            packer.pack(data)
        else:
            head = packer.bytes() + _LONG_BINARY.pack(_LONG_BINARY_TAG, len(data))
            pieces += (head, *buffers_of(data))
            crc = _crc_behind(crc32c.crc32c(head, crc), entry.batch)
            packer.reset()
    if rest := packer.bytes():
        pieces.append(rest)
        crc = crc32c.crc32c(rest, crc)
    return encode_frame_in_pieces(APPEND_ENTRIES, pieces, crc)


def _crc_behind(crc: int, batch: Batch) -> int:
    """The CRC of bytes with this one and the data of `batch` behind them."""
    if len(batch.data) >= JOINING_BYTES:
        return join_crcs(crc, batch.crc, len(batch.data))
    for buffer in buffers_of(batch.data):
        crc = crc32c.crc32c(buffer, crc)
    return crc


def _facts(entry: Entry) -> tuple[int, int, int, int, int]:
    batch = entry.batch
    return entry.term, int(batch.kind), batch.span, batch.timestamp_ms, batch.crc


# -------------------------------------------------------------------- decoding


def decode_message(message_type: int, body: Buffer, body_crc: int | None = None) -> Message:
    """Returns the message in a frame of this type.

    Raises `ProtocolError` if it holds none. With the body's CRC-32C, large data is not read for its own.
    """
    if message_type == APPEND_ENTRIES:
        return _decode_append_entries(body, body_crc)
    decode = _DECODERS.get(message_type)
    if decode is None:
        raise ProtocolError(f"message type {message_type} is not one that peers send")
    return decode(body)


def _decode_plain(
    kind: Callable[..., Message], reads: Sequence[tuple[str, _Read]], length_min: int, body: Buffer
) -> Message:
    values = unpack(body, array_max=len(reads))
    if type(values) is not list or not length_min <= len(values) <= len(reads):
        raise ProtocolError(f"an array of {length_min} is due, not {kind_of(values)}")
    return kind(*[read(value, name) for value, (name, read) in zip(values, reads, strict=False)])


def _decode_install_snapshot(body: Buffer) -> InstallSnapshot:
    values = unpack(body, array_max=11)
    if type(values) is not list or len(values) not in (10, 11):
        raise ProtocolError(f"an array of 10 or 11 is due, not {kind_of(values)}")
    term, round_, start_index, start_term, start_offset, applied_index, applied_term, offset, total, *members = values
    configuration, part = members if len(values) == 11 else (b"", *members)
    term = number(term, "term")
    # Entries have left the log, each of which had an index and a term, and all of them were applied.
    start_index = integer(start_index, "start_index", 1, NUMBER_MAX)
    start_term = integer(start_term, "start_term", 1, term)
    applied_index = integer(applied_index, "applied_index", start_index, NUMBER_MAX)
    applied_term = integer(applied_term, "applied_term", start_term, term)
    if applied_index == start_index and applied_term != start_term:
        raise ProtocolError(f"the entry at {start_index} has two terms, {start_term} and {applied_term}")
    start = LogStart(
        Position(LogIndex(start_index), Term(start_term)),
        Offset(number(start_offset, "start_offset")),
        Position(LogIndex(applied_index), Term(applied_term)),
        binary(part, "part"),
    )
    total = number(total, "total")
    offset = integer(offset, "offset", 0, total)
    bytes_left = total - offset - len(start.snapshot)
    # After an empty part that is not the last, the same part would be sent again and again.
    if bytes_left < 0 or (bytes_left and not start.snapshot):
        raise ProtocolError(f"a part of {len(start.snapshot)} at {offset} is no part of a snapshot of {total}")
    configuration = binary(configuration, "configuration")
    try:
        known = decode_stored(configuration)
    except InvalidConfiguration as error:
        raise ProtocolError(f"the configuration of a snapshot: {error}") from None
    for place in known:
        number(place.index, "the index of a configuration")
        integer(place.term, "the term of a configuration", 0, term)
        _require_addresses(place.configuration)
    return InstallSnapshot(Term(term), start, number(round_, "round"), offset, bytes_left, configuration)


def _decode_standing_reply(body: Buffer) -> Message:
    reply = _decode_plain(StandingReply, _reads(StandingReply), _length_min(StandingReply), body)
    assert isinstance(reply, StandingReply), "made of this class"
    if reply.last_term > reply.term or (reply.last_index == 0) != (reply.last_term == 0):
        raise ProtocolError(f"no log of term {reply.term} ends with index {reply.last_index} of term {reply.last_term}")
    return reply


def _decode_append_entries(body: Buffer, body_crc: int | None) -> AppendEntries:
    values = unpack_array_with_data(body, length=7, array_max=ENTRIES_MAX)
    term, prev_index, prev_term, commit_index, round_, base_offset, rows = values
    term = number(term, "term")
    prev_index = number(prev_index, "prev_index")
    prev_term = integer(prev_term, "prev_term", 0, term)
    base_offset = number(base_offset, "base_offset")
    if (prev_index == 0) != (prev_term == 0) or (prev_index == 0 and base_offset):
        raise ProtocolError(f"no log has term {prev_term} at index {prev_index} before offset {base_offset}")
    return AppendEntries(
        Term(term),
        LogIndex(prev_index),
        Term(prev_term),
        LogIndex(number(commit_index, "commit_index")),
        number(round_, "round"),
        _decode_entries(
            rows, term, prev_index, max(prev_term, 1), base_offset, lambda data: crc_of_data(data, body, body_crc)
        ),
    )


def _decode_entries(
    rows: object, term: int, prev_index: int, last_term: int, end_offset: int, known_crc: Callable[[Buffer], int | None]
) -> tuple[Entry, ...]:
    """Entries that follow each other: terms never fall nor exceed the sender's, offsets leave no gap."""
    if type(rows) is not list:
        raise ProtocolError(f"the entries must be an array, not {kind_of(rows)}")
    entries: list[Entry] = []
    for index, row in enumerate(rows, prev_index + 1):
        if type(row) is not list or len(row) != _ENTRY_FIELDS:
            raise ProtocolError(f"an entry must be an array of {_ENTRY_FIELDS}, not {kind_of(row)}")
        entry_term, kind, span, timestamp_ms, crc, data = row
        entry_term = integer(entry_term, "the term of an entry", last_term, term)
        batch = _decode_batch(kind, span, timestamp_ms, crc, data, known_crc)
        entries.append(Entry(LogIndex(index), Term(entry_term), Offset(end_offset), batch))
        last_term = entry_term
        end_offset += batch.span
    number(prev_index + len(entries), "the index of an entry")
    number(end_offset, "the offset of a record")
    return tuple(entries)


def _decode_batch(
    kind: object,
    span: object,
    timestamp_ms: object,
    crc: object,
    content: object,
    known_crc: Callable[[Buffer], int | None],
) -> Batch:
    known = _KINDS.get(integer(kind, "the kind of an entry", 0, 255))
    if known is None:
        raise ProtocolError(f"the kind of an entry is {kind}, which this version does not know")
    content = binary_or_view(content, "the data of an entry")
    # Offsets count records alone; an entry without records that took some would leave a hole for readers.
    span_low, span_high = (1, SPAN_MAX) if known is EntryKind.RECORDS else (0, 0)
    batch = Batch(
        known,
        integer(span, f"the span of an entry of kind {known.name}", span_low, span_high),
        number(timestamp_ms, "timestamp_ms"),
        content,
        integer(crc, "the crc of an entry", 0, CRC_MAX),
    )
    if known is EntryKind.CONFIGURATION:
        _require_configuration(content)
    found = known_crc(content)
    if (crc32c.crc32c(content) if found is None else found) != batch.crc:
        raise ProtocolError(f"the CRC of a batch of {len(content)} bytes is wrong")
    return batch


def _require_configuration(content: Buffer) -> None:
    try:
        found = Configuration.decode(bytes(content))
    except InvalidConfiguration as error:
        raise ProtocolError(f"the entry of a configuration: {error}") from None
    _require_addresses(found)


def _require_addresses(configuration: Configuration) -> None:
    """An address that cannot be dialled would end this node, now and at each start."""
    for node, address in configuration.addresses.items():
        if not is_address(address):
            raise ProtocolError(f"the configuration has node {node} at {address[:64]!r}, which is no HOST:PORT")


def _reads(kind: type[Message]) -> list[tuple[str, _Read]]:
    return [(field.name, boolean if field.type is bool else number) for field in attrs.fields(kind)]


def _length_min(kind: type[Message]) -> int:
    names = [name for name, _ in _reads(kind)]
    return len(names) - (names[-1] in _OMITTED)


def _values_of(kind: type[Message]) -> Callable[[Message], tuple[object, ...]]:
    names = [name for name, _ in _reads(kind)]
    all_of: Callable[[Message], Any] = operator.attrgetter(*names) if len(names) > 1 else _only(names[0])
    if names[-1] not in _OMITTED:
        return all_of

    def values_of(message: Message) -> tuple[object, ...]:
        values: tuple[object, ...] = all_of(message)
        return values if values[-1] else values[:-1]

    return values_of


def _only(name: str) -> Callable[[Message], tuple[object, ...]]:
    get = operator.attrgetter(name)
    return lambda message: (get(message),)


_NUMBERED: dict[int, type[Message]] = {
    REQUEST_PRE_VOTE: RequestPreVote,
    PRE_VOTE_REPLY: PreVoteReply,
    REQUEST_VOTE: RequestVote,
    VOTE_REPLY: VoteReply,
    APPEND_ACCEPTED: AppendAccepted,
    APPEND_REJECTED: AppendRejected,
    SNAPSHOT_RECEIVED: SnapshotReceived,
    REQUEST_STANDING: RequestStanding,
    STANDING_REPLY: StandingReply,
    TIMEOUT_NOW: TimeoutNow,
}
"""The messages of numbers and flags alone: the array has their fields, in order."""
PLAIN: dict[type[Message], tuple[int, Callable[[Message], tuple[object, ...]]]] = {
    kind: (message_type, _values_of(kind)) for message_type, kind in _NUMBERED.items()
}
"""The type of each of these messages, and the function that returns its values."""
_DECODERS: dict[int, Callable[[Buffer], Message]] = {
    **{
        message_type: partial(_decode_plain, kind, _reads(kind), _length_min(kind))
        for message_type, kind in _NUMBERED.items()
    },
    STANDING_REPLY: _decode_standing_reply,
    INSTALL_SNAPSHOT: _decode_install_snapshot,
}
