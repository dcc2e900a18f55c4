"""The outcome of a transaction, what a final log shows of it, and whom the faults of a run struck."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError

from jepsen_like.history.files import DumpWriter, read_dump
from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.observations import LEADER, RoleSeen
from jepsen_like.record.evidence import count_struck, of_struck
from jepsen_like.systems.kafka.final_log import FinalLogWriter, plain_value
from jepsen_like.systems.kafka.transactor import Transaction, Transactor
from jepsen_like.workload.payload import encode_value
from kafka_compat.markers import Marker, encode_marker
from kafka_compat.protocol.batch_header import assigned_start
from kafka_compat.records import encode_records


@pytest.mark.parametrize(
    ("commit_ns", "code", "outcome", "error"),
    [
        (-1, KafkaError._TIMED_OUT, Outcome.FAIL, ErrorCode.OTHER),
        (-1, KafkaError._FENCED, Outcome.FAIL, ErrorCode.FENCED),
        (7, KafkaError._TIMED_OUT, Outcome.INFO, ErrorCode.OTHER),
        (7, KafkaError._FENCED, Outcome.INFO, ErrorCode.FENCED),
    ],
)
def test_a_transaction_certainly_failed_only_if_its_commit_was_never_asked_for(
    commit_ns: int, code: int, outcome: Outcome, error: ErrorCode
) -> None:
    one = Transaction(1, 1, commit_ns=commit_ns)
    one.note(KafkaError(code))
    assert (one.outcome, one.error) == (outcome, error)


class AbortingProducer:
    """Delivers all records of a transaction but the last ones, and aborts it."""

    def __init__(self, *, undelivered: int) -> None:
        self._undelivered = undelivered
        self._reports: list[Callable[[object, object], None]] = []
        self.aborted = 0

    def begin_transaction(self) -> None: ...

    def purge(self) -> None: ...

    def produce(
        self, topic: str, record: bytes, *, partition: int, on_delivery: Callable[[object, object], None]
    ) -> None:
        self._reports.append(on_delivery)

    def flush(self, within_s: float) -> None:
        for report in self._reports[: len(self._reports) - self._undelivered]:
            report(None, SimpleNamespace(offset=lambda: 0))

    def abort_transaction(self, within_s: float) -> None:
        self.aborted += 1


@pytest.mark.parametrize("undelivered", [0, 1])
def test_a_producer_that_gave_records_up_makes_room_for_one_with_another_epoch(undelivered: int) -> None:
    producer: Any = AbortingProducer(undelivered=undelivered)
    pipe: Any = SimpleNamespace(report=lambda row: None)
    about = {"role": "feeder", "topic": "t", "partitions": 1, "record_bytes": 20, "seed": 1, "index": 0}
    plan: Any = SimpleNamespace(
        **about, transactional_id=1, input=0, first_number=0, numbers_step=1, authority=None, keystore=None
    )
    worker = Transactor(plan, pipe)
    worker._producer = producer
    assert worker._transact(producer, [], aborts=True) is Outcome.FAIL
    assert producer.aborted == 1
    assert worker._producer is (None if undelivered else producer)


def batches(*written: tuple[int, int, int | bool]) -> bytes:
    """Batches by (producer id, value): a value that is True or False is a marker; without a producer, plain records."""
    found = []
    for offset, producer_id, value in written:
        if isinstance(value, bool):
            batch = encode_marker(Marker(producer_id, 0, value, 0), 1)
        elif producer_id >= 0:
            batch = encode_records([(None, encode_value(value, 20))], 1, producer=(producer_id, 0))
        else:
            batch = encode_records([(None, encode_value(value, 20))], 1)
        start = assigned_start(int.from_bytes(batch[8:12], "big"), offset, 3)
        found.append(start + batch[len(start) :])
    return b"".join(found)


def test_a_final_log_hides_what_was_aborted_and_what_never_ended(tmp_path: Path) -> None:
    log = batches(
        (0, 7, 10), (1, 8, 20), (2, -1, 30), (3, 7, True), (4, 7, 11), (5, 8, False), (6, 8, 21), (7, 7, True)
    )
    with DumpWriter(tmp_path / "dump.parquet") as dump:
        dump.begin(2, 0, 5)
        writer = FinalLogWriter(dump, 2, 5, 0, plain_value)
        writer.take(memoryview(log), 8)
        writer.close()
    rows = read_dump(tmp_path / "dump.parquet").to_pylist()
    assert [(row["offset"], row["a"]) for row in rows] == [(0, 10), (1, -21), (2, 30), (4, 11), (6, -22)]
    assert {(row["object"], row["node"], row["epoch"]) for row in rows} == {(5, 2, 3)}


FAULT = FaultRecord(
    id=1, kind="kill", target="one", nodes=(2,), links=(), leader=1, term=1, intended_ns=50, begun_ns=50, injected_ns=51,
    ended_ns=60, observed={}, healed={},
)  # fmt: skip
TO_STRIKE = {"coordinators": ["__transaction_state-1"], "leaders": ["log-0"]}


def test_a_fault_struck_those_who_led_when_it_began() -> None:
    roles = [
        RoleSeen(2, 10, LEADER, 1, "__transaction_state-1"),
        RoleSeen(1, 10, LEADER, 1, "log-0"),
        RoleSeen(2, 55, LEADER, 2, "log-0"),
    ]
    assert count_struck([FAULT], roles, TO_STRIKE) == {"coordinators": 1, "leaders": 0}
    assert of_struck([FAULT], roles, TO_STRIKE) == ["no fault hit one of the leaders that the clients used"]
    moved = [*roles, RoleSeen(3, 20, LEADER, 2, "__transaction_state-1")]
    assert count_struck([FAULT], moved, TO_STRIKE) == {"coordinators": 0, "leaders": 0}
    later = attrs.evolve(FAULT, begun_ns=56)
    assert count_struck([FAULT, later], roles, TO_STRIKE) == {"coordinators": 2, "leaders": 1}
