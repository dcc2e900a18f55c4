"""Damage changes exactly what it reports, and reports None when there was nothing to damage."""

import random
from pathlib import Path

import pytest

from jepsen_like.cluster.file_damage import LAST_BYTES, Damage, damage
from jepsen_like.systems.raft.system import RaftSystem

FILES = {"00000.log": 4000, "04000.log": 5000, "09000.log": 6000, "00000.index": 300, "04000.index": 400}
RAFT = RaftSystem.files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, size in FILES.items():
        (tmp_path / name).write_bytes(bytes(size))
    return tmp_path


def changed(data: Path) -> dict[str, list[int]]:
    """Per file that still is there: the positions of bytes that are no longer 0."""
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
    ((name, (position,)),) = changed(data).items()
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
    assert changed(data) == {}


@pytest.mark.parametrize("kind", list(Damage))
def test_an_empty_directory_is_left_alone(tmp_path: Path, kind: Damage) -> None:
    assert damage(tmp_path, RAFT, kind, random.Random(1)) is None


def test_an_empty_segment_is_passed_over(data: Path) -> None:
    (data / "15000.log").touch()
    assert (damage(data, RAFT, Damage.LAST_FRAME, random.Random(1)) or "").startswith("09000.log")
