"""The judge of the end looks at what every node has stored: a difference that is planted on any one of them is named."""

from collections.abc import Callable, Iterator

import attrs
import pytest
from crc32c import crc32c

from jepsen_like.simulation.raft.machine import SimulatedMachine
from jepsen_like.simulation.raft.model import RAFT
from jepsen_like.simulation.raft.record import first_difference
from jepsen_like.simulation.raft.swarm import CALM
from jepsen_like.simulation.raft.world import RaftWorld
from raft.effects import Persist
from raft.model import Batch, Entry, EntryKind, LogIndex, NodeId, Offset, Term, WriteId

pytestmark = pytest.mark.simulation

NODES = (1, 2, 3)


@pytest.fixture
def world() -> RaftWorld:
    """Three nodes that have served a few clients in fair weather, and agree."""
    world = RaftWorld(attrs.evolve(CALM, clients=2, safety_s=3.0), stop_at_first=False)
    world.run()
    assert not world.violations
    assert len(world.record.ledger) > 10
    return world


def trimmed_worlds() -> Iterator[RaftWorld]:
    """Worlds of three nodes, all of which live, that have let the beginning of their logs go."""
    for seed in range(300):
        knobs = RAFT.draw(seed)
        if knobs.retention_bytes is not None and knobs.nodes == 3:
            world = RaftWorld(knobs, stop_at_first=False)
            world.run()
            if all(machine.core and machine.core.log.start.index for machine in world.machines.values()):
                yield world


def store(machine: SimulatedMachine, entries: list[Entry]) -> None:
    """Write over whatever the node's disk has from the first of these on, past its core."""
    assert machine.storage is not None
    machine.storage.persist(Persist(WriteId(machine.storage.written + 1), None, tuple(entries)))
    machine.storage.flush()


def other(entry: Entry) -> Entry:
    """Another entry for the same place."""
    data = bytes(len(entry.batch.data)) or b"another"
    batch = Batch(EntryKind.RECORDS, entry.batch.span, entry.batch.timestamp_ms, data, crc32c(data))
    return attrs.evolve(entry, batch=batch)


def stored_by(machine: SimulatedMachine) -> list[Entry]:
    return list(machine.stored_entries())


def records(entries: list[Entry]) -> list[int]:
    """Returns the places of the entries with records."""
    return [at for at, entry in enumerate(entries) if entry.batch.kind is EntryKind.RECORDS]


def last_is_another(machine: SimulatedMachine) -> None:
    entries = stored_by(machine)
    at = records(entries)[-1]
    store(machine, [other(entries[at]), *entries[at + 1 :]])


def first_is_another(machine: SimulatedMachine) -> None:
    entries = stored_by(machine)
    at = records(entries)[0]
    store(machine, [other(entries[at]), *entries[at + 1 :]])


def one_is_of_another_term(machine: SimulatedMachine) -> None:
    entries = stored_by(machine)
    store(machine, [attrs.evolve(entry, term=Term(entry.term + 1)) for entry in entries[-1:]])


def last_is_missing(machine: SimulatedMachine) -> None:
    assert machine.storage is not None
    machine.storage.log.truncate(machine.storage.log.last_index - 1)


def one_too_many(machine: SimulatedMachine) -> None:
    last = stored_by(machine)[-1]
    batch = Batch(EntryKind.RECORDS, 1, 0, b"more", crc32c(b"more"))
    store(machine, [Entry(LogIndex(last.index + 1), last.term, Offset(last.end_offset), batch)])


PLANTS: list[Callable[[SimulatedMachine], None]] = [
    last_is_another,
    first_is_another,
    one_is_of_another_term,
    last_is_missing,
    one_too_many,
]


def find_accusations(world: RaftWorld) -> list[tuple[str, int]]:
    """Returns the oracles by which the judge of the end accuses a log, each with its node."""
    world.judge()
    found = [(violation.oracle, violation.node) for violation in world.violations]
    return [(oracle, node) for oracle, node in found if oracle != "C-log"]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_difference_on_any_one_node_is_named(
    world: RaftWorld, plant: Callable[[SimulatedMachine], None], node: int
) -> None:
    plant(world.machines[NodeId(node)])
    assert find_accusations(world) == [("B-diverged", node)]


@pytest.mark.parametrize("plant", [first_is_another, last_is_another], ids=lambda plant: plant.__name__)
def test_what_clients_can_read_of_a_difference_is_named_by_the_checker(
    world: RaftWorld, plant: Callable[[SimulatedMachine], None]
) -> None:
    plant(world.machines[NodeId(2)])
    world.judge()
    assert "C-log" in [violation.oracle for violation in world.violations]


def test_differences_on_all_nodes_are_all_named(world: RaftWorld) -> None:
    for machine in world.machines.values():
        last_is_another(machine)
    assert find_accusations(world) == [("B-diverged", node) for node in NODES]


@pytest.mark.parametrize("node", NODES)
def test_a_difference_behind_what_has_left_a_log_is_named(node: int) -> None:
    world = next(trimmed_worlds())
    last_is_another(world.machines[NodeId(node)])
    assert find_accusations(world) == [("B-diverged", node)]


def test_a_log_differs_from_a_shorter_one_where_that_ends(world: RaftWorld) -> None:
    entries = stored_by(world.machines[NodeId(1)])
    shorter = entries[:-1]
    assert first_difference(entries, shorter) == first_difference(shorter, entries) == len(shorter)
    assert first_difference(entries, list(entries)) is None


@pytest.mark.parametrize("node", NODES)
def test_a_log_that_cannot_be_read_is_named(world: RaftWorld, node: int) -> None:
    machine = world.machines[NodeId(node)]
    entries = stored_by(machine)
    data = bytes(entries[records(entries)[-1]].batch.data)
    path = next(path for path in machine.held.disk.paths() if data in machine.held.disk.content(path))
    machine.held.disk.flip_bit(path, 8 * machine.held.disk.content(path).index(data))
    assert find_accusations(world) == [("B-diverged", node)]


def test_what_is_equal_on_all_nodes_is_left_alone(world: RaftWorld) -> None:
    assert find_accusations(world) == []
