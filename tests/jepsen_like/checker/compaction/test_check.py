"""Each way in which compaction can go wrong, planted in a sound run as its recorder writes it, is found by its name."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter, UnreadableHistory
from jepsen_like.history.keyed_values import is_deletion, key_of, keyed_value
from jepsen_like.history.ops import NONE, ErrorCode, Outcome
from jepsen_like.workload.client_rows import EndRow
from jepsen_like.workload.keyed import FINAL_SCAN, SCAN, KeyedRecorder

MS = 1_000_000
LAG_MS, RETENTION_MS, DUMPED_MS = 1000, 4000, 20_000
NODES = (1, 2, 3)
PRODUCER, SCANNERS = 1, 100
A, B, C, D = range(4)
"""A is written often, B twice, C is deleted early and D late."""


@attrs.define
class Sent:
    """A record: where it stands (`NONE`: nowhere that its producer knows), and when it was sent."""

    value: int
    offset: int
    at_ms: int
    outcome: Outcome = Outcome.OK


@attrs.define
class Scan:
    """A scan of these offsets up to an end; it takes so long."""

    offsets: list[int]
    end: int
    begun_ms: int
    took_ms: int = 100
    level: int = SCAN


@attrs.define
class Run:
    """A sound run of one partition, in which a test changes something before it is written."""

    sent: list[Sent]
    logs: dict[int, list[int]]
    """By node: the offsets that are left."""
    scans: list[Scan]
    moved: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """By node and offset: another value than was sent."""

    @classmethod
    def sound(cls) -> "Run":
        writes = [(A, 0), (B, 0), (C, 0), (A, 0), (C, 1), (B, 0), (D, 0), (A, 0), (D, 1), (A, 0)]
        sent = []
        for offset, (key, deletes) in enumerate(writes):
            value = keyed_value(offset + 1, key, is_deletion=bool(deletes))
            sent.append(Sent(value, offset, 1000 + 500 * offset))
        sent[8].at_ms, sent[9].at_ms = DUMPED_MS - 3000, DUMPED_MS - 500
        run = cls(sent, {node: [5, 7, 8, 9] for node in NODES}, [])
        run.logs[2] = [3, 5, 6, 7, 8, 9]  # it was compacted less
        run.scans = [
            Scan([0, 1, 2, 3], 4, 2600),
            Scan([1, 3, 4], 5, 4500),
            Scan([4, 5, 6, 7], 8, 6000),
            Scan([5, 7, 8, 9], 10, DUMPED_MS - 400, level=FINAL_SCAN),
        ]
        return run

    def drop(self, offset: int, nodes: tuple[int, ...] = NODES) -> None:
        for node in nodes:
            self.logs[node] = [each for each in self.logs[node] if each != offset]

    def write(self, directory: Path, *, dumps: bool = True) -> None:
        by_offset = {one.offset: one.value for one in self.sent if one.offset != NONE}
        with HistoryWriter(directory / "history.parquet") as history:
            recorder = KeyedRecorder(history)
            for one in self.sent:
                times = {"t_inv": one.at_ms * MS, "t_ret": (one.at_ms + 20) * MS}
                if one.outcome is Outcome.OK:
                    recorder.record_send(one.value, offset=one.offset, partition=0, process=PRODUCER, **times)
                else:
                    error = ErrorCode.TIMEOUT
                    recorder.not_sent(one.value, one.outcome, error, partition=0, process=PRODUCER, **times)
            for number, scan in enumerate(self.scans):
                begun, ended, process = scan.begun_ms * MS, (scan.begun_ms + scan.took_ms) * MS, SCANNERS + number
                values = [by_offset[offset] for offset in scan.offsets]
                recorder.record_poll(values, scan.offsets, partition=0, process=process, t_inv=begun, t_ret=ended)
                recorder.record_scan(EndRow(0, scan.level, 0, 0, scan.end, begun, ended), process=process)
        if dumps:
            with DumpWriter(directory / "dump.parquet") as dump:
                for node, offsets in self.logs.items():
                    dump.begin(node, 0, 0)
                    for offset in offsets:
                        dump.record(node, offset, 1, [self.moved.get((node, offset), by_offset[offset])])
                dump.dumped_ns = DUMPED_MS * MS
        terms = {"min_lag_ms": LAG_MS, "delete_retention_ms": RETENTION_MS}
        (directory / "test.json").write_text(json.dumps({"compaction": terms}))

    def judge(self, directory: Path) -> Verdict:
        self.write(directory)
        return check_run(directory, Model.COMPACTED, Engine.LOCAL)


def checks_of(verdict: Verdict) -> set[Check]:
    return set(verdict.findings.counts)


def test_a_value_names_its_key_and_whether_it_deletes_it() -> None:
    value = keyed_value(7, 12_345, is_deletion=True)
    assert (key_of(value), is_deletion(value)) == (12_345, 1)
    assert is_deletion(keyed_value(7, 12_345, is_deletion=False)) == 0


def test_a_sound_run_is_valid_and_counts_what_left(tmp_path: Path) -> None:
    verdict = Run.sound().judge(tmp_path)
    assert verdict.valid is True
    assert verdict.not_tested == ()
    assert verdict.as_json()["objects"]["compaction"] == {"removed": 6, "keys": 4, "deleted_keys": 1}


def forget_the_last_value(run: Run) -> None:
    run.drop(5, (3,))


def forget_the_last_value_for_one_that_no_one_saw(run: Run) -> None:
    run.sent.append(Sent(keyed_value(50, B, is_deletion=False), NONE, 9000, Outcome.INFO))
    run.drop(5, (1,))


def forget_the_last_value_in_a_scan(run: Run) -> None:
    run.scans[2].offsets = [4, 6, 7]


def bring_an_older_value_back(run: Run) -> None:
    run.logs[1] = [1, 7, 8, 9]


def bring_a_deleted_value_back(run: Run) -> None:
    run.logs[3] = [2, 5, 7, 8, 9]


def bring_a_deleted_value_back_in_the_last_scan(run: Run) -> None:
    run.scans[-1].offsets = [2, 5, 7, 8, 9]


def take_a_deletion_too_early(run: Run) -> None:
    run.drop(8, (1,))
    run.drop(6)


def take_a_deletion_too_early_in_a_scan(run: Run) -> None:
    run.scans[1].offsets = [1, 3]
    run.scans[1].begun_ms = 6000


def take_a_young_record(run: Run) -> None:
    run.sent[7].at_ms, run.sent[8].at_ms = DUMPED_MS - 900, DUMPED_MS - 850
    run.drop(7, (2,))


def take_a_young_record_in_a_scan(run: Run) -> None:
    run.sent[0].at_ms, run.sent[1].at_ms, run.sent[2].at_ms = 2000, 2100, 2200
    run.scans[0].offsets = [1, 2, 3]


def move_a_record(run: Run) -> None:
    run.moved[3, 8] = run.sent[7].value


def make_a_value_up(run: Run) -> None:
    run.moved[1, 7] = keyed_value(99, A, is_deletion=False)


def keep_what_failed(run: Run) -> None:
    run.sent[7].outcome = Outcome.FAIL


def go_back_in_a_scan(run: Run) -> None:
    run.scans[2].offsets = [4, 6, 5, 7]


def change_the_order(run: Run) -> None:
    run.sent[7].at_ms = run.sent[5].at_ms - 1


@pytest.mark.parametrize(
    ("spoil", "found", "words"),
    [
        (forget_the_last_value, {Check.LOST}, "node 3 lacks the newest record of key 1, at offset 5"),
        (forget_the_last_value_for_one_that_no_one_saw, {Check.LOST}, "node 1 lacks the newest record of key 1"),
        (forget_the_last_value_in_a_scan, {Check.LOST}, "process 102 lacks the newest record of key 1"),
        (bring_an_older_value_back, {Check.RESURRECTED}, "at offset 5, and has an older one, at offset 1"),
        (bring_a_deleted_value_back, {Check.RESURRECTED}, "newest deletion of key 2, .* at offset 2"),
        (bring_a_deleted_value_back_in_the_last_scan, {Check.RESURRECTED}, "process 103 lacks the newest deletion"),
        (take_a_deletion_too_early, {Check.DELETION_GONE}, "node 1 lacks the newest deletion of key 3, at offset 8"),
        (take_a_deletion_too_early_in_a_scan, {Check.DELETION_GONE}, "process 101 lacks the newest deletion of key 2"),
        (take_a_young_record, {Check.COMPACTED_EARLY}, "node 2 lacks the record at offset 7, 900 ms after it was sent"),
        (take_a_young_record_in_a_scan, {Check.COMPACTED_EARLY}, "lacks the record at offset 0, 700 ms after"),
        (move_a_record, {Check.DIVERGENT_OFFSET, Check.DUPLICATED, Check.DELETION_GONE}, "offset 8 has two values"),
        (make_a_value_up, {Check.PHANTOM, Check.DIVERGENT_OFFSET}, "which no one sent"),
        (keep_what_failed, {Check.ABORTED_READ}, "which its producer was told is not there"),
        (go_back_in_a_scan, {Check.NONMONOTONIC_POLL}, "got offset 5 after 6"),
        (change_the_order, {Check.SEND_ORDER}, "stands before it"),
    ],
)
def test_what_breaks_a_promise_is_found(
    tmp_path: Path, spoil: Callable[[Run], None], found: set[Check], words: str
) -> None:
    run = Run.sound()
    spoil(run)
    verdict = run.judge(tmp_path)
    assert verdict.valid is False
    assert found <= checks_of(verdict)
    assert checks_of(verdict) - found <= {Check.COMPACTED_EARLY}, "nothing else is said to be wrong"
    assert any(re.search(words, one.sentence) for one in verdict.violations)


def unknown_deletion_took_it(run: Run) -> None:
    run.drop(5)
    run.scans[-1].offsets = [7, 8, 9]
    run.sent.append(Sent(keyed_value(50, B, is_deletion=True), NONE, 9000, Outcome.INFO))


def record_beyond_the_end_took_it(run: Run) -> None:
    run.scans[2] = Scan([4, 5, 6], 7, 6000)  # A stands at offset 7, too


def slow_scan_saw_the_begin_of_another_time(run: Run) -> None:
    run.scans[-1] = Scan([2, 5, 7, 8, 9], 10, DUMPED_MS - 400, RETENTION_MS, FINAL_SCAN)


def scan_under_load_met_two_leaders(run: Run) -> None:
    run.scans[1] = Scan([1, 2, 3], 5, 7500)


@pytest.mark.parametrize(
    "allowed",
    [
        unknown_deletion_took_it,
        record_beyond_the_end_took_it,
        slow_scan_saw_the_begin_of_another_time,
        scan_under_load_met_two_leaders,
    ],
)
def test_what_has_another_reason_is_not_held_against_compaction(tmp_path: Path, allowed: Callable[[Run], None]) -> None:
    run = Run.sound()
    allowed(run)
    assert run.judge(tmp_path).valid is True


def test_a_run_whose_logs_kept_all_tested_nothing(tmp_path: Path) -> None:
    run = Run.sound()
    run.logs = {node: [one.offset for one in run.sent] for node in NODES}
    verdict = run.judge(tmp_path)
    assert verdict.valid is None
    assert "compaction removed nothing" in verdict.reasons[0]
    assert any("deletions" in line for line in verdict.not_tested)


def test_without_final_logs_nothing_is_decided(tmp_path: Path) -> None:
    Run.sound().write(tmp_path, dumps=False)
    assert check_run(tmp_path, Model.COMPACTED, Engine.LOCAL).valid is None


def test_a_log_that_lost_everything_is_missed(tmp_path: Path) -> None:
    run = Run.sound()
    run.logs[2] = []
    verdict = run.judge(tmp_path)
    assert verdict.findings.counts[Check.LOST] == 2
    assert verdict.findings.lost_acked == 2


def test_terms_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    Run.sound().write(tmp_path)
    (tmp_path / "test.json").write_text(json.dumps({"compaction": {"min_lag_ms": "1 s"}}))
    with pytest.raises(UnreadableHistory, match="min_lag_ms"):
        check_run(tmp_path, Model.COMPACTED, Engine.LOCAL)
