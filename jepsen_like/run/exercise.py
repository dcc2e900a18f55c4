"""One run from an empty directory to quiet nodes: start, load, break, heal, ask the last questions, dump, stop.

Ctrl-C (or SIGTERM) ends load and faults early and goes on with healing and dumping, so that what was recorded can be
checked; a second one stops at once. Whatever happens, no node outlives the run.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import trio

from jepsen_like.cluster.cluster import Cluster, NotServing, open_cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.wires import Network
from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.nemesis import Nemesis
from jepsen_like.nemesis.schedule import schedule
from jepsen_like.nemesis.table import named
from jepsen_like.progress import Progress
from jepsen_like.run.display import FaultNewsLines, shown
from jepsen_like.run.results import Observed, percentiles
from jepsen_like.workload.dump import dump_logs
from jepsen_like.workload.load import Load, LoadPlan
from jepsen_like.workload.log import LogWorkload
from jepsen_like.workload.model import Workload
from jepsen_like.workload.recorder import Recorder
from jepsen_like.workload.register import RegisterWorkload
from raft.errors import RaftError
from raft.settings import parse_settings

LEADER_WITHIN_S = 20.0
AGREE_WITHIN_S = 30.0
PEACE_S = 1.0
"""Load after the end of a schedule that took longer than planned."""
WORKLOADS = ("log", "register")


@attrs.frozen(kw_only=True)
class RunPlan:
    """What to run. `settings` are `name=value` for every node, `rate` 0 is closed loop."""

    system: str
    replication: str
    nodes: int
    duration_s: float
    rate: float
    concurrency: int
    kinds: tuple[str, ...]
    network: Network = Network.PROXIES
    workload: str
    settings: tuple[str, ...]
    seed: int

    @property
    def cluster_id(self) -> str:
        """Keeps the nodes of two runs apart, should a port change hands."""
        return f"run-{self.seed}"


def workload_named(name: str, *, expires: bool = False) -> Workload:
    """A new workload; `KeyError` for a name that is none of `WORKLOADS`. `expires`: records may leave the nodes' logs."""
    workloads: dict[str, Callable[[], Workload]] = {
        "log": lambda: LogWorkload(expires=expires),
        "register": RegisterWorkload,
    }
    return workloads[name]()


def keep_rule(plan: RunPlan) -> KeepRule:
    """What the nodes of this plan may let go of their logs."""
    settings = parse_settings(plan.settings)
    return KeepRule(
        retention_bytes=settings.retention_bytes,
        retention_s=settings.retention_s,
        segment_bytes_max=settings.segment_bytes_max,
        # What no flush has secured may come back with the file that had left.
        starts_stay=not any(kind.reach is Reach.UNFLUSHED for kind in named(plan.kinds)),
    )


def first_cause(error: BaseException) -> BaseException:
    """The first exception in a group of groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Interrupted:
    """Whether the run was asked to end, and what to cancel for it."""

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


async def exercise(plan: RunPlan, directory: Path, progress: Progress) -> Observed:
    """Carry `plan` out; history, dumps, nemesis.jsonl and the nodes' files are in `directory` afterwards.

    `NodeDidNotStart` (in a group), `NotServing`, `NoVolumes`, `NoNamespaces` or `NoLibrary` if there was never a cluster
    to break.
    """
    interrupted = _Interrupted()
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupted.watch)
        progress.phase("starting")
        needs = frozenset[Need]().union(*(kind.needs for kind in named(plan.kinds)))
        async with open_cluster(
            directory / "nodes",
            nodes=plan.nodes,
            cluster_id=plan.cluster_id,
            settings=plan.settings,
            needs=needs,
            network=plan.network,
            seed=plan.seed,
        ) as cluster:
            leader = await cluster.leader(within_s=LEADER_WITHIN_S)
            if leader is None:
                raise NotServing(f"no node was elected leader within {LEADER_WITHIN_S:g} s of the start")
            progress.event(f"n1 to n{plan.nodes} listen, n{leader.node} leads in term {leader.term}", topic="cluster")
            observed = await _break_it(plan, directory, cluster, progress, interrupted)
            roles = tuple(cluster.roles)  # how the nodes are ended is no part of the run
        nursery.cancel_scope.cancel()
    return attrs.evolve(observed, unasked_ends=tuple(cluster.unasked_ends), roles=roles)


async def _break_it(
    plan: RunPlan, directory: Path, cluster: Cluster, progress: Progress, interrupted: _Interrupted
) -> Observed:
    faults = schedule(plan.seed, named(plan.kinds), plan.duration_s)
    not_recovered: list[str] = []
    with HistoryWriter(directory / "history.parquet") as history:
        recorder = Recorder(history)
        load = Load(
            workload_named(plan.workload, expires=keep_rule(plan).may_expire),
            recorder,
            cluster.client_addresses,
            plan.cluster_id,
            LoadPlan(concurrency=plan.concurrency, rate=plan.rate, seed=plan.seed),
        )
        news = FaultNewsLines(progress, cluster)
        nemesis = Nemesis(cluster, faults, directory / "nemesis.jsonl", news.tell)
        progress.phase("load", total_s=plan.duration_s)
        async with shown(progress, cluster, recorder, news), trio.open_nursery() as nursery:
            nursery.start_soon(load.run)
            with interrupted.scope:
                await _for_the_duration(plan, nemesis)
            progress.phase("healing")
            if interrupted.is_set:
                progress.event("interrupted: healing, then the check of what was recorded", topic="run")
            load.stop()
        await nemesis.heal()
        acked_under_load = recorder.counts.acked
        if not await load.last_words():
            not_recovered.append("the healed cluster did not take a last write and answer the last questions")
    try:
        end = await cluster.agreed_end(within_s=AGREE_WITHIN_S)
        with DumpWriter(directory / "dump.parquet", rule=keep_rule(plan)) as writer:
            await dump_logs(cluster.direct, plan.cluster_id, end, writer)
        begin = min(writer.starts.values(), default=0)
        left = f", those before {begin:,} have left" if begin else ""
        progress.event(f"all nodes agree on {end:,} records{left}; dumped", topic="dump")
    except* (NotServing, RaftError) as group:
        not_recovered.append(str(first_cause(group)))
    return Observed(
        faults=tuple(sorted(nemesis.records, key=lambda record: record.begun_ns)),
        roles=(),
        unasked_ends=(),
        nonsense=tuple(recorder.nonsense),
        not_recovered="; ".join(not_recovered) if not_recovered else None,
        is_interrupted=interrupted.is_set,
        nodes=tuple(cluster.nodes),
        kinds=plan.kinds,
        counted=recorder.counts.by_outcome(),
        last_acked=recorder.counts.acked - acked_under_load,
        starts=tuple(cluster.starts),
        latency_from_intended_ms=percentiles(np.array(recorder.from_intended_s) * 1e3) if plan.rate else None,
    )


async def _for_the_duration(plan: RunPlan, nemesis: Nemesis) -> None:
    ends = trio.current_time() + plan.duration_s
    await nemesis.run()
    await trio.sleep_until(max(ends, trio.current_time() + (PEACE_S if plan.kinds else 0.0)))
