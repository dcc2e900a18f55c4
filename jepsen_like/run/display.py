"""The live display of a run: faults as lines, counts and latencies twice a second, the state of every node."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.nemesis import FaultNews
from jepsen_like.port.observations import DOWN, RoleSeen
from jepsen_like.progress import NodeLine, NodeState, OpsLine, RunProgress
from jepsen_like.workload.recorder import Recorder

SHOW_EVERY_S = 0.5


class FaultNewsLines:
    """Faults as lines, and whose links are broken now."""

    def __init__(self, progress: RunProgress, cluster: Cluster) -> None:
        self._held: dict[int, tuple[str, frozenset[int]]] = {}
        self._progress = progress
        self._cluster = cluster

    def tell(self, news: FaultNews) -> None:
        """A fault began or ended."""
        names = ",".join(f"n{node}" for node in news.hit.nodes)
        what = f"{news.fault.kind} {names} ({news.fault.target})"
        if news.has_ended:
            self._held.pop(news.fault.id, None)
            self._progress.event(f"{what} undone", style="dim")
        else:
            self._held[news.fault.id] = (what, frozenset(news.hit.nodes if news.hit.pairs else ()))
            self._progress.event(what)
        self._progress.nodes(node_lines(self._cluster, self.cut))
        self._progress.faults(tuple(what for what, _ in self._held.values()))

    @property
    def cut(self) -> frozenset[int]:
        """Nodes whose links are broken now."""
        return frozenset().union(*(nodes for _, nodes in self._held.values()))


@asynccontextmanager
async def show(
    progress: RunProgress, cluster: Cluster, recorder: Recorder, news: FaultNewsLines
) -> AsyncIterator[None]:
    """Keep the display fresh."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show, progress, cluster, recorder, news)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def _show(progress: RunProgress, cluster: Cluster, recorder: Recorder, news: FaultNewsLines) -> None:
    before, before_s = 0, trio.current_time()
    told = began_ns = 0
    while True:
        await trio.sleep(SHOW_EVERY_S)
        now = trio.current_time()
        counts, latencies = recorder.counts, sorted(recorder.recent_latency_s)
        if recorder.began_ns != began_ns:
            progress.count_from(recorder.began_ns / 1e9)
            if not began_ns:
                progress.event("times count from the first operation of the load, as in the report", topic="load")
            began_ns = recorder.began_ns
        progress.ops(
            OpsLine(
                acked=counts.acked,
                failed=counts.fail,
                unknown=counts.info,
                ops_per_s=(counts.ok - before) / (now - before_s),
                p99_ms=latencies[int(len(latencies) * 0.99)] * 1e3 if latencies else None,
            ),
            node_lines(cluster, news.cut),
        )
        before, before_s = counts.ok, now
        for start in cluster.reports.starts[told:]:
            if start.is_snapshot:
                progress.event(str(start), topic="log")
        told = len(cluster.reports.starts)


def node_lines(cluster: Cluster, cut: frozenset[int]) -> list[NodeLine]:
    """Returns every node as it is now; `cut` are those whose links are broken."""
    newest: Mapping[int, RoleSeen] = {role.node: role for role in cluster.reports.roles}
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
