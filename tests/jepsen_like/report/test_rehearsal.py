"""The page about a rehearsal has its verdict, its figures and a lane for each city, and is well-formed."""

import json
from pathlib import Path
from xml.etree import ElementTree

import attrs
import numpy as np
from click.testing import CliRunner

from jepsen_like.checker.rows.columns import Columns
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NEVER, Action, Outcome
from jepsen_like.rehearse.command import row_of
from jepsen_like.rehearse.rehearsal import RehearsalPlan
from jepsen_like.report.command import report
from jepsen_like.report.rehearsal import TimedRows
from tests.jepsen_like.checker.mirror.test_check import let_the_tail_flow_over
from tests.jepsen_like.checker.mirror.world import MS, Rehearsal, lagging


def page_of(run: Rehearsal, directory: Path) -> str:
    """Writes what a rehearsal leaves, and returns its page as `quorumlog report` draws it."""
    verdict = run.judge(directory)
    row = row_of(RehearsalPlan(seed=3, delay_s=0.1), verdict, {"rto_s": 1.5})
    told = {**row, "result": verdict.as_json(), "down_ns": [20 * MS, 40 * MS]}
    (directory / "rehearsal.json").write_text(json.dumps(told))
    done = CliRunner().invoke(report, [str(directory)], standalone_mode=False)
    return Path(done.stdout.strip()).read_text()


def test_a_sound_rehearsal_shows_both_cities_and_what_was_lost(tmp_path: Path) -> None:
    page = page_of(lagging(), tmp_path)
    assert "The loss is the lag, and nothing else went wrong" in page
    assert "4 acknowledged records of partition 0 at offsets 6 to 9" in page
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    texts = [each.text for each in picture.iter("text")]
    assert [name for name in texts if name in ("city a", "city b", "lost", "switch 1", "switch 2")] == [
        "city a",
        "lost",
        "city b",
        "switch 1",
        "switch 2",
    ]


def test_what_was_never_answered_is_seen_where_it_began(tmp_path: Path) -> None:
    run = lagging()
    run.judge(tmp_path)
    rows = Columns.of_parts(HistoryReader.open(tmp_path / "history.parquet").files())
    sends = rows.f == Action.SEND
    unknown = np.where(sends, np.int8(Outcome.INFO), rows.type)
    timed = TimedRows(attrs.evolve(rows, type=unknown, t_ret=np.where(sends, NEVER, rows.t_ret)), 0, 10**9)
    assert timed.rates(sends).sum() == 4 * int(sends.sum())


def test_a_broken_promise_comes_with_its_examples(tmp_path: Path) -> None:
    run = lagging()
    let_the_tail_flow_over(run.partitions[0])
    page = page_of(run, tmp_path)
    assert "A promise was broken" in page
    assert "which was the primary from offset" in page
