"""The client protocol on the wire: round trips, errors that keep their meaning, and no bytes that could hurt."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import crc32c
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft import client_codec as wire
from raft.codec import NUMBER_MAX
from raft.errors import (
    Busy,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    ProtocolError,
    RaftError,
    ShuttingDown,
    StorageFull,
)
from raft.membership import AddLearner, Change, ChangeVoters, Promote, Remove
from raft.model import NodeId
from raft.net.crc import JOINING_BYTES
from raft.net.decoder import LARGE_BYTES
from raft.net.framing import HEADER
from raft.record_batch import count_batch, pack_batch, unpack_batches
from raft.results import Appended, Applied, RecordBatch, Records, Tail

numbers = st.integers(0, NUMBER_MAX)

MANY = b"\xdd\x00\x00\xff\xff"
"""The first bytes of an array of 65,535."""


def split(frame: bytes) -> tuple[int, bytes]:
    _, _, message_type, _, _ = HEADER.unpack_from(frame)
    return message_type, frame[HEADER.size :]


def body(frame: bytes) -> bytes:
    return split(frame)[1]


@given(numbers, st.lists(st.binary(max_size=30), min_size=1, max_size=9))
def test_an_append_keeps_its_records_and_their_number(request_id: int, records: list[bytes]) -> None:
    batch = pack_batch(records)
    assert wire.decode_append(body(wire.encode_append(request_id, batch))) == (request_id, batch, len(records), None)


def test_large_records_of_an_append_stay_a_view_of_what_was_received() -> None:
    batch = pack_batch([bytes(LARGE_BYTES)])
    request = body(wire.encode_append(7, batch))
    append = wire.decode_append(memoryview(request))
    assert isinstance(append.records, memoryview)
    assert append.records.obj is request
    assert append == (7, batch, 1, None)


@pytest.mark.parametrize("size", [JOINING_BYTES - 1, JOINING_BYTES, 5 * JOINING_BYTES + 3])
def test_the_crc_of_large_records_is_known_by_that_of_the_frame(size: int) -> None:
    batch = pack_batch([bytes(size)])
    request = body(wire.encode_append(2**40, batch))
    append = wire.decode_append(memoryview(request), crc32c.crc32c(request))
    assert append.crc == (crc32c.crc32c(batch) if len(batch) >= JOINING_BYTES else None)


@given(st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=5), max_size=5))
def test_batches_end_to_end_give_their_records_back(batches: list[list[bytes]]) -> None:
    data = b"".join(pack_batch(batch) for batch in batches)
    records = [record for batch in batches for record in batch]
    assert RecordBatch(0, 1, len(records), data).records() == records


@given(st.binary(max_size=60), st.integers(0, 5))
def test_data_that_is_not_made_of_batches_is_refused(data: bytes, span: int) -> None:
    try:
        records = unpack_batches(data, span)
    except ProtocolError:
        return
    assert len(records) == span


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(msgpack.packb([]), id="no record"),
        pytest.param(msgpack.packb(["text"]), id="text"),
        pytest.param(msgpack.packb([b"a", 1]), id="a number among them"),
        pytest.param(msgpack.packb([b"a"]) * 2, id="two arrays"),
        pytest.param(msgpack.packb({b"a": b"b"}), id="a map"),
        pytest.param(msgpack.packb([b"a"])[:-1], id="cut off"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xdd\x7f\xff\xff\xff", id="a claim of two thousand million"),
        pytest.param(MANY + b"\xc4\x00" * 65534, id="one fewer than it claims"),
        pytest.param(MANY + b"\xc4\x00" * 65536, id="one more than it claims"),
        pytest.param(MANY + b"\xc4\x00" * 65534 + b"\xc4\x01", id="many, the last cut off"),
        pytest.param(MANY + b"\xc4\x00" * 65534 + b"\x90", id="many, and an empty array"),
        pytest.param(MANY + b"\xc4\x00" * 65534 + b"\xc0", id="many, and nothing among them"),
        pytest.param(b"\xdd\x00\x01\x00\x01" + b"\xc4\x00" * 65537, id="one more than a batch holds"),
    ],
)
def test_records_that_are_not_one_batch_are_refused(batch: bytes) -> None:
    with pytest.raises(ProtocolError, match="the records are not"):
        count_batch(batch)


@pytest.mark.parametrize("records", [[], ["text"], [b"a", None]])
def test_a_client_cannot_pack_what_a_node_would_refuse(records: list[bytes]) -> None:
    with pytest.raises(InvalidRequest):
        pack_batch(records)


def test_requests_come_back_as_they_were_sent() -> None:
    assert wire.decode_read(body(wire.encode_read(1, 2, 3))) == wire.Read(1, 2, 3)
    assert wire.decode_bare(body(wire.encode_bare(wire.TAIL, 4))) == 4
    assert wire.decode_apply(body(wire.encode_apply(5, b"c", read_only=True))) == wire.Apply(5, b"c", True)
    for hello in (wire.Hello("demo", wire.PEER, 3), wire.Hello("demo", wire.PEER, 3, "[::1]:4001")):
        assert wire.decode_hello(*split(wire.encode_hello(hello))) == hello


@pytest.mark.parametrize(
    "change",
    [AddLearner(4, "h:1"), AddLearner(4), Promote(4), Remove(4), ChangeVoters(frozenset({1, 4, 5})), NodeId(2)],
    ids=repr,
)
def test_a_change_of_the_members_or_the_leader_comes_back_as_it_was_sent(change: Change | NodeId) -> None:
    assert wire.decode_change(body(wire.encode_change(7, change))) == wire.ChangeRequest(7, change)
    wire.check_change(change)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([7, 0, [1], ""], id="no kind"),
        pytest.param([7, 6, [1], ""], id="a kind of the future"),
        pytest.param([7, 2, [], ""], id="no node"),
        pytest.param([7, 2, [1, 2], ""], id="several nodes where one is due"),
        pytest.param([7, 2, [0], ""], id="an id that is none"),
        pytest.param([7, 4, list(range(1, 66)), ""], id="too many nodes"),
        pytest.param([7, 1, [1], "nowhere"], id="an address that is none"),
        pytest.param([7, 1, [1], "h" * 300 + ":1"], id="an address too long"),
        pytest.param([7, 1, 1, ""], id="no array"),
    ],
)
def test_a_change_that_no_client_sends_is_refused(values: list[object]) -> None:
    with pytest.raises(ProtocolError):
        wire.decode_change(msgpack.packb(values))


def test_replies_come_back_as_they_were_sent() -> None:
    batch = RecordBatch(5, 2, 1, pack_batch([b"r"]))
    expected: list[tuple[bytes, wire.Reply]] = [
        (wire.encode_appended(7, 10, 2, 3), Appended(10, 2, 3)),
        (wire.encode_records(7, 9, [batch]), Records(9, (batch,))),
        (wire.encode_tail_reply(7, 9, 3), Tail(9, 3)),
        (wire.encode_applied(7, 4, b"result"), Applied(4, b"result")),
        (wire.encode_status_reply(7, {"term": 3, "voters": [1, 2]}), {"term": 3, "voters": [1, 2]}),
    ]
    for frame, reply in expected:
        assert wire.decode_reply(*split(frame)) == (7, reply)


@pytest.mark.parametrize(
    "error",
    [
        NotLeader(2, "127.0.0.1:4002"),
        NotLeader(),
        Busy("full"),
        StorageFull("no room"),
        InvalidRequest("nonsense"),
        OutcomeUnknown("cut"),
        ProtocolError("garbage"),
        ShuttingDown(),
    ],
    ids=repr,
)
def test_an_error_keeps_its_meaning(error: RaftError) -> None:
    request_id, decoded = wire.decode_error(body(wire.encode_error(7, error)))
    assert (request_id, type(decoded), repr(decoded)) == (7, type(error), repr(error))
    assert decoded.definite == error.definite


def test_an_error_of_a_class_of_the_users_own_is_sent_as_what_it_is_derived_from() -> None:
    class WrongKey(InvalidRequest):
        """An error that a state machine may raise."""

    _, error = wire.decode_error(body(wire.encode_error(7, WrongKey("no such key"))))
    assert (type(error), str(error)) == (InvalidRequest, str(InvalidRequest("no such key")))


def test_a_detail_that_is_no_text_is_told_as_text() -> None:
    _, error = wire.decode_error(body(wire.encode_error(7, InvalidRequest(5))))  # type: ignore[arg-type]
    assert str(error) == str(InvalidRequest("5"))


def test_a_newer_error_that_is_not_definite_leaves_the_outcome_unknown() -> None:
    values = [7, "quota_of_the_future", False, 0, "", "text"]
    _, error = wire.decode_error(msgpack.packb(values))
    assert isinstance(error, OutcomeUnknown)


def test_a_known_code_that_is_not_definite_leaves_the_outcome_unknown() -> None:
    _, error = wire.decode_error(msgpack.packb([7, "busy", False, 0, "", "text"]))
    assert not error.definite


decoders: list[Callable[[bytes], object]] = [
    wire.decode_append,
    wire.decode_read,
    wire.decode_bare,
    wire.decode_apply,
    wire.decode_change,
    lambda body: wire.decode_hello(wire.HELLO, body),
    lambda body: wire.decode_hello_reply(wire.HELLO_REPLY, body),
    *(
        lambda body, message_type=message_type: wire.decode_reply(message_type, body)
        for message_type in (wire.APPENDED, wire.RECORDS, wire.TAIL_REPLY, wire.APPLIED, wire.STATUS_REPLY, wire.ERROR)
    ),
]

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=9), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=12,
)


@given(st.sampled_from(decoders), st.one_of(st.binary(max_size=60), values.map(msgpack.packb)))
def test_any_bytes_are_understood_or_refused(decode: Callable[[bytes], object], body: bytes) -> None:
    with suppress(ProtocolError):
        decode(body)


@given(st.binary(max_size=4), st.integers(0, 255), st.binary(max_size=300), st.booleans())
def test_a_batch_of_one_short_record_is_counted_as_the_parser_counts_it(
    head: bytes, length: int, rest: bytes, fits: bool
) -> None:
    batch = b"\x91\xc4" + bytes([length]) + (rest + bytes(length))[:length] if fits else b"\x91\xc4" + head + rest
    try:
        parsed = msgpack.unpackb(batch)
    except ValueError:
        with pytest.raises(ProtocolError):
            count_batch(batch)
    else:
        assert count_batch(batch) == len(parsed) == 1


@pytest.mark.parametrize("count", [2, 15, 16, 64, 65, 1000, 65535, 65536])
def test_a_batch_of_any_length_is_counted_whatever_buffer_it_is_in(count: int) -> None:
    batch = msgpack.packb([b"r" * (number % 3) for number in range(count)])
    assert count_batch(batch) == count_batch(memoryview(batch)) == count


@pytest.mark.parametrize("claim", [2, 16, 64, 65, 1000, 65535])
@pytest.mark.parametrize("before", [0, 1, 40])
def test_arrays_in_arrays_are_refused_without_room_for_what_they_claim_to_hold(claim: int, before: int) -> None:
    header = b"\xdc" + claim.to_bytes(2, "big")
    batch = header + (b"\xc4\x00" * before + header * 22_000)[: 65536 - 3]
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            count_batch(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("size", [0, 5, 2**16, 3 * 2**16])
def test_a_batch_of_one_long_record_is_counted_as_the_parser_counts_it(size: int) -> None:
    batch = b"\x91\xc6" + size.to_bytes(4, "big") + bytes(size)
    assert count_batch(batch) == len(msgpack.unpackb(batch)) == 1
    for wrong in (batch + b"\0", batch[:-1], batch[:5], b"\x91\xc9" + batch[2:], b"\x92" + batch[1:]):
        with pytest.raises(ProtocolError):
            count_batch(wrong)


@given(st.integers(0, 255), st.binary(max_size=30))
def test_a_connection_begins_with_hello_and_nothing_else(message_type: int, body: bytes) -> None:
    try:
        wire.decode_hello(message_type, body)
    except ProtocolError:
        return
    assert message_type == wire.HELLO
