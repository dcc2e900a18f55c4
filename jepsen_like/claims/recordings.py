"""Histories that an experiment records on a stage of its own, kept and judged like those of a run.

A `Scene` is a stage with its clients. Each topic is a `Recording`: a run directory with its history, final logs, faults, results and page.
They are judged after the cluster has ended, because the check would hold up the fault network.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import trio

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Model
from jepsen_like.claims.experiment import ClaimDesk, DidNotRun
from jepsen_like.claims.judgement import NEVER
from jepsen_like.cli import first_cause
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.history.files import HistoryReader, HistoryWriter, read_dump
from jepsen_like.history.ops import NONE, Outcome
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.observations import RoleSeen
from jepsen_like.port.port import NotServing
from jepsen_like.port.zones import NO_ZONES, ZonePlan
from jepsen_like.record.attempts import WRITES, Attempts, Bools, Ints
from jepsen_like.record.figures import rpo_s
from jepsen_like.record.results import RecoveryPoint, RunResults
from jepsen_like.report.page import render_report
from jepsen_like.run.command import description, write_json
from jepsen_like.run.exercise import RunPlan
from jepsen_like.run.results import Observed, measure_run
from jepsen_like.systems.kafka.stage.probe import Probe, ProbeLog, ProbePlan
from jepsen_like.systems.kafka.stage.stage import Stage, open_stage
from jepsen_like.systems.kafka.wire import NoAnswer

NS: Final = 1e9


@attrs.define(eq=False)
class Recording:
    """The history of one topic. `settings` are those of its producers and of the topic, as `--set` takes them."""

    name: str
    topic: str
    partitions: int
    settings: tuple[str, ...]
    directory: Path
    writer: HistoryWriter
    log: ProbeLog
    nodes: int = 3
    began_ns: int = attrs.field(factory=time.monotonic_ns)
    ended_ns: int = 0
    faults: tuple[FaultRecord, ...] = ()
    roles: tuple[RoleSeen, ...] = ()


@attrs.frozen(eq=False)
class KeptRecording:
    """A judged recording: what was found and measured of it."""

    directory: Path
    results: RunResults
    attempts: Attempts
    unseen: int
    """Records without an answer, by choice of the client, that are in no final log."""
    missing: int
    """Records that a client wanted to write and that are in no final log, whatever it was told."""

    @property
    def acked(self) -> int:
        """Acknowledged records."""
        return self.results.acked

    @property
    def lost(self) -> int:
        """Acknowledged records that the final logs lack."""
        return self.results.lost_acked

    @property
    def again(self) -> int:
        """Records that stand in the final log more than once."""
        return self.results.duplicated or 0

    def _ok(self) -> Bools:
        return np.asarray((self.attempts.outcome == Outcome.OK) & np.isin(self.attempts.f, WRITES))

    def _within(self, times: Ints, begin_ns: int, end_ns: int) -> Bools:
        return np.asarray((times >= begin_ns) & (times <= end_ns))

    def acked_between(self, begin_ns: int, end_ns: int) -> int:
        """Requests that were asked for and acknowledged in this time."""
        chosen = self._ok() & self._within(self.attempts.t_inv, begin_ns, end_ns)
        return int((chosen & (self.attempts.t_ret <= end_ns)).sum())

    def refused_between(self, begin_ns: int, end_ns: int) -> int:
        """Requests of this time that certainly had no effect."""
        refused = self.attempts.outcome == Outcome.FAIL
        return int((refused & self._within(self.attempts.t_inv, begin_ns, end_ns)).sum())

    def p50_ms(self, begin_ns: int, end_ns: int) -> float:
        """The median latency of the requests that began in this time; `NEVER` without any."""
        chosen = self._ok() & self._within(self.attempts.t_inv, begin_ns, end_ns)
        took = (self.attempts.t_ret - self.attempts.t_inv)[chosen]
        return round(float(np.median(took)) / 1e6, 3) if len(took) else NEVER

    def p99_ms(self, begin_ns: int, end_ns: int) -> float:
        """The 99th percentile of the latency of the requests that began in this time; `NEVER` without any."""
        chosen = self._ok() & self._within(self.attempts.t_inv, begin_ns, end_ns)
        took = (self.attempts.t_ret - self.attempts.t_inv)[chosen]
        return round(float(np.percentile(took, 99)) / 1e6, 3) if len(took) else NEVER

    def rto_s(self, since_ns: int) -> float:
        """From a moment to the answer of the first request that was sent after it; `NEVER` without any."""
        after = self.attempts.t_ret[self._ok() & (self.attempts.t_inv >= since_ns)]
        return round((int(after.min()) - since_ns) / NS, 3) if len(after) else NEVER

    def gap_s(self, begin_ns: int, end_ns: int) -> float:
        """The longest time within these bounds without an acknowledgement."""
        answered = self.attempts.t_ret[self._ok()]
        inside = np.sort(answered[self._within(answered, begin_ns, end_ns)])
        return round(float(np.diff(np.concatenate([[begin_ns], inside, [end_ns]])).max()) / NS, 3)

    def rate_s(self, begin_ns: int, end_ns: int) -> float:
        """Acknowledged records per second of this time."""
        chosen = self._ok() & self._within(self.attempts.t_ret, begin_ns, end_ns)
        return round(int(self.attempts.records[chosen].sum()) / ((end_ns - begin_ns) / NS), 1)


class Scene:
    """A stage with its clients and recordings. Use `open_scene`."""

    def __init__(self, desk: ClaimDesk, stage: Stage, nursery: trio.Nursery) -> None:
        self.desk = desk
        self.stage = stage
        self._nursery = nursery
        self._probes: dict[Probe, trio.Event] = {}

    def record(self, name: str, topic: str, *settings: str, partitions: int = 1) -> Recording:
        """Begin the history of a topic."""
        directory = self.desk.new_directory(name)
        writer = HistoryWriter(directory / "history.parquet")
        return Recording(
            name, topic, partitions, settings, directory, writer, ProbeLog(writer), len(self.stage.brokers)
        )

    def load(self, recording: Recording, **changes: Any) -> Probe:
        """Start clients; `changes` are fields of `ProbePlan`."""
        probe = self.stage.probe(recording.log, ProbePlan(topic=recording.topic, **changes))
        self._probes[probe] = ended = trio.Event()

        async def run() -> None:
            await probe.run()
            ended.set()

        self._nursery.start_soon(run)
        return probe

    async def stop(self, *probes: Probe) -> None:
        """Stop these clients, or all, and wait for their last answers."""
        chosen = {probe: self._probes.pop(probe) for probe in probes or tuple(self._probes)}
        for probe in chosen:
            probe.stop()
        for ended in chosen.values():
            await ended.wait()

    async def keep(self, *recordings: Recording) -> None:
        """Stop all clients and heal, then write the final logs of these topics down. Raises `NotServing`."""
        await self.stop()
        for recording in recordings:
            recording.ended_ns = time.monotonic_ns()
        await self.stage.heal()
        for recording in recordings:
            recording.writer.close()
            await self.stage.dump(recording.topic, recording.directory)
            recording.faults = tuple(
                act.record(number)
                for number, act in enumerate(self.stage.acts, 1)
                if act.ended_ns >= recording.began_ns
            )
            recording.roles = tuple(
                role for role in self.stage.cluster.reports.roles if role.scope.startswith(recording.topic)
            )


@asynccontextmanager
async def open_scene(
    desk: ClaimDesk, name: str, *, brokers: int, settings: Sequence[str] = (), zones: ZonePlan = NO_ZONES
) -> AsyncIterator[Scene]:
    """Start a cluster for an experiment; its files are in a directory among the results. Raises `DidNotRun`."""
    directory = desk.new_directory(f"{name} nodes")
    try:
        opening = open_stage(directory / "nodes", brokers=brokers, settings=settings, seed=desk.seed, zones=zones)
        async with opening as stage, trio.open_nursery() as nursery:
            yield Scene(desk, stage, nursery)
            nursery.cancel_scope.cancel()
    except* (NotServing, NodeDidNotStart, NoAnswer) as group:
        raise DidNotRun(f"{name}: {first_cause(group)}") from group


def judge(desk: ClaimDesk, recording: Recording) -> KeptRecording:
    """Check a recording, and write down what a run directory has."""
    words = (*recording.settings, f"num.partitions={recording.partitions}")
    plan = RunPlan(
        system="kafka",
        replication="isr",
        nodes=recording.nodes,
        duration_s=round((recording.ended_ns - recording.began_ns) / NS, 3),
        rate=0.0,
        concurrency=1,
        kinds=tuple(dict.fromkeys(fault.kind for fault in recording.faults)),
        workload="log",
        settings=words,
        seed=desk.seed,
        planned=(),
    )
    return judge_directory(desk, recording.directory, plan, recording.faults, recording.roles, recording.ended_ns)


def judge_directory(
    desk: ClaimDesk,
    directory: Path,
    plan: RunPlan,
    faults: Sequence[FaultRecord],
    roles: Sequence[RoleSeen],
    load_ended_ns: int,
) -> KeptRecording:
    """Check what lies in a directory, and add what a run directory has: its plan, its faults, its results and its page."""
    mode = plan.mode()
    write_json(directory / "test.json", description(plan, mode, "quorumlog claims run"))
    rows = [json.dumps(fault.row()) for fault in faults]
    (directory / "nemesis.jsonl").write_text("".join(f"{row}\n" for row in rows))
    allowed = mode.allowances(faults)
    verdict = check_run(directory, Model.LOG, desk.engine, worker=desk.worker, allowances=allowed).as_json()
    attempts = Attempts.read(directory / "history.parquet")
    observed = Observed(
        faults=faults,
        roles=roles,
        unasked_ends=(),
        nonsense=(),
        not_recovered=None,
        is_interrupted=False,
        load_ended_ns=load_ended_ns,
    )
    results = measure_run(RunResults.of_json(verdict), attempts, observed)
    results = attrs.evolve(
        results,
        rpo=RecoveryPoint(results.lost_acked, rpo_s(verdict, results.faults)),
        promise=mode.promise(plan.kinds),
        repro="quorumlog claims run",
    )
    write_json(directory / "results.json", results.as_json())
    render_report(directory)
    return KeptRecording(directory, results, attempts, *_count_missing(directory))


def _count_missing(directory: Path) -> tuple[int, int]:
    """Returns how many records no final log has: those without an answer by choice, which a client takes for stored, and all."""
    history = HistoryReader.open(directory / "history.parquet")
    outcome, error, values, node = history.columns(("type", "err", "a", "node"))
    sent = values[(outcome == Outcome.INFO) & (error == 0) & (node != NONE)]
    table = read_dump(directory / "dump.parquet")
    there = np.asarray(table.column("a").to_numpy()) if table is not None else np.zeros(0)
    return int((~np.isin(sent, there)).sum()), int((~np.isin(values, there)).sum())


def gaps_by_partition(directory: Path, begin_ns: int, end_ns: int) -> dict[int, float]:
    """Returns by partition the longest time within these bounds without an acknowledgement."""
    history = HistoryReader.open(directory / "history.parquet")
    partition, action, outcome, ended = history.columns(("object", "f", "type", "t_ret"))
    gaps = {}
    for number in np.unique(partition).tolist():
        chosen = (
            (partition == number)
            & np.isin(action, WRITES)
            & (outcome == Outcome.OK)
            & (ended >= begin_ns)
            & (ended <= end_ns)
        )
        inside = np.sort(ended[chosen])
        gaps[number] = round(float(np.diff(np.concatenate([[begin_ns], inside, [end_ns]])).max()) / NS, 3)
    return gaps
