"""A broker of a raft group whose copy of the log begins behind a queue's last message gives none of the queue's offsets again."""

from collections.abc import Iterator

import msgpack
import pytest

from rocketmq_compat.broker.puts import PutOutcome, StoredMessages
from rocketmq_compat.consumers.topics import new_topic
from rocketmq_compat.raft_state import (
    BadGroupCommand,
    BrokerGroupState,
    ChangeTables,
    TableChanges,
    encode_group_command,
)
from tests.crashes import FATES
from tests.rocketmq_compat.raft_state.test_copies_machine import CopiesMachine
from tests.rocketmq_compat.storage.records import record

QUIET, BUSY = 0, 1


@pytest.fixture
def group() -> Iterator[CopiesMachine]:
    """Node 1 leads, and queue 0 has two messages that only nodes 1 and 2 have applied."""
    machine = CopiesMachine()
    machine.begin(seed=1)
    machine.elect(1, is_ready=True)
    change(machine, TableChanges(topics={"T": new_topic("T", 2, 2)}))
    put(machine, QUIET, QUIET, BUSY)
    yield machine
    for node in machine.nodes.values():
        node.context.store.abandon()


def change(machine: CopiesMachine, changes: TableChanges) -> None:
    """Commits these changes of the tables."""
    machine.committed.append(encode_group_command(ChangeTables(machine.term, changes)))
    machine.apply(1, 99)


def put(machine: CopiesMachine, *queues: int) -> list[int]:
    """Puts a message into each of these queues, in batches of their own, and returns their offsets."""
    assert machine.leader is not None
    found: list[int] = []

    def on_outcome(outcome: PutOutcome) -> None:
        assert isinstance(outcome, StoredMessages), outcome
        found.extend(outcome.queue_offsets)

    for queue in queues:
        machine.nodes[machine.leader].copy.put([record("T", queue, body=b"m")], on_outcome)
        machine.commit(len(machine.proposed), applies=True)
    return found


def expire(machine: CopiesMachine) -> None:
    """The newest message alone stays in the commit logs of nodes 1 and 2, and all that was applied leaves their raft logs."""
    machine.apply(2, 99)
    for number in (1, 2):
        store = machine.nodes[number].context.store
        machine.trim(number)
        store.derived.save()
        assert store.trim(store.log.start_of_batch(store.log.end_offset - 1)) > 0


def copy_anew(machine: CopiesMachine) -> None:
    """Node 3 is given the snapshot, and what is left of the commit log."""
    machine.install(3)
    node, log = machine.nodes[3], machine.nodes[1].context.store.log
    assert node.copy.incomplete.is_set()
    assert node.copy.lacks.startswith("its commit log ends at ")
    machine.apply(3, 99)
    node.copy.reset_to(log.start_offset)
    for batch in log.read(log.start_offset, 1 << 20):
        if batch.base_offset == node.context.store.log.end_offset:  # else it was kept when it was applied
            node.copy.append_missing(bytes(batch.payload), offset=batch.base_offset, epoch=batch.epoch)
    assert not node.copy.incomplete.is_set()
    assert node.copy.lacks == ""


def test_a_broker_that_is_reset_to_a_snapshot_goes_on_behind_messages_that_have_expired(group: CopiesMachine) -> None:
    expire(group)
    copy_anew(group)
    group.elect(3, is_ready=True)
    assert group.nodes[3].context.store.queue(("T", QUIET)) == (2, 2)
    assert put(group, QUIET, BUSY, QUIET) == [2, 1, 3]


def test_what_was_applied_while_the_log_was_incomplete_is_not_forgotten(group: CopiesMachine) -> None:
    expire(group)
    put(group, QUIET, BUSY)
    group.install(3)
    group.apply(3, 99)
    expire(group)
    copy_anew(group)
    group.elect(3, is_ready=True)
    assert put(group, QUIET) == [3]


@pytest.mark.parametrize("fate", range(len(FATES)))
def test_a_quiet_queue_outlives_a_restart_of_the_broker_that_was_reset(group: CopiesMachine, fate: int) -> None:
    expire(group)
    copy_anew(group)
    group.die(3, fate, 1)
    if group.nodes[3].copy.incomplete.is_set():
        copy_anew(group)
    group.elect(3, is_ready=True)
    assert put(group, QUIET) == [2]


def test_the_queues_of_a_topic_that_was_deleted_begin_again(group: CopiesMachine) -> None:
    expire(group)
    group.install(3)
    change(group, TableChanges(topics={"T": None}))
    change(group, TableChanges(topics={"T": new_topic("T", 2, 2)}))
    copy_anew(group)
    group.elect(3, is_ready=True)
    assert put(group, QUIET) == [0]


def test_a_snapshot_without_next_offsets_is_restored_and_one_that_lacks_them_is_refused() -> None:
    state = BrokerGroupState(term=3, end=100, nexts={("T", QUIET): 2})
    state.tables.topics["T"] = new_topic("T", 2, 2)
    version, *fields, nexts = msgpack.unpackb(state.snapshot())
    assert (version, nexts) == (2, [["T", QUIET, 2]])
    again = BrokerGroupState(nexts={("T", BUSY): 9})
    again.restore(msgpack.packb([1, *fields]))
    assert again == state
    assert again.nexts == {}
    with pytest.raises(BadGroupCommand, match="no snapshot"):
        again.restore(msgpack.packb([2, *fields]))
