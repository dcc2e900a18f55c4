"""A raft group inside a host: its loop, its thread, its protocol; and what the host is given of the group."""

import random
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from log.memory_disk import MemoryDisk
from raft.client import Connection
from raft.errors import OutcomeUnknown, RaftError, ShuttingDown
from raft.group import RaftGroup
from raft.model import EntryKind
from raft.net.decoder import PREFIX
from raft.net.reactor import Reactor
from raft.results import Appended
from raft.settings import NodeSettings
from raft.subscription import CommittedEntry, Delivered, LeaderChanged
from tests.ports import free_ports
from tests.raft.shell.echo_host import EchoHost, echo_host
from tests.raft.shell.nodes import FAST, until

SETTINGS = NodeSettings(raft=FAST)


def members_of(count: int) -> dict[int, tuple[str, int]]:
    return {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(count), 1)}


def entries(delivered: Sequence[Delivered]) -> list[CommittedEntry]:
    return [each for each in delivered if isinstance(each, CommittedEntry)]


def records(delivered: Sequence[Delivered]) -> list[bytes]:
    return [record for entry in entries(delivered) for record in entry.records()]


def leads(host: EchoHost) -> bool:
    """Returns True if its subscriber knows it for the leader, and that all before its own term is behind it."""
    changes = [each for each in host.delivered if isinstance(each, LeaderChanged)]
    led = entries(host.delivered)
    node = host.group.status()["node"]
    return bool(changes and led) and changes[-1].leader == node and led[-1].term == changes[-1].term


def is_leader(group: RaftGroup) -> bool:
    return group.status()["role"] == "leader"


async def ask(stream: trio.SocketStream, *bodies: bytes) -> list[bytes]:
    """Send them all at once; as many answers."""
    await stream.send_all(b"".join(PREFIX.pack(len(body)) + body for body in bodies))
    received, answers = b"", list[bytes]()
    while len(answers) < len(bodies):
        received += await stream.receive_some()
        while len(received) >= PREFIX.size and len(received) >= PREFIX.size + PREFIX.unpack_from(received)[0]:
            (length,) = PREFIX.unpack_from(received)
            answers.append(received[PREFIX.size : PREFIX.size + length])
            received = received[PREFIX.size + length :]
    return answers


@attrs.define
class Hosts:
    """Hosts of one group in this process, each of which can be stopped."""

    directory: Path
    members: dict[int, tuple[str, int]]
    nursery: trio.Nursery
    running: dict[int, EchoHost] = attrs.field(factory=dict)
    stops: dict[int, trio.CancelScope] = attrs.field(factory=dict)

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            await self.nursery.start(self._run, node)

    async def _run(self, node: int, task_status: trio.TaskStatus[None]) -> None:
        with trio.CancelScope() as self.stops[node]:
            async with echo_host(node, self.members, self.directory / str(node), SETTINGS) as self.running[node]:
                task_status.started()
                await trio.sleep_forever()
        del self.running[node]

    async def leader(self) -> EchoHost:
        await until(lambda: any(map(leads, self.running.values())))
        return next(filter(leads, self.running.values()))


