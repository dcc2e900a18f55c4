"""Progress under a fault counts if the load's clients make it in the second half, on what was left when it began."""

from array import array
from pathlib import Path

from jepsen_like.history.files import HistoryWriter
from jepsen_like.record.under_faults import under_faults
from jepsen_like.workload.queue_recorder import QueueRecorder
from tests.jepsen_like.record.test_recovery_time import a_fault

S = 10**9
KEYS = 4


def test_what_was_left_and_what_became_of_it(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        recorder = QueueRecorder(history)

        def record_send(value: int, at_s: int, *, node: int = -1) -> None:
            recorder.record_send(
                value, partition=0, offset=value, process=1, t_inv=at_s * S, t_ret=at_s * S + 1, node=node
            )

        def record_poll(value: int, at_s: int) -> None:
            one = array("q", [value])
            recorder.record_poll(one, one, partition=0, process=2, t_inv=at_s * S, t_ret=at_s * S + 1, group=0)

        for value, at_s in ((4, 1), (5, 1), (6, 2), (8, 3), (9, 8), (13, 11)):
            record_send(value, at_s)
        record_send(10, 8, node=3)  # our own clients are no part of the load
        for value, at_s in ((4, 2), (5, 6), (6, 9), (4, 9), (9, 9), (8, 12)):
            record_poll(value, at_s)
    (found,) = under_faults(tmp_path, {"queue": {"pushed": True, "keys": KEYS}}, [a_fault(4, 10)])
    # Left were 5, 6 and 8; 5 was given in the first half, 8 after the end; 4 was given again, and 9 had not been sent before.
    assert found == {"id": 1, "hold_s": 6.0, "left": 3, "given_late": 1, "keys": 3, "keys_waiting": 2}


def test_a_run_whose_messages_are_not_pushed_has_none(tmp_path: Path) -> None:
    assert under_faults(tmp_path, {"queue": {}}, [a_fault(4, 10)]) == []
