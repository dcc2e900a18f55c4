"""Peer messages on the wire: round trips, pinned bytes, and no bytes that could hurt."""

from collections.abc import Sequence
from typing import Any

import crc32c
import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log.frame import Payload, Pieces
from raft import codec
from raft.codec import APPEND_ENTRIES, NUMBER_MAX, decode_message, encode_message
from raft.errors import ProtocolError
from raft.membership import Configuration, ConfigurationEntry, Membership
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
    VoteReply,
)
from raft.model import NOOP, Batch, Entry, EntryKind, LogIndex, LogStart, NodeId, Offset, Position, Term
from raft.net.crc import JOINING_BYTES
from raft.net.decoder import LARGE_BYTES, Buffer
from raft.net.framing import HEADER, FrameDecoder

numbers = st.integers(0, NUMBER_MAX)
terms = numbers.map(Term)
indexes = numbers.map(LogIndex)


STORED_TERM = 3
STORED = Membership(
    [ConfigurationEntry(LogIndex(7), Term(STORED_TERM), Configuration([NodeId(1), NodeId(2)]))]
).encode()


def batch_of(data: bytes, kind: EntryKind = EntryKind.RECORDS, span: int = 1, timestamp_ms: int = 0) -> Batch:
    return Batch(kind, span, timestamp_ms, data, crc32c.crc32c(data))


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    nodes = draw(st.lists(st.integers(1, 2**31 - 1).map(NodeId), min_size=1, max_size=5, unique=True))
    parts = [draw(st.sampled_from([1, 1, 2, 3, 4])) for _ in nodes[1:]]
    voters, outgoing, learners = (
        [node for node, part in zip(nodes, [1, *parts], strict=True) if part & bit] for bit in (1, 2, 4)
    )
    directory_ids = draw(st.dictionaries(st.sampled_from(nodes), st.integers(1, 2**60)))
    address = st.builds("{}:{}".format, st.text("abc.-1", min_size=1, max_size=20), st.integers(1, 65_535))
    addresses = draw(st.dictionaries(st.sampled_from(nodes), address))
    return Configuration(voters, learners, outgoing, directory_ids, addresses)


@st.composite
def append_entries(draw: st.DrawFn) -> AppendEntries:
    prev_index = draw(st.integers(0, 2**40))
    prev_term = draw(st.integers(1, 2**40)) if prev_index else 0
    offset = draw(st.integers(0, 2**40)) if prev_index else 0
    last_term = max(prev_term, 1)
    entries = []
    for step, kind in enumerate(draw(st.lists(st.sampled_from(EntryKind), max_size=4)), 1):
        last_term += draw(st.integers(0, 2))
        span = draw(st.integers(1, 9)) if kind is EntryKind.RECORDS else 0
        is_configuration = kind is EntryKind.CONFIGURATION
        data = draw(configurations()).encode() if is_configuration else draw(st.binary(max_size=40))
        batch = batch_of(data, kind, span, draw(numbers))
        entries.append(Entry(LogIndex(prev_index + step), Term(last_term), Offset(offset), batch))
        offset += span
    term = Term(last_term + draw(st.integers(0, 2)))
    return AppendEntries(term, LogIndex(prev_index), Term(prev_term), draw(indexes), draw(numbers), tuple(entries))


@st.composite
def install_snapshots(draw: st.DrawFn) -> InstallSnapshot:
    term = draw(st.integers(1, NUMBER_MAX))
    start_term = draw(st.integers(1, term))
    index = draw(st.integers(1, 2**40))
    more = draw(st.integers(0, 2**40))
    applied_term = draw(st.integers(start_term, term)) if more else start_term
    start = LogStart(
        Position(LogIndex(index), Term(start_term)),
        Offset(draw(numbers)),
        Position(LogIndex(index + more), Term(applied_term)),
        draw(st.binary(max_size=40)),
    )
    offset = draw(st.integers(0, NUMBER_MAX - len(start.snapshot)))
    bytes_left = draw(st.integers(0, NUMBER_MAX - len(start.snapshot) - offset)) if start.snapshot else 0
    configuration = draw(st.sampled_from([b"", STORED] if term >= STORED_TERM else [b""]))
    return InstallSnapshot(Term(term), start, draw(numbers), offset, bytes_left, configuration)


