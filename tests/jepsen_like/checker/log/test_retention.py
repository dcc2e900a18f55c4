"""Records that left the logs by their rule are no loss, and everything that was known of them still counts."""

import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.log.clocks import clock_errors_of
from jepsen_like.checker.log.retention import RetentionCase, judge_retention
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import Check, Engine, Findings, Model, Verdict
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.history.files import (
    DumpWriter,
    HistoryReader,
    HistoryWriter,
    KeepRule,
    Kept,
    UnreadableHistory,
    read_kept,
)
from jepsen_like.history.ops import NONE, Action, ErrorCode, Op, Outcome
from tests.jepsen_like.checker.log.test_explain import append, check_ops, read, tail, unknown

RULE = KeepRule(retention_bytes=100_000, segment_bytes_max=20_000)
RECORD = 10_000


def kept_of(run: Path) -> Kept:
    kept = read_kept(run / "dump.parquet")
    assert kept is not None
    return kept[0]


def since(first: int, *values: int, node: int = 1) -> FinalLog:
    """A final log that begins at `first`."""
    return FinalLog(node, first, np.array(values, np.int64), np.ones(len(values), np.int64))


FIVE = [append(value, value, 10 * value + 1, 10 * value + 9) for value in range(5)]
"""Appends of 0 to 4, each at the offset of its own number, one after the other."""


def test_what_left_every_log_is_expired_and_what_stands_above_is_held_as_ever() -> None:
    found = check_ops(FIVE, [since(3, 3, 4), since(2, 2, 3, 4, node=2)], expires=True)
    assert (found.expired, found.lost_acked, found.counts) == (2, 0, {})
    lost = check_ops(FIVE, [since(3, 3), since(2, 2, 3, node=2)], expires=True)
    assert (lost.expired, lost.lost_acked, set(lost.counts)) == (2, 1, {Check.LOST})


def test_a_record_at_the_very_start_that_another_one_replaced_is_lost() -> None:
    found = check_ops([*FIVE, unknown(9, 1)], [since(2, 9, 3, 4), since(3, 3, 4, node=2)], expires=True)
    assert (found.expired, found.lost_acked) == (2, 1)
    assert "holds 9 there" in found.violations[0].sentence


def test_without_a_rule_a_log_that_begins_late_has_lost_what_is_not_there() -> None:
    found = check_ops(FIVE, [since(2, 2, 3, 4)])
    assert (found.expired, found.lost_acked) == (0, 2)
    said = [one.sentence for one in found.violations]
    assert said[0].endswith("was acknowledged, but the final logs begin at 2")
    assert said[-1] == "log 0: the final log of node 1 begins at 2, and nothing may leave it"


def test_without_a_rule_one_log_that_begins_late_is_told_though_others_hold_it_all() -> None:
    found = check_ops(FIVE, [since(0, 0, 1, 2, 3, 4), since(4, 4, node=2)])
    assert found.lost_acked == 0
    assert [one.sentence for one in found.violations] == [
        "log 0: the final log of node 2 begins at 4, and nothing may leave it"
    ]


def test_logs_from_which_all_records_have_left_are_expired_up_to_their_end() -> None:
    found = check_ops([*FIVE, tail(5, 90, 91)], [since(5), since(5, node=2)], expires=True)
    assert (found.expired, found.lost_acked, found.counts) == (5, 0, {})
    beyond = check_ops([*FIVE, append(5, 5, 92, 93)], [since(5), since(5, node=2)], expires=True)
    assert (beyond.expired, beyond.lost_acked) == (5, 1)


