"""The faces for asyncio and plain Python: one behaviour under three kinds of calls, and nothing left behind."""

import asyncio
import inspect
import os
import queue
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import msgpack
import pytest

from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from raft import aio, sync
from raft import client as trio_client
from raft import client_codec as wire
from raft import group as trio_group
from raft.client import Attempt, Unreachable
from raft.errors import InvalidRequest, NotLeader, OutcomeUnknown, ProtocolError, RaftError, ShuttingDown
from raft.model import NodeId, Term
from raft.net.framing import FrameDecoder
from raft.results import Appended, Tail
from raft.settings import NodeSettings
from raft.subscription import CommittedEntry, Delivered, LeaderChanged
from tests.ports import free_ports
from tests.raft.shell.nodes import FAST

SETTINGS = NodeSettings(raft=FAST)
WRITE = msgpack.packb(["w", "key", 5])
READ = msgpack.packb(["r", "key"])


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    threads, descriptors = set(threading.enumerate()), set(os.listdir("/proc/self/fd"))
    yield
    assert set(threading.enumerate()) <= threads
    assert set(os.listdir("/proc/self/fd")) <= descriptors


@contextmanager
def plain_node(disk: MemoryDisk | None = None) -> Iterator[sync.RaftGroup]:
    """A group of one node, which leads."""
    (port,) = free_ports(1)
    with sync.RaftGroup.open(
        node_id=1,
        members={1: ("127.0.0.1", port)},
        directory="data",
        settings=SETTINGS,
        disk=disk or MemoryDisk(random.Random(1)),
    ) as node:
        wait_until(lambda: node.status()["role"] == "leader")
        yield node


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.002)


def address_of(node: sync.RaftGroup) -> str:
    host, port = node.address
    return f"{host}:{port}"


