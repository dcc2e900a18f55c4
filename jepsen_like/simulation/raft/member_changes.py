"""Changes the members of a group in virtual time, and has its leaders hand over, as an operator would.

A part of what it asks for makes little sense: of two leaders it may ask the older one, and it asks again without waiting.
The group must refuse what does not fit.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.machine import SimulatedMachine
from jepsen_like.simulation.raft.record import have_majorities
from jepsen_like.simulation.raft.swarm import RaftKnobs
from raft.errors import RaftError
from raft.membership import (
    AddLearner,
    Change,
    ChangeVoters,
    Configuration,
    InvalidConfiguration,
    Promote,
    Remove,
    make_change,
)
from raft.model import NodeId
from raft.roles import Leader

if TYPE_CHECKING:
    from jepsen_like.simulation.raft.world import RaftWorld

TRANSFER = "transfers"
COUNTS: dict[type[Change], str] = {
    AddLearner: "learners_added",
    Promote: "promotions",
    Remove: "removals",
    ChangeVoters: "voters_changed",
}


class MemberChanges:
    """Asks for changes at the times that its seed draws. It is the caller of its requests, whose number is their id."""

    def __init__(self, world: "RaftWorld", knobs: RaftKnobs, counts: Counter[str]) -> None:
        self.counts = counts
        self._world = world
        self._knobs = knobs
        self._asked: dict[int, str] = {}

    def begin(self) -> None:
        """Plan all it will do."""
        rng = stream(self._knobs.seed, "operator")
        for number in range(self._knobs.driver.changes):
            self._world.schedule(rng.uniform(0.05, 0.95) * self._knobs.safety_s, self._act, number)

    def _act(self, number: int) -> None:
        rng = stream(self._knobs.seed, f"operator/{number}")
        running = [machine for machine in self._world.machines.values() if machine.core and not machine.paused]
        leaders = [machine for machine in running if machine.core and isinstance(machine.core.role, Leader)]
        asked = running if rng.random() < 0.05 else leaders
        if asked and not self._world.healed:
            machine = rng.choice(asked)
            machine.take(self._ask, machine, number, rng)

    def _ask(self, machine: SimulatedMachine, number: int, rng: random.Random) -> None:
        assert machine.core is not None
        assert machine.driver is not None
        configuration = machine.core.configuration
        if rng.random() < 0.15:
            targets = sorted(configuration.voters) if rng.random() < 0.9 else list(self._world.machines)
            for attempt in range(rng.choice((1, 1, 2))):
                target = rng.choice(targets)
                self._asked[number - attempt * self._knobs.driver.changes] = TRANSFER
                self._world.note(f"the operator asks it to hand over to n{target}", machine.node_id)
                machine.driver.transfer_leadership(self, number - attempt * self._knobs.driver.changes, target)
            return
        change = self._choose(configuration, rng)
        if not self._leaves_majorities(machine, change):
            return
        self._asked[number] = COUNTS[type(change)]
        self._world.note(f"the operator asks it for {change}", machine.node_id)
        machine.driver.change_members(self, number, change)

    def _choose(self, configuration: Configuration, rng: random.Random) -> Change:
        voters, learners = sorted(configuration.voters), sorted(configuration.learners)
        outside = [node for node in self._world.machines if node not in configuration.nodes]
        choices: list[Change] = [Remove(rng.choice(voters)), AddLearner(rng.choice(voters))]
        if outside:
            node = rng.choice(outside)
            choices += [AddLearner(node, f"n{node}:1")] * 4
            choices.append(Promote(node))
        if learners:
            choices += [Promote(rng.choice(learners))] * 4
            choices.append(Remove(rng.choice(learners)))
        if len(voters) + len(learners) > 1:
            known = [*voters, *learners]
            wanted = rng.sample(known, rng.randint(max(1, len(known) - 2), len(known)))
            choices += [ChangeVoters(frozenset(wanted))] * 3
        return rng.choice(choices)

    def _leaves_majorities(self, machine: SimulatedMachine, change: Change) -> bool:
        """Returns False for a change that no group survives: to voters of which most have lost their directories.

        A leader refuses that if they are silent, but it may not have noticed yet.
        """
        assert machine.core is not None
        present = machine.core.configuration
        directories = {node: other.held.durable_log().directory_id for node, other in self._world.machines.items()}
        try:
            return leaves_majorities(self._world.machines, make_change(present, change, directories))
        except InvalidConfiguration:
            return True

    # ---------------------------------------------------------------- its answers

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self.counts[self._asked.pop(request_id)] += 1

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        del self._asked[request_id]
        self.counts[f"changes_{type(error).__name__}"] += 1

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`: it appends nothing."""

    def on_readable(self, request_id: int) -> None:
        """See `Caller`: it reads nothing."""


def leaves_majorities(
    machines: Mapping[NodeId, SimulatedMachine], members: Configuration, loser: SimulatedMachine | None = None
) -> bool:
    """Returns True if a majority of the voters has its directories still, once `loser` has lost its own.

    Where the members change, a voter without its directory is counted again only once the others have decided so.
    """
    known = members.directory_ids
    intact = [
        node
        for node, machine in machines.items()
        if machine is not loser and machine.held.has_directory(known.get(node, 0))
    ]
    return have_majorities(intact, members)


def joining_nodes(knobs: RaftKnobs) -> list[NodeId]:
    """Returns the nodes that are none of those with which the group begins."""
    return [NodeId(knobs.nodes + number) for number in range(1, knobs.driver.spares + 1)]
