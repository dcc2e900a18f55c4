"""A mirror between two real clusters copies each record once, whatever ends it, and no one but the newest can write."""

from functools import partial

import attrs
import pytest
import trio

from jepsen_like.mirror.ends import MirrorEnded, Why
from jepsen_like.mirror.kafka.mirror import run_mirror
from jepsen_like.mirror.kafka.switch import run_switch
from jepsen_like.mirror.plan import DivergedTail
from jepsen_like.mirror.switching import NotSwitched, SwitchPlan
from jepsen_like.systems.kafka.answers.rules import AnswerRule
from jepsen_like.testing.kafka.cluster import LocalKafka
from tests.jepsen_like.mirror.kafka.clusters import (
    TwoClusters,
    commit,
    end_transaction,
    open_transaction,
    open_two,
    produce,
    produce_aborted,
    read,
    read_committed_offset,
    until,
    until_copied,
    values_in,
)

pytestmark = pytest.mark.cluster


def make_values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_records_offsets_and_settings_are_copied_without_what_was_aborted() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 40))
        await produce_aborted(two.a, [b"never"])
        await produce(two.a, make_values(40, 40), **{"compression.type": "gzip", "linger.ms": 20})
        await produce_aborted(two.a, make_values(80, 3), commits=True)
        await commit(two.a, "group", 60)
        ended = await two.mirror_all()
        assert ended.why is Why.CAUGHT_UP
        assert ended.records == 83
        assert await read(two.b) == await read(two.a)
        # 60 is behind the aborted record and its marker; the copy has neither.
        unread = await values_in(two.a, 60)
        assert await values_in(two.b, await read_committed_offset(two.b, "group")) == unread


async def test_a_mirror_that_is_killed_in_a_transaction_leaves_nothing_twice() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 50))
        for end in ("AddPartitionsToTxn", "Produce", "EndTxn"):
            two.events.clear()
            rule = await two.b.answer(end, delay=3600, times=None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_mirror, two.plan, two.events.append)
                await until(partial(_has_seen, rule))
                # Cancelled with the connection held: the target knows an open transaction, or one that is about to end.
                nursery.cancel_scope.cancel()
            await two.b.undo(rule)
        await two.mirror_all()
        assert await values_in(two.b) == make_values(0, 50)


async def test_of_two_mirrors_the_newer_one_writes() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 20))
        ends: list[MirrorEnded] = []

        async def mirror() -> None:
            ends.append(await run_mirror(two.plan, two.events.append))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(mirror)
            await two.until("open")
            nursery.start_soon(mirror)
            await two.until("open", 2)
            await produce(two.a, make_values(20, 20))
            await until(lambda: bool(ends))
            await until_copied(two.b, make_values(0, 40))
            nursery.cancel_scope.cancel()
        assert [each.why for each in ends] == [Why.FENCED]
        assert await values_in(two.b) == make_values(0, 40)


async def test_a_switch_under_load_loses_what_it_states_and_an_old_mirror_writes_nothing_after_it() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 30))
        ends: list[MirrorEnded] = []

        async def mirror() -> None:
            ends.append(await run_mirror(two.plan, two.events.append))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(mirror)
            await two.until("open")
            with trio.fail_after(30):
                switched = await run_switch(SwitchPlan(two.plan), two.events.append)
        assert [each.why for each in ends] == [Why.FENCED]
        assert (switched.lost, switched.epoch) == (0, 2)
        # The old primary lives on: its records are behind the cut.
        await produce(two.a, make_values(900, 5))
        await produce(two.b, make_values(30, 5))
        refused = await two.mirror_all()
        assert refused.why is Why.REFUSED
        assert "is cut (epoch 2)" in refused.message
        assert await values_in(two.b) == make_values(0, 35)


async def test_a_switch_copies_the_tail_itself() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 5))
        await two.mirror_all()
        await produce(two.a, make_values(5, 5))
        await commit(two.a, "group", 8)
        switched = await run_switch(SwitchPlan(two.plan), two.events.append)
        assert switched.lost == 0
        assert await values_in(two.b) == make_values(0, 10)
        assert await values_in(two.b, await read_committed_offset(two.b, "group")) == make_values(8, 2)


async def test_what_a_switch_gives_up_is_counted_in_records() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 5))
        await two.mirror_all()
        await produce_aborted(two.a, [b"never"])
        await produce(two.a, make_values(5, 3))
        switched = await run_switch(SwitchPlan(two.plan, wait_s=0, gives_up=True), two.events.append)
        (left,) = switched.left
        assert (left.copied_to, left.source_end, left.lost) == (5, 10, 3)