@contextmanager
def silent_node(asked: threading.Event | None = None) -> Iterator[str]:
    """A node that completes the handshake and then answers nothing; sets `asked` at the first request."""

    def serve(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected:
            decoder = FrameDecoder(1 << 20)
            while chunk := connected.recv(65536):
                for message_type, _, _ in decoder.feed(chunk):
                    if message_type == wire.HELLO:
                        connected.sendall(wire.encode_hello_reply(wire.HelloReply(1, 1 << 20)))
                    elif asked is not None:
                        asked.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            serving.join()


NOT_FOR_CALLERS = {
    "pause",
    "resume",
    "campaign",
    "announce",
    "propose",
    "take_over",
    "on_greeted",
    "on_closed",
    "peer_arrived",
    "peer_left",
    "has_room_for_client",
    "on_round_end",
    "on_urgent_sent",
    "on_failed",
}
"""Names for tests, for hosts and for the sessions of a group; a client's `close` is the end of its block."""


@pytest.mark.parametrize("face", [pytest.param(aio, id="asyncio"), pytest.param(sync, id="plain")])
@pytest.mark.parametrize("original", [trio_client.Client, trio_group.RaftGroup])
def test_every_face_has_the_same_calls_with_the_same_arguments_and_texts(face: ModuleType, original: type) -> None:
    names = {name for name in vars(original) if not name.startswith("_")} - NOT_FOR_CALLERS - {"close"}
    mirror = getattr(face, original.__name__)
    for name in sorted(names | ({"__init__"} if original is trio_client.Client else set())):
        here, there = getattr(mirror, name), getattr(original, name)
        assert here.__doc__ == there.__doc__, name
        if callable(there):
            assert inspect.signature(here) == inspect.signature(there), name


def test_plain_python_has_every_call_of_client_and_group() -> None:
    with plain_node() as node, sync.Client([address_of(node)], "quorumlog") as client:
        for it in (node, client):
            appended = it.append([b"one", b"two"])
            assert it.tail() == Tail(appended.base_offset + 2, appended.epoch)
            assert it.read(appended.base_offset).batches[0].records() == [b"one", b"two"]
            it.apply(WRITE)
            assert msgpack.unpackb(it.query(READ).result) == 5
            assert it.status()["role"] == "leader"
        given: queue.SimpleQueue[Delivered] = queue.SimpleQueue()
        outcomes: queue.SimpleQueue[Appended | RaftError] = queue.SimpleQueue()
        node.subscribe(lambda delivered: None, after_index=1).close()
        node.subscribe(given.put)
        assert given.get(timeout=10) == LeaderChanged(NodeId(1), Term(1))
        node.submit([b"three"], outcomes.put)
        assert outcomes.get(timeout=10) == Appended(4, 1, 1)
        committed = [given.get(timeout=10) for _ in range(6)]
        assert [entry.index for entry in committed if isinstance(entry, CommittedEntry)] == [1, 2, 3, 4, 5, 6]
        assert node.recovery.torn_bytes_cut == 0


def test_asyncio_has_every_call_of_client_and_group() -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        members = {1: ("127.0.0.1", port)}
        disk = MemoryDisk(random.Random(1))
        opening = aio.RaftGroup.open(node_id=1, members=members, directory="d", settings=SETTINGS, disk=disk)
        async with opening as node, aio.Client([f"127.0.0.1:{port}"], "quorumlog") as client:
            assert node.address == ("127.0.0.1", port)
            await client.tail()
            for it in (node, client):
                appended = await it.append([b"one", b"two"])
                assert await it.tail() == Tail(appended.base_offset + 2, appended.epoch)
                assert (await it.read(appended.base_offset)).batches[0].records() == [b"one", b"two"]
                await it.apply(WRITE)
                assert msgpack.unpackb((await it.query(READ)).result) == 5
                assert (await it.status())["role"] == "leader"

    asyncio.run(main())


def test_many_threads_share_one_client() -> None:
    with plain_node() as node, sync.Client([address_of(node)], "quorumlog") as client, ThreadPoolExecutor(8) as pool:
        offsets = pool.map(lambda turn: client.append([b"%d" % turn]).base_offset, range(80))
        assert sorted(offsets) == list(range(80))


def test_many_tasks_of_asyncio_share_one_client() -> None:
    async def main(address: str) -> None:
        async with aio.Client([address], "quorumlog") as client:
            appended = await asyncio.gather(*(client.append([b"%d" % turn]) for turn in range(80)))
        assert sorted(one.base_offset for one in appended) == list(range(80))

    with plain_node() as node:
        asyncio.run(main(address_of(node)))


def test_errors_are_those_of_trio_and_say_whether_it_happened() -> None:
    with plain_node() as node, sync.Client([address_of(node)], "another") as stranger:
        with pytest.raises(InvalidRequest):
            node.append([])
        with pytest.raises(ProtocolError):
            stranger.tail()
    ports = free_ports(3)
    members = {number: ("127.0.0.1", port) for number, port in enumerate(ports, 1)}
    disk = MemoryDisk(random.Random(1))
    with sync.RaftGroup.open(node_id=1, members=members, directory="d", disk=disk) as alone:
        with pytest.raises(NotLeader) as caught:
            alone.append([b"x"])
        assert caught.value.definite


def test_a_call_to_a_silent_node_ends_unknown_by_its_deadline() -> None:
    async def main(address: str) -> None:
        async with aio.Client([address], "quorumlog", deadline_s=0.05) as client:
            with pytest.raises(OutcomeUnknown, match="did not answer"):
                await client.append([b"x"])

    with silent_node() as address:
        asyncio.run(main(address))
    with (
        silent_node() as address,
        sync.Client([address], "quorumlog", deadline_s=0.05) as client,
        pytest.raises(OutcomeUnknown, match="did not answer"),
    ):
        client.append([b"x"])


def test_a_cancelled_call_of_asyncio_ends_in_the_loop_too() -> None:
    async def main(address: str) -> None:
        async with aio.Client([address], "quorumlog", deadline_s=1000.0) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.append([b"x"])
            calls = client._loop._calls
            assert calls is not None
            async with asyncio.timeout(10):
                while calls.child_tasks:  # noqa: ASYNC110 - they end in another thread
                    await asyncio.sleep(0.001)

    with silent_node() as address:
        asyncio.run(main(address))


def test_ctrl_c_ends_a_blocking_call_and_leaves_nothing_behind() -> None:
    asked = threading.Event()

    def interrupt() -> None:
        asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt), silent_node(asked) as address, sync.Client([address], "quorumlog") as client:
        client.append([b"x"])
    interrupting.join()


