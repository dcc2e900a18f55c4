"""Carries a schedule out on a cluster, and writes down what it saw, not what it meant.

One row of `nemesis.jsonl` per fault, written when the fault has ended. Times are nanoseconds on the monotonic clock:
`intended_ns` by the schedule, `begun_ns` before the injecting call and `injected_ns` after it, `ended_ns` when all is
undone (a killed node listens again). `observed` is evidence from outside: what /proc reports of a process, what the cut
links have passed and held back. `healed` shows the same after the end. If a fault was not carried out, the reason is in
`withheld`; `waited_s` is how long it waited for its turn or for damaged nodes to catch up. The last row is no fault: it
is that all was healed, and its `intended_ns` is when the clients were told to stop.

Faults of one lane follow each other; those of different lanes may hold together (see `schedule`).
"""

import contextlib
import json
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.budget import DamageBudget
from jepsen_like.nemesis.kind import TAKES_NO_PART, Kinds, NemesisKind, Seen, Withheld, look_at
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Lane, ResolvedTarget
from jepsen_like.port.port import Leadership, Scope

LEADER_WITHIN_S = 15.0
"""A fault waits this long for a leader, before it hits the last known one."""
HEAL = "heal"
"""In place of a kind, in the row of the last act."""
COPIES = "copies"
"""Among what was observed: the most copies of one scope that a fault hit."""
PEACE_S = 0.5
"""The next fault comes this long after the end of another, even if that one took longer than planned."""


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
    stops_service: bool = False
    """Too few nodes were left to acknowledge anything while it held."""
    beside: int = 0
    """The fault within which it began; 0 for none."""
    waited_s: float = 0.0
    withheld: str | None = None
    scope: str = ""
    """The scope that `leader` led, in epoch `term`."""
    harmed: tuple[int, ...] = ()
    """Of the nodes those whose disks have lost something; all of them where a fault that does that names none."""

    @property
    def copies(self) -> int:
        """See `FaultSeen`: it is known where whole zones are hit."""
        return copies_seen(self.observed)

    @property
    def by_hook(self) -> bool:
        """True if commands of the cluster's owner did it, so that the network alone showed it."""
        return any(text.startswith(TAKES_NO_PART) for text in self.observed.values())

    def row(self) -> dict[str, Any]:
        """As one row of `nemesis.jsonl`."""
        return attrs.asdict(self)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "FaultRecord":
        """From such a row. Raises `KeyError` or `TypeError` for anything else."""
        known = {field.name: row[field.name] for field in attrs.fields(cls) if field.name in row}
        lists = {name: tuple(row.get(name, ())) for name in ("nodes", "links", "harmed")}
        return cls(**{**known, **lists})


def copies_seen(observed: Mapping[str, str]) -> int:
    """Returns the most copies of one scope that a fault hit, as it was observed; 0 where that is unknown."""
    return int(observed.get(COPIES, "0").split()[0])


@attrs.frozen
class FaultNews:
    """For a display: a fault has begun or ended."""

    fault: Fault
    hit: ResolvedTarget
    leader: int
    has_ended: bool


@attrs.define
class _Open:
    """A fault that holds: what to undo, and its record as far as it goes."""

    kind: NemesisKind
    hit: ResolvedTarget
    record: FaultRecord


