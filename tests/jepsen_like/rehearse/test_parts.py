"""The parts of a rehearsal by themselves: its plan, its clients' moves, what it reads of commands, and its table."""

import json
import threading
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from jepsen_like.checker.verdict import Engine, Findings, MirrorCounts, Model, Verdict
from jepsen_like.cli import ExitStatus
from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import Action, Outcome
from jepsen_like.record.recorded import read_recorded
from jepsen_like.rehearse.clients import Client, Home
from jepsen_like.rehearse.command import lines_of, row_of, status_of
from jepsen_like.rehearse.journal import Journal
from jepsen_like.rehearse.rehearsal import RehearsalPlan, Step, description

A, B = Home(1, "a:1"), Home(2, "b:1")


class Walker(Client):
    """A client that notes where it goes."""

    def __init__(self) -> None:
        self.went: list[str] = []
        self.worked = threading.Event()
        self.fails = False
        super().__init__("walker")

    def _enter(self, home: Home) -> None:
        self.went.append(f"enters {home.number}")

    def _work(self, home: Home) -> None:
        self.worked.set()
        self._news.wait(0.05)
        if self.fails:
            raise OSError("broken")

    def _leave(self, home: Home, *, is_lost: bool) -> None:
        self.went.append(f"{'loses' if is_lost else 'leaves'} {home.number}")


def test_a_client_leaves_one_cluster_before_it_enters_the_next() -> None:
    walker = Walker()
    for home, is_lost in ((A, False), (B, True), (None, False)):
        walker.go_on_at(home, is_lost=is_lost)
        walker.wait()
    walker.end()
    walker.wait()
    assert walker.went == ["enters 1", "loses 1", "enters 2", "leaves 2"]


def test_what_ends_a_client_is_raised_where_it_is_awaited() -> None:
    walker = Walker()
    walker.fails = True
    walker.go_on_at(A)
    walker.worked.wait()
    walker.go_on_at(None)
    with pytest.raises(OSError, match="broken"):
        walker.wait()


def test_the_seed_draws_the_times() -> None:
    one = RehearsalPlan(seed=4, delay_s=0.1)
    assert one.times() == attrs.evolve(one, delay_s=0.03).times()
    assert one.times() != attrs.evolve(one, seed=5).times()


def test_the_journal_knows_when_a_cluster_served_first(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history") as history:
        journal = Journal(history)
        journal.record(Action.SEND, type=Outcome.INFO, node=2, a=1, t_inv=1, t_ret=5)
        journal.record(Action.SEND, node=2, a=2, offset=0, t_inv=2, t_ret=7)
        journal.record(Action.SEND, node=2, a=3, offset=1, t_inv=3, t_ret=9)
        journal.record_polled([2, 3], [0, 1], node=2, b=1, t_inv=10, t_ret=11)
        assert journal.first == {(Action.SEND, 2): 7, (Action.POLL, 2): 11}
        journal.forget()
        assert journal.first == {}
    assert HistoryReader.open(tmp_path / "history").rows() == 5


def test_half_a_line_of_a_command_is_read_later(tmp_path: Path) -> None:
    out = tmp_path / "out"
    step = Step([], cast(trio.Process, None), out)
    out.write_text('{"event":"open"}\nnoise\n{"event":"pro')
    assert step.rows() == [{"event": "open"}]


def test_a_run_directory_of_a_rehearsal_names_its_model(tmp_path: Path) -> None:
    (tmp_path / "test.json").write_text(json.dumps(description(RehearsalPlan(seed=1, delay_s=0.1))))
    assert read_recorded(tmp_path).model is Model.MIRRORED


def test_a_row_has_what_the_switches_cost_and_how_long_they_took() -> None:
    counts = MirrorCounts(switches=8, acked=100, lag=3, lost=3)
    findings = Findings(ok=100, objects=4, acked=100, unjudged=frozenset(["skips: not all was read"]))
    verdict = Verdict(model=Model.MIRRORED, engine=Engine.LOCAL, findings=findings, mirror=counts)
    row = row_of(RehearsalPlan(seed=1, delay_s=0.1), verdict, {"rto_s": 3.456})
    assert (row["delay_ms"], row["lost"], row["rto_s"], row["back_s"], row["verdict"]) == (100, 3, 3.46, None, "valid")
    assert "switches" not in row
    assert lines_of(verdict) == ["skips: not all was read"]


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [([True, True], ExitStatus.VALID), ([True, None], ExitStatus.UNKNOWN), ([None, False], ExitStatus.VIOLATION)],
)
def test_the_worst_verdict_is_the_status(verdicts: list[bool | None], status: ExitStatus) -> None:
    assert status_of(verdicts) is status
