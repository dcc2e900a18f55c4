"""A command of a cluster's owner is a fault once the network shows it, and is always undone."""

import random
from pathlib import Path
from typing import cast

import attrs
import pytest

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis import hooks
from jepsen_like.nemesis.hooks import Hook, WrongHook, fill, hooked_kinds
from jepsen_like.nemesis.kind import NemesisKind, Reach, Withheld
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.port.wires import Address


@attrs.frozen
class Seen:
    """A control that sees a process gone while a file with its number is there."""

    directory: Path

    async def absence(self, node: int) -> str | None:
        return "its file is there" if (self.directory / f"gone-{node}").exists() else None


@attrs.frozen
class Elsewhere:
    """A cluster whose processes are files."""

    control: Seen
    direct: dict[int, Address]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(hooks, "HOLDS_WITHIN_S", 0.1)
    monkeypatch.setattr(hooks, "BACK_WITHIN_S", 0.1)
    return cast(Cluster, Elsewhere(Seen(tmp_path), {1: ("a host", 7), 2: ("b", 8)}))


def kind(fault: str, undo: str) -> NemesisKind:
    return hooked_kinds({"power": Hook(fault, undo)})["power"]


def touching(directory: Path) -> Hook:
    return Hook(
        f"touch {directory}/gone-{{node}}", f"rm -f {directory}/gone-{{node}}; echo {{port}} >> {directory}/undone"
    )


async def test_a_command_holds_for_each_process_until_it_is_undone(tmp_path: Path, cluster: Cluster) -> None:
    made = hooked_kinds({"power": touching(tmp_path)})["power"]
    hit = ResolvedTarget((1, 2))
    assert await made.inject(cluster, hit) == dict.fromkeys("12", "takes no part: its file is there")
    assert await made.undo(cluster, hit) == dict.fromkeys("12", "takes part")
    assert sorted((tmp_path / "undone").read_text().split()) == ["7", "8"]


async def test_a_command_without_an_effect_is_no_fault_and_is_undone(tmp_path: Path, cluster: Cluster) -> None:
    made = kind("true", touching(tmp_path).undo)
    with pytest.raises(Withheld, match="no effect on n1: takes part"):
        await made.inject(cluster, ResolvedTarget((1,)))
    assert (tmp_path / "undone").read_text() == "7\n"


async def test_a_command_that_fails_is_told_with_its_words(tmp_path: Path, cluster: Cluster) -> None:
    made = kind("echo no such container {host} >&2; exit 3", touching(tmp_path).undo)
    with pytest.raises(Withheld, match="ended with status 3: no such container a host"):
        await made.inject(cluster, ResolvedTarget((1,)))


async def test_an_undoing_that_fails_is_seen(tmp_path: Path, cluster: Cluster) -> None:
    made = kind(touching(tmp_path).fault, "exit 1")
    await made.inject(cluster, ResolvedTarget((1,)))
    assert "ended with status 1" in (await made.undo(cluster, ResolvedTarget((1,))))["1"]


def test_a_kind_by_a_command_may_cost_what_the_kind_may_cost() -> None:
    made = kind("true", "true")
    assert (made.name, made.reach) == ("power", Reach.UNFLUSHED)
    assert made.select(random.Random(1), Target.LEADER, (1, 2, 3), 2).nodes == (2,)


def test_names_in_braces_are_known_or_refused() -> None:
    assert fill("docker kill k-{node} {host}:{port}", 3, ("a b", 9)) == "docker kill k-3 'a b':9"
    with pytest.raises(WrongHook, match="not 'name'"):
        Hook("docker kill {name}", "true").check()
    with pytest.raises(WrongHook):
        Hook("true", "echo {").check()
