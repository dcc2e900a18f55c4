"""A class of the user's judges histories, within bounds, and what it does wrong is told as such."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.inputs import as_run
from jepsen_like.check.jepsen_maps import Names
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.elements.user_model import UserModel, decode, encode
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Engine
from jepsen_like.cli import ExitStatus, execute
from tests.jepsen_like.checker.elements.test_models import maps

LAST = """
class Last:
    initial = ()
    keyed = True
    reads = {"read"}

    def step(self, state, op):
        if op.f == "write":
            return op.value
        return state if op.answered in (None, state) else None


class Raising(Last):
    def step(self, state, op):
        return op.value[17]


class Unhashable(Last):
    def step(self, state, op):
        return [state]


class Stepless:
    initial = 0


class Mutable(Last):
    initial = []


class Nothing(Last):
    initial = None


class Leaving(Last):
    def step(self, state, op):
        raise SystemExit(0)


class NotLeft(Last):
    def __init__(self):
        raise SystemExit(0)


class OneReads(Last):
    reads = "rewrite"


class Lock:
    initial = "free"

    def step(self, state, op):
        if op.f == "acquire":
            return op.process if state == "free" else None
        return "free" if state == op.process else None


class Growing:
    initial = frozenset()

    def step(self, state, op):
        return state | {op.value} if op.f == "add" else None
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module of models, which is the current one."""
    name = f"models_of_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(LAST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / f"{name}.py"


WRONG = maps(
    ("write", ["a", 1], None),
    ("read", ["a", None], ["a", 1]),
    ("write", ["b", "x"], None),
    ("read", ["b", None], ["b", "y"]),
)


def test_every_key_is_an_object(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("h.jsonl").write_text(WRONG)
    status = execute(["check", "h.jsonl", "--model-class", f"{place.stem}:Last", "--engine", "local"])
    assert capsys.readouterr().out.splitlines() == [
        "4 operations (0 of unknown outcome) on 2 objects",
        'linearizable: object "b": no order explains the read that was answered "y" by process 1 together with the operations before it',
        "h.jsonl\tfalse",
    ]
    assert status == ExitStatus.VIOLATION


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param("Raising", "raised TypeError", id="raises"),
        pytest.param("Unhashable", "unhashable type: 'list'", id="unhashable state"),
        pytest.param("Mutable", "has no initial state, or reads, that will do", id="unhashable initial state"),
        pytest.param("Nothing", "its initial state is None", id="no initial state"),
        pytest.param("Leaving", "raised SystemExit", id="ends the program"),
        pytest.param("NotLeft", "cannot be made: SystemExit", id="ends the program at once"),
        pytest.param("Stepless", "the class has no step", id="no step"),
        pytest.param("Absent", "has no attribute 'Absent'", id="no class"),
    ],
)
def test_what_a_class_does_wrong_is_told(
    name: str, complaint: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("h.jsonl").write_text(WRONG)
    status = execute(["check", "h.jsonl", "--model-class", f"{place.stem}:{name}", "--engine", "local"])
    out, err = capsys.readouterr()
    assert (status, out) == (ExitStatus.USAGE, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_module_that_ends_the_program_is_no_verdict(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.write_text("raise SystemExit(0)")
    Path("h.jsonl").write_text(WRONG)
    assert execute(["check", "h.jsonl", "--model-class", f"{place.stem}:Last"]) == ExitStatus.USAGE
    assert "the module ends the program" in capsys.readouterr().err


def test_the_name_of_one_read_is_that_alone(place: Path) -> None:
    Path("h.jsonl").write_text(maps(("write", ["a", 1], None), ("read", ["a", None], ["a", 1])))
    assert (
        execute(["check", "h.jsonl", "--model-class", f"{place.stem}:OneReads", "--engine", "local"])
        == ExitStatus.VALID
    )


@pytest.mark.parametrize(("releases", "status"), [(11, ExitStatus.VALID), (12, ExitStatus.VIOLATION)])
def test_a_class_may_ask_who_did_what_is_of_unknown_outcome(releases: int, status: ExitStatus, place: Path) -> None:
    ends = [{"process": releases, "type": kind, "f": "release", "value": None} for kind in ("invoke", "ok")]
    Path("h.jsonl").write_text(
        maps(("acquire", None, None, "info"), ("acquire", None, None, "info"))
        + "".join(json.dumps(end) + "\n" for end in ends)
    )
    assert execute(["check", "h.jsonl", "--model-class", f"{place.stem}:Lock", "--engine", "local"]) == status


def test_an_object_that_no_task_can_hold_is_undecided_and_told(place: Path) -> None:
    Path("h.jsonl").write_text(WRONG + maps(*[("write", ["c", number], None) for number in range(3)]))
    model = UserModel.of(f"{place.stem}:Last")
    names = Names()
    with as_run(Path("h.jsonl"), model, names) as run:
        verdict = check_run(run, model, Engine.LOCAL, limits=Limits(task=1, chunk=2, object=2))
    (reason,) = verdict.reasons
    assert 'object "c" has 3 rows, which have to be in memory together, and a task holds 2' in names.in_words(reason)
    assert (verdict.findings.ok, verdict.findings.objects, len(verdict.findings.violated)) == (7, 3, 1)


def test_a_search_that_grows_is_undecided(place: Path) -> None:
    adds = [("add", number, None, "info") for number in range(40)]
    Path("h.jsonl").write_text(maps(*adds, ("see", None, None)))
    model = UserModel.of(f"{place.stem}:Growing")
    with as_run(Path("h.jsonl"), model, Names()) as run:
        verdict = check_run(run, model, Engine.LOCAL, limits=Limits(search=SearchBounds(memory_mib=5)))
    (reason,) = verdict.reasons
    assert "more than 5 MiB of configurations" in reason


@pytest.mark.spark
def test_the_class_travels_to_workers_that_do_not_have_it(place: Path, spark: SparkEngine) -> None:
    Path("h.jsonl").write_text(WRONG)
    model = UserModel.of(f"{place.stem}:Last")
    place.unlink()
    with as_run(Path("h.jsonl"), model, Names()) as run:
        assert check_run(run, model, Engine.SPARK, worker=spark).findings.violated


@pytest.mark.parametrize("value", [None, 1, 1.5, "l", True, ("a", (1, None)), {"k": ("l",), ("m",): {}}])
def test_values_travel_as_they_are(value: Any) -> None:
    assert decode(encode(value)) == value