EIGHT = [*FIVE, append(90, 6, 70, 79), append(91, 7, 80, 89)]
"""With a place, 5, that was never reported to a client."""


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_place_that_left_unseen_may_be_that_of_an_append_of_unknown_outcome(pieces: int) -> None:
    found = check_ops([*EIGHT, unknown(50, 1)], [since(8), since(8, node=2)], pieces, expires=True)
    assert (found.expired, found.counts) == (7, {})


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    ("check", "more"),
    [
        pytest.param(Check.DIVERGENT_OFFSET, [read(1, 7, 60, 61), unknown(7, 1)], id="read with another value"),
        pytest.param(Check.PHANTOM, [read(5, 9, 60, 61)], id="read what no client wrote"),
        pytest.param(Check.DUPLICATED, [read(5, 1, 60, 61)], id="read at two places"),
        pytest.param(Check.DUPLICATED, [append(1, 1, 60, 61)], id="acknowledged once more at its place"),
        pytest.param(Check.STALE, [tail(1, 60, 61)], id="a length that was too short"),
        pytest.param(Check.STALE, [read(2, NONE, 60, 61)], id="seen empty though it was written"),
        pytest.param(Check.ORDER, [append(9, 0, 60, 61)], id="put before what had ended"),
        pytest.param(Check.GAP, [append(92, 9, 90, 99)], id="a place too many that no append can have filled"),
    ],
)
def test_what_has_left_can_still_be_wrong(check: Check, more: list[Op], pieces: int) -> None:
    found = check_ops([*EIGHT, unknown(50, 1), *more], [since(10), since(10, node=2)], pieces, expires=True)
    assert check in found.counts


def test_a_value_that_stands_in_what_is_left_and_has_left_too_is_there_twice() -> None:
    found = check_ops(FIVE, [since(2, 2, 3, 4, 1)], expires=True)
    assert set(found.counts) == {Check.DUPLICATED}


def run_of(directory: Path, rule: KeepRule, *, kept: int, records: int = 100, dumped_ns: int | None = None) -> Path:
    """A run in which three nodes hold the newest `kept` of so many records, each of `RECORD` bytes in a log."""
    with HistoryWriter(directory / "history.parquet") as history:
        for value in range(1, records + 1):
            at = value * 10**9
            history.record(
                Op(f=Action.APPEND, type=Outcome.OK, a=value, offset=value - 1, t_inv=at, t_ret=at + 5, process=1)
            )
    first = records - kept
    with DumpWriter(directory / "dump.parquet", rule=rule) as dump:
        for node in (1, 2, 3):
            dump.begin(node, first)
            dump.record(node, first, 1, range(first + 1, records + 1), size=kept * RECORD)
    path = directory / "dump.parquet" / "kept.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "dumped_ns": (records + 1) * 10**9 if dumped_ns is None else dumped_ns}))
    (directory / "test.json").write_text(json.dumps({"nodes": 3}))
    return directory


def verdict_on(directory: Path) -> Verdict:
    return check_run(directory, Model.LOG, Engine.LOCAL)


def test_a_node_may_hold_a_little_less_than_its_rule_says_and_no_more(tmp_path: Path) -> None:
    enough = verdict_on(run_of(tmp_path / "enough", RULE, kept=9))
    assert (enough.valid, enough.findings.expired) == (True, 91)
    little = verdict_on(run_of(tmp_path / "little", RULE, kept=8))
    assert (little.valid, len(little.violations)) == (False, 3)
    assert little.violations[0].sentence == (
        "log 0: the final log of node 1 begins at 92 and holds 80,000 bytes of records, though it keeps the newest 100,000 bytes"
    )


def test_files_as_large_as_all_that_is_kept_are_no_excuse(tmp_path: Path) -> None:
    large = attrs.evolve(RULE, segment_bytes_max=10 * RULE.retention_bytes)
    assert verdict_on(run_of(tmp_path / "little", large, kept=8)).valid is False
    assert verdict_on(run_of(tmp_path / "nothing", large, kept=0)).valid is False


def more(directory: Path, *ops: Op) -> Path:
    """The same run with more attempts."""
    with HistoryWriter(directory / "history.parquet", name="1") as history:
        for op in ops:
            history.record(op)
    return directory


