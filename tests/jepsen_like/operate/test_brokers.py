"""Topics, groups and brokers by the command line, on clusters of both protocols."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.testing.kafka.sync import LocalKafka
from jepsen_like.testing.rocketmq.sync import LocalRocketMq

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]
QUIET = {"log_level": 0}


def runner(cluster: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        status = execute([*words, "--cluster", cluster, "--json"])
        shown = capsys.readouterr()
        return status, [json.loads(line) for line in shown.out.splitlines()], shown.err

    return call


# -------------------------------------------------------------------- kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka.open() as opened:
        yield opened


def test_a_topic_is_made_described_consumed_and_deleted(kafka: LocalKafka, capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(kafka.bootstrap_servers, capsys)
    flags = ("--partitions", "2", "--replication-factor", "3", "--set", "retention.ms=1000000")
    status, rows, _ = run("topics", "create", "orders", *flags)
    assert (status, rows) == (0, [{"topic": "orders", "outcome": "created", "partitions": 2, "replicas": 3}])

    producer = kafka.producer(QUIET)
    for _ in range(3):
        producer.produce("orders", b"x", partition=1)
    assert producer.flush(30) == 0
    status, rows, _ = run("topics", "describe", "orders")
    assert [(row["partition"], row["start"], row["end"]) for row in rows] == [(0, 0, 0), (1, 0, 3)]
    assert all(set(row["replicas"]) == {1, 2, 3} and row["leader"] in (1, 2, 3) for row in rows)

    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "shop", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **QUIET})
    consumer.subscribe(["orders"])
    message = next(found for found in iter(lambda: consumer.poll(0.1), object()) if found is not None)
    consumer.commit(message=message, asynchronous=False)
    status, rows, _ = run("groups")
    assert [(row["group"], row["members"], row["lag"], row["state"]) for row in rows] == [("shop", 1, 2, "Stable")]
    consumer.close()
    status, rows, _ = run("groups", "shop")
    assert {"topic": "orders", "partition": 1, "committed": 1, "end": 3, "lag": 2} in rows

    assert run("topics", "delete", "orders")[:2] == (0, [{"topic": "orders", "outcome": "deleted"}])
    kafka.forget("orders")
    assert "orders" not in [row["topic"] for row in run("topics")[1]]


def test_a_partition_moves_to_another_broker_with_all_that_it_holds(
    kafka: LocalKafka, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = runner(kafka.bootstrap_servers, capsys)
    assert run("topics", "create", "moved", "--partitions", "1", "--replication-factor", "2")[0] == ExitStatus.VALID
    before = run("topics", "describe", "moved")[1][0]["replicas"]
    producer = kafka.producer(QUIET)
    for _ in range(100):
        producer.produce("moved", b"x" * 100)
    assert producer.flush(30) == 0
    (spare,) = {1, 2, 3}.difference(before)
    flags = ("topics", "reassign", "moved", "--replace", f"{before[0]}={spare}")
    status, rows, shown = run(*flags)
    assert (status, [(row["adds"], row["removes"]) for row in rows]) == (0, [([spare], [before[0]])])
    assert "--execute" in shown
    assert run("topics", "describe", "moved")[1][0]["replicas"] == before

    status, rows, shown = run(*flags, "--execute", "--within", "60")
    assert status == ExitStatus.VALID
    after = run("topics", "describe", "moved")[1][0]
    assert (after["replicas"], sorted(after["in_sync"]), after["end"]) == (
        [spare, before[1]],
        sorted([spare, before[1]]),
        100,
    )
    assert run("topics", "reassign")[1] == []
    plan = tmp_path / "plan.json"
    plan.write_text(shown.partition("--plan: ")[2].splitlines()[0])
    assert run("topics", "reassign", "--plan", str(plan), "--execute", "--within", "60")[0] == ExitStatus.VALID
    assert run("topics", "describe", "moved")[1][0]["replicas"] == before


def test_a_move_to_a_broker_that_is_not_there_is_refused_and_changes_nothing(
    kafka: LocalKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(kafka.bootstrap_servers, capsys)
    run("topics", "create", "stays", "--partitions", "1")
    status, _, complaint = run("topics", "reassign", "stays", "--to", "1,2,9", "--execute")
    assert status == ExitStatus.NOT_DONE
    assert "stays-0: INVALID_REPLICA_ASSIGNMENT" in complaint
    assert "nothing was changed" in complaint
    assert run("topics", "reassign", "none", "--to", "1")[0] == ExitStatus.NOT_DONE
    assert run("topics", "reassign", "stays", "--cancel")[:2] == (ExitStatus.VALID, [])


def test_a_refusal_is_certain_and_names_the_next_command(kafka: LocalKafka, capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(kafka.bootstrap_servers, capsys)
    flags = f"--cluster {kafka.bootstrap_servers}"
    assert run("topics", "create", "twice")[0] == ExitStatus.VALID
    status, _, complaint = run("topics", "create", "twice")
    assert status == ExitStatus.NOT_DONE
    assert f"quorumlog topics describe twice {flags}" in complaint
    status, _, complaint = run("topics", "create", "wide", "--replication-factor", "4")
    assert (status, f"quorumlog brokers {flags}" in complaint) == (ExitStatus.NOT_DONE, True)
    for words in (("topics", "describe", "none"), ("topics", "delete", "none"), ("groups", "none")):
        status, rows, complaint = run(*words)
        assert (status, rows) == (ExitStatus.NOT_DONE, [])
        assert f"quorumlog {words[0]} {flags}" in complaint


def test_kafkas_brokers_are_shown_with_what_they_lead_and_hold(
    kafka: LocalKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(kafka.bootstrap_servers.split(",")[1], capsys)  # one of them knows all
    status, rows, _ = run("brokers")
    assert status == ExitStatus.VALID
    assert [(row["broker"], row["state"]) for row in rows] == [(1, "serving"), (2, "serving"), (3, "serving")]
    assert [row["role"] for row in rows].count("controller") == 1
    kafka.kill(3)
    try:
        status, rows, _ = run("brokers")
        assert [(row["broker"], row["behind"]) for row in rows if row["state"] == "silent"] == [(3, None)]
        _, _, complaint = run("topics")
        assert "broker 3" in complaint
    finally:
        kafka.start(3)
        kafka.wait_until_serving()


def test_a_change_that_may_still_be_committed_has_a_status_of_its_own(
    kafka: LocalKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(kafka.bootstrap_servers, capsys)
    controller = next(row["broker"] for row in run("brokers")[1] if row["role"] == "controller")
    others = [broker for broker in kafka.nodes if broker != controller]
    kafka.pause(*others)
    try:
        status, rows, complaint = run("topics", "create", "perhaps", "--within", "0.5")
    finally:
        kafka.resume(*others)
    assert (status, rows) == (ExitStatus.UNKNOWN, [])
    assert "see by quorumlog topics describe perhaps" in complaint


# -------------------------------------------------------------------- rocketmq


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[LocalRocketMq]:
    with LocalRocketMq.open(sync=True) as opened:
        yield opened


def test_rocketmqs_topics_are_made_described_and_deleted(
    rocketmq: LocalRocketMq, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(rocketmq.namesrv_addr, capsys)
    status, rows, _ = run("topics", "create", "orders", "--partitions", "2")
    assert status == ExitStatus.VALID
    assert (rows[0]["outcome"], rows[0]["queues"]) == ("created", 2)
    with rocketmq.producer() as producer:
        producer.send("orders", b"one")
    status, rows, _ = run("topics", "describe", "orders")
    assert [row["queue"] for row in rows] == [0, 1]
    assert sorted(row["end"] for row in rows) == [0, 1]
    status, _, complaint = run("topics", "create", "orders")
    assert (status, "quorumlog topics describe orders" in complaint) == (ExitStatus.NOT_DONE, True)
    assert run("topics", "delete", "orders")[0] == ExitStatus.VALID
    assert "orders" not in [row["topic"] for row in run("topics")[1]]
    status, _, complaint = run("topics", "describe", "orders")
    assert (status, "quorumlog topics --cluster" in complaint) == (ExitStatus.NOT_DONE, True)


def test_rocketmqs_brokers_are_shown_with_role_epoch_and_end(
    rocketmq: LocalRocketMq, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(rocketmq.namesrv_addr, capsys)
    status, rows, _ = run("brokers")
    assert status == ExitStatus.VALID
    assert [(row["id"], row["role"], row["behind"]) for row in rows] == [(0, "sync_master", 0), (1, "slave", 0)]
    assert rows[0]["in_sync"] == ["1"]
    assert run("groups")[0] == ExitStatus.VALID


def test_a_broker_in_the_place_of_a_name_server_is_recognized(
    rocketmq: LocalRocketMq, capsys: pytest.CaptureFixture[str]
) -> None:
    address = runner(rocketmq.namesrv_addr, capsys)("brokers")[1][0]["address"]
    status, _, complaint = runner(str(address), capsys)("topics")
    assert (status, "name its name servers in --cluster" in complaint) == (ExitStatus.NOT_DONE, True)


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create"),
        ("topics", "list", "x"),
        ("topics", "list", "--partitions", "3"),
        ("topics", "create", "x", "--set", "y"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert execute([*words, "--cluster", "127.0.0.1:1"]) == ExitStatus.USAGE
