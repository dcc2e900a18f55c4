"""A check puts the data that its tasks exchange next to the history, or elsewhere if it may not write there."""

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.inputs import as_run
from jepsen_like.check.jepsen_maps import Names
from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.verdict import Model
from jepsen_like.cli import EnvironmentMissing
from jepsen_like.history.files import table_of, write_part
from jepsen_like.history.ops import Action, Op, Outcome


@pytest.fixture(params=[errno.EACCES, errno.EROFS])
def unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A directory that takes no files."""
    place, made = tmp_path / "history", tempfile.mkdtemp
    place.mkdir()

    def refuse_place(suffix: str | None = None, prefix: str | None = None, dir: Any = None) -> str:  # noqa: A002 - as it is called
        if dir is not None and Path(dir) == place:
            raise OSError(request.param, "may not be written")
        return made(suffix, prefix, dir)

    monkeypatch.setattr(tempfile, "mkdtemp", refuse_place)
    return place


def test_a_history_that_cannot_be_written_next_to_is_checked_on_this_machine(unwritable: Path) -> None:
    with Scratch(unwritable) as scratch:
        assert scratch.path.parent == Path(tempfile.gettempdir())


def test_what_workers_cannot_reach_is_missing(unwritable: Path) -> None:
    with Scratch(unwritable, alone=False) as scratch, pytest.raises(EnvironmentMissing, match="cannot be written to"):
        scratch.path  # noqa: B018 - makes it
    (unwritable / "history.edn").write_text("")
    with (
        pytest.raises(EnvironmentMissing, match="cannot be written to"),
        as_run(unwritable / "history.edn", Model.LOG, Names(), alone=False),
    ):
        pass


def test_a_history_in_one_file_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    write_part(table_of([Op(f=Action.READ, type=Outcome.OK, t_inv=1, t_ret=2)]), path)
    with as_run(path, Model.REGISTER, Names()) as run:
        (part,) = (run / HISTORY).rglob("*.parquet")
        assert part.samefile(path)
