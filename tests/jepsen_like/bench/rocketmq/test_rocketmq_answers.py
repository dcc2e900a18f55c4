"""The tables compare ours with Apache RocketMQ, mode by mode, and leave a dash where nothing was measured."""

from jepsen_like.bench.figures import Document, Failover, ProducerErrors, Run, Throughput
from jepsen_like.bench.rocketmq import answers, command
from jepsen_like.bench.rocketmq.loads import ASYNC, DURABLE, LOADS, MODES, key_of

MACHINE = {"cpu": "a", "cores": "2", "memory": "1 GiB", "kernel": "Linux", "disk": "ext4", "python": "3"}


def make_throughput(system: str, load: str, records_s: float, repeat: int = 0) -> Throughput:
    return Throughput(
        system=system,
        load=load,
        repeat=repeat,
        run="r",
        requests_s=records_s,
        records_s=records_s,
        bytes_s=records_s * 1000,
        p50_ms=1.0,
        p99_ms=2.0,
        system_us=5.0,
    )


def document(*figures: Throughput | Failover | ProducerErrors) -> Document:
    systems = {name: {"title": name, "promise": "", "version": "1"} for name in ("apache", "quorumlog")}
    return Document(dict(MACHINE), [Run("r", "", 0.5)], systems, list(figures))


def test_many_messages_are_compared_by_the_medians_of_their_rates() -> None:
    (load,) = [load for load in LOADS if load.key == "128-many"]
    key = key_of(ASYNC, load)
    ours = [make_throughput("quorumlog", key, rate, number) for number, rate in enumerate((3000, 1000, 2000))]
    (row,) = answers.TABLES.loads(document(*ours, make_throughput("apache", key, 4000)))
    shown = ["2,000", "4,000", "0.50", "1,000–3,000", "4,000–4,000", "5.0", "5.0"]
    assert row == [ASYNC.title, load.title, "messages/s", *shown]
    assert len(answers.TABLES.loads_head(document())) == len(row)


def test_one_message_in_flight_is_compared_by_latency_too_and_what_is_missing_is_a_dash() -> None:
    rows = answers.TABLES.loads(document(make_throughput("quorumlog", key_of(DURABLE, LOADS[0]), 500)))
    assert [row[2:6] for row in rows] == [
        ["p50 ms", "1.00", "–", "–"],
        ["p99 ms", "2.00", "–", "–"],
        ["messages/s", "500", "–", "–"],
    ]


def test_errors_of_producers_are_added_up() -> None:
    errors = [
        ProducerErrors("quorumlog", "kill", "r", 100, 0, unknown, moved=10, longest_s=longest)
        for unknown, longest in ((1, 0.1), (2, 0.3), (0, 0.2))
    ]
    assert answers.producers(document(*errors)) == [["quorumlog 1", "3", "300", "0", "3", "30", "200", "300"]]


def test_faults_have_a_row_for_each_system_ours_first() -> None:
    rows = answers.TABLES.faults(
        document(Failover("apache", "kill", "r", [9.0, 10.0, 11.0]), Failover("quorumlog", "kill", "r", [1.0]))
    )
    assert [row[1:] for row in rows] == [
        ["quorumlog 1", "1.00", "1.00–1.00", "1"],
        ["apache 1", "10.00", "9.00–11.00", "3"],
    ]


def test_every_load_has_a_key_of_its_own_and_every_mode_a_flag() -> None:
    assert len({key_of(mode, load) for mode in MODES for load in LOADS}) == len(MODES) * len(LOADS)
    assert tuple(mode.key for mode in MODES) == command.MODES
