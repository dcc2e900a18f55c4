"""Processes of a group that are killed, and replaced by others, while clients work."""

import random
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from jepsen_like.operate.log import GroupAccess
from jepsen_like.operate.members import Operator
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from raft.client import Client, Connection
from raft.errors import RaftError
from tests.raft.shell.nodes import CLUSTER_ID
from tests.raft.shell.test_node import ROOT, flags

FAST = ("heartbeat_s=0.05", "election_timeout_s_min=0.3", "election_timeout_s_max=0.6")
OPERATOR_WITHIN_S = 5.0


@attrs.define
class Processes:
    """Node processes, each started with the members that were there when it was first."""

    directory: Path
    ports: dict[int, int]
    rng: random.Random
    calm_s: float = 0.8
    """Between two kills, at most."""
    commands: dict[int, list[str]] = attrs.field(factory=dict)
    running: dict[int, "subprocess.Popen[bytes]"] = attrs.field(factory=dict)
    kills: int = 0
    cluster_id: str = CLUSTER_ID

    def first_start(self, node_id: int, members: Sequence[int], *, joins: bool) -> None:
        command = self.command(node_id, [*members, node_id], joins=joins)
        self.commands[node_id] = [sys.executable, "-m", *command]
        self.start(node_id)

    def command(self, node_id: int, members: Sequence[int], *, joins: bool) -> list[str]:
        """The module and its flags; `members` has this one, too."""
        ports = {member: self.ports[member] for member in members}
        settings = [f"--set={setting}" for setting in FAST]
        more = ["--joins"] if joins else []
        return ["raft.node", *flags(node_id, ports, self.directory, *settings, *more)]

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
            await trio.sleep(self.rng.uniform(0.0, self.calm_s))
            victim = self.rng.choice(sorted(self.running))
            self.kill(victim)
            self.kills += 1
            await trio.sleep(self.rng.uniform(0.0, self.calm_s))
            if victim in self.commands and victim not in self.running:
                self.start(victim)
            while victim in self.commands and not await self.serves(victim):  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)

    async def serves(self, node_id: int) -> bool:
        try:
            async with Connection.open("127.0.0.1", self.ports[node_id], self.cluster_id, timeout_s=0.5) as connection:
                await connection.status()
        except RaftError:
            return False
        return True

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", self.ports[node_id]) for node_id in sorted(self.commands)]

    async def operate(self, work: Callable[..., Awaitable[None]], *given: Any, **options: Any) -> None:
        """Do what a command of an operator does, and again after each failure, as it asks for."""
        while True:
            access = GroupAccess(tuple(self.addresses), self.cluster_id, OPERATOR_WITHIN_S)
            async with attrs.evolve(access, within_s=1.0).client() as client:
                try:
                    return await work(Operator(access, client, "the same"), *given, **options)
                except (NotDone, PerhapsDone):
                    continue

    def client(self) -> Client:
        return Client(
            [f"{host}:{port}" for host, port in self.addresses],
            self.cluster_id,
            connect_timeout_s=0.3,
            retry_pause_s=0.05,
        )