def test_what_is_under_way_when_a_client_is_closed_is_unknown_and_later_calls_are_refused() -> None:
    asked = threading.Event()
    with silent_node(asked) as address, ThreadPoolExecutor(1) as pool:
        with sync.Client([address], "quorumlog") as client:
            under_way = pool.submit(client.append, [b"x"])
            asked.wait()
        with pytest.raises(OutcomeUnknown, match="closed while"):
            under_way.result()
        with pytest.raises(Unreachable, match="this client is closed"):
            client.append([b"y"])


def test_a_node_that_was_stopped_is_shutting_down() -> None:
    with plain_node() as node:
        pass
    with pytest.raises(ShuttingDown):
        node.append([b"x"])


def test_a_port_that_is_taken_is_told_when_opening() -> None:
    async def main(opening: aio.RaftGroup) -> None:
        async with opening:
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        members = {1: ("127.0.0.1", taken.getsockname()[1])}
        disk = MemoryDisk(random.Random(1))
        with (
            pytest.raises(OSError, match="in use"),
            sync.RaftGroup.open(node_id=1, members=members, directory="d", disk=disk),
        ):
            pass
        with pytest.raises(OSError, match="in use"):
            asyncio.run(main(aio.RaftGroup.open(node_id=1, members=members, directory="d", disk=disk)))


def test_a_node_whose_disk_fails_refuses_and_its_error_leaves_the_block() -> None:
    disk = MemoryDisk(random.Random(1))

    def live() -> None:
        with plain_node(disk) as node:
            disk.failing = True
            with pytest.raises(OutcomeUnknown):
                node.append([b"x"])
            with pytest.raises(ShuttingDown):
                node.append([b"y"])

    with pytest.raises(StorageFailed):
        live()


def test_a_node_whose_disk_fails_cancels_the_task_of_asyncio_that_opened_it() -> None:
    async def main() -> None:
        disk = MemoryDisk(random.Random(1))
        (port,) = free_ports(1)
        members = {1: ("127.0.0.1", port)}
        async with aio.RaftGroup.open(node_id=1, members=members, directory="d", disk=disk):
            disk.failing = True
            await asyncio.Event().wait()

    async def host() -> None:
        with pytest.raises(StorageFailed):
            await main()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # and the task goes on, uncancelled

    asyncio.run(host())


def test_an_opening_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        disk = MemoryDisk(random.Random(1))
        opening = aio.RaftGroup.open(node_id=1, members={1: ("127.0.0.1", port)}, directory="d", disk=disk)
        entering = asyncio.create_task(opening.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_may_not_use_what_its_parent_opened_and_does_not_close_it_either() -> None:
    with plain_node() as node, sync.Client([address_of(node)], "quorumlog") as client:
        client.tail()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.tail()
            except RuntimeError as error:
                client.__exit__()
                status = 0 if "after the fork" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.tail()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_may_open_what_its_parent_only_made() -> None:
    with plain_node() as node:
        client = sync.Client([address_of(node)], "quorumlog", deadline_s=5.0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(30)  # it might hang
                with client:
                    client.tail()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_client_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="use it in a `with` block"):
        sync.Client(["127.0.0.1:1"], "quorumlog").tail()
    group = sync.RaftGroup.open(node_id=1, members={1: ("127.0.0.1", 1)}, directory="d")
    with pytest.raises(RuntimeError, match="use it in a `with` block"):
        assert group.address
    with pytest.raises(RuntimeError, match="use it in an `async with` block"):
        asyncio.run(aio.Client(["127.0.0.1:1"], "quorumlog").tail())


def test_an_address_that_is_none_is_told_when_opening() -> None:
    with pytest.raises(ValueError, match="not HOST:PORT: 'localhost'"), sync.Client(["localhost"], "quorumlog"):
        pass


def test_a_callback_in_the_loop_cannot_wait_for_the_loop() -> None:
    with plain_node() as node, sync.Client([address_of(node)], "quorumlog") as client:

        def ask_again(attempt: Attempt) -> None:
            client.tail()

        with pytest.raises(RuntimeError, match="cannot wait for itself"):
            client.append([b"x"], on_attempt=ask_again)


def test_attempts_are_told_to_the_caller(tmp_path: Path) -> None:
    (dead,) = free_ports(1)
    attempts: list[Attempt] = []
    with plain_node() as node, sync.Client([f"127.0.0.1:{dead}", address_of(node)], "quorumlog") as client:
        client.append([b"x"], on_attempt=attempts.append)
    assert isinstance(attempts[0].error, Unreachable)
    assert attempts[-1].error is None
