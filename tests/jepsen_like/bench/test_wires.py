"""The load generator's wires: an acknowledgement counts once its last byte is there, however the stream was cut."""

import itertools
import json
import struct
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers import etcd_wire, zookeeper_wire
from benchmarks.peers.etcd_wire import EtcdConversation
from benchmarks.peers.nats_wire import NatsConversation
from benchmarks.peers.zookeeper_wire import ZooKeeperConversation
from jepsen_like.bench.conversation import Conversation, LoadShape, NotAnAnswer, payload
from jepsen_like.bench.own_wire import QuorumlogConversation
from raft import client_codec
from raft.errors import NotLeader
from raft.record_batch import unpack_batches

ONE = LoadShape(1, 100)
BATCH = LoadShape(1, 100, 16)
GRPC_ANSWER = b"\0" + struct.pack("!I", 4) + b"\x0a\x02\x08\x01"
SET_REPLY = zookeeper_wire.frame(zookeeper_wire.REPLY.pack(1, 7, 0) + bytes(zookeeper_wire.STAT_BYTES))


def etcd_answer(stream: int) -> bytes:
    """Returns the frames that answer a successful call."""
    return (
        etcd_wire.frame(etcd_wire.HEADERS, etcd_wire.END_HEADERS, stream, b"\x88")
        + etcd_wire.frame(etcd_wire.DATA, 0, stream, GRPC_ANSWER)
        + etcd_wire.frame(etcd_wire.HEADERS, etcd_wire.END_HEADERS | etcd_wire.END_STREAM, stream, b"\x40")
    )


def greeted_zookeeper(load: LoadShape = ONE) -> ZooKeeperConversation:
    conversation = ZooKeeperConversation(load, 0)
    conversation.take(zookeeper_wire.frame(struct.pack("!iiq", 0, 30000, 9) + zookeeper_wire.buffer(bytes(16)) + b"\0"))
    assert conversation.greeted
    return conversation


def nats_message(body: bytes) -> bytes:
    return b"MSG _INBOX.bench.0 1 %d\r\n%s\r\n" % (len(body), body)


ANSWERED: Sequence[tuple[str, Callable[[], Conversation], bytes]] = [
    ("quorumlog", lambda: QuorumlogConversation(ONE), client_codec.encode_appended(1, 5, 1, 2) * 3),
    ("etcd", lambda: EtcdConversation(ONE, 0), b"".join(etcd_answer(stream) for stream in (1, 3, 5))),
    ("zookeeper", greeted_zookeeper, SET_REPLY * 3),
    ("nats", lambda: NatsConversation(ONE, 0), nats_message(b'{"stream":"BENCH", "seq":1}') * 3),
]


