"""One rehearsal: a city is lost under load, an operator switches, the city returns, and the operator switches back.

All that enters or leaves a city takes half of the delay, so a record on its way from one city to the other takes all of it.
Clients stand in neither city. The mirror stands still for a moment, so that there is a lag. Then SIGKILL ends every broker of
the city at once; their disks are there again later.
"""

import json
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import Action
from jepsen_like.port.port import Mode, System
from jepsen_like.port.registry import system_named
from jepsen_like.port.wires import CLIENTS, Route, text_of
from jepsen_like.rehearse.clients import (
    TOPIC,
    Client,
    GroupReader,
    Home,
    SteadyProducer,
    create_topic,
    read_ends,
    read_positions,
    read_whole,
)
from jepsen_like.rehearse.journal import Journal
from jepsen_like.systems.kafka.load import bootstrap

A, B = 1, 2
NAMES: Final = {A: "a", B: "b"}
GROUPS: Final = {1: "billing", 2: "shipping"}
PRODUCERS: Final = 2
PARTITIONS: Final = 4
SERVES_WITHIN_S: Final = 60.0
OPENS_WITHIN_S: Final = 30.0
READ_WITHIN_S: Final = 30.0
ENDS_WITHIN_S: Final = 20.0
SWITCH_WAITS_S: Final = 1.0
"""The time for which a switch asks a city that is gone."""
BACK_WAITS_S: Final = 30.0
POLL_S: Final = 0.05
FLOWS_S: Final = 3.0
"""The time that an open link gets to copy what the city brings back."""


class RehearsalFailed(Exception):
    """A step did not happen, so that there is nothing to judge; the text names it."""


@attrs.frozen(kw_only=True)
class RehearsalPlan:
    """Names what is rehearsed. Pace are drawn from the seed."""

    seed: int
    delay_s: float
    nodes: int = 3
    rate: float = 200.0
    fences: bool = True
    recreates: bool = False
    """True: the city that returns begins with empty topics; False: what it alone has stays in them."""

    def times(self) -> "Pace":
        """Returns how long each phase takes."""
        rng = random.Random(f"rehearsal {self.seed}")
        return Pace(*(round(rng.uniform(*each), 2) for each in ((3, 6), (0.3, 0.8), (0.5, 2), (2, 4), (2, 4))))


@attrs.frozen
class Pace:
    """The seconds that each phase takes."""

    before: float
    """Load until the mirror stands still."""
    stall: float
    """From there to the loss of the city: so long is its lag."""
    decision: float
    """From the loss to the operator's command."""
    apart: float
    """Load at the other city, until the lost one is back."""
    after: float
    """Load before the switch back, and after it."""


@attrs.define
class Step:
    """One command of the operator, or a mirror."""

    words: Sequence[str]
    process: trio.Process
    out: Path

    def rows(self) -> list[dict[str, Any]]:
        """Returns the objects that it has printed."""
        text = self.out.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]

    async def wait(self, within_s: float) -> int | None:
        """Returns its exit status; None if it goes on."""
        with trio.move_on_after(within_s):
            return await self.process.wait()
        return None


@attrs.frozen
class RehearsalClients:
    """Everything that works for the load."""

    producers: Sequence[SteadyProducer]
    members: Sequence[GroupReader]

    @classmethod
    def start(cls, journal: Journal, rate: float) -> "RehearsalClients":
        """Start them all, at no cluster yet."""
        producers = [
            SteadyProducer(journal, number, PRODUCERS, PARTITIONS, rate / PRODUCERS)
            for number in range(1, PRODUCERS + 1)
        ]
        return cls(
            producers, [GroupReader(journal, number, name, 0.2 + 0.3 * number) for number, name in GROUPS.items()]
        )

    @property
    def all(self) -> list[Client]:
        """Returns producers and members."""
        return [*self.producers, *self.members]


