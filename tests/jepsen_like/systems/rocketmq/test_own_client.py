"""Our own client divides the queues of a group without gap or overlap, begins where the group was, and hands queues over between messages."""

import itertools

import pytest
import trio

from jepsen_like.history.ops import Outcome
from jepsen_like.systems.rocketmq.client_plan import MEMBER, RocketClientPlan
from jepsen_like.systems.rocketmq.own_client import Queue, number_queues, places_of, produce, queues_of
from jepsen_like.systems.rocketmq.own_member import OwnMember, allocate, start_of
from jepsen_like.workload.client_rows import GivenRow, SentRow
from rocketmq_compat.remoting.bodies import READABLE, WRITABLE, BrokerData, QueueData, TopicRouteData
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader
from tests.rocketmq_compat.broker.pairs import ask, eventually, name_server, running_broker


@pytest.mark.parametrize(
    ("queues", "sizes"), [(8, [3, 3, 2]), (9, [3, 3, 3]), (2, [1, 1, 0]), (0, [0, 0, 0]), (1, [1, 0, 0])]
)
def test_queues_are_divided_as_allocate_message_queue_averagely_does(queues: int, sizes: list[int]) -> None:
    everything = [Queue("broker-a", number) for number in range(queues)]
    members = ["c", "a", "b", "a"]  # each member sees the ids in another order
    shares = [allocate(everything, members, member) for member in "abc"]
    assert [len(share) for share in shares] == sizes
    assert [queue for share in shares for queue in share] == everything
    assert not allocate(everything, members, "d")


def test_a_member_begins_at_the_position_or_at_the_first_message_and_not_by_a_refusal() -> None:
    assert start_of(Command(ResponseCode.SUCCESS, ext={"offset": "7"})) == 7
    assert start_of(Command(ResponseCode.QUERY_NOT_FOUND)) == 0
    assert start_of(Command(ResponseCode.SYSTEM_ERROR)) is None
    assert start_of(Command(ResponseCode.SERVICE_NOT_AVAILABLE)) is None


def test_pinned_queues_stay_while_their_master_is_away_and_others_do_not() -> None:
    route = TopicRouteData(
        queue_datas=tuple(
            QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=READABLE | WRITABLE)
            for name in ("broker-b", "broker-a")
        ),
        broker_datas=(
            BrokerData(cluster="c", broker_name="broker-a", broker_addrs={1: "127.0.0.1:2"}),
            BrokerData(cluster="c", broker_name="broker-b", broker_addrs={0: "127.0.0.1:3"}),
        ),
    )
    everything = tuple(number_queues(["broker-a", "broker-b"], 2))
    assert queues_of(route) == everything
    assert places_of(route) == everything[2:]
    pinned = TopicRouteData(order_topic_conf="broker-a:2;broker-b:2", queue_datas=(), broker_datas=())
    assert places_of(pinned) == everything


@pytest.mark.parametrize("is_orderly", [True, False])
async def test_members_share_the_queues_and_hand_them_over_between_two_messages(is_orderly: bool) -> None:
    """An orderly handover neither overlaps nor repeats; what a concurrent member had not told comes again, and nothing is left out."""
    sent: list[SentRow] = []
    given: dict[str, list[GivenRow]] = {"first": [], "second": []}
    stopping, first_leaves, second_leaves = trio.Event(), trio.Event(), trio.Event()
    objects = number_queues(["DEFAULT_BROKER"], 2)
    async with name_server() as names:
        address = "{}:{}".format(*names.address)
        async with running_broker(f"namesrvAddr={address}", "brokerName=DEFAULT_BROKER") as broker:
            async with connected_client(broker.address) as client:
                topic = CreateTopicRequestHeader(topic="T", read_queue_nums=2, write_queue_nums=2, perm=6)
                await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
            await eventually(lambda: names.table.route("T") is not None)
            plan = RocketClientPlan(
                role=MEMBER,
                names=address,
                topic="T",
                seed=1,
                slots=2,
                keys=2,
                rate=400.0,
                objects=2,
                group_name="g",
                is_orderly=is_orderly,
                holds_ms=4.0,  # of 5 ms between two messages of a queue: a handover finds one under way
            )
            first = OwnMember(plan, "a", objects, given["first"].append)
            second = OwnMember(plan, "b", objects, given["second"].append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(first.stay, first_leaves)
                async with trio.open_nursery() as producing:
                    producing.start_soon(produce, plan, stopping, objects, sent.append)
                    await eventually(lambda: {row.object for row in given["first"]} == {0, 1})
                    nursery.start_soon(second.stay, second_leaves)
                    await eventually(lambda: len(given["second"]) > 20)
                    assert {row.object for row in given["second"]} == {1}
                    first_leaves.set()
                    await eventually(lambda: {row.object for row in given["second"]} == {0, 1})
                    stopping.set()
                stored = {row.value for row in sent}
                await eventually(lambda: stored <= {row.value for rows in given.values() for row in rows})
                second_leaves.set()
    assert {row.outcome for row in sent} == {Outcome.OK}
    rows = sorted((row for each in given.values() for row in each), key=lambda row: row.t_inv)
    for number in objects.values():
        offsets = [row.offset for row in rows if row.object == number]
        assert sorted({*offsets}) == list(range(len({*offsets})))
        assert offsets == sorted(offsets) or not is_orderly
        ends = [(row.t_inv, row.t_ret) for row in rows if row.object == number]
        assert all(ended <= begins for (_, ended), (begins, _) in itertools.pairwise(ends)) or not is_orderly
    assert len(rows) == len(stored) or not is_orderly
