"""A mirror between two RocketMQ clusters: copies name their origin, and claims on the link stop an old mirror."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from jepsen_like.mirror.ends import MirrorEnded, Why
from jepsen_like.mirror.plan import DivergedTail, LinkEnd, MirrorPlan
from jepsen_like.mirror.rocketmq import mirror as rocketmq_mirror
from jepsen_like.mirror.rocketmq.cluster import MirroredCluster, QueuePlace
from jepsen_like.mirror.rocketmq.mirror import run_mirror, run_switch
from jepsen_like.mirror.switching import SwitchPlan
from jepsen_like.testing.rocketmq.cluster import LocalRocketMq
from raft.addresses import address_of
from rocketmq_compat.records import InnerMessage, write_properties
from rocketmq_compat.remoting.bodies import TopicConfig

pytestmark = pytest.mark.cluster

TOPIC = "orders"
PLACE = QueuePlace(TOPIC, 0, 0)


@attrs.define
class TwoClusters:
    a: LocalRocketMq
    b: LocalRocketMq
    events: list[Mapping[str, Any]] = attrs.field(factory=list)

    @property
    def plan(self) -> MirrorPlan:
        return MirrorPlan(end_of(self.a), end_of(self.b))

    async def mirror_all(self, plan: MirrorPlan | None = None) -> MirrorEnded:
        with trio.fail_after(30):
            return await run_mirror(attrs.evolve(plan or self.plan, until_caught_up=True), self.events.append)

    async def until(self, event: str, times: int = 1) -> None:
        with trio.fail_after(30):
            while sum(each["event"] == event for each in self.events) < times:  # noqa: ASYNC110 - a list has no event
                await trio.sleep(0.01)


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These networks lose no request."""
    monkeypatch.setattr(rocketmq_mirror, "SETTLES_S", 0.1)


def end_of(cluster: LocalRocketMq) -> LinkEnd:
    return LinkEnd((address_of(cluster.namesrv_addr),))


@asynccontextmanager
async def open_two() -> AsyncIterator[TwoClusters]:
    async with LocalRocketMq.open(slaves=0) as a, LocalRocketMq.open(slaves=0, seed=1) as b:
        yield TwoClusters(a, b)


async def produce(cluster: LocalRocketMq, bodies: list[bytes]) -> None:
    async with MirroredCluster(end_of(cluster)) as client:
        await client.refresh()
        await client.make_topic(0, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
        messages = [InnerMessage(7, body, write_properties({"TAGS": "t", "KEYS": body.decode()})) for body in bodies]
        await client.send(PLACE, messages, 0, 1_700_000_000_000)


async def commit(cluster: LocalRocketMq, group: str, offset: int) -> None:
    async with MirroredCluster(end_of(cluster)) as client:
        await client.refresh()
        await client.commit(group, PLACE, offset)


async def read_committed_offset(cluster: LocalRocketMq, group: str) -> int:
    async with MirroredCluster(end_of(cluster)) as client:
        await client.refresh()
        return (await client.group_offsets([TOPIC]))[group][PLACE]


async def bodies_in(cluster: LocalRocketMq, since: int = 0) -> list[bytes]:
    async with MirroredCluster(end_of(cluster)) as client:
        await client.refresh()
        return [message.body for message in await client.read(PLACE, since)]


def make_bodies(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_messages_are_copied_once_across_restarts_with_their_properties() -> None:
    async with open_two() as two:
        await produce(two.a, make_bodies(0, 50))
        assert (await two.mirror_all()).records == 50
        await produce(two.a, make_bodies(50, 5))
        assert (await two.mirror_all()).records == 5
        async with MirroredCluster(end_of(two.b)) as client:
            await client.refresh()
            copies = await client.read(PLACE)
        assert [copy.body for copy in copies] == make_bodies(0, 55)
        assert {copy.head.flag for copy in copies} == {7}
        assert [copy.properties["KEYS"] for copy in copies] == [str(number) for number in range(55)]
        assert copies[54].properties["QL_ORIGIN"] == "1 54 1700000000000 mirror"


async def test_of_two_mirrors_the_newer_one_goes_on() -> None:
    async with open_two() as two:
        await produce(two.a, make_bodies(0, 5))
        ends: list[MirrorEnded] = []

        async def mirror() -> None:
            ends.append(await run_mirror(two.plan, two.events.append))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(mirror)
            await two.until("open")
            nursery.start_soon(mirror)
            await two.until("open", 2)
            with trio.fail_after(20):
                while not ends:  # noqa: ASYNC110 - a list has no event
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert [each.why for each in ends] == [Why.FENCED]
        assert await bodies_in(two.b) == make_bodies(0, 5)


async def test_a_switch_and_a_return_lose_nothing_and_an_old_mirror_is_refused() -> None:
    async with open_two() as two:
        await produce(two.a, make_bodies(0, 10))
        await commit(two.a, "group", 4)
        await two.mirror_all()
        await produce(two.a, make_bodies(10, 3))
        switched = await run_switch(SwitchPlan(two.plan), two.events.append)
        assert (switched.lost, switched.epoch) == (0, 2)
        assert await read_committed_offset(two.b, "group") == 4
        refused = await two.mirror_all()
        assert "is cut (epoch 2)" in refused.message
        await produce(two.b, make_bodies(13, 4))
        await commit(two.b, "group", 15)
        back = two.plan.turn()
        assert (await two.mirror_all(back)).why is Why.CAUGHT_UP
        assert await bodies_in(two.a) == make_bodies(0, 17)
        assert await bodies_in(two.a, await read_committed_offset(two.a, "group")) == make_bodies(15, 2)
        await run_switch(SwitchPlan(back), two.events.append)
        await produce(two.a, [b"new"])
        assert (await two.mirror_all()).why is Why.CAUGHT_UP
        assert await bodies_in(two.b) == [*make_bodies(0, 17), b"new"]


async def test_what_was_left_behind_is_counted_refused_and_kept_where_it_is() -> None:
    async with open_two() as two:
        await produce(two.a, make_bodies(0, 5))
        await two.mirror_all()
        await produce(two.a, make_bodies(900, 3))
        switched = await run_switch(SwitchPlan(two.plan, wait_s=0, gives_up=True), two.events.append)
        assert switched.lost == 3
        await produce(two.b, make_bodies(5, 2))
        back = two.plan.turn()
        assert "holds 3 messages from offset 5 on" in (await two.mirror_all(back)).message
        await two.mirror_all(attrs.evolve(back, diverged=DivergedTail.KEEP))
        assert await bodies_in(two.a) == make_bodies(0, 5) + make_bodies(900, 3) + make_bodies(5, 2)
        await run_switch(SwitchPlan(back), two.events.append)
        await two.mirror_all()
        assert await bodies_in(two.b) == make_bodies(0, 7)


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_mirror_goes_on_once_a_broker_that_was_away_is_back(side: str) -> None:
    async with open_two() as two, trio.open_nursery() as nursery:
        await produce(two.a, make_bodies(0, 5))
        cluster, ends = two.a if side == "source" else two.b, list[MirrorEnded]()

        async def mirror() -> None:
            ends.append(await run_mirror(two.plan, two.events.append))

        nursery.start_soon(mirror)
        await two.until("open")
        (broker,) = cluster.groups.brokers
        await cluster.kill(broker)
        await two.until("broken", 3)
        await cluster.start(broker)
        await two.until("open", 2)
        assert not ends
        nursery.cancel_scope.cancel()