messages = st.one_of(
    append_entries(),
    st.builds(RequestPreVote, terms, indexes, terms),
    st.builds(PreVoteReply, terms, st.booleans(), numbers),
    st.builds(RequestVote, terms, indexes, terms, st.booleans()),
    st.builds(VoteReply, terms, st.booleans(), numbers),
    st.builds(AppendAccepted, terms, indexes, indexes, numbers, numbers),
    st.builds(AppendRejected, terms, indexes, indexes, terms, numbers, numbers),
    install_snapshots(),
    st.builds(SnapshotReceived, terms, indexes, numbers, numbers, numbers),
    st.builds(TimeoutNow, terms),
)


def split(pieces: Sequence[Buffer]) -> tuple[int, bytes]:
    frame = b"".join(pieces)
    _, _, message_type, _, _ = HEADER.unpack_from(frame)
    return message_type, frame[HEADER.size :]


@given(messages)
def test_a_message_comes_back_as_it_was_sent(message: Message) -> None:
    assert decode_message(*split(encode_message(message))) == message


GOLDEN: list[Any] = [
    pytest.param(
        RequestPreVote(Term(5), LogIndex(7), Term(4)), "00000004 01 40 5d5b 17e9d2c2 93050704", id="RequestPreVote"
    ),
    pytest.param(PreVoteReply(Term(5), granted=True), "00000003 01 41 ba31 597bd725 9205c3", id="PreVoteReply"),
    pytest.param(RequestVote(Term(5), LogIndex(7), Term(4)), "00000004 01 42 2dac 17e9d2c2 93050704", id="RequestVote"),
    pytest.param(VoteReply(Term(5), granted=False), "00000003 01 43 cac6 ab105426 9205c2", id="VoteReply"),
    pytest.param(
        AppendEntries(
            Term(5),
            LogIndex(7),
            Term(4),
            LogIndex(6),
            300,
            (
                Entry(LogIndex(8), Term(5), Offset(10), NOOP),
                Entry(LogIndex(9), Term(5), Offset(10), batch_of(b"\x91\xc4\x01a", timestamp_ms=2**40)),
            ),
        ),
        "0000002a 01 44 f982 935a3120 9705070406cd012c0a92960500000000c40096050101cf0000010000000000ce7c7542ebc40491c40161",
        id="AppendEntries",
    ),
    pytest.param(
        AppendAccepted(Term(5), LogIndex(7), LogIndex(9), 300),
        "00000007 01 45 8934 9889e6d8 94050709cd012c",
        id="AppendAccepted",
    ),
    pytest.param(
        AppendRejected(Term(5), LogIndex(7), LogIndex(3), Term(2), 300),
        "00000008 01 46 206c d9507293 9505070302cd012c",
        id="AppendRejected",
    ),
    pytest.param(
        InstallSnapshot(
            Term(5),
            LogStart(
                Position(LogIndex(7), Term(3)), Offset(2**40), Position(LogIndex(300), Term(4)), b"\x92\x01\xc4\x01a"
            ),
            300,
            offset=10,
            bytes_left=5,
        ),
        "0000001d 01 47 e881 9137abe7 9a05cd012c0703cf0000010000000000cd012c040a14c4059201c40161",
        id="InstallSnapshot",
    ),
    pytest.param(
        SnapshotReceived(Term(5), LogIndex(7), 300, 2),
        "00000007 01 48 c5e7 c312c45e 940507cd012c02",
        id="SnapshotReceived",
    ),
    pytest.param(TimeoutNow(Term(5)), "00000002 01 4b 0077 1334f0c1 9105", id="TimeoutNow"),
    pytest.param(
        VoteReply(Term(5), granted=True, directory_id=9),
        "00000004 01 43 aeaf e29fc330 9305c309",
        id="VoteReply of another directory",
    ),
    pytest.param(
        AppendAccepted(Term(5), LogIndex(7), LogIndex(9), 300, directory_id=9),
        "00000008 01 45 d398 3a61c538 95050709cd012c09",
        id="AppendAccepted of another directory",
    ),
    pytest.param(
        RequestVote(Term(5), LogIndex(7), Term(4), is_transfer=True),
        "00000005 01 42 bfd2 087737c4 94050704c3",
        id="RequestVote at a transfer",
    ),
    pytest.param(
        AppendEntries(
            Term(5),
            LogIndex(7),
            Term(4),
            LogIndex(6),
            300,
            (
                Entry(
                    LogIndex(8),
                    Term(5),
                    Offset(10),
                    Configuration([NodeId(1)], [NodeId(4)], [NodeId(1), NodeId(2)], {}, {NodeId(4): "a:1"}).to_batch(),
                ),
            ),
        ),
        "0000002b 01 44 6bfc c6c2aa85 9705070406cd012c0a919605030000ce4044e312c41592019394010300a094020200a094040400a3613a31",
        id="AppendEntries with a configuration",
    ),
]