def pieces(stream: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return (stream[start:end] for start, end in itertools.pairwise(edges) if end > start)


@pytest.mark.parametrize(("make", "stream"), [row[1:] for row in ANSWERED], ids=[row[0] for row in ANSWERED])
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_three_answers_count_three_times_however_the_stream_is_cut(
    make: Callable[[], Conversation], stream: bytes, cuts: list[int]
) -> None:
    conversation = make()
    assert sum(conversation.take(piece) for piece in pieces(stream, cuts)) == 3
    assert conversation.refusal == ""


@pytest.mark.parametrize(("make", "stream"), [row[1:] for row in ANSWERED], ids=[row[0] for row in ANSWERED])
def test_an_answer_without_its_last_byte_does_not_count(make: Callable[[], Conversation], stream: bytes) -> None:
    conversation = make()
    assert conversation.take(stream[:-1]) == 2
    assert conversation.take(stream[-1:]) == 1


def test_refusals_do_not_count_and_are_told() -> None:
    own = QuorumlogConversation(ONE)
    assert own.take(client_codec.encode_error(1, NotLeader(2, "127.0.0.1:1"))) == 0
    etcd = EtcdConversation(ONE, 0)
    flags = etcd_wire.END_HEADERS | etcd_wire.END_STREAM
    assert etcd.take(etcd_wire.frame(etcd_wire.HEADERS, flags, 1, b"\x88")) == 0
    keeper = greeted_zookeeper()
    assert keeper.take(zookeeper_wire.frame(zookeeper_wire.REPLY.pack(1, 7, -101))) == 0
    nats = NatsConversation(ONE, 0)
    assert nats.take(nats_message(b'{"error":{"code":503},"stream":"BENCH","seq":0}')) == 0
    for conversation in (own, etcd, keeper, nats):
        assert conversation.refusal


def test_a_batch_of_nats_is_done_when_each_message_is_acknowledged() -> None:
    nats = NatsConversation(BATCH, 0)
    assert nats.request().count(b"PUB ") == 16
    answer = nats_message(b'{"stream":"BENCH", "seq":1}')
    assert nats.take(answer * 15) == 0
    assert nats.take(answer) == 1


def test_a_batch_of_zookeeper_is_one_transaction_and_fails_as_a_whole() -> None:
    done = struct.pack("!i?i", zookeeper_wire.SET_DATA, False, 0) + bytes(zookeeper_wire.STAT_BYTES)
    failed = struct.pack("!i?i", -1, False, -101) + struct.pack("!i", -101)
    end = struct.pack("!i?i", -1, True, -1)
    header = zookeeper_wire.REPLY.pack(1, 7, 0)
    keeper = greeted_zookeeper(BATCH)
    assert keeper.take(zookeeper_wire.frame(header + done * 16 + end)) == 1
    assert keeper.take(zookeeper_wire.frame(header + failed * 16 + end)) == 0


def test_nonsense_is_no_answer() -> None:
    with pytest.raises(NotAnAnswer):
        QuorumlogConversation(ONE).take(b"HTTP/1.1 400 Bad")
    with pytest.raises(NotAnAnswer):
        NatsConversation(ONE, 0).take(b"HTTP/1.1 400 Bad\r\n")
    with pytest.raises(NotAnAnswer):
        greeted_zookeeper().take(zookeeper_wire.frame(zookeeper_wire.REPLY.pack(2, 7, 0)))
    with pytest.raises(NotAnAnswer):
        EtcdConversation(ONE, 0).take(etcd_wire.frame(etcd_wire.DATA, 0, 1, GRPC_ANSWER[:-1]))


def sent_data(stream: bytes) -> bytes:
    """The payload of the DATA frames in what a client sent."""
    data, at = b"", 0
    while at < len(stream):
        high, low, kind, _, _ = struct.unpack_from("!HBBBI", stream, at)
        end = at + 9 + (high << 8 | low)
        if kind == etcd_wire.DATA:
            assert end - at - 9 <= etcd_wire.FRAME_BYTES_MAX
            data += stream[at + 9 : end]
        at = end
    return data


def test_a_large_put_keeps_to_the_room_that_the_server_gives() -> None:
    load = LoadShape(1, 200_000)
    etcd = EtcdConversation(load, 0)
    sent = sent_data(etcd.request())
    assert len(sent) == etcd_wire.WINDOW_DEFAULT
    more = struct.pack("!I", 50_000)
    etcd.take(etcd_wire.frame(etcd_wire.WINDOW_UPDATE, 0, 1, more))
    assert etcd.owed == b"", "the connection as a whole has no room yet"
    etcd.take(etcd_wire.frame(etcd_wire.WINDOW_UPDATE, 0, 0, struct.pack("!I", 2**20)))
    sent += sent_data(etcd.owed)
    assert len(sent) == etcd_wire.WINDOW_DEFAULT + 50_000
    etcd.owed = b""
    etcd.take(etcd_wire.frame(etcd_wire.SETTINGS, 0, 0, struct.pack("!HI", etcd_wire.INITIAL_WINDOW_SIZE, 2**20)))
    sent += sent_data(etcd.owed)
    assert sent.endswith(payload(load.record_bytes))
    assert int.from_bytes(sent[1:5], "big") == len(sent) - 5


def test_what_a_protocol_asks_back_is_owed() -> None:
    pong = etcd_wire.frame(etcd_wire.PING, etcd_wire.ACK, 0, b"12345678")
    large = EtcdConversation(LoadShape(1, 200_000), 0)
    large.take(etcd_wire.frame(etcd_wire.PING, 0, 0, b"12345678"))
    assert large.owed == pong
    small = EtcdConversation(ONE, 0)
    small.take(etcd_wire.frame(etcd_wire.PING, 0, 0, b"12345678"))
    assert b"".join(small.request() for _ in range(2 * etcd_wire.PONG_EVERY)).count(pong) == 1
    nats = NatsConversation(ONE, 0)
    nats.take(b"INFO " + json.dumps({"version": "2"}).encode() + b"\r\nPING\r\n")
    assert nats.owed == b"PONG\r\n"


def test_an_own_request_is_one_append_of_the_whole_batch() -> None:
    request = QuorumlogConversation(BATCH).request()
    body = client_codec.decode_append(request[12:])
    assert body.span == 16
    assert unpack_batches(body.records, 16) == [payload(100, number) for number in range(16)]
