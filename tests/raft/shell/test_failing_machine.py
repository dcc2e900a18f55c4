"""A state machine that cannot take a command stops its group at a named index, from which there is a way on."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from jepsen_like.testing.cluster import LocalCluster
from log.memory_disk import MemoryDisk
from raft.config import RaftConfig
from raft.errors import OutcomeUnknown, RaftError, StateMachineFailed
from raft.group import RaftGroup
from raft.node import _explain as explain
from raft.process import leaves_of
from raft.settings import NodeSettings
from tests.ports import free_ports

QUICK = RaftConfig(heartbeat_s=0.02, election_timeout_s_min=0.05, election_timeout_s_max=0.1)


class Adder:
    """Adds numbers up; cannot take what is none."""

    def __init__(self) -> None:
        self.sum = 0

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Takes all."""

    def apply(self, index: int, command: bytes) -> bytes:
        self.sum += int(command)
        return str(self.sum).encode()

    def query(self, command: bytes) -> bytes:
        return str(self.sum).encode()


class Forgiving(Adder):
    """Takes what is no number for nothing."""

    def apply(self, index: int, command: bytes) -> bytes:
        return super().apply(index, command if command.isdigit() else b"0")


@asynccontextmanager
async def lonely(disk: MemoryDisk, machine: Any, skip: tuple[int, ...] = ()) -> AsyncIterator[RaftGroup]:
    (port,) = free_ports(1)
    async with RaftGroup.open(
        node_id=1,
        members={1: ("127.0.0.1", port)},
        directory="d",
        disk=disk,
        state_machine=machine,
        settings=NodeSettings(raft=QUICK),
        skip_commands=skip,
        notify=lambda notice: None,
    ) as group:
        await group.wait_for_leader(10)
        yield group


async def stop(disk: MemoryDisk) -> None:
    async with lonely(disk, Adder()) as group:
        await group.apply(b"5")
        with pytest.raises(OutcomeUnknown):
            await group.apply(b"five")


async def stopped_disk() -> tuple[MemoryDisk, StateMachineFailed]:
    disk = MemoryDisk(random.Random(1))
    with pytest.raises(BaseExceptionGroup) as caught:
        await stop(disk)
    (failure,) = (each for each in leaves_of(caught.value) if isinstance(each, StateMachineFailed))
    return disk.after_kill(random.Random(1)), failure


async def test_the_failure_names_the_index_the_machine_its_reason_and_the_way_on() -> None:
    _, failure = await stopped_disk()
    assert (failure.index, failure.machine, failure.definite) == (3, "Adder", False)
    assert "invalid literal for int()" in failure.reason
    assert isinstance(failure.__cause__, ValueError)
    assert "start it with a state machine that takes the command" in str(failure)
    explained = explain(failure, started=True)
    assert explained is not None
    assert "if no member has got beyond 3, start them all with --skip-command 3" in explained


async def test_the_node_stops_at_the_same_index_at_every_start() -> None:
    disk, failure = await stopped_disk()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with lonely(disk, Adder()) as group:
            await group.query(b"")
    assert str(failure) in map(str, leaves_of(caught.value))


async def test_a_machine_that_takes_the_command_goes_on() -> None:
    disk, _ = await stopped_disk()
    async with lonely(disk, Forgiving()) as group:
        assert (await group.apply(b"2")).result == b"7"


async def test_a_command_that_is_skipped_has_no_effect_and_those_behind_it_do() -> None:
    disk, failure = await stopped_disk()
    async with lonely(disk, Adder(), skip=(failure.index,)) as group:
        assert (await group.apply(b"2")).result == b"7"
        assert (await group.query(b"")).result == b"7"


async def test_members_stop_at_the_same_index_and_no_one_gets_beyond_it() -> None:
    async with LocalCluster.open(state_machine=Adder) as cluster, cluster.client(deadline_s=1.0) as client:
        await client.apply(b"1")
        with pytest.raises(RaftError):
            await client.apply(b"one")
        with trio.fail_after(10):
            while len(failures := [each for each in cluster.events() if each.event == "failed"]) < 2:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert len({failure.node for failure in failures}) == 2, (
            "the third has no one to learn from that it is committed"
        )
        assert all("StateMachineFailed: Adder failed at index 3" in failure.fields["reason"] for failure in failures)