@pytest.mark.parametrize(("message", "golden"), GOLDEN)
def test_the_bytes_of_a_message_never_change(message: Message, golden: str) -> None:
    assert b"".join(encode_message(message)) == bytes.fromhex(golden)


@pytest.mark.parametrize(
    "sizes", [(LARGE_BYTES,), (LARGE_BYTES, 0, LARGE_BYTES + 1), (3, LARGE_BYTES - 1, 5 * LARGE_BYTES, 40)], ids=str
)
def test_large_data_that_is_spared_a_copy_is_on_the_wire_what_msgpack_makes_of_it(sizes: tuple[int, ...]) -> None:
    batches = [batch_of(bytes([size % 256]) * size, timestamp_ms=12) for size in sizes]
    entries = tuple(Entry(LogIndex(8 + at), Term(4), Offset(30 + at), batch) for at, batch in enumerate(batches))
    message = AppendEntries(Term(5), LogIndex(7), Term(4), LogIndex(6), 300, entries)
    rows = [(4, int(EntryKind.RECORDS), 1, 12, batch.crc, batch.data) for batch in batches]
    pieces = encode_message(message)
    assert split(pieces) == (APPEND_ENTRIES, msgpack.packb((5, 7, 4, 6, 300, 30, rows)))
    assert all(any(piece is batch.data for piece in pieces) for batch in batches if len(batch.data) >= LARGE_BYTES)


@pytest.mark.parametrize("sizes", [(LARGE_BYTES,), (0, 3, 5 * LARGE_BYTES)], ids=str)
def test_large_data_that_ends_a_message_stays_a_view_of_what_was_received(sizes: tuple[int, ...]) -> None:
    batches = [batch_of(bytes([size % 256]) * size, timestamp_ms=0xC6C6C6) for size in sizes]
    entries = tuple(Entry(LogIndex(8 + at), Term(4), Offset(30 + at), batch) for at, batch in enumerate(batches))
    message = AppendEntries(Term(5), LogIndex(7), Term(4), LogIndex(6), 300, entries)
    message_type, body = split(encode_message(message))
    received = decode_message(message_type, memoryview(body))
    assert received == message
    assert isinstance(received, AppendEntries)
    *others, last = (entry.batch.data for entry in received.entries)
    assert isinstance(last, memoryview)
    assert last.obj is body
    assert all(type(data) is bytes for data in others)
    assert split(encode_message(received)) == (message_type, body)


def large_message(data: Payload, *, crc: int) -> AppendEntries:
    batch = Batch(EntryKind.RECORDS, 1, 12, data, crc)
    return AppendEntries(
        Term(5), LogIndex(7), Term(4), LogIndex(6), 300, (Entry(LogIndex(8), Term(4), Offset(30), batch),)
    )


