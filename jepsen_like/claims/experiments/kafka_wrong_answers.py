"""Settings of Kafka that do not equal a group of five by majority, each with the fault that shows it, next to those that do."""

import time
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from jepsen_like.claims.experiment import ClaimDesk
from jepsen_like.claims.experiments.kafka_acks import RATE, WARM_S
from jepsen_like.claims.recordings import KeptRecording, Recording, Scene, judge, open_scene
from jepsen_like.systems.kafka.stage.acts import between as ways
from jepsen_like.systems.kafka.stage.quorum import demote
from jepsen_like.systems.kafka.stage.stage import PlacedTopic

MEMBERS: Final = 5
CUT_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Candidate:
    """A Kafka that may be the answer."""

    name: str
    copies: int = MEMBERS
    acks: str = "all"
    least: int = 3
    is_unclean: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """As `--set` takes it, the factor apart."""
        unclean = ("unclean.leader.election.enable=true",) if self.is_unclean else ()
        factors = ("default.replication.factor", "offsets.topic.replication.factor")
        copies = tuple(f"{factor}={self.copies}" for factor in factors)
        return (f"acks={self.acks}", *copies, f"min.insync.replicas={self.least}", *unclean)

    @property
    def configs(self) -> dict[str, str]:
        """The settings of its topic."""
        return {"min.insync.replicas": str(self.least), "unclean.leader.election.enable": str(self.is_unclean).lower()}


CANDIDATES: Final = (
    Candidate(name="the answer"),
    Candidate(name="min 5", least=5),
    Candidate(name="min 2 of 3 copies", copies=3, least=2),
    Candidate(name="acks 1", acks="1"),
    Candidate(name="unclean elections", is_unclean=True),
)


@attrs.frozen(kw_only=True)
class Tried:
    """The outcome of a candidate: requests acknowledged while one and two brokers were dead, and records that it lost."""

    candidate: Candidate
    with_one_dead: int
    with_two_dead: int
    lost: int
    kept: KeptRecording

    @property
    def is_rejected(self) -> bool:
        """True if it stopped where a majority lives, or lost what it had acknowledged."""
        return bool(rejections(self.with_one_dead, self.with_two_dead, self.lost))


def rejections(with_one_dead: int, with_two_dead: int, lost: int) -> tuple[str, ...]:
    """Returns why settings do not equal a majority of five: it serves with one and with two dead, and loses nothing."""
    reasons = []
    if not with_one_dead:
        reasons.append("one death stops it")
    if with_one_dead and not with_two_dead:
        reasons.append("two deaths stop it")
    if lost:
        reasons.append(f"it loses {lost:,} acknowledged records")
    return tuple(reasons)


def try_candidates(desk: ClaimDesk) -> tuple[Tried, ...]:
    """Hold all candidates to the same faults, in one cluster."""
    recordings, one, two = trio.run(_try, desk)
    tried = []
    for candidate, recording in zip(CANDIDATES, recordings, strict=True):
        kept = judge(desk, recording)
        tried.append(
            Tried(
                candidate=candidate,
                with_one_dead=kept.acked_between(*one),
                with_two_dead=kept.acked_between(*two),
                lost=kept.lost,
                kept=kept,
            )
        )
    return tuple(tried)


async def _try(desk: ClaimDesk) -> tuple[list[Recording], tuple[int, int], tuple[int, int]]:
    async with open_scene(desk, "candidates", brokers=MEMBERS + 1) as scene:
        stage = scene.stage
        controller = await stage.controller()
        placed = [node for node in stage.brokers if node != controller]
        leader, second, third, *stale = placed
        await demote(stage, *placed)  # so that a controller is there, however many copies die
        plans = [
            PlacedTopic(name=each.name.replace(" ", "-"), placed=[placed[: each.copies]], configs=each.configs)
            for each in CANDIDATES
        ]
        await stage.create(*plans)
        recordings = []
        for candidate, plan in zip(CANDIDATES, plans, strict=True):
            recording = scene.record(f"candidate {candidate.name}", plan.name, *candidate.words)
            recordings.append(recording)
            scene.load(recording, acks=candidate.acks, rate=RATE)
        await trio.sleep(WARM_S)
        # The leader dies behind a cut: what it alone had is gone.
        cut = stage.cut(ways([leader], placed[1:]))
        await trio.sleep(CUT_S)
        first = await stage.kill(leader)
        await stage.end(cut)
        one = await _watch(scene, plans, [leader])
        again = await stage.kill(second)
        two = await _watch(scene, plans, [leader, second])
        await stage.end(first, again)
        await stage.until_whole(*(plan.name for plan in plans))
        await _lose_all_in_sync(scene, [leader, second, third], stale)
        await scene.keep(*recordings)
        return recordings, one, two


async def _watch(scene: Scene, plans: Sequence[PlacedTopic], dead: Sequence[int]) -> tuple[int, int]:
    """Wait until the dead are out of each set in sync, and look on for a moment. Returns when that was."""
    for plan in plans:
        alive = [node for node in plan.placed[0] if node not in dead]
        await scene.stage.until_in_sync(plan.name, alive)
    begun_ns = time.monotonic_ns()
    await trio.sleep(WARM_S)
    return begun_ns, time.monotonic_ns()


async def _lose_all_in_sync(scene: Scene, in_sync: Sequence[int], stale: Sequence[int]) -> None:
    """Have three copies alone in sync, kill them, and start the two others: who lets them lead forgets the rest."""
    stage = scene.stage
    away = await stage.kill(*stale)
    await stage.until_in_sync("unclean-elections", in_sync)
    await trio.sleep(WARM_S)
    killed = await stage.kill(*in_sync)
    await stage.end(away)
    await stage.until_led("unclean-elections", stale)
    await trio.sleep(WARM_S)
    await stage.end(killed)
