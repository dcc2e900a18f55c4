"""Carries a schedule out on a cluster, and writes down what it saw, not what it meant.

One row of `nemesis.jsonl` per fault, written when the fault has ended. Times are nanoseconds on the monotonic clock:
`intended_ns` by the schedule, `begun_ns` before the injecting call and `injected_ns` after it, `ended_ns` when all is
undone (a killed node listens again). `observed` is the proof from outside: what /proc says of a process, what the cut
links have passed and held back. `healed` shows the same after the end.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.schedule import Blow, Fault, FaultKind, select

LEADER_WITHIN_S = 15.0
"""How long a fault waits for somebody to lead, before it hits the last known leader."""


@attrs.frozen(kw_only=True)
class FaultRecord:
    """One fault as it happened; `links` are ordered pairs "from>to", clients included."""

    id: int
    kind: str
    target: str
    nodes: tuple[int, ...]
    links: tuple[str, ...]
    leader: int
    term: int
    intended_ns: int
    begun_ns: int
    injected_ns: int
    ended_ns: int
    observed: Mapping[str, str]
    healed: Mapping[str, str]

    def row(self) -> dict[str, Any]:
        """As one row of `nemesis.jsonl`."""
        return attrs.asdict(self)


@attrs.frozen
class FaultNews:
    """For a display: a fault has begun or ended. `took_effect` is the begin again, never None once begun."""

    fault: Fault
    blow: Blow
    leader: int
    has_ended: bool


class Nemesis:
    """Breaks one cluster by one schedule. `records` grows while it runs."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault],
        path: Path,
        on_news: Callable[[FaultNews], None] = lambda news: None,
    ) -> None:
        self.records: list[FaultRecord] = []
        self._cluster = cluster
        self._faults = tuple(faults)
        self._path = path
        self._on_news = on_news
        self._last_leader = (min(cluster.nodes), 0)

    async def run(self) -> None:
        """Carry out the whole schedule, starting its clock now. What is broken when cancelled is for `heal` to mend."""
        started_ns = time.monotonic_ns()
        started = trio.current_time()
        self._path.touch()
        for fault in self._faults:
            await trio.sleep_until(started + fault.at_s)
            await self._carry_out(fault, started_ns + round(fault.at_s * 1e9))

    async def heal(self) -> None:
        """The last act: everything open, running and started; recorded as a row of its own."""
        begun_ns = time.monotonic_ns()
        await self._cluster.heal()
        nodes = tuple(self._cluster.nodes)
        self._write(
            FaultRecord(
                id=len(self._faults) + 1,
                kind="heal",
                target="all",
                nodes=nodes,
                links=(),
                leader=self._last_leader[0],
                term=self._last_leader[1],
                intended_ns=begun_ns,
                begun_ns=begun_ns,
                injected_ns=begun_ns,
                ended_ns=time.monotonic_ns(),
                observed={},
                healed=self._look_at(nodes),
            )
        )

    async def _carry_out(self, fault: Fault, intended_ns: int) -> None:
        leader = await self._cluster.leader(within_s=LEADER_WITHIN_S)
        if leader is not None:
            self._last_leader = (leader.node, leader.term)
        blow = select(fault, tuple(self._cluster.nodes), self._last_leader[0])
        begun_ns = time.monotonic_ns()
        await self._inject(fault.kind, blow)
        injected_ns = time.monotonic_ns()
        observed = self._look_at(blow.nodes) if not blow.cuts else {}
        self._on_news(FaultNews(fault, blow, self._last_leader[0], has_ended=False))
        await trio.sleep(fault.hold_s)
        # The links are looked at when the cut has held: that nothing passed is only then worth saying.
        observed |= {cut.link: str(cut) for cut in self._cluster.network.evidence()}
        await self._undo(fault.kind, blow)
        self.records.append(
            FaultRecord(
                id=fault.id,
                kind=fault.kind.value,
                target=fault.target.value,
                nodes=blow.nodes,
                links=tuple(f"{sender}>{receiver}" for sender, receiver in blow.cuts)
                + tuple(f"client>{node}" for node in blow.clients_cut),
                leader=self._last_leader[0],
                term=self._last_leader[1],
                intended_ns=intended_ns,
                begun_ns=begun_ns,
                injected_ns=injected_ns,
                ended_ns=time.monotonic_ns(),
                observed=observed,
                healed=self._look_at(blow.nodes),
            )
        )
        self._write(self.records[-1])
        self._on_news(FaultNews(fault, blow, self._last_leader[0], has_ended=True))

    async def _inject(self, kind: FaultKind, blow: Blow) -> None:
        match kind:
            case FaultKind.KILL:
                await self._cluster.kill(blow.nodes)
            case FaultKind.PAUSE:
                await self._cluster.pause(blow.nodes)
            case FaultKind.PARTITION:
                self._cluster.cut(blow.cuts, blow.clients_cut)
            case FaultKind.RESTART:
                await self._cluster.stop(blow.nodes)
            case _:
                assert_never(kind)

    async def _undo(self, kind: FaultKind, blow: Blow) -> None:
        match kind:
            case FaultKind.KILL | FaultKind.RESTART:
                await self._cluster.restart(blow.nodes)
            case FaultKind.PAUSE:
                for node in blow.nodes:
                    self._cluster.nodes[node].resume()
            case FaultKind.PARTITION:
                self._cluster.network.heal()
            case _:
                assert_never(kind)

    def _look_at(self, nodes: Sequence[int]) -> dict[str, str]:
        return {str(node): self._cluster.nodes[node].observe() for node in nodes}

    def _write(self, record: FaultRecord) -> None:
        with self._path.open("a") as rows:
            rows.write(json.dumps(record.row()) + "\n")
