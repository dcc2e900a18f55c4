"""Raft groups of brokers in this process: three of them over loopback, which can be killed, lose their power, and come
again.
"""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from log.memory_disk import MemoryDisk, PowerLoss
from raft.config import RaftConfig
from rocketmq_compat.broker.broker import Broker, BrokerPlan
from rocketmq_compat.broker.raft_group import RAFT_LOG_BYTES
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command
from tests.ports import free_ports
from tests.rocketmq_compat.broker.pairs import DATA, QUICK, SECRET, WAIT_S, Events, eventually, send

FAST = RaftConfig(heartbeat_s=0.05, election_timeout_s_min=0.25, election_timeout_s_max=0.5)
STEADY = RaftConfig(heartbeat_s=0.05, election_timeout_s_min=1.0, election_timeout_s_max=2.0)
"""For groups that must keep their leader through much work: all brokers share one loop."""

FOUNDERS = 3


@attrs.define(eq=False)
class Member:
    """One broker of the group, and its disk from life to life."""

    number: int
    disk: MemoryDisk
    events: Events = attrs.field(factory=Events)
    broker: Broker | None = None
    ends: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)

    @property
    def running(self) -> Broker:
        assert self.broker is not None, "it runs"
        return self.broker

    @property
    def leads(self) -> bool:
        return self.broker is not None and self.broker.context.leads


@attrs.define(eq=False)
class BrokerGroup:
    """The group, and what clients do with it."""

    nursery: trio.Nursery
    assignments: tuple[str, ...]
    raft_log_bytes: int
    rng: random.Random = attrs.field(factory=lambda: random.Random(7))
    ports: list[int] = attrs.field(factory=lambda: free_ports(FOUNDERS))
    members: list[Member] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.members = [Member(number, MemoryDisk(random.Random(number))) for number in range(FOUNDERS)]

    async def join(self) -> Member:
        """Start one more broker, of which the others know nothing."""
        member = Member(len(self.members), MemoryDisk(random.Random(len(self.members))))
        self.members.append(member)
        self.ports += free_ports(1)
        await self.start(member.number)
        return member

    def _plan(self, number: int) -> BrokerPlan:
        joins = number >= FOUNDERS
        ports = self.ports if joins else self.ports[:FOUNDERS]
        peers = ";".join(f"n{each}-127.0.0.1:{port}" for each, port in enumerate(ports))
        words = ("enableDLegerCommitLog=true", f"dLegerPeers={peers}", f"dLegerSelfId=n{number}")
        return BrokerPlan(
            listen=("127.0.0.1", self.ports[number]),
            data=DATA,
            properties=Properties.read(BROKER_PROPERTIES, [*QUICK, *words, *self.assignments]),
            raft=FAST if self.raft_log_bytes == RAFT_LOG_BYTES else STEADY,
            secret=SECRET,
            joins=joins,
            raft_log_bytes=self.raft_log_bytes,
        )

    async def start(self, *numbers: int) -> None:
        """Start these members, or all."""
        for number in numbers or range(FOUNDERS):
            member = self.members[number]
            member.ends, member.ended = trio.Event(), trio.Event()
            await self.nursery.start(self._run, member)

    async def _run(self, member: Member, task_status: trio.TaskStatus[None]) -> None:
        plan = self._plan(member.number)
        rng = random.Random(self.rng.getrandbits(32))
        async with Broker.open(plan, tell=member.events, disk=member.disk, rng=rng) as member.broker:
            task_status.started()
            await member.ends.wait()
        member.broker = None
        member.ended.set()

    async def stop(self, *members: Member) -> None:
        """End them as a signal does."""
        for member in members:
            member.ends.set()
        for member in members:
            await member.ended.wait()

    async def kill(self, *members: Member, loss: PowerLoss | None = None) -> None:
        """End them as SIGKILL does or, with `loss`, as a power cut: their disks keep the content of that moment."""
        for member in members:
            disk = member.disk
            member.disk = disk.after_kill(self.rng) if loss is None else disk.after_crash(self.rng, loss=loss)
        await self.stop(*members)

    async def master(self) -> Member:
        """The member that takes messages, once there is one."""
        await eventually(lambda: any(each.leads for each in self.members))
        return next(each for each in self.members if each.leads)

    async def same(self) -> None:
        """Waits until all running members have the same messages."""
        await eventually(
            lambda: len({each.broker.context.store.derived.dispatched for each in self.members if each.broker}) == 1
        )

    @asynccontextmanager
    async def client(self, member: Member) -> AsyncIterator[RemotingClient]:
        """A client of one member."""
        async with connected_client(("127.0.0.1", self.ports[member.number])) as client:
            yield client

    async def send(self, body: bytes, topic: str = "T") -> Command:
        """Send to the master until it is acknowledged; only definite refusals are tried again."""
        with trio.fail_after(WAIT_S):
            while True:
                async with self.client(await self.master()) as client:
                    answer = await send(client, body, topic)
                if answer.code != ResponseCode.SERVICE_NOT_AVAILABLE:
                    return answer
                await trio.sleep(0.02)


@asynccontextmanager
async def broker_group(*assignments: str, raft_log_bytes: int = RAFT_LOG_BYTES) -> AsyncIterator[BrokerGroup]:
    """Three brokers, once one of them is master."""
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        group = BrokerGroup(nursery, assignments, raft_log_bytes)
        await group.start()
        await group.master()
        yield group
        await group.stop(*[each for each in group.members if each.broker is not None])
        nursery.cancel_scope.cancel()