@attrs.define
class Rehearsal:
    """A rehearsal under way."""

    plan: RehearsalPlan
    directory: Path
    journal: Journal
    clusters: Mapping[int, Cluster]
    homes: Mapping[int, Home]
    figures: dict[str, Any] = attrs.field(factory=dict)
    _fences: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """By partition: the link's epoch and the fence of the newest switch."""
    _steps: int = 0
    _running: list[Step] = attrs.field(factory=list)

    # ---------------------------------------------------------------- the story

    async def play(self) -> None:
        """Play everything, and leave the final logs of both clusters in the directory."""
        copies = min(3, self.plan.nodes)
        await trio.to_thread.run_sync(create_topic, self.homes[A], PARTITIONS, copies)
        clients = RehearsalClients.start(self.journal, self.plan.rate)
        try:
            await self._tell_story(clients, self.plan.times())
        finally:
            for client in clients.all:
                client.end()
        await self._keep_logs()

    async def _tell_story(self, clients: RehearsalClients, times: Pace) -> None:
        mirror = await self._mirror(A, B)
        await self._move(clients.all, self.homes[A])
        await trio.sleep(times.before)
        mirror.process.send_signal(signal.SIGSTOP)
        await trio.sleep(times.stall)
        lost_ns = await self._lose(A)
        mirror.process.send_signal(signal.SIGCONT)
        await trio.sleep(times.decision)
        await self._switch_from_lost(clients, lost_ns)
        if self.plan.fences:
            await self._expect_end(mirror)
        await trio.sleep(times.apart)
        await self._return(A)
        self.figures["down_ns"] = [lost_ns, time.monotonic_ns()]
        if self.plan.fences:
            await self._refuse_the_old_mirror()
            await self._switch_back(clients, times)
        else:
            await trio.sleep(FLOWS_S)
        await self._settle(clients, A if self.plan.fences else B)

    async def _lose(self, city: int) -> int:
        cluster = self.clusters[city]
        now = time.monotonic_ns()
        await cluster.kill(cluster.nodes)
        return now

    async def _return(self, city: int) -> None:
        cluster = self.clusters[city]
        await cluster.start(cluster.nodes)
        await wait_until_serving(cluster)

    async def _switch_from_lost(self, clients: RehearsalClients, lost_ns: int) -> None:
        """The operator's command, and clients that go on at the other city: the machine's part of the recovery time."""
        begun_ns = time.monotonic_ns()
        unsafe = () if self.plan.fences else ("--unsafe-no-fence",)
        await self._switch(A, B, "--give-up", "--wait", f"{SWITCH_WAITS_S:g}", *unsafe)
        await self._go_on(clients, A, B, begun_ns, is_lost=True)
        first = self.journal.first
        self.figures["rto_machine_s"] = (first[Action.SEND, B] - begun_ns) / 1e9
        self.figures["rto_s"] = (first[Action.SEND, B] - lost_ns) / 1e9
        self.figures["read_s"] = (first[Action.POLL, B] - begun_ns) / 1e9

    async def _switch_back(self, clients: RehearsalClients, times: Pace) -> None:
        """A planned switch: the link back has caught up before clients stop, so nothing is lost."""
        mirror = await self._mirror(B, A, "--diverged", "recreate" if self.plan.recreates else "keep")
        await trio.sleep(times.after)
        begun_ns = time.monotonic_ns()
        await self._move(clients.all, None)
        await self._switch(B, A, "--wait", f"{BACK_WAITS_S:g}")
        await self._go_on(clients, B, A, begun_ns)
        self.figures["back_s"] = (self.journal.first[Action.SEND, A] - begun_ns) / 1e9
        await self._expect_end(mirror)
        await trio.sleep(times.after)

    async def _go_on(
        self, clients: RehearsalClients, source: int, target: int, begun_ns: int, *, is_lost: bool = False
    ) -> None:
        """Record the switch, let producers go on, look where the groups were put, and let them go on."""
        home = self.homes[target]
        ends = await trio.to_thread.run_sync(read_ends, home, PARTITIONS)
        for partition, (epoch, fence) in self._fences.items():
            about = {"object": partition, "node": source, "b": target, "epoch": epoch, "offset": fence}
            times = {"t_inv": begun_ns, "t_ret": time.monotonic_ns()}
            self.journal.record(Action.SWITCH, seen=ends[partition], **about, **times)
        self.journal.forget()
        await self._move(clients.producers, home, is_lost=is_lost)
        for member in clients.members:
            asked_ns = time.monotonic_ns()
            found = await trio.to_thread.run_sync(read_positions, home, member.name, PARTITIONS)
            for partition, offset in found.items():
                about = {"object": partition, "a": member.group, "b": source, "node": target, "offset": offset}
                self.journal.record(Action.TRANSLATE, t_inv=asked_ns, t_ret=time.monotonic_ns(), **about)
        await self._move(clients.members, home, is_lost=is_lost)
        wanted = {(Action.SEND, target), (Action.POLL, target)}
        with trio.move_on_after(SERVES_WITHIN_S):
            while not wanted <= set(self.journal.first):  # noqa: ASYNC110 - threads work
                await trio.sleep(POLL_S)
            return
        raise RehearsalFailed(f"clients are not served by city {NAMES[target]}")

    async def _settle(self, clients: RehearsalClients, last: int) -> None:
        """Producers stop, and groups read to the end."""
        await self._move(clients.producers, None)
        ends = await trio.to_thread.run_sync(read_ends, self.homes[last], PARTITIONS)
        for member in clients.members:
            member.until = ends
        with trio.move_on_after(READ_WITHIN_S):
            while not all(member.has_read_all for member in clients.members):  # noqa: ASYNC110 - threads read
                await trio.sleep(POLL_S)
        for client in clients.all:
            client.end()
        for client in clients.all:
            await trio.to_thread.run_sync(client.wait)

    # ---------------------------------------------------------------- its steps

    async def _move(self, clients: Sequence[Client], home: Home | None, *, is_lost: bool = False) -> None:
        for client in clients:
            client.go_on_at(home, is_lost=is_lost)
        for client in clients:
            await trio.to_thread.run_sync(client.wait)

    async def _switch(self, source: int, target: int, *words: str) -> None:
        """Run the operator's command, and keep the fence of each partition."""
        step = await self._start("switch", source, target, *words)
        status = await step.wait(SERVES_WITHIN_S)
        if status not in (0, 1):
            raise RehearsalFailed(f"the switch to city {NAMES[target]} ended with {status}: {self._complaint(step)}")
        rows = step.rows()
        epoch = next((row["epoch"] for row in rows if row.get("event") == "switched"), 0)
        copied = {row["partition"]: row["copied_to"] for row in rows if row.get("topic") == TOPIC}
        self._fences = {partition: (epoch, copied.get(partition, 0)) for partition in range(PARTITIONS)}

    async def _mirror(self, source: int, target: int, *words: str) -> Step:
        step = await self._start("mirror", source, target, *words)
        with trio.move_on_after(OPENS_WITHIN_S):
            while not any(row["event"] == "open" for row in step.rows()):
                if (status := step.process.poll()) is not None:
                    raise RehearsalFailed(f"the mirror ended with {status}: {self._complaint(step)}")
                await trio.sleep(POLL_S)
            return step
        raise RehearsalFailed(f"the link to city {NAMES[target]} did not open: {self._complaint(step)}")

    async def _expect_end(self, mirror: Step) -> None:
        """A mirror whose link was cut ends by itself."""
        if await mirror.wait(ENDS_WITHIN_S) is None:
            raise RehearsalFailed("the mirror goes on after its link was cut")

    async def _refuse_the_old_mirror(self) -> None:
        """The old mirror, started again after the switch, must not copy anything."""
        step = await self._start("mirror", A, B)
        self.figures["old_mirror"] = await step.wait(ENDS_WITHIN_S)
        if self.figures["old_mirror"] is None:
            raise RehearsalFailed("the old mirror was not refused after the switch")

    async def _start(self, command: str, source: int, target: int, *words: str) -> Step:
        """Start a command of the operator; its output is kept in the directory."""
        self._steps += 1
        name = f"{self._steps}-{command}"
        ends = ("--from", self._addresses(source), "--to", self._addresses(target), "--topics", TOPIC)
        argv = [sys.executable, "-m", "jepsen_like.cli", command, *ends, *words, "--json"]
        out = self.directory / f"{name}.jsonl"
        with out.open("w") as stdout, (self.directory / f"{name}.err").open("w") as stderr:
            step = Step(argv, await trio.lowlevel.open_process(argv, stdout=stdout, stderr=stderr), out)
        self._running.append(step)
        return step

    def _addresses(self, city: int) -> str:
        return ",".join(text_of(address) for address in self.clusters[city].client_addresses.values())

    @staticmethod
    def _complaint(step: Step) -> str:
        lines = [*step.out.with_suffix(".err").read_text().splitlines(), *step.out.read_text().splitlines()]
        return lines[-1] if lines else "it printed nothing"

    async def kill(self) -> None:
        """End every command that still runs."""
        with trio.CancelScope(shield=True):
            for step in self._running:
                if step.process.poll() is None:
                    step.process.kill()
                await step.process.wait()

    async def _keep_logs(self) -> None:
        with DumpWriter(self.directory / "dump.parquet") as dump:
            for city, home in self.homes.items():
                logs = await trio.to_thread.run_sync(read_whole, home, PARTITIONS)
                for partition, records in logs.items():
                    dump.begin(city, 0, partition)
                    for offset, value in records:
                        dump.record(city, offset, 0, [value], obj=partition)