def test_an_entry_that_was_replaced_counts_as_kept_if_it_can_be_behind_what_has_left(tmp_path: Path) -> None:
    # The newest record that has left was asked for at 92 s.
    late = [attrs.evolve(unknown(200 + at, (91 + at) * 10**9), process=200 + at) for at in range(3)]
    early = [attrs.evolve(op, t_inv=op.t_inv - 10 * 10**9) for op in late]
    reads = [attrs.evolve(op, f=Action.READ, a=NONE, offset=3) for op in late]
    excused = verdict_on(more(run_of(tmp_path / "late", RULE, kept=8), *late))
    assert excused.valid is True
    assert [line for line in excused.not_tested if "retention: the log of node" in line] == [
        f"retention: the log of node {node} let more go than it may, unless appends of unknown outcome (3 in this history) had been in it"
        for node in (1, 2, 3)
    ]
    assert not any("retention" in line for line in verdict_on(run_of(tmp_path / "sure", RULE, kept=9)).not_tested)
    assert verdict_on(more(run_of(tmp_path / "early", RULE, kept=8), *early)).valid is False
    assert verdict_on(more(run_of(tmp_path / "reads", RULE, kept=8), *reads)).valid is False


def test_each_term_that_passed_over_what_is_kept_counts_for_what_it_leaves(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=8)
    assert verdict_on(run).valid is False
    last = Op(f=Action.APPEND, type=Outcome.OK, a=100, offset=99, epoch=9, t_inv=101 * 10**9, t_ret=102 * 10**9)
    history, kept = HistoryReader.open(more(run, last).joinpath("history.parquet")), kept_of(run)
    assert kept is not None
    assert judge_retention(history, RetentionCase(rule=RULE, kept=kept), Findings()).counts == {}


CUT = Allowance(fault=1, kind="power", promise="", since_ns=0, begun_ns=50, injected_ns=60)


def test_a_log_that_lost_its_end_is_not_accused_of_letting_go_its_beginning(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=7)
    history, kept = HistoryReader.open(run / "history.parquet"), kept_of(run)
    assert kept is not None
    assert judge_retention(history, RetentionCase(rule=RULE, kept=kept), Findings()).counts == {Check.LOST: 3}
    assert judge_retention(history, RetentionCase(rule=RULE, kept=kept), Findings(lost_acked=1)).counts == {}


def test_a_loss_that_is_allowed_excuses_as_much_as_was_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=7)
    history, kept = HistoryReader.open(run / "history.parquet"), kept_of(run)
    assert kept is not None
    for records, found in ((1, {Check.LOST: 3}), (2, {})):
        lost = AllowedLoss(
            allowance=CUT,
            records=records,
            first_offset=95,
            last_offset=96,
            first_acked_ns=1,
            last_acked_ns=2,
            examples=(),
        )
        case = RetentionCase(rule=RULE, kept=kept, losses=[lost], is_lossless=False)
        told = judge_retention(history, case, Findings(lost_acked=records))
        assert told.counts == found, records


def test_by_age_a_record_may_leave_when_it_is_old_enough(tmp_path: Path) -> None:
    run = run_of(tmp_path, KeepRule(retention_s=8.0), kept=8)  # what left last was asked for 9 s before
    assert verdict_on(run).valid is True


def test_what_is_too_young_to_leave_is_told_unless_clocks_were_made_to_lie(tmp_path: Path) -> None:
    rule = KeepRule(retention_s=20.0)
    told = verdict_on(run_of(tmp_path / "told", rule, kept=8))
    assert told.valid is False
    assert told.violations[0].sentence.endswith("though it keeps what is younger than 20 s")
    lied = verdict_on(run_of(tmp_path / "lied", attrs.evolve(rule, judges_age=False), kept=8))
    assert lied.valid is True
    assert (
        "retention: whether what left the logs was old enough is not judged, for its age is not known here"
        in lied.not_tested
    )


def with_unknown(directory: Path, count: int) -> Path:
    """The same run with so many appends of unknown outcome late in it."""
    with HistoryWriter(directory / "history.parquet", name="1") as history:
        for number in range(count):
            at = 95 * 10**9 + number
            history.record(Op(f=Action.APPEND, type=Outcome.INFO, a=10_000 + number, t_inv=at, process=100 + number))
    return directory