@pytest.mark.parametrize("size", [LARGE_BYTES, JOINING_BYTES - 1, JOINING_BYTES, 3 * JOINING_BYTES + 5])
def test_data_in_pieces_is_on_the_wire_what_it_is_joined(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    pieces = Pieces([data[: size // 3], memoryview(data)[size // 3 : size - 10], data[size - 10 : size]])
    crc = crc32c.crc32c(data[:size])
    sent = encode_message(large_message(pieces, crc=crc))
    assert b"".join(sent) == b"".join(encode_message(large_message(data[:size], crc=crc)))
    assert FrameDecoder(2**30).feed(b"".join(sent))
    assert all(any(piece is buffer for piece in sent) for buffer in pieces.buffers)


@pytest.mark.parametrize("size", [JOINING_BYTES - 1, JOINING_BYTES, 3 * JOINING_BYTES + 5])
@pytest.mark.parametrize("is_true", [True, False])
def test_large_data_is_checked_against_its_own_crc_by_that_of_the_frame(size: int, is_true: bool) -> None:
    data = bytes(size)
    message = large_message(data, crc=crc32c.crc32c(data) ^ (not is_true))
    body = split(encode_message(message))[1]
    crc = crc32c.crc32c(body)
    if is_true:
        assert decode_message(APPEND_ENTRIES, memoryview(body), crc) == message
    else:
        with pytest.raises(ProtocolError, match=f"the CRC of a batch of {size} bytes is wrong"):
            decode_message(APPEND_ENTRIES, memoryview(body), crc)


@st.composite
def large_bodies(draw: st.DrawFn) -> bytes:
    """Something before data, in which a long binary seems to begin at more than one place."""
    tag, rest = b"\xc6", bytes(LARGE_BYTES)
    rest = tag + len(rest).to_bytes(4, "big") + rest
    begins = [
        b"\x91",
        b"\x92",
        b"\x93",
        b"\x95",
        b"\xcc",
        b"\xcd",
        b"\xcf\0\0\0",
        b"\xc4\2",
        b"\xc4\7xx",
        b"\xa2",
        b"\0",
        b"\7",
    ]
    for piece in draw(st.lists(st.sampled_from([tag, *begins]) | st.binary(min_size=1, max_size=1), max_size=12)):
        rest = (tag + len(rest).to_bytes(4, "big") if piece == tag else piece) + rest
    return rest


LARGE_BINARY = b"\xc6" + LARGE_BYTES.to_bytes(4, "big") + bytes(LARGE_BYTES)


@given(large_bodies(), st.integers(1, 5))
@example(b"\x92\7\xc4\2" + LARGE_BINARY, 2)  # what comes before ends as if with something empty, in a binary of its own
def test_an_array_with_data_is_what_msgpack_makes_of_it(body: bytes, length: int) -> None:
    try:
        expected = codec.unpack_array(body, length=length, array_max=2**20)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            codec.unpack_array_with_data(body, length=length, array_max=2**20)
    else:
        assert codec.unpack_array_with_data(body, length=length, array_max=2**20) == expected


@pytest.mark.parametrize(
    "before",
    [
        [0xC600010005],  # in the integer stands what announces the rest of the array
        [b"\0\xc6\0\1\0\5"],
        [[[1, 2], 3]],
    ],
    ids=str,
)
def test_data_begins_where_an_element_does(before: list[object]) -> None:
    values = [*before, bytes(LARGE_BYTES)]
    body = msgpack.packb(values)
    assert codec.unpack_array_with_data(body, length=2, array_max=2**20) == values


nonsense = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.binary(max_size=20),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=20,
)


def decodes_or_refuses(message_type: int, body: bytes) -> Message | None:
    try:
        return decode_message(message_type, body)
    except ProtocolError as error:
        said = str(error)
    assert len(said) < 300  # it goes into a log, whatever was sent
    return None


@given(st.integers(60, 75), st.binary(max_size=200))
def test_any_bytes_decode_to_a_message_or_are_refused(message_type: int, body: bytes) -> None:
    decodes_or_refuses(message_type, body)


@given(st.integers(64, 71), nonsense)
def test_any_msgpack_decodes_to_a_message_or_is_refused(message_type: int, values: object) -> None:
    message = decodes_or_refuses(message_type, msgpack.packb(values))
    if message is not None:
        assert decode_message(*split(encode_message(message))) == message


@given(messages, st.data())
def test_a_message_with_one_wrong_field_decodes_to_a_message_or_is_refused(
    message: Message, data: st.DataObject
) -> None:
    message_type, body = split(encode_message(message))
    values = msgpack.unpackb(body)
    at = data.draw(st.integers(0, len(values) - 1))
    values[at] = data.draw(nonsense)
    decoded = decodes_or_refuses(message_type, msgpack.packb(values))
    if decoded is not None:
        assert encode_message(decoded)


def row(
    term: object = 3,
    kind: object = 1,
    span: object = 1,
    timestamp_ms: object = 0,
    crc: object = None,
    data: object = b"d",
) -> list[object]:
    return [term, kind, span, timestamp_ms, crc32c.crc32c(b"d") if crc is None else crc, data]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        pytest.param([3, 4, 2, 1, 0, 0, [row(term=1)]], "the term of an entry", id="a term that falls"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(term=4)]], "the term of an entry", id="a term above the sender's"),
        pytest.param([3, 4, 5, 1, 0, 0, []], "prev_term", id="a previous term above the sender's"),
        pytest.param([3, 0, 2, 1, 0, 0, []], "no log has", id="a term before the log"),
        pytest.param([3, 4, 0, 1, 0, 0, []], "no log has", id="an index without a term"),
        pytest.param([3, 0, 0, 1, 0, 5, []], "no log has", id="offsets before the log"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(kind=9)]], "kind", id="an unknown kind"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(span=0)]], "span", id="records that take no offset"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(kind=2, span=1)]], "span", id="commands that take offsets"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(crc=1)]], "CRC", id="data that does not fit its CRC"),
        pytest.param([3, 4, 2, 1, 0, 0, [row(data="d")]], "binary", id="data that is text"),
        pytest.param([3, 4, 2, 1, 0, 0, [row()[:5]]], "an array of 6", id="a short entry"),
        pytest.param([3, 4, 2, 1, 0, 0, 1], "array", id="no entries"),
        pytest.param([3, NUMBER_MAX, 2, 1, 0, 0, [row()]], "index of an entry", id="an index out of range"),
        pytest.param([3, 4, 2, 1, 0, NUMBER_MAX, [row()]], "offset of a record", id="an offset out of range"),
        pytest.param([True, 4, 2, 1, 0, 0, []], "term", id="a boolean for a number"),
        pytest.param([2**63, 4, 2, 1, 0, 0, []], "term", id="a term out of range"),
        pytest.param([-1, 4, 2, 1, 0, 0, []], "term", id="a negative term"),
        pytest.param([3, 4, 2, 1, 0, 0], "an array of 7", id="too few values"),
    ],
)
def test_entries_that_no_leader_sends_are_refused(values: list[object], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_message(codec.APPEND_ENTRIES, msgpack.packb(values))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        pytest.param([5, 0, 0, 3, 2, 9, 4, 0, 0, b""], "start_index", id="where nothing has left"),
        pytest.param([5, 0, NUMBER_MAX + 1, 3, 2, 9, 4, 0, 0, b""], "start_index", id="an index out of range"),
        pytest.param([5, 0, 7, 0, 2, 9, 4, 0, 0, b""], "start_term", id="an index without a term"),
        pytest.param([5, 0, 7, 6, 2, 9, 6, 0, 0, b""], "start_term", id="a term above the sender's"),
        pytest.param([5, 0, 7, 3, -1, 9, 4, 0, 0, b""], "start_offset", id="an offset before the first"),
        pytest.param([5, 0, 7, 3, 2, 6, 3, 0, 0, b""], "applied_index", id="what left was not applied"),
        pytest.param([5, 0, 7, 3, 2, 9, 2, 0, 0, b""], "applied_term", id="a term that falls"),
        pytest.param([5, 0, 7, 3, 2, 9, 6, 0, 0, b""], "applied_term", id="an applied term above the sender's"),
        pytest.param([5, 0, 7, 3, 2, 7, 4, 0, 0, b""], "two terms", id="one place of two terms"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 0, 4, "text"], "part", id="a snapshot that is text"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 0, 0], "an array of 10", id="too few values"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 0, 0, b"", b"", 1], "array", id="too many values"),
        pytest.param([0, 0, 7, 0, 2, 9, 0, 0, 0, b""], "start_term", id="before any term"),
        pytest.param([5, -1, 7, 3, 2, 9, 4, 0, 0, b""], "round", id="a negative round"),
        pytest.param([5, True, 7, 3, 2, 9, 4, 0, 0, b""], "round", id="a boolean for a number"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 3, 2, b""], "offset", id="a part behind the end"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 0, NUMBER_MAX + 1, b""], "total", id="a size out of range"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 1, 3, b"abc"], "no part of a snapshot of 3", id="a part across the end"),
        pytest.param([5, 0, 7, 3, 2, 9, 4, 1, 3, b""], "no part of a snapshot of 3", id="an empty part before the end"),
    ],
)
def test_a_snapshot_that_no_leader_sends_is_refused(values: list[object], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_message(codec.INSTALL_SNAPSHOT, msgpack.packb(values))


def test_a_large_snapshot_comes_back_as_it_was_sent() -> None:
    start = LogStart(
        Position(LogIndex(7), Term(3)), Offset(2), Position(LogIndex(7), Term(3)), b"s" * (5 * LARGE_BYTES)
    )
    message = InstallSnapshot(Term(5), start, 1)
    assert decode_message(*split(encode_message(message))) == message


def test_an_array_that_claims_more_than_was_sent_is_refused_before_room_is_made_for_it() -> None:
    nested = b"\xdd\x7f\xff\xff\xff" * 100
    with pytest.raises(ProtocolError):
        decode_message(codec.APPEND_ENTRIES, nested)
