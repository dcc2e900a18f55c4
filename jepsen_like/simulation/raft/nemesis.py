"""Strikes the cluster as the seed planned it; each fault draws its targets and lengths from a stream of its own."""

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, assert_never

from jepsen_like.simulation.kernel.nemesis import LinkNemesis
from jepsen_like.simulation.kernel.network import Link
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, PlannedFault
from jepsen_like.simulation.raft.machine import SimulatedMachine
from jepsen_like.simulation.raft.member_changes import MemberChanges, leaves_majorities
from jepsen_like.simulation.raft.rot import RotKind
from jepsen_like.simulation.raft.swarm import RaftKnobs
from raft.effects import RoleName
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestVote,
    VoteReply,
)
from raft.model import NodeId

if TYPE_CHECKING:
    from jepsen_like.simulation.raft.world import RaftWorld

CUT_AFTER: Sequence[type[Message]] = (
    VoteReply,
    RequestVote,
    AppendAccepted,
    AppendAccepted,
    AppendEntries,
    RequestPreVote,
    PreVoteReply,
)
"""After which messages power is cut; an accepted append is the promise that matters most."""


class SimulatedNemesis(LinkNemesis["RaftWorld"]):
    """Carries out planned faults."""

    BURST_LOSS = 0.35

    def __init__(self, world: "RaftWorld", knobs: RaftKnobs) -> None:
        super().__init__(world, knobs)
        self._knobs = knobs
        self.changes = MemberChanges(world, knobs, self.counts)
        """Not a fault, but what faults come between."""
        self._nodes = list(world.machines)
        self._unit_s = knobs.patience_s

    def strike(self, fault: PlannedFault) -> None:
        """Do it now."""
        rng = stream(self._knobs.seed, fault.name)
        match fault.kind:
            case FaultKind.POWER_CUT:
                for machine in self._victims(rng):
                    self._world.cut_power(machine, self._outage_s(rng))
            case FaultKind.CUT_IN_FLUSH:
                for machine in self._victims(rng):
                    machine.traps.in_flush = rng.random()
            case FaultKind.CUT_AFTER_SEND:
                trims = self._knobs.retention_bytes is not None
                kind = rng.choice([*CUT_AFTER, InstallSnapshot, InstallSnapshot] if trims else CUT_AFTER)
                for machine in self._victims(rng):
                    machine.traps.after_send = kind
            case FaultKind.CUT_AFTER_ANSWER:
                for machine in self._world.machines.values():
                    machine.traps.after_answer = True
            case FaultKind.CUT_ALL:
                self._cut_many(rng)
            case FaultKind.KILL:
                for machine in self._victims(rng):
                    self._world.kill(machine, self._outage_s(rng))
            case FaultKind.PAUSE:
                self._pause(rng)
            case FaultKind.ISOLATE | FaultKind.HALVES | FaultKind.ONE_WAY | FaultKind.BRIDGE:
                self._cut_links(self._links_to_cut(fault.kind, rng), rng, f"{fault.kind.value} cuts")
            case FaultKind.COUP:
                self._coup(rng)
            case FaultKind.RESET:
                self._reset(rng)
            case FaultKind.CLOCK_JUMP:
                self._jump(rng)
            case FaultKind.SLOW_DISK:
                self._slow_disk(rng)
            case FaultKind.DISK_FULL:
                self._fill_disk(rng)
            case FaultKind.DISK_FAILS:
                for machine in self._victims(rng):
                    self._world.note("a disk call is going to fail", machine.node_id)
                    machine.held.disk.fail_call(rng.randint(1, 12))
            case FaultKind.LOSS_BURST:
                self._world.note("the network loses a third of all messages")
                self._lose_messages(rng)
            case FaultKind.ZONE_DOWN:
                self._zone_down(rng)
            case FaultKind.ZONE_CUT:
                self._cut_links(self._links_of_zone(rng), rng, "zone_cut cuts")
            case FaultKind.DAMAGE | FaultKind.VANISH | FaultKind.STOPS:
                raise ValueError(f"{fault.kind.value} is none of the faults of raft")
            case _:
                assert_never(fault.kind)

    def recovery_crash(self, machine: SimulatedMachine) -> bool:
        """Returns True if power is lost again as soon as `machine` is up."""
        rng = stream(self._knobs.seed, f"recovery/{machine.node_id}/{machine.lives}")
        return rng.random() < self._knobs.recovery_crash

    def rot(self, machine: SimulatedMachine) -> None:
        """Perhaps let a bit rot on the disk of a machine about to start: on a minority, until it has caught up."""
        rng = stream(self._knobs.seed, f"rot/{machine.node_id}/{machine.lives}")
        if rng.random() >= self._knobs.rot or machine.held.rot is not None:
            return
        trims = self._knobs.retention_bytes is not None
        # Most often where a restart does not look: damage that is met later has other consequences.
        kinds = [kind for kind in RotKind if trims or kind is not RotKind.START]
        kind = rng.choice([*kinds, RotKind.PAYLOAD, RotKind.PAYLOAD])
        spoilt = sum(
            other.held.rot is not None or other.held.vanished is not None for other in self._world.machines.values()
        )
        if spoilt + 1 <= (len(self._nodes) - 1) // 2 and machine.held.spoil(kind, rng):
            self._world.note(f"bit rot: {kind.value}", machine.node_id)

    def vanish(self, number: int) -> None:
        """Stop some or all nodes, at once or in turn, and lose the directories of some before they come back.

        Any number may, while one sound copy of all that is committed is left (`may_vanish`, asked again at each
        return).
        """
        rng = stream(self._knobs.seed, f"vanish/{number}")
        order = rng.sample(self._nodes, len(self._nodes))
        losers = order[: rng.choice((1, 1, len(order) - 1, rng.randint(1, len(order) - 1)))]
        stopped = order if rng.random() < 0.5 else losers
        gap_s = rng.choice((0.0, 0.0, 0.3, 1.0)) * self._unit_s
        down_s = len(stopped) * gap_s + self._outage_s(rng)
        back = rng.sample(stopped, len(stopped))
        if rng.random() < 0.3:
            back.sort(key=stopped.index, reverse=True)  # the last to stop is the first to start
        back_gap_s = rng.choice((0.0, 0.1, 1.0)) * self._unit_s
        cuts_power = rng.random() < 0.4
        for at, node in enumerate(stopped):
            back_s = down_s - at * gap_s + back.index(node) * back_gap_s
            self._world.schedule(
                self._world.now + at * gap_s,
                self._stop,
                node,
                back_s,
                node in losers,
                cuts_power and rng.random() < 0.7,
            )

    def _stop(self, node: NodeId, back_s: float, loses: bool, cuts_power: bool) -> None:
        machine = self._world.machines[node]
        if not machine.up:
            return
        if cuts_power:
            self._world.cut_power(machine, back_s)
        else:
            self._world.kill(machine, back_s)
        machine.loses_directory = loses

    def take_directory(self, machine: SimulatedMachine) -> None:
        """Let the directory of a machine about to start vanish, if planned so and a sound copy is elsewhere."""
        planned, machine.loses_directory = machine.loses_directory, False
        committed = self._world.committed_position()
        others = [
            other for other in self._world.machines.values() if other is not machine and not other.loses_directory
        ]
        sound = [other for other in others if other.held.vanished is None and other.held.rot is None]
        if planned and self._knobs.driver.changes and not self._leaves_majorities(machine):
            planned = False
        if planned and any(not committed.index or other.held.durable_log().holds(committed) for other in sound):
            machine.vanish()
            for a, b in self._world.network.links:
                if machine.node_id in (a, b):
                    self._world.network.reset((a, b))  # its connections have ended with it
            self._world.note("its directory has vanished", machine.node_id)

    def _leaves_majorities(self, loser: SimulatedMachine) -> bool:
        """Returns True if the voters of every configuration that may be in force keep a majority with their directories."""
        record = self._world.record
        later = [
            configuration
            for (index, _), configuration in record.configurations.items()
            if index > record.committed_index
        ]
        return all(
            leaves_majorities(self._world.machines, members, loser) for members in (record.committed_members(), *later)
        )

    # ---------------------------------------------------------------- whom and how long

    def _live(self) -> list[SimulatedMachine]:
        return [machine for machine in self._world.machines.values() if machine.up]

    def _leaders(self) -> list[SimulatedMachine]:
        return [machine for machine in self._live() if machine.core and machine.core.role_name is RoleName.LEADER]

    def _one(self, rng: random.Random) -> SimulatedMachine | None:
        """A leader in half of the cases."""
        leaders = self._leaders()
        live = self._live()
        if leaders and rng.random() < 0.5:
            return rng.choice(leaders)
        return rng.choice(live) if live else None

    def _victims(self, rng: random.Random) -> list[SimulatedMachine]:
        """Mostly one node, sometimes several at the same moment."""
        first = self._one(rng)
        if first is None:
            return []
        if rng.random() < 0.75:
            return [first]
        others = [machine for machine in self._live() if machine is not first]
        return [first, *rng.sample(others, min(len(others), rng.randint(1, 2)))]

    def _outage_s(self, rng: random.Random) -> float:
        return rng.choice((0.02, 0.3, 2.0)) * rng.random() * self._unit_s

    def _lasts(self, rng: random.Random) -> float:
        return rng.choice((0.2, 1.0, 4.0)) * rng.uniform(0.3, 1.0) * self._unit_s

    # ---------------------------------------------------------------- power, pauses, clocks, disks

    def _cut_many(self, rng: random.Random) -> None:
        live = self._live()
        count = len(live) if rng.random() < 0.5 else min(len(live), len(self._nodes) // 2 + 1)
        for machine in rng.sample(live, count):
            self._world.cut_power(machine, self._outage_s(rng))

    def _zone_down(self, rng: random.Random) -> None:
        first, back_after_s = self._one(rng), self._outage_s(rng)
        if first is None:
            return
        self.counts["zones_down"] += 1
        zone = self._knobs.zone_of(first.node_id)
        for machine in self._live():
            if self._knobs.zone_of(machine.node_id) == zone:
                self._world.cut_power(machine, back_after_s)

    def _links_of_zone(self, rng: random.Random) -> list[Link[NodeId]]:
        first, zone_of = self._one(rng), self._knobs.zone_of
        if first is None:
            return []
        zone = zone_of(first.node_id)
        return [(a, b) for a, b in self._world.network.links if (zone_of(a) == zone) != (zone_of(b) == zone)]

    def _pause(self, rng: random.Random) -> None:
        timers_first = rng.random() < 0.5
        for machine in self._victims(rng):
            if machine.paused:
                continue
            self.counts["pauses"] += 1
            self._world.note("paused", machine.node_id)
            machine.pause()
            self._later(rng, self._resume, machine, machine.lives, timers_first)

    def _resume(self, machine: SimulatedMachine, lives: int, timers_first: bool) -> None:
        if machine.lives == lives and machine.paused:
            self._world.note("resumed", machine.node_id)
            machine.wake(timers_first=timers_first)

    def _jump(self, rng: random.Random) -> None:
        seconds = rng.choice((0.3, 1.0, 10.0, 1000.0)) * rng.random() * self._unit_s
        for machine in self._victims(rng):
            self.counts["clock_jumps"] += 1
            self._world.note(f"clock jumps {seconds:.3f} s", machine.node_id)
            machine.jump_clock(seconds)

    def _slow_disk(self, rng: random.Random) -> None:
        for machine in self._victims(rng):
            self.counts["slow_disks"] += 1
            machine.slowness = rng.choice((3.0, 10.0, 40.0))
            self._world.note(f"disk {machine.slowness:.0f} times slower", machine.node_id)
            self._later(rng, self._restore_disk, machine)

    def _restore_disk(self, machine: SimulatedMachine) -> None:
        machine.slowness = 1.0

    def _fill_disk(self, rng: random.Random) -> None:
        for machine in self._victims(rng):
            self.counts["disks_filled"] += 1
            self._world.note("disk full", machine.node_id)
            machine.held.disk.capacity_bytes = machine.held.disk.used_bytes()
            self._later(rng, machine.held.make_room)

    # ---------------------------------------------------------------- the network

    def _coup(self, rng: random.Random) -> None:
        """Cut a leader off for long enough that another is elected, sometimes with a follower whose disk is slow."""
        leaders = self._leaders()
        if not leaders:
            return
        group = {rng.choice(leaders).node_id}
        if len(self._nodes) > 3 and rng.random() < 0.6:
            follower = rng.choice(
                [machine for machine in self._world.machines.values() if machine.node_id not in group]
            )
            group.add(follower.node_id)
            if rng.random() < 0.6:
                follower.slowness = rng.choice((10.0, 40.0))
                self._later(rng, self._restore_disk, follower)
        links = [(a, b) for a, b in self._world.network.links if (a in group) != (b in group)]
        self.counts["coups"] += 1
        self._world.note(f"coup cuts {' '.join(f'{a}>{b}' for a, b in links)}")
        self._world.network.cut(links, holds=rng.random() < 0.5)
        lasts = rng.uniform(1.0, 3.0) * self._unit_s
        for machine in leaders:
            if machine.node_id in group and not machine.paused and rng.random() < 0.3:
                # It stands still as well: when it wakes, still cut off, it takes itself for the leader.
                self.counts["pauses"] += 1
                machine.pause()
                wakes = self._world.now + lasts * rng.uniform(0.5, 1.0)
                self._world.schedule(wakes, self._resume, machine, machine.lives, rng.random() < 0.3)
        self._world.schedule(self._world.now + lasts, self._end_coup, links, group, rng)

    def _end_coup(self, links: Sequence[Link[NodeId]], group: Collection[NodeId], rng: random.Random) -> None:
        successors = [machine for machine in self._leaders() if machine.node_id not in group]
        self._heal(links)
        for machine in successors:
            match rng.randrange(4):
                case 0:
                    self._world.cut_power(machine, self._outage_s(rng))
                case 1:
                    self._world.kill(machine, self._outage_s(rng))
                case 2:
                    near = [link for link in self._world.network.links if link[0] == machine.node_id]
                    self._world.network.cut(near, holds=rng.random() < 0.5)
                    self._later(rng, self._heal, near)
                case _:
                    pass

    def _links_to_cut(self, kind: FaultKind, rng: random.Random) -> list[Link[NodeId]]:
        first = self._one(rng)
        if first is None or len(self._nodes) < 2:
            return []
        nodes = list(self._nodes)
        rng.shuffle(nodes)
        match kind:
            case FaultKind.ISOLATE:
                groups = [{first.node_id}, set(nodes) - {first.node_id}]
            case FaultKind.HALVES:
                at = rng.randint(1, len(nodes) - 1)
                groups = [set(nodes[:at]), set(nodes[at:])]
            case FaultKind.BRIDGE:
                _bridge, *rest = nodes
                groups = [set(rest[: len(rest) // 2]), set(rest[len(rest) // 2 :])]
            case _:
                return self._one_way(first.node_id, nodes, rng)
        return [
            (a, b)
            for a, b in self._world.network.links
            if any(a in group and b not in group and b in other for group in groups for other in groups)
        ]

    def _one_way(self, first: NodeId, nodes: Sequence[NodeId], rng: random.Random) -> list[Link[NodeId]]:
        """Everything into one node, everything out of it, or any directions at random."""
        links = list(self._world.network.links)
        match rng.randrange(3):
            case 0:
                return [link for link in links if link[1] == first]
            case 1:
                return [link for link in links if link[0] == first]
            case _:
                return [link for link in links if rng.random() < 0.35]

    def _reset(self, rng: random.Random) -> None:
        links = list(self._world.network.links)
        first = self._one(rng)
        near = [link for link in links if first is not None and first.node_id in link]
        chosen = near if near and rng.random() < 0.6 else links
        for link in rng.sample(chosen, min(len(chosen), rng.randint(1, len(self._nodes)))):
            self._world.reset(link)