def test_appends_of_unknown_outcome_excuse_nothing_while_no_leader_can_have_replaced_them(tmp_path: Path) -> None:
    rule = KeepRule(retention_bytes=20 * RECORD, segment_bytes_max=20_000)
    run = with_unknown(run_of(tmp_path, rule, kept=8), 900)
    history, kept = HistoryReader.open(run / "history.parquet"), kept_of(run)
    assert kept is not None
    case = RetentionCase(rule=rule, kept=kept)
    assert not judge_retention(history, case, Findings()).violations  # no epoch is named: there may have been several
    one_epoch = tmp_path / "one epoch"
    with HistoryWriter(one_epoch) as named:
        for op in history.ops():
            named.record(attrs.evolve(op, epoch=1 if op.type is Outcome.OK else NONE))
    assert judge_retention(HistoryReader.open(one_epoch), case, Findings()).violations


def test_appends_that_are_there_in_the_end_have_replaced_nothing(tmp_path: Path) -> None:
    run = with_unknown(run_of(tmp_path, KeepRule(retention_bytes=20 * RECORD, segment_bytes_max=20_000), kept=8), 30)
    history, kept = HistoryReader.open(run / "history.parquet"), kept_of(run)
    assert kept is not None
    with HistoryWriter(run / "history.parquet", name="2") as more:  # a new leader
        more.record(Op(f=Action.APPEND, type=Outcome.OK, a=999, offset=100, epoch=9, t_inv=10**11, t_ret=10**11 + 9))
    history = HistoryReader.open(run / "history.parquet")
    cases = [
        RetentionCase(rule=kept.rule, kept=kept, held=np.array(held, np.int64))
        for held in (range(100), range(10_000, 10_030))
    ]
    told = [bool(judge_retention(history, case, Findings()).violations) for case in cases]
    assert told == [False, True]