async def rehearse(plan: RehearsalPlan, directory: Path) -> dict[str, Any]:
    """Play a rehearsal; its history and final logs are in `directory` afterwards. Returns the measured times.

    Raises `RehearsalFailed`, and what `open_cluster` raises.
    """
    system = system_named("kafka")
    mode = system.configure(("flush=page-cache",), system.replications[0]).on(plan.nodes)
    (directory / "test.json").write_text(json.dumps(description(plan), indent=2) + "\n")
    async with _city(directory, A, system, mode, plan) as a, _city(directory, B, system, mode, plan) as b:
        clusters = {A: a, B: b}
        homes = {city: Home(city, bootstrap(cluster.client_addresses)) for city, cluster in clusters.items()}
        with HistoryWriter(directory / "history.parquet") as history:
            rehearsal = Rehearsal(plan, directory, Journal(history), clusters, homes)
            try:
                await rehearsal.play()
            finally:
                await rehearsal.kill()
    return rehearsal.figures


@asynccontextmanager
async def _city(directory: Path, city: int, system: System, mode: Mode, plan: RehearsalPlan) -> AsyncIterator[Cluster]:
    """Start the cluster of a city, with a line of half the delay around it."""
    place = directory / NAMES[city]
    place.mkdir()
    opening = open_cluster(place, system, mode, nodes=plan.nodes, cluster_id=f"rehearsal-{NAMES[city]}", seed=plan.seed)
    async with opening as cluster:
        await wait_until_serving(cluster)
        ways = [tuple((CLIENTS, node) for node in cluster.nodes), tuple((node, CLIENTS) for node in cluster.nodes)]
        cluster.network.lay(Route(ways=each, delay_s=plan.delay_s / 2) for each in ways)
        yield cluster


async def wait_until_serving(cluster: Cluster) -> None:
    """Raises `RehearsalFailed` if a cluster does not serve in time."""
    with trio.move_on_after(SERVES_WITHIN_S):
        while not await cluster.control.is_serving():  # noqa: ASYNC110 - only the brokers know
            await trio.sleep(POLL_S)
        return
    raise RehearsalFailed(f"the cluster {cluster.cluster_id} does not serve")


def description(plan: RehearsalPlan) -> dict[str, Any]:
    """Returns what test.json states of a rehearsal."""
    partitions = {str(number): f"{TOPIC}-{number}" for number in range(PARTITIONS)}
    names = {"clusters": NAMES, "partitions": partitions, "groups": GROUPS}
    return {"system": "kafka", "plan": attrs.asdict(plan), "mirror": names}
