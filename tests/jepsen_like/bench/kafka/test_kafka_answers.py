"""The tables compare ours with Apache Kafka, load by load, and leave a dash where nothing was measured."""

import attrs

from jepsen_like.bench.figures import Document, Failover, Run, Throughput
from jepsen_like.bench.kafka import answers
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, ONE_AT_A_TIME, STREAMS, TRANSACTIONS

MACHINE = {"cpu": "a", "cores": "2", "memory": "1 GiB", "kernel": "Linux", "disk": "ext4", "python": "3"}


def make_throughput(system: str, load: str, records_s: float, repeat: int = 0, p50_ms: float = 1.0) -> Throughput:
    return Throughput(
        system=system,
        load=load,
        repeat=repeat,
        run="r",
        requests_s=records_s,
        records_s=records_s,
        bytes_s=records_s * 1000,
        p50_ms=p50_ms,
        p99_ms=2 * p50_ms,
        system_us=5.0,
        client_us=1.0,
    )


def document(*figures: Throughput | Failover) -> Document:
    systems = {name: {"title": name, "promise": "", "version": "1"} for name in ("apache", "quorumlog")}
    return Document(dict(MACHINE), [Run("r", "", 0.5)], systems, list(figures))


def test_a_stream_is_compared_by_the_medians_of_its_megabytes() -> None:
    load = STREAMS[0]
    ours = [
        make_throughput("quorumlog", load.key, rate, number) for number, rate in enumerate((30_000, 10_000, 20_000))
    ]
    (row,) = answers.TABLES.loads(document(*ours, make_throughput("apache", load.key, 10_000)))
    assert row == [load.title, "MB/s", "20.0", "10.0", "2.00", "10.0–30.0", "10.0–10.0", "5.0", "5.0"]
    assert len(answers.TABLES.loads_head(document())) == len(row)


def test_single_records_are_compared_by_latency_and_rate() -> None:
    load = ONE_AT_A_TIME[0]
    rows = answers.TABLES.loads(
        document(make_throughput("quorumlog", load.key, 2000, p50_ms=0.5), make_throughput("apache", load.key, 1000))
    )
    assert [row[1:5] for row in rows] == [
        ["p50 ms", "0.50", "1.00", "0.50"],
        ["p99 ms", "1.00", "2.00", "0.50"],
        ["records/s", "2,000", "1,000", "2.00"],
    ]


def test_transactions_are_compared_by_their_rate_and_the_latency_of_a_commit() -> None:
    load = TRANSACTIONS[0]
    ours = attrs.evolve(make_throughput("quorumlog", load.key, 20_000, p50_ms=4.0), requests_s=200)
    rows = answers.TABLES.loads(document(ours))
    assert [row[1:3] for row in rows] == [
        ["transactions/s", "200"],
        ["p50 ms of a commit", "4.00"],
        ["p99 ms of a commit", "8.00"],
    ]


def test_what_was_not_measured_is_a_dash() -> None:
    (row,) = answers.TABLES.loads(document(make_throughput("quorumlog", STREAMS[0].key, 1000)))
    assert row[2:5] == ["1.0", "–", "–"]
    assert answers.TABLES.loads(document()) == []


def test_faults_have_a_row_for_each_system_ours_first() -> None:
    rows = answers.TABLES.faults(
        document(Failover("apache", "kill", "r", [9.0, 10.0, 11.0]), Failover("quorumlog", "kill", "r", [1.0]))
    )
    assert [row[1:] for row in rows] == [
        ["quorumlog 1", "1.00", "1.00–1.00", "1"],
        ["apache 1", "10.00", "9.00–11.00", "3"],
    ]


def test_every_load_has_a_key_of_its_own() -> None:
    assert len({load.key for load in KAFKA_LOADS}) == len(KAFKA_LOADS)
    assert {load.settings["acks"] for load in KAFKA_LOADS} == {"all"}
