"""The two sides that Q004 compares, held to the same load and the same faults: a raft group of RocketMQ's brokers, and Kafka's."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk, DidNotRun
from jepsen_like.claims.recordings import KeptRecording, gaps_by_partition, judge_directory
from jepsen_like.cli import first_cause
from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.port.observations import RoleSeen
from jepsen_like.port.port import Leadership, NotServing
from jepsen_like.port.registry import system_named
from jepsen_like.port.wires import CLEAR, Condition
from jepsen_like.run.exercise import RunPlan
from jepsen_like.systems.kafka.control import TOPIC, KafkaControl
from jepsen_like.systems.kafka.stage.acts import Act, between
from jepsen_like.systems.kafka.stage.stage import read_as_consumer
from jepsen_like.systems.kafka.wire import NoAnswer
from jepsen_like.systems.rocketmq.clients import BrokerConnection
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection
from jepsen_like.workload.load import LoadPlan

MEMBERS: Final = 5
QUEUES: Final = 50
RATE: Final = 200.0
SLOW_S: Final = 0.1
"""One way: a round trip of 200 ms."""
PHASE_S: Final = 3.0
SETTLE_S: Final = 1.0
LED_WITHIN_S: Final = 60.0
SETTLES_WITHIN_S: Final = 90.0
PAUSED_S: Final = 0.9
"""A queue that acknowledged nothing for longer has paused: at this load it does so four times a second."""
LAST: Final = 0.5
"""The part of a phase, its end, in which it is looked at whether writes go on."""


@attrs.frozen(kw_only=True)
class Side:
    """One of the two: a system and its settings."""

    name: str
    system: str
    replication: str
    settings: tuple[str, ...]

    def plan(self, seed: int) -> RunPlan:
        """As a run of it would be planned."""
        return RunPlan(
            system=self.system,
            replication=self.replication,
            nodes=MEMBERS,
            duration_s=30.0,
            rate=RATE,
            concurrency=QUEUES,
            kinds=(),
            workload="log",
            settings=self.settings,
            seed=seed,
            planned=(),
        )


@attrs.define
class SideRecord:
    """The record of one side: its phases in time, its faults, and the answers of its members meanwhile."""

    directory: Path
    plan: RunPlan
    phases: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    acts: list[Act] = attrs.field(factory=list)
    roles: tuple[RoleSeen, ...] = ()
    leaders: int = 0
    """The brokers that lead a queue."""
    led_by_dead: int = 0
    """The queues whose leader was the one that died."""
    readable: int = 0
    """The queues that could be read while three were dead."""
    asked: int = 0
    ended_ns: int = 0


@attrs.frozen
class HeldSide:
    """A side that was held to load and faults, judged."""

    seen: SideRecord
    kept: KeptRecording

    def p99_ms(self, phase: str) -> float:
        """The 99th percentile of the latency in a phase."""
        return self.kept.p99_ms(*self.seen.phases[phase])

    def p50_ms(self, phase: str) -> float:
        """The median latency in a phase."""
        return self.kept.p50_ms(*self.seen.phases[phase])

    def count_paused(self, phase: str) -> int:
        """The queues that acknowledged nothing for longer than the load explains."""
        gaps = gaps_by_partition(self.kept.directory, *self.seen.phases[phase])
        return sum(gap > PAUSED_S for gap in gaps.values())

    def longest_s(self, phase: str) -> float:
        """The longest time in a phase in which no queue acknowledged anything."""
        return self.kept.gap_s(*self.seen.phases[phase])

    def writes_at_end(self, phase: str) -> int:
        """Writes that were asked for and acknowledged in the last part of a phase."""
        begun_ns, ended_ns = self.seen.phases[phase]
        return self.kept.acked_between(round(ended_ns - (ended_ns - begun_ns) * LAST), ended_ns)


class _Faults:
    """Breaks one cluster, and notes what it does."""

    def __init__(self, cluster: Cluster, seen: SideRecord) -> None:
        self._cluster = cluster
        self._seen = seen

    async def phase(self, name: str, length_s: float = PHASE_S) -> None:
        """Let time pass, and call it a phase."""
        begun_ns = time.monotonic_ns()
        await trio.sleep(length_s)
        self._seen.phases[name] = (begun_ns, time.monotonic_ns())

    async def slow(self, node: int) -> None:
        """A phase in which everything between a member and the others takes longer."""
        others = [each for each in self._cluster.targets if each != node]
        act = self._note(Act(kind="slow", nodes=(), pairs=between([node], others)))
        self._cluster.network.impose(Condition(delay_s=SLOW_S), act.pairs)
        act.complete()
        await trio.sleep(2 * SLOW_S)
        await self.phase("slow")
        self._cluster.network.impose(CLEAR, act.pairs)
        act.finish()

    async def pause(self, node: int, name: str) -> None:
        """A phase in which a member stands still; its connections stay."""
        act = self._note(Act(kind="pause", nodes=(node,)))
        await self._cluster.pause([node])
        act.complete()
        await self.phase(name, PHASE_S + 1)
        self._cluster.nodes[node].resume()
        act.finish()

    async def kill(self, nodes: Sequence[int]) -> Act:
        """Kill members; they stay dead."""
        act = self._note(Act(kind="kill", nodes=tuple(nodes)))
        await self._cluster.kill(nodes)
        return act.complete()

    async def start(self, *acts: Act) -> None:
        """Start the members that these have killed."""
        for act in acts:
            await self._cluster.restart(act.nodes)
            act.finish()

    def _note(self, act: Act) -> Act:
        self._seen.acts.append(act)
        return act


def hold(desk: ClaimDesk, side: Side) -> HeldSide:
    """Hold one side to the load and the faults, and judge it. Raises `DidNotRun`."""
    try:
        seen = trio.run(_hold, desk, side)
    except* (NotServing, NodeDidNotStart) as group:
        raise DidNotRun(f"{side.name}: {first_cause(group)}") from group
    faults = [act.record(number) for number, act in enumerate(seen.acts, 1)]
    plan = attrs.evolve(
        seen.plan,
        kinds=tuple(dict.fromkeys(fault.kind for fault in faults)),
        duration_s=round((seen.ended_ns - seen.phases["calm"][0]) / 1e9, 1),
    )
    return HeldSide(seen, judge_directory(desk, seen.directory, plan, faults, seen.roles, seen.ended_ns))


async def _hold(desk: ClaimDesk, side: Side) -> SideRecord:
    system = system_named(side.system)
    plan = side.plan(desk.seed)
    mode, directory = plan.mode(), desk.new_directory(side.name)
    seen = SideRecord(directory, plan)
    opening = open_cluster(
        directory / "nodes", system, mode, nodes=MEMBERS, cluster_id=f"q004-{side.system}", seed=desk.seed
    )
    async with opening as cluster:
        if await cluster.leader(within_s=LED_WITHIN_S) is None:
            raise NotServing("no member leads")
        await cluster.control.prepare(mode, plan.workload, within_s=LED_WITHIN_S)
        with HistoryWriter(directory / "history.parquet") as history:
            recorder = system.recorder(plan.workload, history)
            amount = LoadPlan(concurrency=QUEUES, rate=RATE, seed=desk.seed)
            load = system.load(mode, plan.workload, recorder, cluster.client_addresses, cluster.access, amount)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                while not recorder.began_ns:  # noqa: ASYNC110 - what is waited for happens in other processes
                    await trio.sleep(0.05)
                await trio.sleep(SETTLE_S)
                await _break(cluster, seen)
                load.stop()
                seen.ended_ns = time.monotonic_ns()
            await cluster.heal()
            await load.final_reads()
        ends = await cluster.control.settle(within_s=SETTLES_WITHIN_S)
        with DumpWriter(directory / "dump.parquet", rule=mode.keep_rule(())) as writer:
            await cluster.control.dump(ends, writer)
        system.keep_states(directory, plan.workload)
        seen.roles = tuple(cluster.reports.roles)
    return seen


async def _break(cluster: Cluster, seen: SideRecord) -> None:
    """One member slow, one silent, the leader dead, then two and three dead."""
    faults = _Faults(cluster, seen)
    await faults.phase("calm")
    leaders = await cluster.control.leaders()
    seen.leaders = len({each.node for each in leaders.values()})
    leader, others = await _leader(cluster)
    await faults.slow(others[0])
    await trio.sleep(SETTLE_S)
    await faults.pause(others[1], "silent")
    await _until_whole(cluster)
    leaders = await cluster.control.leaders()
    leader, others = await _leader(cluster)
    seen.led_by_dead = _led_by(leaders, leader)
    first = await faults.kill([leader])
    await faults.phase("leader dead")
    second = await faults.kill([others[0]])
    await faults.phase("two dead", PHASE_S + 1)
    third = await faults.kill([others[1]])
    await faults.phase("three dead", PHASE_S + 1)
    left = [node for node in others[2:] if cluster.can_answer(node)]
    seen.asked = QUEUES
    seen.readable = sum([await _is_readable(cluster, left, queue) for queue in range(QUEUES)])
    await faults.start(first, second, third)
    await faults.phase("after")


async def _leader(cluster: Cluster) -> tuple[int, list[int]]:
    """Returns the member that leads, the most queues if there are several, and all others but the controller, which comes last."""
    leaders = await cluster.leaders(within_s=LED_WITHIN_S)
    controller = -1
    if isinstance(cluster.control, KafkaControl):
        controller = (await cluster.control.view()).controller
    counts = {node: _led_by(leaders, node) for node in cluster.targets}
    leader = max((node for node in cluster.targets if node != controller), key=lambda node: counts[node])
    if controller < 0:
        leader = max(cluster.targets, key=lambda node: counts[node])
    others = [node for node in cluster.targets if node not in (leader, controller)]
    return leader, [*others, *([controller] if controller > 0 else [])]


def _led_by(leaders: Mapping[str, Leadership], node: int) -> int:
    """Returns the number of queues that a member leads; a group's leader leads them all."""
    led = sum(each.node == node for each in leaders.values())
    return QUEUES if led and len(leaders) == 1 else led


async def _until_whole(cluster: Cluster) -> None:
    """Wait until every member holds all that was acknowledged."""
    if not await cluster.wait_until_caught_up(cluster.targets, within_s=LED_WITHIN_S):
        raise NotServing("not every member has caught up")


async def _is_readable(cluster: Cluster, nodes: Sequence[int], queue: int) -> bool:
    """Returns True if one of these members gives a consumer the beginning of a queue."""
    for node in nodes:
        try:
            if isinstance(cluster.control, KafkaControl):
                answer = await read_as_consumer(cluster.direct[node], TOPIC, queue)
                if not answer.error_code and answer.high_watermark > 0:
                    return True
            else:
                async with BrokerConnection.open(cluster.direct[node], within_s=1.0) as connection:
                    with trio.fail_after(1.0):
                        if (await connection.pull(queue, 0, 1)).records:
                            return True
        except (NoAnswer, NoConnection, NoBrokerAnswer, BrokerRefused, trio.TooSlowError):
            continue
    return False