class Nemesis:
    """Breaks one cluster by one schedule. `records` grows while it runs, in the order in which faults end."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault],
        path: Path,
        on_news: Callable[[FaultNews], None] = lambda news: None,
        *,
        kinds: Kinds = KINDS,
    ) -> None:
        self.records: list[FaultRecord] = []
        self.budget = DamageBudget(cluster.mode.spare, cluster.mode.groups(cluster.targets))
        self._cluster = cluster
        self._faults = tuple(faults)
        self._path = path
        self._on_news = on_news
        self._kinds = kinds
        self._last_leader: tuple[Scope, Leadership] = ("", Leadership(min(cluster.targets), 0))
        self._lanes = {lane: trio.StrictFIFOLock() for lane in Lane}
        self._open: dict[int, _Open] = {}
        self._complete = {fault.id: trio.Event() for fault in self._faults}
        """Set once a fault holds, or does not come."""
        self._ended_s = -math.inf

    async def run(self) -> None:
        """Carry out the whole schedule, starting its clock now. What is broken when cancelled is for `heal` to mend."""
        started_ns = time.monotonic_ns()
        started = trio.current_time()
        self._path.touch()
        async with trio.open_nursery() as nursery:
            for fault in self._faults:
                await trio.sleep_until(started + fault.at_s)
                nursery.start_soon(self._in_turn, fault, started_ns + round(fault.at_s * 1e9))

    async def heal(self, *, load_ended_ns: int | None = None) -> None:
        """The last act: all open, running and started; a row of its own, `intended_ns` is the end of the load."""
        begun_ns = time.monotonic_ns()
        for still in tuple(self._open.values()):
            self._end(still, await still.kind.undo(self._cluster, still.hit))
        await self._cluster.heal()
        nodes = tuple(self._cluster.nodes)
        self._write(
            FaultRecord(
                id=len(self._faults) + 1,
                kind=HEAL,
                target="all",
                nodes=nodes,
                links=(),
                leader=self._last_leader[1].node,
                term=self._last_leader[1].epoch,
                scope=self._last_leader[0],
                intended_ns=begun_ns if load_ended_ns is None else load_ended_ns,
                begun_ns=begun_ns,
                injected_ns=begun_ns,
                ended_ns=time.monotonic_ns(),
                observed={},
                healed=look_at(self._cluster, nodes),
            )
        )

    async def _in_turn(self, fault: Fault, intended_ns: int) -> None:
        kind = self._kinds[fault.kind]
        if fault.overlaps:
            await self._complete[fault.overlaps].wait()
        async with self._alone_in(tuple(Lane) if kind.is_alone else (kind.lane,)):
            if not fault.overlaps:
                await trio.sleep_until(self._ended_s + PEACE_S)
            rng = fault.rng()
            await self._look_for_leader(rng, fault.scope)
            hit = kind.select(rng, fault.target, self._cluster.targets, self._last_leader[1].node)
            try:
                hit = await kind.locate(self._cluster, self._last_leader[0], hit)
                if kind.damages:
                    await self.budget.room_for(self._cluster, hit.damaged)
                copies = await self._count_copies(hit.nodes) if hit.whole_zone else {}
                await self._carry_out(fault, kind, hit, intended_ns, copies)
            except Withheld as withheld:
                now = time.monotonic_ns()
                record = self._begin(fault, kind, hit, intended_ns)
                self._write(attrs.evolve(record, injected_ns=now, ended_ns=now, withheld=str(withheld)))
            finally:
                self._complete[fault.id].set()

    async def _look_for_leader(self, rng: random.Random, scope: Scope) -> None:
        """Learn who leads; unless a scope is named, one of those with a leader is drawn: each gets its faults."""
        if scope:
            leader = await self._cluster.leader_of(scope, within_s=LEADER_WITHIN_S)
            self._last_leader = (scope, leader or self._last_leader[1])
            return
        leaders = await self._cluster.leaders(within_s=LEADER_WITHIN_S)
        if leaders:
            scopes = sorted(leaders)
            scope = scopes[0] if len(scopes) == 1 else rng.choice(scopes)
            self._last_leader = (scope, leaders[scope])

    async def _count_copies(self, nodes: Sequence[int]) -> Seen:
        """The most copies of one scope among these nodes; nothing if no scope is known."""
        control = self._cluster.control
        held = [await control.copies(scope) for scope in await control.leaders()]
        return {COPIES: f"{max(len({*nodes}.intersection(copies)) for copies in held)} of one scope"} if held else {}

    @contextlib.asynccontextmanager
    async def _alone_in(self, lanes: Sequence[Lane]) -> AsyncIterator[None]:
        """Hold these lanes; always in the same order, so that there is no deadlock."""
        async with contextlib.AsyncExitStack() as held:
            for lane in lanes:
                await held.enter_async_context(self._lanes[lane])
            yield

    async def _carry_out(
        self, fault: Fault, kind: NemesisKind, hit: ResolvedTarget, intended_ns: int, copies: Seen
    ) -> None:
        record = self._begin(fault, kind, hit, intended_ns)
        still = self._open[fault.id] = _Open(kind, hit, record)
        try:
            observed = {**await kind.inject(self._cluster, hit), **copies}
        except Withheld:
            del self._open[fault.id]
            raise
        if kind.damages:
            self.budget.charge(hit.damaged)
        still.record = attrs.evolve(record, injected_ns=time.monotonic_ns(), observed=observed)
        self._complete[fault.id].set()
        self._on_news(FaultNews(fault, hit, record.leader, has_ended=False))
        observed |= await kind.hold(self._cluster, hit, fault.hold_s)
        still.record = attrs.evolve(still.record, observed=observed)
        self._end(still, await kind.undo(self._cluster, hit))
        self._on_news(FaultNews(fault, hit, record.leader, has_ended=True))

    def _begin(self, fault: Fault, kind: NemesisKind, hit: ResolvedTarget, intended_ns: int) -> FaultRecord:
        now = time.monotonic_ns()
        scope, leader = self._last_leader
        return FaultRecord(
            id=fault.id,
            kind=kind.name,
            target=fault.target.value,
            nodes=hit.nodes,
            links=hit.links,
            harmed=hit.damaged if kind.damages else (),
            leader=leader.node,
            term=leader.epoch,
            scope=scope,
            intended_ns=intended_ns,
            begun_ns=now,
            injected_ns=now,
            ended_ns=now,
            observed={},
            healed={},
            stops_service=self._stops_service(kind, hit),
            beside=fault.overlaps,
            waited_s=round((now - intended_ns) / 1e9, 3),
        )

    def _stops_service(self, kind: NemesisKind, hit: ResolvedTarget) -> bool:
        mode = self._cluster.mode
        groups = map(frozenset, mode.groups(self._cluster.targets))
        return all(kind.stops_service(len(group.intersection(hit.nodes)), mode.spare(len(group))) for group in groups)

    def _end(self, still: _Open, healed: Seen) -> None:
        del self._open[still.record.id]
        self._ended_s = trio.current_time()
        if still.kind.damages:
            self.budget.charge(still.hit.damaged)  # what they have to reach is asked again, now that they can begin
        self.records.append(attrs.evolve(still.record, ended_ns=time.monotonic_ns(), healed=healed))
        self._write(self.records[-1])

    def _write(self, record: FaultRecord) -> None:
        with self._path.open("a") as rows:
            rows.write(json.dumps(record.row()) + "\n")
