"""A client gets the answers that a test asks for, and the cluster keeps what it promised."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.port.answers import WrongAnswer
from jepsen_like.testing.kafka.sync import LocalKafka

PATIENCE_S = 20
QUIET = {"log_level": 0, "linger.ms": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalKafka]:
    with LocalKafka.open(brokers=3) as opened:
        yield opened


@pytest.fixture(autouse=True)
def heal(cluster: LocalKafka) -> Iterator[None]:
    yield
    cluster.heal()


def read(cluster: LocalKafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        return [message.value() for message in consumer.consume(count, PATIENCE_S) if message.error() is None]
    finally:
        consumer.close()


def test_a_commit_that_is_refused_once_is_tried_again_and_done(cluster: LocalKafka) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "one"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    rule = cluster.answer("EndTxn", error="CONCURRENT_TRANSACTIONS", times=1)
    producer.commit_transaction(PATIENCE_S)
    assert (rule.done, rule.seen) == (1, 2)
    assert read(cluster, "orders", 1) == [b"one"]


def test_a_produce_whose_answer_is_lost_is_repeated_and_stands_once(cluster: LocalKafka) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
    producer = Producer({**QUIET, **settings})
    producer.produce("payments", b"first")
    assert producer.flush(PATIENCE_S) == 0
    lost = cluster.answer("Produce", disconnect="after", topic="payments")
    other = cluster.answer("Produce", disconnect="before", topic="another")
    for value in (b"second", b"third"):
        producer.produce("payments", value)
        assert producer.flush(PATIENCE_S) == 0
    assert lost.done == 1
    assert (other.seen, other.done) == (0, 0)
    assert read(cluster, "payments", 3) == [b"first", b"second", b"third"]


def test_a_fetch_that_hangs_comes_when_the_wish_is_undone(cluster: LocalKafka) -> None:
    producer = Producer({**QUIET, "bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("hung", b"one")
    assert producer.flush(PATIENCE_S) == 0
    rule = cluster.answer("Fetch", delay=3600, times=2, client_id="slow")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "slow", "group.id": "hung", "log_level": 0}
    )
    consumer.assign([TopicPartition("hung", 0, OFFSET_BEGINNING)])
    while not rule.done:
        assert consumer.poll(0.02) is None
    cluster.undo(rule)
    assert [message.value() for message in consumer.consume(1, PATIENCE_S)] == [b"one"]
    consumer.close()
    assert next(str(each) for each in cluster.answers() if each is rule).endswith("undone")


def test_a_wish_that_makes_no_sense_is_refused_with_what_there_is(cluster: LocalKafka) -> None:
    with pytest.raises(WrongAnswer, match=r"did you mean .*EndTxn"):
        cluster.answer("EndTransaction", error="NOT_COORDINATOR")
    with pytest.raises(WrongAnswer, match=r"did you mean CONCURRENT_TRANSACTIONS"):
        cluster.answer("EndTxn", error="CONCURRENT_TRANSACTION")


def test_a_proxy_before_brokers_keeps_its_clients_and_follows_the_command(
    cluster: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        sys.executable,
        "-m",
        "jepsen_like.cli",
        "proxy",
        "--to",
        cluster.bootstrap_servers,
        "--data",
        str(tmp_path),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            name, _, servers = running.stdout.readline().strip().partition("=")
            assert name == "bootstrap.servers"
            producer = Producer({**QUIET, "bootstrap.servers": servers})
            brokers = producer.list_topics(timeout=PATIENCE_S).brokers.values()
            assert {f"{each.host}:{each.port}" for each in brokers}.isdisjoint(cluster.bootstrap_servers.split(","))
            wish = [
                "fault",
                "answer",
                "Produce",
                "--error",
                "NOT_ENOUGH_REPLICAS",
                "--times",
                "2",
                "--data",
                str(tmp_path),
            ]
            assert execute(wish) == ExitStatus.VALID
            producer.produce("through", b"one")
            assert producer.flush(PATIENCE_S) == 0
            assert execute(["fault", "status", "--data", str(tmp_path)]) == ExitStatus.VALID
            assert "error NOT_ENOUGH_REPLICAS, done 2 of 2, 3 seen" in capsys.readouterr().out
            assert execute(["fault", "answer", "Produse", "--delay", "1", "--data", str(tmp_path)]) == ExitStatus.USAGE
            assert "did you mean Produce" in capsys.readouterr().err
        finally:
            running.terminate()
        assert running.wait(PATIENCE_S) == ExitStatus.VALID
    assert read(cluster, "through", 1) == [b"one"]
