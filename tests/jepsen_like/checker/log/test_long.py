"""A long log is judged in parts as a short one is as a whole."""

from pathlib import Path

import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.rows.gather import LIMITS, Limits
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import NONE, Action, Op, Outcome
from tests.examples import examples
from tests.jepsen_like.checker.log.long_logs import differences

RECORDS = 200
FAR = 10**12
TINY = Limits(direct=0, task=16, chunk=32)


@pytest.mark.parametrize("seed", range(examples(1)))
def test_the_same_is_found_in_parts(seed: int) -> None:
    assert differences(seed, 100) == []


def write_history(
    directory: Path, *, wrong: int = NONE, again: int = NONE, astray: int = NONE, process: int = 1
) -> Path:
    """Writes appends and a read after each.

    The read at `wrong` sees another value, the append at `again` repeats that of offset 0, that at `astray` is acknowledged far
    behind all others.
    """
    with HistoryWriter(directory / "history.parquet", part_rows_max=32, part_seconds_max=1e9) as history:
        for offset in range(RECORDS):
            value = 1 if offset == again else 1 + offset
            for turn, action in enumerate((Action.APPEND, Action.READ)):
                at = 100 * offset + 10 * turn
                seen = 10**6 if offset == wrong and action is Action.READ else value
                history.record(
                    Op(
                        f=action,
                        type=Outcome.OK,
                        t_inv=at,
                        t_ret=at + 5,
                        process=process,
                        a=seen,
                        offset=FAR if offset == astray and action is Action.APPEND else offset,
                        epoch=1,
                    )
                )
    return directory


def write_dump(
    directory: Path, *, lacks: int = NONE, end: int = RECORDS, epoch_from: int = RECORDS, shifts: int = 0
) -> Path:
    """Writes the final logs of three nodes, all alike. With `shifts` each record stands so many places too low."""
    with DumpWriter(directory / "dump.parquet", part_rows_max=50) as dump:
        for node in (1, 2, 3):
            dump.begin(node, 0)
            for offset in range(end):
                value = 10**7 if offset == lacks else 1 + shifts + offset
                dump.record(node, offset, 1 + (offset >= epoch_from), [value])
    return directory


def check_both_ways(directory: Path) -> Verdict:
    whole = check_run(directory, Model.LOG, Engine.LOCAL)
    parts = check_run(directory, Model.LOG, Engine.LOCAL, limits=TINY)
    assert (parts.valid, parts.findings.counts) == (whole.valid, whole.findings.counts)
    assert [one.sentence for one in parts.violations] == [one.sentence for one in whole.violations]
    assert parts.findings.lost_acked == whole.findings.lost_acked
    return parts


def test_a_log_with_a_bucket_to_itself_is_valid(tmp_path: Path) -> None:
    verdict = check_both_ways(write_dump(write_history(tmp_path)))
    assert (verdict.valid, verdict.findings.acked, verdict.findings.ok) == (True, RECORDS, 2 * RECORDS)


def test_a_read_of_another_value_is_found(tmp_path: Path) -> None:
    verdict = check_both_ways(write_history(tmp_path, wrong=150))
    assert verdict.findings.counts == {Check.DIVERGENT_OFFSET: 1}


def test_a_value_in_two_ranges_is_counted(tmp_path: Path) -> None:
    assert check_both_ways(write_history(tmp_path, again=190)).findings.duplicated == 1


def test_a_record_that_the_final_logs_lack_is_lost(tmp_path: Path) -> None:
    verdict = check_both_ways(write_dump(write_history(tmp_path), lacks=77))
    assert verdict.findings.lost_acked == 1


@pytest.mark.parametrize(("shifts", "end"), [(3, RECORDS), (40, 120)])
def test_what_stands_lower_than_it_was_acknowledged_is_no_phantom(tmp_path: Path, shifts: int, end: int) -> None:
    write_dump(write_history(tmp_path), shifts=shifts, end=end)
    moved = min(end, RECORDS - shifts)
    for limits in (LIMITS, TINY):
        counts = check_run(tmp_path, Model.LOG, Engine.LOCAL, limits=limits).findings.counts
        assert counts[Check.DIVERGENT_OFFSET] == moved
        assert counts.get(Check.PHANTOM, 0) == end - moved


def test_what_was_acknowledged_far_behind_the_end_is_no_phantom(tmp_path: Path) -> None:
    verdict = check_both_ways(write_dump(write_history(tmp_path, astray=150)))
    assert verdict.findings.counts[Check.DIVERGENT_OFFSET] == 1
    assert Check.PHANTOM not in verdict.findings.counts


def test_the_end_that_the_final_logs_lack_is_lost(tmp_path: Path) -> None:
    verdict = check_both_ways(write_dump(write_history(tmp_path), end=120))
    assert verdict.findings.lost_acked == RECORDS - 120


def test_epochs_fall_between_ranges(tmp_path: Path) -> None:
    assert check_both_ways(write_dump(write_history(tmp_path), epoch_from=0)).findings.counts == {Check.EPOCH: RECORDS}


def test_a_log_that_is_no_history_is_refused(tmp_path: Path) -> None:
    write_history(tmp_path)
    with HistoryWriter(tmp_path / "history.parquet", name="1") as history:
        history.record(Op(f=Action.TAIL, type=Outcome.OK, offset=0, t_inv=52, t_ret=3000, process=1))
    with pytest.raises(UnreadableHistory, match="malformed: process 1 has two operations under way at once"):
        check_run(tmp_path, Model.LOG, Engine.LOCAL, limits=TINY)
