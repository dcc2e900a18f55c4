"""The client: one call is one attempt, and its outcome is exact whatever the connection does."""

import os
import random
import re
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio
import trio.testing

from log.memory_disk import MemoryDisk
from raft import client_codec as wire
from raft.client import Attempt, Client, Connection, Unreachable
from raft.errors import InvalidRequest, NotLeader, OutcomeUnknown, ProtocolError, RaftError
from raft.group import RaftGroup
from raft.net.certificates import Certificates
from raft.net.dialing import dial
from raft.net.framing import Frame, FrameDecoder, encode_frame
from raft.net.tls_socket import StreamSocket
from raft.register import RegisterMachine
from raft.results import Tail
from raft.settings import NodeSettings
from tests.listening import listening
from tests.ports import free_ports
from tests.raft.shell.nodes import CLUSTER_ID, FAST, LocalCluster, local_cluster, until

Script = Callable[[Frame], bytes | None]
"""Returns the answer of a false node to a request; None closes the connection."""


@asynccontextmanager
async def false_node(answer: Script) -> AsyncIterator[Connection]:
    """A connection to a node that answers what a test wants."""

    async def serve(stream: trio.SocketStream) -> None:
        decoder = FrameDecoder(1 << 20)
        async with stream:
            async for chunk in stream:
                for frame in decoder.feed(bytes(chunk)):
                    if frame[0] == wire.HELLO:
                        await stream.send_all(wire.encode_hello_reply(wire.HelloReply(1, 1 << 20)))
                    elif (said := answer(frame)) is None:
                        return
                    else:
                        await stream.send_all(said)

    async with listening(serve) as address:
        with trio.fail_after(60):
            async with Connection.open(*address, CLUSTER_ID) as connection:
                yield connection


@asynccontextmanager
async def open_connection(cluster: LocalCluster, *, to_leader: bool = True) -> AsyncIterator[Connection]:
    leader = await cluster.leader()
    address = next(node.group.address for node in cluster.nodes.values() if (node.group is leader) == to_leader)
    async with Connection.open(*address, CLUSTER_ID) as connection:
        yield connection