async def test_a_switch_that_is_not_done_opens_the_link_again() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 5))
        await two.mirror_all()
        producer = await open_transaction(two.a, [b"open"])
        with pytest.raises(NotSwitched, match="the link is open again"):
            await run_switch(SwitchPlan(two.plan, wait_s=5), two.events.append)
        await end_transaction(producer)
        assert (await two.mirror_all()).why is Why.CAUGHT_UP
        assert await values_in(two.b) == [*make_values(0, 5), b"open"]


async def test_a_return_refuses_what_was_left_behind_until_it_is_told_what_to_do() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 10))
        await commit(two.a, "group", 10)
        await two.mirror_all()
        await run_switch(SwitchPlan(two.plan), two.events.append)
        await produce(two.a, make_values(900, 3))
        await produce(two.b, make_values(10, 10))
        await commit(two.b, "group", 15)
        back = two.plan.turn()
        refused = await two.mirror_all(back)
        assert refused.why is Why.REFUSED
        assert "holds 3 records from offset 10 on" in refused.message
        await two.mirror_all(attrs.evolve(back, diverged=DivergedTail.KEEP))
        assert await values_in(two.a) == make_values(0, 10) + make_values(900, 3) + make_values(10, 10)
        unread = await values_in(two.b, 15)
        assert await values_in(two.a, await read_committed_offset(two.a, "group")) == unread
        await run_switch(SwitchPlan(back), two.events.append)
        await produce(two.a, [b"new"])
        # The copy at b had none of what was kept at a, and has all that came after.
        again = await two.mirror_all()
        assert again.why is Why.CAUGHT_UP
        assert await values_in(two.b) == [*make_values(0, 20), b"new"]


async def test_a_return_may_copy_a_topic_from_nothing() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 10))
        await two.mirror_all()
        await run_switch(SwitchPlan(two.plan), two.events.append)
        await produce(two.a, make_values(900, 3))
        await commit(two.b, "group", 4)
        await two.mirror_all(attrs.evolve(two.plan.turn(), diverged=DivergedTail.RECREATE))
        assert await values_in(two.a) == make_values(0, 10)
        assert await read_committed_offset(two.a, "group") == 4


async def test_a_dead_source_is_given_up_only_when_told_and_the_rest_is_counted_when_it_is_back() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 10))
        await two.mirror_all()
        await produce(two.a, make_values(10, 4))
        await two.a.kill(1)
        with trio.fail_after(60), pytest.raises(NotSwitched, match="--give-up"):
            await run_switch(SwitchPlan(two.plan, wait_s=0.5), two.events.append)
        with trio.fail_after(60):
            switched = await run_switch(SwitchPlan(two.plan, wait_s=0.5, gives_up=True), two.events.append)
        assert switched.lost is None
        assert [each.copied_to for each in switched.left] == [10]


async def test_the_link_left_open_lets_the_old_cluster_write_into_the_new_one() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_mirror, two.plan, two.events.append)
            await two.until("open")
            await run_switch(SwitchPlan(two.plan, fences=False), two.events.append)
            await produce(two.b, [b"own"])
            await produce(two.a, [b"foreign"])
            await until_copied(two.b, [b"foreign"])
            nursery.cancel_scope.cancel()


async def test_a_target_with_records_of_its_own_and_a_circle_are_refused() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 2))
        await produce(two.b, make_values(5, 1))
        refused = await two.mirror_all()
        assert "holds records that are not of this link" in refused.message
        other = attrs.evolve(two.plan, topics=("none",))
        assert (await two.mirror_all(other)).why is Why.CAUGHT_UP
        circle = await two.mirror_all(attrs.evolve(two.plan.turn(), topics=("none",)))
        assert "circles" in circle.message


async def test_topics_follow_the_source() -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_mirror, two.plan, two.events.append)
            await two.until("open")
            await trio.to_thread.run_sync(_grow, two)
            await two.until("open", 2)
            # A topic that is gone holds no other one up, and its copy stays.
            await trio.to_thread.run_sync(_delete, two, "other")
            await two.until("open", 3)
            await produce(two.a, make_values(2, 2))
            await until_copied(two.b, make_values(2, 2))
            nursery.cancel_scope.cancel()
        assert await trio.to_thread.run_sync(_counts, two.b) == {"orders": 3, "other": 2}


def _has_seen(rule: AnswerRule) -> bool:
    return bool(rule.seen)


def _grow(two: TwoClusters) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

    admin = AdminClient({"bootstrap.servers": two.a.bootstrap_servers, "log_level": 0})
    made = admin.create_topics([NewTopic("other", 2, 1, config={"retention.ms": "1234567"})])
    grown = admin.create_partitions([NewPartitions("orders", 3)])
    for each in (*made.values(), *grown.values()):
        each.result(20)


def _delete(two: TwoClusters, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": two.a.bootstrap_servers, "log_level": 0})
    for each in admin.delete_topics([topic]).values():
        each.result(20)


def _counts(cluster: LocalKafka) -> dict[str, int]:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topics = admin.list_topics(timeout=20).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}