def jump_clocks(directory: Path, *nodes: int, seen: str, begun_s: float = 85.0, ended_s: float = 95.0) -> Path:
    """Notes in the run that the wall clocks of these nodes were set meanwhile."""
    row = {
        "kind": "clock-jump",
        "nodes": nodes,
        "begun_ns": int(begun_s * 1e9),
        "ended_ns": int(ended_s * 1e9),
        "observed": {str(node): seen for node in nodes},
        "id": 1,
        "injected_ns": int(begun_s * 1e9),
    }
    with (directory / "nemesis.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    return directory


@pytest.mark.parametrize(
    ("seen", "begun_s", "ended_s", "valid"),
    [
        pytest.param("a jump of +60 s", 93.0, 95.0, False, id="too little"),
        pytest.param("a jump of +3600 s", 93.0, 95.0, True, id="ahead when it left"),
        pytest.param("to and fro by +3600 s every 2 ms", 93.0, 95.0, True, id="ahead at times"),
        pytest.param("a jump of +3600 s", 60.0, 90.0, False, id="right again before they were taken"),
        pytest.param("a jump of -3600 s", 0.5, 100.0, True, id="behind when they were taken"),
        pytest.param("a jump of -3600 s", 93.5, 100.0, False, id="behind when it is too late"),
        pytest.param("set", 93.0, 95.0, True, id="unknown by how much"),
    ],
)
def test_a_record_leaves_early_by_no_more_than_clocks_were_wrong(
    seen: str, begun_s: float, ended_s: float, valid: bool, tmp_path: Path
) -> None:
    run = run_of(tmp_path, KeepRule(retention_s=600.0), kept=8)
    assert verdict_on(jump_clocks(run, 2, seen=seen, begun_s=begun_s, ended_s=ended_s)).valid is valid


def test_a_clock_that_was_ahead_excuses_only_as_much_as_its_own_node_has_let_go(tmp_path: Path) -> None:
    run = jump_clocks(run_of(tmp_path, KeepRule(retention_s=600.0), kept=8), 2, seen="a jump of +3600 s", begun_s=93.0)
    path = run / "dump.parquet" / "kept.json"
    said = json.loads(path.read_text())
    clocks, kept = clock_errors_of(run), kept_of(run)
    assert kept is not None
    kept = attrs.evolve(kept, starts={1: 92, 2: 91, 3: 91})
    case = RetentionCase(rule=kept.rule, kept=kept, clocks=clocks)
    found = judge_retention(HistoryReader.open(run / "history.parquet"), case, Findings())
    assert [one.sentence.partition(" begins")[0] for one in found.violations] == ["log 0: the final log of node 1"]
    assert said["rule"]["judges_age"] is True


def test_faults_that_cannot_be_read_are_no_excuse(tmp_path: Path) -> None:
    run = run_of(tmp_path, KeepRule(retention_s=600.0), kept=8)
    (run / "nemesis.jsonl").write_text('{"kind": "clock-jump"}\n')
    with pytest.raises(UnreadableHistory, match="does not tell what was done to clocks"):
        verdict_on(run)


def test_with_two_rules_either_lets_a_record_go(tmp_path: Path) -> None:
    by_age = KeepRule(retention_bytes=500_000, retention_s=5.0)
    assert verdict_on(run_of(tmp_path / "old", by_age, kept=8)).valid is True
    by_bytes = KeepRule(retention_bytes=70_000, retention_s=50.0)
    assert verdict_on(run_of(tmp_path / "many", by_bytes, kept=8)).valid is True
    assert verdict_on(run_of(tmp_path / "neither", attrs.evolve(by_age, retention_s=50.0), kept=8)).valid is False


def test_the_dump_of_a_run_without_a_rule_is_not_trusted_to_begin_late(tmp_path: Path) -> None:
    found = verdict_on(run_of(tmp_path, KeepRule(), kept=80))
    assert (found.valid, found.findings.lost_acked, found.findings.expired) == (False, 20, 0)


def test_the_command_tells_how_many_have_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    arguments: list[Any] = ["check", str(run), "--model", "log", "--engine", "local", "--json"]
    assert execute(arguments) == ExitStatus.VALID
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "20 of 100 acknowledged records have left the logs, as their retention allows"
    assert json.loads(lines[-2])["expired"] == 20


def test_rows_of_a_log_that_had_left_before_it_was_read_to_its_end_do_not_count(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    with DumpWriter(run / "dump.parquet", rule=RULE) as dump:
        dump.begin(1, 0)
        dump.record(1, 0, 1, range(1, 11), size=10 * RECORD)
        dump.begin(1, 20)
        dump.record(1, 20, 1, range(21, 101), size=80 * RECORD)
        for node in (2, 3):
            dump.begin(node, 20)
            dump.record(node, 20, 1, range(21, 101), size=80 * RECORD)
    found = verdict_on(run)
    assert (found.valid, found.findings.expired) == (True, 20)


LEFT = Op(
    f=Action.READ,
    type=Outcome.FAIL,
    err=ErrorCode.TRIMMED,
    offset=3,
    seen=20,
    t_inv=30 * 10**9,
    t_ret=31 * 10**9,
    process=9,
    node=2,
)


def test_a_read_of_what_has_left_says_nothing_wrong(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    assert verdict_on(more(run, LEFT)).valid is True


@pytest.mark.parametrize(
    ("rule", "kept", "answer", "says"),
    [
        pytest.param(KeepRule(), 100, LEFT, "asked for offset 3, and nothing may leave it", id="without a rule"),
        pytest.param(RULE, 80, attrs.evolve(LEFT, offset=20), "which is not below", id="at the start"),
        pytest.param(RULE, 80, attrs.evolve(LEFT, seen=21), "and it begins at 20 in the end", id="above the start"),
        pytest.param(
            attrs.evolve(RULE, starts_stay=False),
            80,
            attrs.evolve(LEFT, seen=101),
            "and it ends at 100 in the end",
            id="above the end",
        ),
        pytest.param(
            KeepRule(retention_s=15.0),
            80,
            LEFT,
            "though it keeps what is younger than 15 s",
            id="while it was too young",
        ),
    ],
)
def test_a_node_that_says_that_a_record_has_left_is_held_to_it(
    rule: KeepRule, kept: int, answer: Op, says: str, tmp_path: Path
) -> None:
    found = verdict_on(more(run_of(tmp_path, rule, kept=kept), answer))
    assert (found.valid, found.findings.counts) == (False, {Check.LOST: 1})
    assert found.violations[0].sentence.startswith(
        f"log 0: node 2 said that its log began at {answer.seen} when process 9"
    )
    assert found.violations[0].sentence.endswith(says)


def test_what_had_left_when_it_was_old_enough_and_what_a_fault_undid_is_not_held_against_a_node(tmp_path: Path) -> None:
    assert verdict_on(more(run_of(tmp_path / "old", KeepRule(retention_s=11.0), kept=80), LEFT)).valid is True
    undone = attrs.evolve(RULE, starts_stay=False)
    answer = attrs.evolve(LEFT, seen=30)
    assert verdict_on(more(run_of(tmp_path / "undone", undone, kept=80), answer)).valid is True


def test_without_a_dump_the_settings_of_the_run_say_whether_anything_may_leave(tmp_path: Path) -> None:
    run = more(run_of(tmp_path, RULE, kept=80), LEFT)
    shutil.rmtree(run / "dump.parquet")
    assert verdict_on(run).valid is False
    settings = {"retention_bytes": 100_000, "retention_s": 0.0}
    (run / "test.json").write_text(json.dumps({"nodes": 3, "settings": settings}))
    assert verdict_on(run).valid is None


def test_a_dump_that_does_not_say_where_logs_begin_leaves_a_run_with_a_rule_undecided(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    settings = {"retention_bytes": 100_000, "retention_s": 0.0}
    (run / "test.json").write_text(json.dumps({"nodes": 3, "settings": settings}))
    assert verdict_on(run).valid is True
    (run / "dump.parquet" / "kept.json").unlink()
    found = verdict_on(run)
    assert (found.valid, found.findings.lost_acked) == (None, 0)
    assert "does not say where the logs begin" in found.reasons[0]


def rewrite_kept(run: Path, node: str = "2", **changed: Any) -> Path:
    """Rewrites where a log of the run begins and ends."""
    path = run / "dump.parquet" / "kept.json"
    said = json.loads(path.read_text())
    said["objects"]["0"].setdefault(node, {"start": 0, "end": 0, "bytes": 0}).update(changed)
    path.write_text(json.dumps(said))
    return run


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param(
            {"end": 101}, "node 2 has 80 records, not those from offset 20 to 101", id="rows missing at the end"
        ),
        pytest.param(
            {"start": 19}, "node 2 has 80 records, not those from offset 19 to 100", id="rows missing at first"
        ),
        pytest.param({"node": "4", "start": 5, "end": 100}, "node 4 has 0 records", id="no rows at all"),
        pytest.param({"start": 10**15, "end": 10**15}, "the log of node 2 is said to end at", id="beyond all appends"),
        pytest.param({"start": -1}, "does not say where logs begin", id="a start below nothing"),
        pytest.param({"start": 101}, "does not say where logs begin", id="an end before its start"),
        pytest.param({"start": "20"}, "does not say where logs begin", id="a text"),
        pytest.param({"bytes": 1.5}, "does not say where logs begin", id="half a byte"),
        pytest.param({"end": 2**80}, "does not say where logs begin", id="a number that no file has"),
        pytest.param({"node": "x", "start": 0}, "does not say where logs begin", id="no node"),
    ],
)
def test_a_dump_that_contradicts_what_it_says_is_no_dump(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    run = rewrite_kept(run_of(tmp_path, RULE, kept=80), **changed)
    with pytest.raises(UnreadableHistory, match=says):
        verdict_on(run)


def test_rows_missing_between_are_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    with DumpWriter(run / "dump.parquet", rule=RULE) as dump:
        dump.begin(1, 20)
        dump.record(1, 20, 1, range(21, 51))
        dump.record(1, 60, 1, range(61, 101))
    with pytest.raises(UnreadableHistory, match="node 1 has 70 records, not those from offset 20 to 100, exclusive"):
        verdict_on(run)


@pytest.mark.parametrize("rule", [{"retention_bytes": "x"}, {"retention_s": -1}, {"judges_age": 3}, {"other": 1}, 7])
def test_a_rule_that_is_none_is_refused(rule: Any, tmp_path: Path) -> None:
    run = run_of(tmp_path, RULE, kept=80)
    path = run / "dump.parquet" / "kept.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rule": rule}))
    with pytest.raises(UnreadableHistory, match="does not say where logs begin"):
        verdict_on(run)