async def test_every_request_of_the_protocol(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster, open_connection(cluster) as connection:
        appended = await connection.append([b"a", b"b"])
        assert (appended.base_offset, appended.count) == (0, 2)
        assert await connection.tail() == Tail(2, appended.epoch)
        found = await connection.read(1)
        assert [batch.records() for batch in found.batches] == [[b"a", b"b"]]
        await connection.apply(msgpack.packb(["w", "k", 5]))
        answer = await connection.apply(msgpack.packb(["r", "k"]), read_only=True)
        assert msgpack.unpackb(answer.result) == 5
        status = await connection.status()
        assert (status["role"], status["committed_end"], status["voters"]) == ("leader", 2, [1, 2, 3])
        with pytest.raises(InvalidRequest):
            await connection.apply(b"nonsense")
        with pytest.raises(InvalidRequest):
            await connection.apply(b"nonsense", read_only=True)


async def test_many_tasks_share_one_connection(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster, open_connection(cluster) as connection:
        offsets: list[int] = []

        async def append() -> None:
            for _ in range(10):
                appended = await connection.append([b"x"])
                offsets.append(appended.base_offset)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(append)
        assert sorted(offsets) == list(range(200))


async def test_a_cancelled_call_does_not_disturb_the_others(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster, open_connection(cluster) as connection:
        for _ in range(20):
            with trio.move_on_after(0.0005):
                await connection.append([b"x"])
            await connection.status()

        async def append() -> None:
            await connection.append([b"y"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            with trio.move_on_after(0.0005):
                await connection.tail()
            nursery.start_soon(append)


@asynccontextmanager
async def deaf_node(listens: trio.Event) -> AsyncIterator[Connection]:
    """A connection to a node that reads nothing before `listens`, and then takes every append."""

    async def serve(stream: trio.SocketStream) -> None:
        decoder, end = FrameDecoder(1 << 26), 0
        async with stream:
            await stream.send_all(wire.encode_hello_reply(wire.HelloReply(1, 1 << 26)))
            await listens.wait()
            async for chunk in stream:
                for message_type, body, _ in decoder.feed(bytes(chunk)):
                    if message_type == wire.APPEND:
                        await stream.send_all(wire.encode_appended(msgpack.unpackb(body)[0], end, 1, 1))
                        end += 1

    async with listening(serve) as address:
        with trio.fail_after(60):
            async with Connection.open(*address, CLUSTER_ID) as connection:
                yield connection


LARGE = [b"x" * (1 << 25)]
"""More than the sockets hold: it is sent while the node reads."""


async def test_a_call_cancelled_before_its_frame_has_begun_leaves_the_connection_whole() -> None:
    async with deaf_node(listens := trio.Event()) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.append, LARGE)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0) as scope:
            await connection.append([b"behind the large one"])
        assert scope.cancelled_caught
        listens.set()
        assert (await connection.append([b"y"])).base_offset == 1, "the cancelled one was never sent"


async def test_a_call_cancelled_within_its_frame_ends_the_connection() -> None:
    async with deaf_node(trio.Event()) as connection:
        with trio.move_on_after(0.01):
            await connection.append(LARGE)
        with pytest.raises(Unreachable, match="cancelled while it was being sent"):
            await connection.append([b"y"])


async def test_a_connection_cut_before_the_answer_leaves_an_append_unknown() -> None:
    async with false_node(lambda frame: None) as connection:
        with pytest.raises(OutcomeUnknown, match="broke: the node closed it"):
            await connection.append([b"x"])
        with pytest.raises(Unreachable):
            await connection.append([b"y"])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(wire.encode_tail_reply(1, 5, 1), "was not asked for", id="the wrong kind"),
        pytest.param(wire.encode_appended(9, 5, 1, 1), "never made", id="an id of the future"),
        pytest.param(encode_frame(wire.APPENDED, b"\xc1"), "not the msgpack", id="garbage"),
        pytest.param(b"\xff" * 12, "version", id="no frame"),
        pytest.param(wire.encode_error(0, ProtocolError("enough")), "enough", id="an error of the connection"),
    ],
)
async def test_an_answer_of_nonsense_leaves_an_append_unknown(said: bytes, why: str) -> None:
    async with false_node(lambda frame: said) as connection:
        with pytest.raises(OutcomeUnknown, match=why):
            await connection.append([b"x"])
        assert not connection.is_open


async def test_a_node_that_cannot_be_reached_did_nothing() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unreachable, match="refused"):
        await Connection.connect("127.0.0.1", port, CLUSTER_ID)


async def test_a_node_that_never_answers_the_handshake_did_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(Unreachable, match="no answer within"):
        await Connection.connect("127.0.0.1", listening.getsockname()[1], CLUSTER_ID, timeout_s=0.05)


async def dial_and_be_reset(host: str, port: int, tls: Certificates | None) -> StreamSocket:
    """A connection that the other side has reset since it was made."""
    with socket.create_server((host, 0)) as listening:
        connected = await dial(*listening.getsockname())
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
    await trio.lowlevel.wait_readable(connected)
    return connected


async def test_a_connection_that_is_reset_during_the_handshake_did_nothing_and_another_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dials = [dial_and_be_reset, dial_and_be_reset]
    monkeypatch.setattr("raft.client.dial", lambda host, port, tls: (dials.pop() if dials else dial)(host, port, tls))
    with pytest.raises(Unreachable, match="reset by peer"):
        await Connection.connect("127.0.0.1", 1, CLUSTER_ID)
    async with local_cluster(tmp_path, 1) as cluster:
        host, port = (await cluster.leader()).address
        attempts: list[Attempt] = []
        async with Client([f"{host}:{port}"], CLUSTER_ID) as client:
            assert (await client.append([b"x"], on_attempt=attempts.append)).base_offset == 0
    assert [type(attempt.error) for attempt in attempts] == [Unreachable, type(None)]


