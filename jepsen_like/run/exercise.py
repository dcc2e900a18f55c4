"""One run from an empty directory to quiet nodes: start, load, break, heal, final reads, dump, stop.

Ctrl-C (or SIGTERM) ends load and faults early and goes on with healing and dumping, so that what was recorded can be
checked; a second one stops at once. Whatever happens, no node outlives the run.
"""

import signal
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs
import numpy as np
import trio

from jepsen_like.checker.verdict import Model
from jepsen_like.cli import first_cause
from jepsen_like.cluster.cluster import Cluster, open_cluster, zones_of
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.target import open_target
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.nemesis.kind import Kinds
from jepsen_like.nemesis.nemesis import Nemesis
from jepsen_like.nemesis.schedule import Fault, schedule
from jepsen_like.nemesis.table import KINDS, kinds_named
from jepsen_like.port.port import Mode, NotServing, System
from jepsen_like.port.registry import system_named
from jepsen_like.port.wires import Network
from jepsen_like.port.zones import NO_ZONES, ZoneMap, ZonePlan
from jepsen_like.progress import RunProgress
from jepsen_like.record.attempts import percentiles
from jepsen_like.run.display import FaultNewsLines, show
from jepsen_like.run.results import Expected, Observed
from jepsen_like.run.target import TargetPlan
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.recorder import Recorder

LEADER_WITHIN_S = 20.0
PREPARED_WITHIN_S = 20.0
AGREE_WITHIN_S = 30.0
BEGINS_WITHIN_S = 30.0
"""The time for which the faults, and the time of the load, wait for a first operation."""
POLL_S = 0.02
PEACE_S = 1.0
"""Load after the end of a schedule that took longer than planned."""


@attrs.frozen(kw_only=True)
class RunPlan:
    """The plan of a run. `settings` are `name=value` for every node, `rate` 0 is closed loop."""

    system: str
    replication: str
    nodes: int
    duration_s: float
    rate: float
    concurrency: int
    kinds: tuple[str, ...]
    network: Network = Network.PROXIES
    tls: bool = False
    zones: ZonePlan = NO_ZONES
    workload: str
    settings: tuple[str, ...]
    seed: int
    planned: tuple[Fault, ...] | None = None
    """The faults themselves, of these kinds; None: they are drawn from the seed."""
    target: TargetPlan | None = None
    """The cluster of others; None: one of our own is started."""

    def faults(self) -> tuple[Fault, ...]:
        """Returns what is broken when. Raises `ValueError` if the time is too short for all kinds."""
        if self.planned is not None:
            return self.planned
        return schedule(self.seed, tuple(self.kinds_of_faults().values()), self.duration_s)

    def kinds_of_faults(self) -> Kinds:
        """Returns the kinds by name, as this run does them."""
        kinds = kinds_named(self.kinds) if self.target is None else self.target.kinds(self.kinds)
        return {kind.name: kind for kind in kinds}

    @property
    def cluster_id(self) -> str:
        """Keeps the nodes of two runs apart, should a port change hands."""
        return f"run-{self.seed}"

    def of_system(self) -> System:
        """The adapter of the system."""
        return system_named(self.system)

    def mode(self) -> Mode:
        """Returns what it is set to. Raises `WrongMode`."""
        return self.of_system().configure(self.settings, self.replication).on(self.nodes)

    def settle_zones(self, mode: Mode) -> ZoneMap:
        """Returns who stands in which zone. Raises `WrongZones` if they do not fit."""
        return zones_of(self.zones, mode, self.of_system().members_in_zones(self.nodes, self.zones.count))

    @property
    def model(self) -> Model:
        """Returns what checks the workload."""
        return self.of_system().workloads[self.workload]


class _Interrupted:
    """The request to end a run, and the scopes to cancel for it."""

    def __init__(self) -> None:
        self.is_set = False
        self.scope = trio.CancelScope()

    async def watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Wait for signals; the second one is a `KeyboardInterrupt`."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self.is_set:
                    raise KeyboardInterrupt
                self.is_set = True
                self.scope.cancel()


async def exercise(plan: RunPlan, directory: Path, progress: RunProgress) -> Observed:
    """Carry `plan` out; history, dumps, nemesis.jsonl and the nodes' files are in `directory` afterwards.

    Raises `NodeDidNotStart` (in a group), `NotServing`, `NoVolumes`, `NoNamespaces` or `NoLibrary` if no
    cluster could be started.
    """
    interrupted = _Interrupted()
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupted.watch)
        progress.phase("starting")
        async with _open(plan, directory / "nodes", progress) as cluster:
            leader = await cluster.leader(within_s=LEADER_WITHIN_S)
            if leader is None:
                raise NotServing(f"no node was elected leader within {LEADER_WITHIN_S:g} s of the start")
            prepared_within_s = PREPARED_WITHIN_S + cluster.system.recovers_in_s
            await cluster.control.prepare(cluster.mode, plan.workload, within_s=prepared_within_s)
            leader = await cluster.leader(within_s=LEADER_WITHIN_S) or leader
            if misplaced := await cluster.find_misplaced():
                raise NotServing("; ".join(misplaced))
            names = ", ".join(member.name for member in cluster.members.values())
            progress.event(f"{names} listen, n{leader.node} leads in term {leader.epoch}", topic="cluster")
            if client := cluster.system.describe(cluster.mode, plan.workload).get("client"):
                progress.event(f"client={client}", topic="load")
            observed = await _break_it(plan, directory, cluster, progress, interrupted)
            cluster.system.keep_states(directory, plan.workload)
            roles = tuple(cluster.reports.roles)  # how the nodes are ended is no part of the run
        nursery.cancel_scope.cancel()
    return attrs.evolve(observed, unasked_ends=tuple(cluster.unasked_ends), roles=roles)


