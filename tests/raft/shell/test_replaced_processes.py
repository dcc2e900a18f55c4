"""Real processes: all members of a group are replaced, one after another, while clients append and nodes are killed."""

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from raft.client import Client, Connection
from raft.errors import OutcomeUnknown, RaftError
from raft.membership import AddLearner, Change, ChangeVoters, Promote, Remove
from tests.raft.shell.nodes import CLUSTER_ID, free_ports, until
from tests.raft.shell.test_node import ROOT, flags

FAST = ("heartbeat_s=0.05", "election_timeout_s_min=0.3", "election_timeout_s_max=0.6")
WRITERS = 4
SECONDS_MAX = 240


@attrs.define
class Processes:
    """Node processes, each started with the members that were there when it was first."""

    directory: Path
    ports: dict[int, int]
    rng: random.Random
    commands: dict[int, list[str]] = attrs.field(factory=dict)
    running: dict[int, "subprocess.Popen[bytes]"] = attrs.field(factory=dict)
    kills: int = 0

    def first_start(self, node_id: int, members: Sequence[int], *, joins: bool) -> None:
        ports = {member: self.ports[member] for member in (*members, node_id)}
        settings = [f"--set={setting}" for setting in FAST]
        more = ["--joins"] if joins else []
        self.commands[node_id] = [
            sys.executable,
            "-m",
            "raft.node",
            *flags(node_id, ports, self.directory, *settings, *more),
        ]
        self.start(node_id)

    def start(self, node_id: int) -> None:
        self.running[node_id] = subprocess.Popen(
            self.commands[node_id], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()

    def remove(self, node_id: int) -> None:
        """It has left the group: nothing of it is needed any more."""
        self.commands.pop(node_id)
        if node_id in self.running:
            self.kill(node_id)
        shutil.rmtree(self.directory / str(node_id))

    async def kill_now_and_then(self) -> None:
        """One at a time: the next one when the one before serves again."""
        while True:
            await trio.sleep(self.rng.uniform(0.1, 0.8))
            victim = self.rng.choice(sorted(self.running))
            self.kill(victim)
            self.kills += 1
            await trio.sleep(self.rng.uniform(0.0, 0.5))
            if victim in self.commands and victim not in self.running:
                self.start(victim)
            while victim in self.commands and not await self.serves(victim):  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)

    async def serves(self, node_id: int) -> bool:
        try:
            async with Connection.open("127.0.0.1", self.ports[node_id], CLUSTER_ID, timeout_s=0.5) as connection:
                await connection.status()
        except RaftError:
            return False
        return True

    def client(self) -> Client:
        addresses = [f"127.0.0.1:{self.ports[node_id]}" for node_id in sorted(self.commands)]
        return Client(addresses, CLUSTER_ID, connect_timeout_s=0.3, retry_pause_s=0.05)


async def change(processes: Processes, step: Change) -> None:
    """Ask for the change until it is made: killed nodes make outcomes unknown, and repeating it does no harm."""
    while True:
        async with processes.client() as client:
            try:
                await client.change_members(step)
            except RaftError:
                continue
            return


async def append(processes: Processes, writer: int, acknowledged: list[bytes], unknown: list[bytes]) -> None:
    number = 0
    while True:
        async with processes.client() as client:
            for _ in range(20):
                number += 1
                record = f"{writer}/{number}".encode()
                try:
                    await client.append([record])
                except OutcomeUnknown:
                    unknown.append(record)
                except RaftError:
                    break
                else:
                    acknowledged.append(record)


async def read_all(processes: Processes) -> list[bytes]:
    stored: list[bytes] = []
    while True:
        async with processes.client() as client:
            found = await client.read(len(stored))
        if not found.batches:
            return stored
        stored += [record for batch in found.batches for record in batch.records()]


async def replace_all(processes: Processes) -> None:
    """Each of three members by a new one, then two at once, then a directory that is lost."""
    for old, new in ((1, 4), (2, 5), (3, 6)):
        processes.first_start(new, [node for node in processes.commands if node != new], joins=True)
        for step in (AddLearner(new, f"127.0.0.1:{processes.ports[new]}"), Promote(new), Remove(old)):
            await change(processes, step)
        processes.remove(old)
    for new in (7, 8):
        processes.first_start(new, [node for node in processes.commands if node != new], joins=True)
        await change(processes, AddLearner(new, f"127.0.0.1:{processes.ports[new]}"))
    await change(processes, ChangeVoters(frozenset({6, 7, 8})))
    for old in (4, 5):
        processes.remove(old)
    if 7 in processes.running:
        processes.kill(7)
    shutil.rmtree(processes.directory / "7")
    processes.start(7)
    await change(processes, AddLearner(7))
    await change(processes, Promote(7))


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(3))
async def test_no_acknowledged_record_is_lost_while_all_members_are_replaced_under_load_and_kills(
    tmp_path: Path, seed: int
) -> None:
    processes = Processes(tmp_path, dict(enumerate(free_ports(8), 1)), random.Random(seed))
    acknowledged: list[bytes] = []
    unknown: list[bytes] = []
    try:
        for node_id in (1, 2, 3):
            processes.first_start(node_id, [1, 2, 3], joins=False)
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for writer in range(WRITERS):
                    nursery.start_soon(append, processes, writer, acknowledged, unknown)
                await until(lambda: len(acknowledged) > 50)
                nursery.start_soon(processes.kill_now_and_then)
                await replace_all(processes)
                nursery.cancel_scope.cancel()
            for node_id in set(processes.commands) - set(processes.running):
                processes.start(node_id)
            async with processes.client() as client:
                await client.append([b"last"])
                assert (await client.status())["voters"] == [6, 7, 8]
            stored = await read_all(processes)
    finally:
        for node_id in list(processes.running):
            processes.kill(node_id)
    assert processes.kills > 3
    assert set(acknowledged) <= set(stored), "lost"
    assert len(stored) == len(set(stored)), "twice"
    assert set(stored) <= {*acknowledged, *unknown, b"last"}, "never sent, or refused"