async def test_hosts_serve_in_request_order_and_their_subscribers_agree_though_one_is_killed(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            hosts = Hosts(tmp_path, members_of(3), nursery)
            await hosts.start(1, 2, 3)
            leader = await hosts.leader()
            stream = await trio.open_tcp_stream(*leader.listener.address)
            # The echo is ready at once, and waits for the appends that were asked for before it.
            assert await ask(stream, b"a", b"b", b"?echo", b"c") == [b"0", b"1", b"?echo", b"2"]
            await stream.aclose()
            killed = int(str(leader.group.status()["node"]))
            hosts.stops[killed].cancel()
            await until(lambda: killed not in hosts.running)
            leader = await hosts.leader()
            stream = await trio.open_tcp_stream(*leader.listener.address)
            assert await ask(stream, b"d", b"?e") == [b"3", b"?e"]
            await stream.aclose()
            await hosts.start(killed)
            given = [host.delivered for host in hosts.running.values()]
            await until(lambda: all(len(records(each)) == 4 for each in given))
            last_index = max(entries(each)[-1].index for each in given)
            await until(lambda: all(entries(each)[-1].index == last_index for each in given))
            first, second, third = (entries(each) for each in given)
            assert first == second == third
            assert [entry.index for entry in first] == list(range(1, last_index + 1))
            assert records(first) == [b"a", b"b", b"c", b"d"]
            assert {entry.kind for entry in first} == {EntryKind.NOOP, EntryKind.RECORDS}
            assert next(entry.base_offset for entry in first if entry.span) == 0
            assert all(entry.timestamp_ms > 10**12 for entry in first if entry.span), "the leader's wall clock"
            nursery.cancel_scope.cancel()


async def test_a_connection_whose_first_bytes_come_one_by_one_is_served_in_its_protocol(tmp_path: Path) -> None:
    async with echo_host(1, members_of(1), tmp_path, SETTINGS) as host:
        await until(lambda: leads(host))
        async with await trio.open_tcp_stream(*host.listener.address) as stream:
            for byte in PREFIX.pack(2) + b"?":
                await stream.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(b"!")
            assert await stream.receive_some() == PREFIX.pack(2) + b"?!"
        host_name, port = host.listener.address
        async with Connection.open(host_name, port, "quorumlog") as connection:
            assert (await connection.append([b"from the native client"])).base_offset == 0


async def test_a_host_and_its_group_share_one_loop_and_one_thread(tmp_path: Path) -> None:
    async with echo_host(1, members_of(1), tmp_path, SETTINGS) as host:
        threads: set[int] = set()
        host.group.subscribe(lambda given: threads.add(threading.get_ident()))
        await until(lambda: leads(host))
        stream = await trio.open_tcp_stream(*host.listener.address)
        assert await ask(stream, b"?here") == [b"?here"]
        await stream.aclose()
        assert threads == {threading.get_ident()}


@asynccontextmanager
async def groups_on(reactor: Reactor, *names: str) -> AsyncIterator[list[RaftGroup]]:
    """A group of one node for each name, all of them led."""
    async with AsyncExitStack() as stack:
        groups = [
            await stack.enter_async_context(
                RaftGroup.open(
                    node_id=1,
                    members=members_of(1),
                    directory=name,
                    cluster_id=name,
                    disk=MemoryDisk(random.Random(1)),
                    settings=SETTINGS,
                    reactor=reactor,
                )
            )
            for name in names
        ]
        await until(lambda: all(map(is_leader, groups)))
        yield groups


async def test_two_groups_live_on_one_reactor_and_each_closes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Reactor()) as reactor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            async with groups_on(reactor, "lasting") as (lasting,):
                async with groups_on(reactor, "brief") as (brief,):
                    assert (await brief.append([b"x"])).base_offset == 0
                    with pytest.raises(RuntimeError, match="cannot stand still alone"):
                        brief.pause()
                with pytest.raises(ShuttingDown):
                    await brief.append([b"too late"])
                monkeypatch.setattr(
                    brief._member, "on_round_end", lambda: pytest.fail("a closed group takes part in rounds")
                )
                assert (await lasting.append([b"x"])).base_offset == 0
            nursery.cancel_scope.cancel()


async def test_a_failure_in_the_loop_ends_every_group_on_it_and_comes_out_of_its_run() -> None:
    """Whatever waits learns that it may have happened: no group of this process can find out any more."""
    outcomes: list[Appended | RaftError] = []

    def fail(given: Delivered) -> None:
        raise ValueError("a bug of the host")

    expected = pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a bug of the host"), flatten_subgroups=True)
    with closing(Reactor()) as reactor, expected:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            async with groups_on(reactor, "failing", "other") as (failing, other):
                other.submit([b"x"], outcomes.append)
                failing.subscribe(fail)
                await trio.sleep_forever()
    assert list(map(type, outcomes)) == [OutcomeUnknown]


async def test_a_reactor_that_is_given_is_not_told_again_whether_it_owns_its_thread() -> None:
    with closing(Reactor()) as reactor, pytest.raises(ValueError, match="knows by itself"):
        async with RaftGroup.open(node_id=1, members={}, directory="d", reactor=reactor, owns_thread=True):
            pass