def _open(plan: RunPlan, nodes: Path, progress: RunProgress) -> AbstractAsyncContextManager[Cluster]:
    if plan.target is not None:
        return open_target(
            nodes,
            plan.of_system(),
            plan.mode(),
            plan.target.target,
            cluster_id=plan.cluster_id,
            report=lambda line: progress.event(line, topic="cluster"),
        )
    return open_cluster(
        nodes,
        plan.of_system(),
        plan.mode(),
        nodes=plan.nodes,
        cluster_id=plan.cluster_id,
        needs=frozenset[Need]().union(*(kind.needs for kind in kinds_named(plan.kinds))),
        network=plan.network,
        seed=plan.seed,
        tls=plan.tls,
        zones=plan.zones,
    )


async def _break_it(
    plan: RunPlan, directory: Path, cluster: Cluster, progress: RunProgress, interrupted: _Interrupted
) -> Observed:
    not_recovered: list[str] = []
    with HistoryWriter(directory / "history.parquet") as history:
        recorder = cluster.system.recorder(plan.workload, history)
        load = cluster.system.load(
            cluster.mode,
            plan.workload,
            recorder,
            cluster.client_addresses,
            cluster.access,
            LoadPlan(concurrency=plan.concurrency, rate=plan.rate, seed=plan.seed),
        )
        news = FaultNewsLines(progress, cluster)
        nemesis = Nemesis(
            cluster, plan.faults(), directory / "nemesis.jsonl", news.tell, kinds={**KINDS, **plan.kinds_of_faults()}
        )
        progress.phase("load", total_s=plan.duration_s)
        async with show(progress, cluster, recorder, news), trio.open_nursery() as nursery:
            nursery.start_soon(load.run)
            with interrupted.scope:
                await _under_way(recorder)
                await _for_the_duration(plan, nemesis)
            progress.phase("healing")
            if interrupted.is_set:
                progress.event("interrupted: healing, then the check of what was recorded", topic="run")
            load.stop()
            load_ended_ns = time.monotonic_ns()
        await nemesis.heal(load_ended_ns=load_ended_ns)
        acked_under_load = recorder.counts.acked
        if not await load.final_reads():
            not_recovered.append("the healed cluster did not take a last write and answer the final reads")
    try:
        ends = await cluster.control.settle(within_s=AGREE_WITHIN_S + cluster.system.recovers_in_s)
        for obj, claimed in load.claimed_ends().items():
            if claimed > ends[obj]:  # nothing was lost since: everything is healed
                recorder.note_nonsense(
                    f"a node answered a final read with {claimed} as the end of log {obj}, which ends at {ends[obj]}"
                )
        with DumpWriter(directory / "dump.parquet", rule=cluster.mode.keep_rule(plan.kinds)) as writer:
            await cluster.control.dump(ends, writer)
        begin = min(writer.starts.values(), default=0)
        left = f", those before {begin:,} have left" if begin else ""
        progress.event(f"all logs end alike, with {sum(ends.values()):,} records{left}; dumped", topic="dump")
    except* NotServing as group:
        not_recovered.append(str(first_cause(group)))
    described = cluster.system.describe(cluster.mode, plan.workload)
    return Observed(
        faults=tuple(sorted(nemesis.records, key=lambda record: record.begun_ns)),
        roles=(),
        unasked_ends=(),
        nonsense=tuple(recorder.nonsense),
        not_recovered="; ".join(not_recovered) if not_recovered else None,
        is_interrupted=interrupted.is_set,
        nodes=cluster.targets,
        kinds=plan.kinds,
        counted=recorder.counts.by_outcome(),
        load_ended_ns=load_ended_ns,
        last_acked=recorder.counts.acked - acked_under_load,
        starts=tuple(cluster.reports.starts),
        turns=tuple(cluster.reports.turns),
        expected=Expected(
            described.get("struck", {}),
            {what: cluster.reports.served[what] for what in described.get("shows", ())},
            cluster.system.recovers_in_s,
        ),
        latency_from_intended_ms=percentiles(np.array(recorder.from_intended_s) * 1e3) if plan.rate else None,
    )


async def _under_way(recorder: Recorder) -> None:
    """Wait for the first operation that ended: clients in processes of their own need seconds to begin on a busy machine."""
    with trio.move_on_after(BEGINS_WITHIN_S):
        while not recorder.began_ns:  # noqa: ASYNC110 - what is waited for happens in other processes
            await trio.sleep(POLL_S)


async def _for_the_duration(plan: RunPlan, nemesis: Nemesis) -> None:
    ends = trio.current_time() + plan.duration_s
    await nemesis.run()
    await trio.sleep_until(max(ends, trio.current_time() + (PEACE_S if plan.kinds else 0.0)))
