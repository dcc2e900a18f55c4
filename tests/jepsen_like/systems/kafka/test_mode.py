"""Settings become what brokers and producers are told, and what a run is held to."""

import itertools
import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryWriter, KeepRule
from jepsen_like.port.port import Member, ProcessPlan, WrongMode
from jepsen_like.systems.apache_kafka.mode import ApacheMode
from jepsen_like.systems.kafka.load import consumer_config, load_of, producer_config, transactional_config
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.workload.load import LoadPlan

SYSTEM = KafkaAdapter()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["acks=2"], "acks takes one of 0, 1, all"),
        (["acks"], "acks needs a value"),
        (["ackz=1"], "Did you mean acks?"),
        (["enable.idempotence=yes"], "enable.idempotence takes true or false"),
        (["enable.idempotence=true", "acks=1"], "enable.idempotence=true needs acks=all"),
        (["min.insync.replicas=4"], "min.insync.replicas=4 can never be met with default.replication.factor=3"),
        (["min.insync.replicas=2", "offsets.topic.replication.factor=1"], "offsets.topic.replication.factor=1"),
        (["min.insyc.replicas=2"], "Did you mean min.insync.replicas"),
        (["partition=2"], "Did you mean num.partitions"),
        (["partitions=2", "num.partitions=3"], "num.partitions is given twice"),
        (["flush=never"], "flush=never"),
        (["linger.ms=5"], "linger.ms is a setting of producers"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_what_to_give(words: list[str], said: str) -> None:
    with pytest.raises(WrongMode) as refused:
        SYSTEM.configure(words, "isr")
    assert said in str(refused.value)


def test_brokers_get_brokers_settings_and_clients_theirs() -> None:
    mode = KafkaMode.of(["acks=all", "enable.idempotence=true", "partitions=5", "message.max.bytes=2000"])
    words = dict(word.split("=") for word in mode.broker_words(5))
    assert (words["num.partitions"], words["message.max.bytes"]) == ("5", "2000")
    assert (words["default.replication.factor"], words["offsets.topic.replication.factor"]) == ("3", "3")
    assert words["unclean.leader.election.enable"] == "false"
    assert words.keys().isdisjoint({"acks", "enable.idempotence"})
    alone = dict(word.split("=") for word in mode.broker_words(1))
    assert alone["default.replication.factor"] == alone["transaction.state.log.min.isr"] == "1"
    assert words["transaction.state.log.min.isr"] == "2"
    config = producer_config(mode, "here:1")
    assert (config["acks"], config["enable.idempotence"]) == ("all", True)
    assert "retries" not in config


def test_with_a_rack_consumers_read_from_the_replica_there_and_the_run_has_to_show_it() -> None:
    mode = KafkaMode.of(["client.rack=rack-2"])
    words = dict(word.split("=") for word in mode.broker_words(3))
    assert words["replica.selector.class"].endswith("RackAwareReplicaSelector")
    assert "client.rack" not in words
    assert consumer_config(mode, "here:1", "g")["client.rack"] == "rack-2"
    assert SYSTEM.describe(mode, "log")["shows"] == ["reads that followers answered"]
    assert "shows" not in SYSTEM.describe(KafkaMode.of([]), "log")


@pytest.mark.parametrize("words", [["acks=1"], ["acks=0"], ["enable.idempotence=false"]])
def test_without_a_producer_id_nothing_is_sent_twice(words: list[str]) -> None:
    mode = KafkaMode.of(words)
    assert not mode.is_idempotent
    assert producer_config(mode, "here:1")["retries"] == 0


@pytest.mark.parametrize("kind", [KafkaMode, ApacheMode])
def test_a_producer_of_transactions_can_be_made(kind: type[KafkaMode]) -> None:
    config = transactional_config(kind.of([]), "127.0.0.1:1")
    Producer({**config, "transactional.id": "one"})


def test_a_mode_is_read_back_from_the_description_of_its_run() -> None:
    mode = KafkaMode.of(["acks=1", "min.insync.replicas=2"])
    test = json.loads(json.dumps({"replication": "isr", "settings": dict(mode.settings)}))
    assert SYSTEM.mode_of(test) == mode
    del test["settings"]["acks"]
    with pytest.raises(KeyError):
        SYSTEM.mode_of(test)


@pytest.mark.parametrize(
    ("words", "nodes", "spare"),
    [
        ([], 3, 1),
        (["min.insync.replicas=2"], 3, 1),
        (["min.insync.replicas=3"], 3, 0),
        (["min.insync.replicas=2", "acks=1"], 3, 1),
        (["default.replication.factor=1"], 3, 0),
        (["default.replication.factor=5", "min.insync.replicas=2"], 5, 2),
        ([], 5, 2),
        ([], 1, 0),
    ],
)
def test_it_spares_what_neither_controller_nor_isr_needs(words: list[str], nodes: int, spare: int) -> None:
    assert KafkaMode.of(words).spare(nodes) == spare


def test_what_cannot_be_judged_is_refused_before_the_run() -> None:
    assert "no broker says where a record went" in (KafkaMode.of(["acks=0"]).refusal(Model.LOG, ()) or "")
    assert KafkaMode.of(["acks=0"]).refusal(Model.QUEUE, ()) is None
    assert "log.retention" in (KafkaMode.of(["log.retention.ms=1000"]).refusal(Model.LOG, ()) or "")
    assert KafkaMode.of([]).refusal(Model.LOG, ("kill", "power")) is None
    assert KafkaMode.of([]).keep_rule(()) == KeepRule()


def test_a_broker_is_told_the_ways_through_the_fault_network() -> None:
    plan = ProcessPlan(
        member=Member(2, "broker"),
        cluster_id="run-7",
        listen=("127.0.0.1", 1),
        data=Path("/data"),
        peers={1: ("127.0.0.1", 21), 3: ("127.0.0.1", 23)},
        advertised={1: ("127.0.0.1", 31), 2: ("127.0.0.1", 32), 3: ("127.0.0.1", 33)},
        mode=KafkaMode.of([]),
    )
    words = SYSTEM.command(plan)
    assert words[1:11] == [
        *("-m", "kafka_compat.process", "--cluster-id", "run-7", "--id", "2"),
        *("--listen", "127.0.0.1:1", "--data", "/data"),
    ]
    pairs = list(itertools.pairwise(words))
    assert [value for option, value in pairs if option == "--peer"] == ["1=127.0.0.1:21", "3=127.0.0.1:23"]
    assert ("--advertised", "2=127.0.0.1:32") in pairs
    assert ("--set", "default.replication.factor=3") in pairs


@pytest.mark.parametrize(("concurrency", "slots"), [(10, [5, 5]), (7, [4, 3]), (1, [1])])
@pytest.mark.parametrize(
    ("workload", "others"), [("log", ["reader"]), ("group", ["member", "member", "member", "reader"])]
)
def test_clients_share_concurrency_and_rate(
    tmp_path: Path, concurrency: int, slots: list[int], workload: str, others: list[str]
) -> None:
    plan = LoadPlan(concurrency=concurrency, rate=90.0)
    with HistoryWriter(tmp_path) as history:
        load = load_of(KafkaMode.of([]), workload, SYSTEM.recorder(workload, history), "x:1", "log", plan)
    senders = [plan for plan in load.plans if plan.role == "sender"]
    assert [plan.slots for plan in senders] == slots
    assert sum(plan.rate for plan in senders) == pytest.approx(90.0)
    assert [plan.role for plan in load.plans[len(senders) :]] == others
