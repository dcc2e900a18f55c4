"""The check that other languages ask for sees what the fixture's own check sees."""

import pytest
import trio

from jepsen_like.systems.rocketmq.control import RocketControl
from jepsen_like.testing.rocketmq.cluster import LocalRocketMq
from jepsen_like.testing.rocketmq.ledger import HeldMessage, QueueCopy
from jepsen_like.testing.rocketmq.sync import LocalRocketMq as BlockingRocketMq
from jepsen_like.testing.rocketmq.witness import RocketWitness, list_differences, operator_of


def report(offset: int, value: str, **more: object) -> dict[str, object]:
    return {"topic": "orders", "queue": 0, "offset": offset, "value": value, **more}


@pytest.mark.rocketmq_cluster(sync=True)
def test_reported_messages_are_looked_for_on_every_copy(rocketmq_cluster: BlockingRocketMq) -> None:
    with rocketmq_cluster.producer() as producer:
        producer.send("orders", b"tea", broker_name="broker-a", queue_id=0)
    cluster: LocalRocketMq = rocketmq_cluster._loop.living
    control = RocketControl(cluster.groups.mode.on(len(cluster.brokers)), cluster._direct)
    witness = RocketWitness(control, operator_of(cluster._secret, []))
    witness.note({"records": [report(0, "tea")]})
    found = trio.run(lambda: witness.compare(within_s=30))
    assert (found.valid, found.acknowledged, found.broken) == (True, 1, ())
    assert found.compared >= 1
    witness.note({"records": [report(0, "milk"), report(1, "milk"), report(0, "tea", broker="broker-z")]})
    found = trio.run(lambda: witness.compare(within_s=30))
    wrong = [f"orders-0 of broker-a: offset 0, b'milk', is b'tea' on broker {broker}" for broker in (1, 2)]
    lost = [f"orders-0 of broker-a: offset 1, b'milk', is lost on broker {broker}" for broker in (1, 2)]
    assert (found.valid, found.broken) == (
        False,
        (*wrong, *lost, "orders-0 of broker-z: offset 0, b'tea': there is no such group"),
    )
    witness.forget()
    assert trio.run(lambda: witness.compare(within_s=30)).valid


def test_copies_that_differ_are_named_with_the_place() -> None:
    tea, milk = HeldMessage(b"1", b"tea"), HeldMessage(b"2", b"milk")
    own, other = QueueCopy(0, {0: tea, 1: tea, 2: tea}), QueueCopy(1, {1: tea, 2: milk})
    assert list(list_differences({2: {("orders", 0): own}, 1: {("orders", 0): other}})) == [
        "orders-0: brokers 2 and 1 differ at offset 2"
    ]