async def test_another_cluster_is_refused_at_the_handshake(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        await cluster.leader()
        with pytest.raises(ProtocolError, match="this is cluster"):
            await Connection.connect(*cluster.members[1], "another")


async def test_a_batch_above_what_the_node_takes_is_not_even_sent() -> None:
    async with false_node(lambda frame: None) as connection:
        with pytest.raises(InvalidRequest, match="over the node's bound"):
            await connection.append([b"x" * (1 << 20)])
        with pytest.raises(InvalidRequest, match="over the node's bound"):
            await connection.apply(b"x" * (1 << 20))
        assert connection.is_open


WRONG_CALLS: dict[str, tuple[Callable[[Any], Awaitable[object]], str]] = {
    "an offset below zero": (lambda it: it.read(-1), "offset must be an integer from 0"),
    "an offset that is none": (lambda it: it.read("0"), "offset must be an integer from 0"),
    "too many bytes": (lambda it: it.read(0, 1 << 31), "bytes_max must be an integer from 0"),
    "a command that is no bytes": (lambda it: it.apply(["put"]), "a command must be bytes, not list"),
    "a generator of records": (lambda it: it.append(b"x" for _ in range(2)), "a list of bytes, not generator"),
    "a single record": (lambda it: it.append(b"x"), "a list of bytes, not bytes"),
    "a mapping of records": (lambda it: it.append({b"x": b"y"}), "a list of bytes, not dict"),
    "a record that is no bytes": (lambda it: it.append(["x"]), "every record must be bytes"),
}


@pytest.mark.parametrize(("call", "why"), WRONG_CALLS.values(), ids=WRONG_CALLS)
async def test_a_call_with_wrong_arguments_is_refused_before_anything_is_sent(
    call: Callable[[Any], Awaitable[object]], why: str
) -> None:
    asked: list[Frame] = []
    async with false_node(lambda frame: asked.append(frame)) as connection:
        with pytest.raises(InvalidRequest, match=why) as caught:
            await call(connection)
        assert caught.value.definite
        assert connection.is_open
    assert asked == []
    (port,) = free_ports(1)
    async with Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client:
        with pytest.raises(InvalidRequest, match=why):
            await call(client)


async def test_a_query_that_is_no_bytes_is_refused_before_anything_is_sent() -> None:
    (port,) = free_ports(1)
    async with Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client:
        with pytest.raises(InvalidRequest, match="must be bytes, not str"):
            await client.query("get")  # type: ignore[arg-type]


class Fickle(RegisterMachine):
    """Finds out only when it answers that a query is nonsense."""

    def query(self, command: bytes) -> bytes:
        raise InvalidRequest("not in this state")


async def test_a_query_that_the_state_refuses_is_an_error_of_that_call_alone() -> None:
    (port,) = free_ports(1)
    async with (
        RaftGroup.open(
            node_id=1,
            members={1: ("127.0.0.1", port)},
            directory="data",
            cluster_id=CLUSTER_ID,
            state_machine=Fickle(),
            settings=NodeSettings(raft=FAST),
            disk=MemoryDisk(random.Random(1)),
        ),
        Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client,
    ):
        with pytest.raises(InvalidRequest, match="not in this state"):
            await client.query(msgpack.packb(["r", "k"]))
        assert (await client.append([b"x"])).base_offset == 0


async def test_records_may_be_any_sequence(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster, open_connection(cluster) as connection:
        assert (await connection.append((b"a", b"b"))).count == 2
        assert (await connection.append(deque([b"c"]))).base_offset == 2


async def test_an_error_of_the_connection_names_its_kind_once() -> None:
    async with false_node(lambda frame: wire.encode_error(0, ProtocolError("enough"))) as connection:
        with pytest.raises(OutcomeUnknown, match="broke: protocol error: enough; it may"):
            await connection.append([b"x"])


async def test_a_follower_refuses_and_names_the_leader(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.append([b"known to all"])
        async with open_connection(cluster, to_leader=False) as connection:
            with pytest.raises(NotLeader) as caught:
                await connection.append([b"x"])
            host, port = leader.address
            assert caught.value.address in (f"{host}:{port}", None)


async def test_a_client_finds_the_leader_and_tells_of_every_attempt(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.append([b"first"])
        (dead_port,) = free_ports(1)
        followers = [f"{host}:{port}" for host, port in (group.address for group in await cluster.followers())]
        attempts: list[Attempt] = []
        async with Client([f"127.0.0.1:{dead_port}", *followers], CLUSTER_ID) as client:
            assert (await client.append([b"second"], on_attempt=attempts.append)).base_offset == 1
            assert (await client.tail()).committed_end == 2
            assert len((await client.read(0)).batches) == 2
            await client.apply(msgpack.packb(["w", 1, 1]))
        assert isinstance(attempts[0].error, Unreachable)
        assert isinstance(attempts[1].error, NotLeader)
        assert attempts[-1].error is None
        host, port = leader.address
        assert attempts[-1].address == f"{host}:{port}"


async def test_a_client_does_not_repeat_what_may_have_happened() -> None:
    asked: list[int] = []

    def answer(frame: Frame) -> bytes | None:
        asked.append(frame[0])
        return wire.encode_error(1, OutcomeUnknown("who knows"))

    attempts: list[RaftError | None] = []
    async with false_node(answer) as connection, Client([connection.address], CLUSTER_ID) as client:
        with pytest.raises(OutcomeUnknown):
            await client.append([b"x"], on_attempt=lambda attempt: attempts.append(attempt.error))
    assert asked == [wire.APPEND]
    assert len(attempts) == 1


READS: dict[str, tuple[Callable[[Client], Awaitable[object]], bytes]] = {
    "read": (lambda client: client.read(0), wire.encode_records(1, 0, [])),
    "tail": (Client.tail, wire.encode_tail_reply(1, 0, 1)),
    "query": (lambda client: client.query(b"q"), wire.encode_applied(1, 1, b"")),
    "status": (Client.status, wire.encode_status_reply(1, {})),
}


@pytest.mark.parametrize(("call", "answer"), READS.values(), ids=READS)
async def test_a_read_whose_connection_breaks_is_made_again_on_another(
    call: Callable[[Client], Awaitable[object]], answer: bytes
) -> None:
    answers = [answer, None]
    async with (
        false_node(lambda frame: answers.pop()) as connection,
        Client([connection.address], CLUSTER_ID, retry_pause_s=0.001) as client,
    ):
        await call(client)
    assert answers == []


@pytest.mark.parametrize("call", [call for call, _ in READS.values()], ids=READS)
@pytest.mark.parametrize("said", [None, b""], ids=["hangs up", "is silent"])
async def test_a_read_that_is_never_answered_has_no_outcome_to_be_unknown(
    call: Callable[[Client], Awaitable[object]], said: bytes | None
) -> None:
    async with (
        false_node(lambda frame: said) as connection,
        Client([connection.address], CLUSTER_ID, deadline_s=0.5, retry_pause_s=1.0) as client,
    ):
        with pytest.raises(Unreachable, match=r"broke: the node closed it$|did not answer within 0.5 s$") as caught:
            await call(client)
        assert caught.value.definite


async def test_a_client_that_overslept_tells_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = trio.sleep
    monkeypatch.setattr("raft.client.trio.sleep", lambda seconds: pause(seconds + 0.5))
    async with (
        false_node(lambda frame: None) as connection,
        Client([connection.address], CLUSTER_ID, deadline_s=0.4, retry_pause_s=0.01) as client,
    ):
        with pytest.raises(Unreachable, match=r"the node closed it$"):
            await client.tail()


async def test_an_append_that_is_not_answered_by_the_deadline_is_unknown_and_the_next_call_asks_another_node(
    tmp_path: Path,
) -> None:
    async with false_node(lambda frame: b"") as connection, local_cluster(tmp_path, 1) as cluster:
        host, port = (await cluster.leader()).address
        silent = connection.address
        async with Client([silent, f"{host}:{port}"], CLUSTER_ID, deadline_s=0.05) as client:
            with pytest.raises(OutcomeUnknown, match="did not answer within"):
                await client.append([b"x"])
            assert (await client.append([b"y"])).base_offset == 0


async def test_tasks_that_begin_together_share_one_connection_and_none_is_left_behind(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        host, port = (await cluster.leader()).address
        before = len(os.listdir("/proc/self/fd"))
        async with Client([f"{host}:{port}"], CLUSTER_ID) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(client.append, [b"x"])
            await until(lambda: len(os.listdir("/proc/self/fd")) == before + 2)  # both ends of one connection
        await until(lambda: len(os.listdir("/proc/self/fd")) == before)


async def test_a_node_that_went_away_between_two_calls_leaves_no_outcome_unknown(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        addresses = [f"{host}:{port}" for host, port in cluster.members.values()]
        async with Client(addresses, CLUSTER_ID) as client:
            await client.append([b"one"])
            leader = (await cluster.leader()).status()["node"]
            assert isinstance(leader, int)
            await cluster.stop(leader)
            assert (await client.append([b"two"])).base_offset == 1


async def test_a_closed_client_takes_nothing_more(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        host, port = (await cluster.leader()).address
        async with Client([f"{host}:{port}"], CLUSTER_ID) as client:
            await client.append([b"x"])
        with pytest.raises(Unreachable, match="this client is closed"):
            await client.append([b"y"])


async def test_a_client_asks_the_state_machine_and_for_the_status(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        host, port = (await cluster.leader()).address
        async with Client([f"{host}:{port}"], CLUSTER_ID) as client:
            await client.apply(msgpack.packb(["w", "k", 5]))
            assert msgpack.unpackb((await client.query(msgpack.packb(["r", "k"]))).result) == 5
            assert (await client.status())["role"] == "leader"


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":4001", "localhost:http", "localhost:65536", "", 4001])
def test_an_address_that_is_none_is_named_at_once(address: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"not HOST:PORT: {address!r}")):
        Client(["127.0.0.1:4001", address], CLUSTER_ID)


async def test_a_leader_said_to_be_nowhere_is_looked_for_among_the_known_addresses() -> None:
    answers = [wire.encode_appended(2, 7, 1, 1), wire.encode_error(1, NotLeader(2, "nowhere"))]
    async with (
        false_node(lambda frame: answers.pop()) as connection,
        Client([connection.address], CLUSTER_ID, retry_pause_s=0.001) as client,
    ):
        assert (await client.append([b"x"])).base_offset == 7


def test_a_string_is_no_list_of_addresses() -> None:
    with pytest.raises(TypeError, match=r"must be a list of HOST:PORT, not the string '127.0.0.1:4001'"):
        Client("127.0.0.1:4001", CLUSTER_ID)


async def test_a_client_gives_up_at_its_deadline_with_the_last_definite_error() -> None:
    (port,) = free_ports(1)
    client = Client([f"127.0.0.1:{port}"], CLUSTER_ID, deadline_s=0.05, retry_pause_s=0.01)
    with pytest.raises(Unreachable):
        await client.append([b"x"])


async def test_a_client_that_finds_no_leader_does_not_ask_once_more_when_no_time_is_left_for_an_answer() -> None:
    asked: list[Frame] = []

    def refuse(frame: Frame) -> bytes:
        asked.append(frame)
        return wire.encode_error(msgpack.unpackb(frame[1])[0], NotLeader())

    attempts: list[Attempt] = []
    async with (
        false_node(refuse) as connection,
        Client([connection.address], CLUSTER_ID, deadline_s=0.2, retry_pause_s=0.15) as client,
    ):
        with pytest.raises(NotLeader):
            await client.append([b"x"], on_attempt=attempts.append)
    assert len(asked) == len(attempts) == 2


async def test_connecting_ends_at_the_deadline_of_the_call_though_it_might_take_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, trio.fail_after(30):
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with Client([address], CLUSTER_ID, deadline_s=0.05, connect_timeout_s=60.0) as client:
            with pytest.raises(Unreachable):
                await client.append([b"x"])


async def test_the_brackets_of_an_address_are_not_part_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[tuple[str, int]] = []

    async def note(host: str, port: int, tls: Certificates | None) -> socket.socket:
        dialled.append((host, port))
        raise OSError("no such node")

    monkeypatch.setattr("raft.client.dial", note)
    with pytest.raises(Unreachable):
        await Client(["[::1]:4001"], CLUSTER_ID, deadline_s=0.01).append([b"x"])
    assert dialled == [("::1", 4001)]


@pytest.mark.parametrize("seed", range(8))
async def test_calls_that_are_cancelled_together_leave_a_reader_to_the_others(seed: int) -> None:
    """Whom the leaving reader chooses may be cancelled in the same moment, in either order: Trio draws it."""
    served = trio.Event()
    tails: list[int] = []

    def answer(frame: Frame) -> bytes:
        if frame[0] == wire.TAIL:
            tails.append(msgpack.unpackb(frame[1])[0])
        is_last = len(tails) > 0 and frame[0] == wire.READ
        return wire.encode_tail_reply(tails[0], 9, 1) if is_last else b""

    async def read() -> None:
        await connection.read(0)

    async def tail() -> None:
        assert await connection.tail() == Tail(9, 1)
        served.set()

    trio._core._run._r.seed(seed)
    async with false_node(answer) as connection, trio.open_nursery() as nursery:
        async with trio.open_nursery() as cancelled:
            cancelled.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            cancelled.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(tail)
            await trio.testing.wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
        with trio.fail_after(5):
            connection._socket.send(wire.encode_read(99, 0, 0))  # no call waits for this one
            await served.wait()


async def test_a_connection_that_has_met_a_damaged_frame_is_of_no_more_use() -> None:
    def answer(frame: Frame) -> bytes:
        request_id = msgpack.unpackb(frame[1])[0]
        return wire.encode_tail_reply(1, 9, 1) + b"nonsense, as long as a header" if request_id == 1 else b""

    async with false_node(answer) as connection:
        assert await connection.tail() == Tail(9, 1)
        assert not connection.is_alive()


async def test_a_damaged_frame_behind_a_good_one_ends_what_waits_for_it() -> None:
    waiting = 0

    def answer(frame: Frame) -> bytes:
        nonlocal waiting
        waiting += 1
        return wire.encode_tail_reply(1, 9, 1) + b"nonsense, as long as a header" if waiting == 2 else b""

    async def fail() -> None:
        with trio.fail_after(5), pytest.raises(OutcomeUnknown, match="version"):
            await connection.tail()

    async with false_node(answer) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.tail)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(fail)


async def test_a_request_does_not_leave_when_connecting_has_used_up_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Frame] = []

    def answer(frame: Frame) -> bytes:
        asked.append(frame)
        return b""

    async with false_node(answer) as connection:
        client = Client([connection.address], CLUSTER_ID, deadline_s=0.01)

        async def late(address: str, give_up_at: float) -> Connection:
            await trio.sleep_until(give_up_at)
            return connection

        monkeypatch.setattr(client, "_connection_to", late)
        with pytest.raises(Unreachable, match="not connected within"):
            await client.append([b"x"])
    assert not asked
