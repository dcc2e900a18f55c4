"""The raft group of the brokers, in the small: a log of committed commands, leaders, and maybe unknown outcomes.

The raft core has a simulator of its own; here only what the controller sees of it matters: a command is committed or
not, leaders change and some of what an old one had proposed is committed all the same, a leader that is cut off goes on
believing in itself, and brokers learn of commits late.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kernel.sockets import Segment
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.controller.commands import AlterPartition, RegisterBroker, ReportLogs, UnfenceBroker, decode_command
from log.values import frozen
from raft.errors import NotLeader, OutcomeUnknown, RaftError
from raft.results import Applied

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.broker import SimulatedBroker
    from jepsen_like.simulation.kafka.world import KafkaWorld


@frozen
class CommitNews:
    """The raft group's leader reports its term and up to where the log of commands is committed."""

    term: int
    leader: int
    commit: int


BrokerMessage = Segment | CommitNews
"""A message of one broker to another."""
Outcome = Applied | RaftError
Settled = Callable[[Outcome], None]
TICK_S = 0.1
LATE = {AlterPartition: (0.2, 10.0), ReportLogs: (0.2, 10.0)}
LATE_OTHERS = 0.1, 1.0
"""The share of commands that are read late where messages are late, and by up to how many sessions, unless another
process of some broker is registered or serves before: others overtake them."""


@attrs.frozen(eq=False)
class _Proposed:
    node: int
    process: int
    command: bytes
    settled: Settled


class ControlQuorum:
    """The group. `log[i]` is the command at index i + 1."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, members: Mapping[int, "SimulatedBroker"]) -> None:
        self.log: list[bytes] = []
        self.leader: int | None = None
        self.term = 0
        self.changes = 0
        self._world = world
        self._knobs = knobs
        self._members = members
        self._rng: random.Random = stream(knobs.seed, "quorum")
        self._tail: list[_Proposed] = []
        self._orphans: list[_Proposed] = []
        """Proposed by a leader that was deposed, knowingly or not: unknown once it learns the next term."""
        self._unread: list[_Proposed] = []
        self._vacant_since = 0.0

    def begin(self, commands: Sequence[bytes]) -> None:
        """The log begins with these commands, and broker 1 leads."""
        for command in commands:
            self._commit(command)
        self.term, self.leader = 1, 1
        self._world.schedule(TICK_S, self._tick)

    # ---------------------------------------------------------------- proposals

    def propose(self, node: int, process: int, command: bytes, settled: Settled) -> None:
        """A broker that takes itself for the leader proposes a command; `settled` is given its outcome, if known."""
        world, proposed = self._world, _Proposed(node, process, command, settled)
        self._unread.append(proposed)
        share, sessions = LATE.get(type(decode_command(command)), LATE_OTHERS)
        is_late = self._knobs.late and not world.healed and self._rng.random() < share
        late_s = sessions * self._knobs.session_s * self._rng.random() if is_late else 0.0
        world.schedule(world.now + late_s, self._take, proposed)

    def _take(self, proposed: _Proposed) -> None:
        if proposed not in self._unread:
            return
        self._unread.remove(proposed)
        member = self._members[proposed.node]
        if not member.lives_as(proposed.process):
            return
        if proposed.node == self.leader:
            self._tail.append(proposed)
            delay_s = self._knobs.commit_s * (0.5 + self._rng.expovariate(1.0))
            self._world.schedule(self._world.now + delay_s, self._try_commit, self.term)
        elif proposed.node == member.leader:
            self._orphans.append(proposed)
        else:
            member.settle(proposed.process, proposed.settled, NotLeader(member.leader))

    def _try_commit(self, term: int) -> None:
        if term != self.term or self.leader is None or not self._tail:
            return
        if not self._has_majority(self.leader):
            self._world.schedule(self._world.now + TICK_S / 2, self._try_commit, term)
            return
        leader = self._members[self.leader]
        proposed = self._tail.pop(0)
        self._commit(proposed.command)
        leader.learn(self.term, self.leader, len(self.log), proposed.settled)
        if self._tail:
            self._world.schedule(self._world.now, self._try_commit, term)
        else:
            self._tell()

    def _commit(self, command: bytes) -> None:
        self.log.append(command)
        self._world.audits.on_committed(len(self.log), command)
        if self._unread and isinstance(decode_command(command), RegisterBroker | UnfenceBroker):
            for proposed in self._unread:
                if self._rng.random() < 0.5:
                    self._world.counts["overtaken_commands"] += 1
                    self._world.schedule(self._world.now, self._take, proposed)

    # ---------------------------------------------------------------- leaders

    def _reaches(self, one: int, other: int) -> bool:
        links = self._world.network.links
        return one == other or not (links[one, other].cuts or links[other, one].cuts)

    def _works(self, node: int) -> bool:
        member = self._members[node]
        return member.up and not member.paused

    def _has_majority(self, node: int) -> bool:
        if not self._works(node):
            return False
        reached = sum(self._works(other) and self._reaches(node, other) for other in self._members)
        return 2 * reached > len(self._members)

    def _tick(self) -> None:
        world = self._world
        world.schedule(world.now + TICK_S, self._tick)
        if self.leader is not None and self._has_majority(self.leader):
            self._vacant_since = world.now
            self._tell()
        elif world.now - self._vacant_since >= self._knobs.election_s * (0.5 + self._rng.random()):
            self.elect()

    def on_stopped(self, node: int) -> None:
        """A process is gone: if it led, no broker does until another election, which may keep what it had proposed."""
        if self.leader == node:
            self.leader = None

    def elect(self, *, avoid: int | None = None) -> bool:
        """Elect a broker with a majority, at random but not `avoid`. Returns whether one was elected."""
        candidates = [node for node in self._members if node != avoid and self._has_majority(node)]
        if not candidates:
            return False
        tail = self._tail
        kept = self._rng.randint(0, len(tail))
        self.leader, self._tail = self._rng.choice(candidates), []
        self.term += 1
        self.changes += 1
        self._vacant_since = self._world.now
        for proposed in tail[:kept]:
            self._commit(proposed.command)
        self._orphans += tail
        self._members[self.leader].learn(self.term, self.leader, len(self.log))
        self._tell()
        return True

    def on_learned(self, member: "SimulatedBroker") -> None:
        """A broker knows the newest term, so what it proposed as an earlier leader ends with an unknown outcome."""
        mine = [proposed for proposed in self._orphans if proposed.node == member.node]
        if mine and member.term == self.term:
            self._orphans = [each for each in self._orphans if each.node != member.node]
            for proposed in mine:
                member.settle(proposed.process, proposed.settled, OutcomeUnknown("leadership was lost"))

    def _tell(self) -> None:
        """The leader tells those who are behind; the world decides whether they hear it."""
        leader = self.leader
        if leader is None:
            return  # it has ended over what it learned
        commit = len(self.log)
        news = CommitNews(self.term, leader, commit)
        for node, member in self._members.items():
            if node != leader and member.up and (member.commit < commit or member.term < self.term):
                self._world.network.transmit(self._world.now, (leader, node), news)
