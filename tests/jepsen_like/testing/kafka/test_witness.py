"""The check that other languages ask for sees what the fixture's own check sees."""

import trio

from jepsen_like.testing.kafka.cluster import LocalKafka
from jepsen_like.testing.kafka.sync import LocalKafka as BlockingKafka
from jepsen_like.testing.kafka.witness import KafkaWitness


def report(offset: int, value: str) -> dict[str, object]:
    return {"topic": "orders", "partition": 0, "offset": offset, "value": value}


def test_reported_records_are_looked_for_on_every_replica(kafka_cluster: BlockingKafka) -> None:
    producer = kafka_cluster.producer({"log_level": 0})
    producer.produce("orders", b"tea")
    assert producer.flush(30) == 0
    cluster: LocalKafka = kafka_cluster._loop.living
    witness = KafkaWitness(cluster._control, cluster.nodes)
    witness.note({"records": [report(0, "tea")]})
    found = trio.run(lambda: witness.compare(within_s=30))
    assert (found.valid, found.acknowledged, found.broken) == (True, 1, ())
    assert found.compared >= 1
    witness.note({"records": [report(1, "milk"), {"topic": "gone", "partition": 0, "offset": 0, "value": None}]})
    found = trio.run(lambda: witness.compare(within_s=30))
    lost = [f"orders-0: offset 1, b'milk', is lost on broker {broker}" for broker in (1, 2, 3)]
    assert (found.valid, found.broken) == (False, (*lost, "gone-0 is gone, with 1 acknowledged records"))
    witness.forget()
    assert trio.run(lambda: witness.compare(within_s=30)).valid
