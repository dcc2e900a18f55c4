"""One run from an empty directory to quiet nodes: start, load, break, heal, ask the last questions, dump, stop.

Ctrl-C (or SIGTERM) ends load and faults early and goes on with healing and dumping, so that what was recorded can be
checked; a second one stops at once. Whatever happens, no node outlives the run.
"""

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import numpy as np
import trio

from jepsen_like.cluster.cluster import DOWN, Cluster, NotServing, RoleSeen, open_cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.wires import Network
from jepsen_like.history import DumpWriter, HistoryWriter, KeepRule
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.nemesis import FaultNews, Nemesis
from jepsen_like.nemesis.schedule import schedule
from jepsen_like.nemesis.table import named
from jepsen_like.progress import NodeLine, NodeState, OpsLine, Progress
from jepsen_like.results import Observed, percentiles
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
SHOW_EVERY_S = 0.5
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
        judges_age=not any(kind.startswith("clock-") for kind in plan.kinds),
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
        news = _News(progress, cluster)
        nemesis = Nemesis(cluster, faults, directory / "nemesis.jsonl", news.tell)
        progress.phase("load", total_s=plan.duration_s)
        async with _shown(progress, cluster, recorder, news), trio.open_nursery() as nursery:
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


# -------------------------------------------------------------------- the display


class _News:
    """Faults as lines, and whose links are broken now."""

    def __init__(self, progress: Progress, cluster: Cluster) -> None:
        self._held: dict[int, tuple[str, frozenset[int]]] = {}
        self._progress = progress
        self._cluster = cluster

    def tell(self, news: FaultNews) -> None:
        """A fault began or ended."""
        names = ",".join(f"n{node}" for node in news.blow.nodes)
        what = f"{news.fault.kind} {names} ({news.fault.target})"
        if news.has_ended:
            self._held.pop(news.fault.id, None)
            self._progress.event(f"{what} undone", style="dim")
        else:
            self._held[news.fault.id] = (what, frozenset(news.blow.nodes if news.blow.pairs else ()))
            self._progress.event(what)
        self._progress.faults(tuple(what for what, _ in self._held.values()))

    @property
    def cut(self) -> frozenset[int]:
        """Nodes whose links are broken now."""
        return frozenset().union(*(nodes for _, nodes in self._held.values()))


@asynccontextmanager
async def _shown(progress: Progress, cluster: Cluster, recorder: Recorder, news: _News) -> AsyncIterator[None]:
    """Keep the display fresh."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show, progress, cluster, recorder, news)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def _show(progress: Progress, cluster: Cluster, recorder: Recorder, news: _News) -> None:
    before, before_s = 0, trio.current_time()
    told = 0
    while True:
        await trio.sleep(SHOW_EVERY_S)
        now = trio.current_time()
        counts, latencies = recorder.counts, sorted(recorder.recent_latency_s)
        progress.ops(
            OpsLine(
                acked=counts.acked,
                failed=counts.fail,
                unknown=counts.info,
                ops_per_s=(counts.ok - before) / (now - before_s),
                p99_ms=latencies[int(len(latencies) * 0.99)] * 1e3 if latencies else None,
            )
        )
        before, before_s = counts.ok, now
        progress.nodes(_node_lines(cluster, news.cut))
        for start in cluster.starts[told:]:
            if start.is_snapshot:
                progress.event(str(start), topic="log")
        told = len(cluster.starts)


def _node_lines(cluster: Cluster, cut: frozenset[int]) -> list[NodeLine]:
    newest: Mapping[int, RoleSeen] = {role.node: role for role in cluster.roles}
    lines = []
    for node, process in cluster.nodes.items():
        role = newest.get(node)
        known = role if role is not None and role.role != DOWN else None
        state = NodeState.CUT if node in cut else NodeState.UP
        if not process.is_running:
            state = NodeState.DOWN
        elif process.is_paused:
            state = NodeState.PAUSED
        lines.append(NodeLine(node, known.role if known else "", known.term if known else 0, state=state))
    return lines
