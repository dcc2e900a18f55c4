"""Damage and absence change exactly what they report, and report None when there was nothing of their kind; a listing shows either."""

import random
from pathlib import Path

import pytest

from jepsen_like.port.file_damage import (
    LAST_BYTES,
    Absence,
    Damage,
    LogFiles,
    damage,
    differences,
    is_damageable,
    list_files,
    vanish,
    vanishable,
)
from jepsen_like.systems.raft.system import RaftSystem

FILES = {"00000.log": 4000, "04000.log": 5000, "09000.log": 6000, "00000.index": 300, "04000.index": 400}
RAFT = RaftSystem.files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, size in FILES.items():
        (tmp_path / name).write_bytes(bytes(size))
    return tmp_path


def find_changes(data: Path) -> dict[str, list[int]]:
    """Returns for each file that is still there the positions of bytes that are no longer 0."""
    found = {path.name: [at for at, byte in enumerate(path.read_bytes()) if byte] for path in data.iterdir()}
    return {name: positions for name, positions in found.items() if positions}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Damage.CLOSED_SEGMENT, {"00000.log", "04000.log"}),
        (Damage.OPEN_SEGMENT, {"09000.log"}),
        (Damage.LAST_FRAME, {"09000.log"}),
        (Damage.INDEX, {"00000.index", "04000.index"}),
    ],
)
def test_one_bit_of_the_right_file_is_flipped(data: Path, kind: Damage, names: set[str], seed: int) -> None:
    said = damage(data, RAFT, kind, random.Random(seed)) or ""
    ((name, (position,)),) = find_changes(data).items()
    assert name in names
    assert bin((data / name).read_bytes()[position]).count("1") == 1
    assert said.startswith(f"{name}: bit ")
    assert f"of byte {position} " in said
    if kind is Damage.LAST_FRAME:
        assert position >= FILES[name] - LAST_BYTES
    assert {path.name: path.stat().st_size for path in data.iterdir()} == FILES


def test_an_index_is_taken_away(data: Path) -> None:
    said = damage(data, RAFT, Damage.NO_INDEX, random.Random(3))
    (gone,) = FILES.keys() - {path.name for path in data.iterdir()}
    assert said == f"{gone} removed"
    assert find_changes(data) == {}


@pytest.mark.parametrize("kind", list(Damage))
def test_an_empty_directory_is_left_alone(tmp_path: Path, kind: Damage) -> None:
    assert damage(tmp_path, RAFT, kind, random.Random(1)) is None


def test_an_empty_segment_is_passed_over(data: Path) -> None:
    (data / "15000.log").touch()
    assert (damage(data, RAFT, Damage.LAST_FRAME, random.Random(1)) or "").startswith("09000.log")


STORE = LogFiles(
    segments="logs/*/*.log", indexes="logs/*/*.index", copies=("logs/*",), checkpoints=("marks", "logs/*/durable")
)
STORED = {
    "logs/a-0/00.log",
    "logs/a-0/10.log",
    "logs/a-0/durable",
    "logs/a-1/00.log",
    "logs/a-1/00.index",
    "marks",
    "votes/00.log",
}
KEPT = ("votes",)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name in STORED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "may_be_gone"),
    [
        (Absence.COPY, [{name for name in STORED if name.startswith(f"logs/{copy}/")} for copy in ("a-0", "a-1")]),
        (Absence.CLOSED_SEGMENT, [{"logs/a-0/00.log"}]),
        (Absence.SEGMENT, [{"logs/a-0/00.log"}, {"logs/a-0/10.log"}, {"logs/a-1/00.log"}]),
        (Absence.CHECKPOINT, [{"marks"}, {"logs/a-0/durable"}]),
        (Absence.INDEX, [{"logs/a-1/00.index"}]),
        (Absence.DISK, [STORED - {"votes/00.log"}]),
    ],
)
def test_what_vanishes_is_one_thing_of_its_kind_and_nothing_that_lies_elsewhere(
    store: Path, kind: Absence, may_be_gone: list[set[str]]
) -> None:
    before = list_files(store)
    assert before.keys() == STORED
    assert vanishable(store, STORE, kind, KEPT)
    said = vanish(store, STORE, kind, KEPT, random.Random(4)) or ""
    gone = STORED - list_files(store).keys()
    assert gone in may_be_gone
    assert said.endswith(" removed")
    assert differences(before, list_files(store)).startswith(f"gone: {min(gone)}")


@pytest.mark.parametrize("kind", list(Absence))
def test_nothing_vanishes_where_there_is_nothing(tmp_path: Path, kind: Absence) -> None:
    (tmp_path / "votes").mkdir()
    assert vanish(tmp_path, STORE, kind, KEPT, random.Random(1)) is None
    assert not vanishable(tmp_path, STORE, kind, KEPT)
    assert not is_damageable(tmp_path, STORE)


@pytest.mark.parametrize("seed", range(6))
def test_each_copy_has_a_newest_segment_that_may_be_damaged(store: Path, seed: int) -> None:
    before = list_files(store)
    said = damage(store, STORE, Damage.OPEN_SEGMENT, random.Random(seed)) or ""
    assert differences(before, list_files(store)) in ("changed: logs/a-0/10.log", "changed: logs/a-1/00.log")
    assert said.startswith("logs/a-")


def test_what_was_not_touched_shows_no_difference(store: Path) -> None:
    before = list_files(store)
    assert differences(before, list_files(store)) == ""
    (store / "more").touch()
    assert differences(before, list_files(store)) == "new: more"
