"""The order of a measurement: its sections, and their systems interleaved; each saved as soon as it is there."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs

from jepsen_like.bench import limits
from jepsen_like.bench.calm import calm
from jepsen_like.bench.conversation import LOADS, NotAnAnswer
from jepsen_like.bench.failover import KILL, PAUSE, fail_over
from jepsen_like.bench.figures import Memory, Throughput
from jepsen_like.bench.generator import LoadFailed
from jepsen_like.bench.grown import measure_grown
from jepsen_like.bench.measurement import Measurement, Turn
from jepsen_like.bench.own_cluster import DURABLE, OWN_SYSTEMS, QuorumlogCluster
from jepsen_like.bench.processes import DidNotAnswer
from jepsen_like.bench.systems import BenchSystem, RecordsMissing
from jepsen_like.bench.throughput import measure_loads

PEERS_SHARE = 3
"""Peers get one fault for every three of ours: one of them takes ten seconds to notice a pause."""
APPENDS = 10**7
LOG_BYTES = 2**30
FAILURES = (LoadFailed, DidNotAnswer, NotAnAnswer, OSError, RecordsMissing)


@attrs.frozen(kw_only=True)
class BenchPlan:
    """The plan of a measurement, as asked for."""

    sections: Sequence[str]
    systems: Sequence[BenchSystem]
    repeats: int
    seconds: float
    kills: int
    pauses: int
    minutes: float
    seed: int
    output: Path | None
    appends: int = APPENDS
    log_bytes: int = LOG_BYTES

    def arguments(self) -> str:
        """The flags that say the same."""
        named = f"--only {','.join(self.sections)} --systems {','.join(system.key for system in self.systems)}"
        counts = f"--repeats {self.repeats} --seconds {self.seconds:g} --kills {self.kills} --pauses {self.pauses}"
        return f"{named} {counts} --minutes {self.minutes:g} --seed {self.seed}"


class RaftMeasurement(Measurement[BenchPlan]):
    """Of the replicated log, its peers and the limits of the machine."""

    ours = OWN_SYSTEMS
    failures = FAILURES

    def _measure(self) -> None:
        plan = self._plan
        parts = {"throughput": self._throughput, "failover": self._failover, "calm": self._calm}
        for section, part in parts.items():
            if section in plan.sections:
                part()
                self._keep()
        if {"restart", "memory"} & set(plan.sections):
            self._measure_grown()
            self._keep()

    def _steps(self) -> float:
        plan, systems = self._plan, self._here
        steps = 0.0
        if "throughput" in plan.sections:
            steps += plan.repeats * (sum(len(system.loads) for system in systems()) + 3 * len(LOADS))
        if "failover" in plan.sections:
            steps += sum(len(self._faults(system)) for system in systems() if system.fails_over)
        if "calm" in plan.sections:
            steps += 1
        return steps

    def _here(self) -> list[BenchSystem]:
        return [system for system in self._plan.systems if not system.missing()]

    def _taking_part(self, section: str, candidates: Sequence[BenchSystem]) -> Iterator[BenchSystem]:
        """Those of the plan that are on this machine; a line for those that are not."""
        for system in self._plan.systems:
            if system in candidates and self._takes_part(system, [section]):
                yield system

    # ---------------------------------------------------------------- throughput

    def _throughput(self) -> None:
        seconds, phase = self._plan.seconds, self._display.phase
        turns = [
            Turn(limits.DISK, limits.DISK, lambda home: limits.disk(home, seconds, LOADS)),
            Turn(limits.ECHO, limits.ECHO, lambda home: limits.echo(home, seconds, LOADS)),
        ]
        for system in self._taking_part("throughput", self._plan.systems):
            take_loads = partial(measure_loads, system, seconds=seconds, told=phase)
            turns.append(Turn(system.key, system.key, take_loads))
        for key, (title, promise) in limits.TITLES.items():
            self._found.systems[key] = {"title": title, "promise": promise, "version": ""}
        self._interleave(turns)

    def _describe(self, figure: Throughput) -> str:
        cpu = "" if figure.leader_us is None else f", leader {figure.leader_us:.0f} us of CPU a request"
        return (
            f"{figure.requests_s:>9,.0f} requests/s, {figure.records_s:>9,.0f} records/s, "
            f"p50 {figure.p50_ms:.2f} ms, p99 {figure.p99_ms:.2f} ms{cpu}"
        )

    # ---------------------------------------------------------------- faults

    def _faults(self, system: BenchSystem) -> list[str]:
        share = 1 if system.key in self.ours else PEERS_SHARE
        return [KILL] * -(-self._plan.kills // share) + [PAUSE] * -(-self._plan.pauses // share)

    def _failover(self) -> None:
        for system in self._taking_part("failover", [system for system in self._plan.systems if system.fails_over]):
            faults = self._faults(system)
            cluster = system.cluster(self._home / system.key)
            self._fail_over(system, faults, fail_over(cluster, faults, self._plan.seed))

    # ---------------------------------------------------------------- ours alone

    def _calm(self) -> None:
        for system in self._taking_part("calm", (DURABLE,)):
            try:
                with system.cluster(self._home / system.key) as cluster:
                    assert isinstance(cluster, QuorumlogCluster)
                    seconds = self._plan.minutes * 60
                    home = self._home / "other-work"
                    figure = calm(cluster, system.key, self._run, home, seconds, self._display.phase)
                self._found.figures.append(figure)
                self._display.line(f"{system.key:<14} calm: {figure.elections} elections in {figure.minutes:.1f} min")
                self._display.step()
            except FAILURES as error:
                self._note_failure("calm", system.key, error, "in the middle")

    def _measure_grown(self) -> None:
        plan = self._plan
        sections = [section for section in ("restart", "memory") if section in plan.sections]
        for system in self._taking_part(sections[0], (DURABLE,)):
            try:
                with system.cluster(self._home / system.key) as cluster:
                    assert isinstance(cluster, QuorumlogCluster)
                    for figure in measure_grown(
                        cluster,
                        system.key,
                        self._run,
                        appends=plan.appends if "memory" in sections else 0,
                        log_bytes=plan.log_bytes if "restart" in sections else 0,
                        restarts=plan.repeats,
                        told=self._display.phase,
                    ):
                        self._found.figures.append(figure)
                        what = "memory" if isinstance(figure, Memory) else "restart"
                        self._display.line(f"{system.key:<14} {what}: {figure}")
            except FAILURES as error:
                for section in sections:
                    self._note_failure(section, system.key, error, "in the middle")
