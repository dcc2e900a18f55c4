"""A mirror under load while brokers of both clusters are killed and cut off, and other mirrors take the link from it."""

import random
import threading

import pytest
import trio
from confluent_kafka import Message, Producer

from jepsen_like.mirror.kafka.mirror import run_mirror
from jepsen_like.mirror.kafka.switch import run_switch
from jepsen_like.mirror.switching import SwitchPlan
from jepsen_like.testing.kafka.cluster import LocalKafka
from tests.jepsen_like.mirror.kafka.clusters import PATIENCE_S, QUIET, TOPIC, TwoClusters, values_in

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(240)]

TROUBLE_S = 20
COPIES = dict.fromkeys(("default.replication.factor", "offsets.topic.replication.factor"), 3)


def send_until(stopping: threading.Event, cluster: LocalKafka, acknowledged: list[bytes]) -> None:
    """Send numbers in order, and note those that are acknowledged."""
    settings = {**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
    producer, number = Producer(settings), 0

    def note(error: object, sent: Message) -> None:
        if error is None:
            acknowledged.append(sent.value())

    while not stopping.is_set():
        value = b"%d" % number
        producer.produce(TOPIC, value, on_delivery=note)
        producer.poll(0.002)
        number += 1
    producer.flush(PATIENCE_S)


async def make_trouble(two: TwoClusters, rng: random.Random, nursery: trio.Nursery) -> None:
    with trio.move_on_after(TROUBLE_S):
        while True:
            cluster, node = rng.choice([two.a, two.b, two.b]), rng.choice([1, 2, 3])
            await trio.sleep(rng.random() * 1.5)
            match rng.choice(["kill", "kill", "isolate", "mirror"]):
                case "kill":
                    await cluster.kill(node)
                    await trio.sleep(rng.random() * 1.5)
                    await cluster.start(node)
                case "isolate":
                    await cluster.isolate(node)
                    await trio.sleep(rng.random() * 2)
                    await cluster.heal()
                case _:
                    nursery.start_soon(run_mirror, two.plan, two.events.append)
    for cluster in (two.a, two.b):
        await cluster.heal()
        await cluster.start()


@pytest.mark.parametrize("seed", range(1, 4))
async def test_a_switch_after_all_that_finds_each_record_once_and_in_order(seed: int) -> None:
    rng, stopping, acknowledged = random.Random(seed), threading.Event(), list[bytes]()
    async with (
        LocalKafka.open(brokers=3, seed=seed, settings=COPIES) as a,
        LocalKafka.open(brokers=3, seed=seed + 1, settings=COPIES) as b,
    ):
        two = TwoClusters(a, b)
        async with trio.open_nursery() as outer:
            outer.start_soon(trio.to_thread.run_sync, send_until, stopping, a, acknowledged)
            async with trio.open_nursery() as mirrors:
                mirrors.start_soon(run_mirror, two.plan, two.events.append)
                await make_trouble(two, rng, mirrors)
                stopping.set()
                mirrors.cancel_scope.cancel()
        with trio.fail_after(90):
            switched = await run_switch(SwitchPlan(two.plan, wait_s=60), two.events.append)
        copied = await values_in(b)
        assert switched.lost == 0
        assert copied == await values_in(a)
        assert set(acknowledged) <= set(copied)
