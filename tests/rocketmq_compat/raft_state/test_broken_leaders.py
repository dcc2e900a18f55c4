"""A broken leader of a raft group can commit bytes that are no messages: they end no member, and no consumer sees them."""

import msgpack
import pytest

from rocketmq_compat.raft_state import (
    BadGroupCommand,
    ChangeTables,
    StoreRecords,
    TableChanges,
    decode_group_command,
    encode_group_command,
)
from tests.rocketmq_compat.raft_state.test_copies_machine import CopiesMachine
from tests.rocketmq_compat.raft_state.test_quiet_queues import BUSY, QUIET, group, put

__all__ = ["group"]

GARBAGE = b"these bytes are no message at all"


def test_what_is_no_message_is_kept_alike_by_all_and_seen_by_none(group: CopiesMachine) -> None:
    group.committed.append(encode_group_command(StoreRecords(group.term, group.nodes[1].copy.state.end, GARBAGE)))
    for node in group.nodes:
        group.apply(node, 99)
    ends = {node.copy.state.end for node in group.nodes.values()}
    assert {node.context.store.log.end_offset for node in group.nodes.values()} == ends
    group.elect(2, is_ready=True)
    assert put(group, QUIET, BUSY) == [2, 1], "the offsets of both queues go on"


CHANGES: list[list[object]] = [
    [[[7, None]], None, [], None, [], None, []],
    [[], None, [[b"g", None]], None, [], None, []],
    [[], None, [], None, [["g", "T", 0, "many"]], None, []],
    [[], None, [], None, [["g", "T", 0, -1]], None, []],
    [[], None, [], None, [["g", 7, 0, 1]], None, []],
    [[], None, [], None, [], None, [[1, 2**63]]],
    [[], ["a", 0, 0], [], None, [], None, []],
]


@pytest.mark.parametrize("changes", CHANGES)
def test_tables_of_other_kinds_are_no_command(changes: list[object]) -> None:
    """They would end each member where it uses them."""
    encoded = encode_group_command(ChangeTables(1, TableChanges()))
    kind, term, _ = msgpack.unpackb(encoded)
    with pytest.raises(BadGroupCommand):
        decode_group_command(msgpack.packb([kind, term, changes]))
    assert decode_group_command(encoded) == ChangeTables(1, TableChanges())


def test_a_snapshot_that_is_none_is_refused_before_it_costs_anything(group: CopiesMachine) -> None:
    copy = group.nodes[1].copy
    before = copy.state.snapshot()
    for snapshot in (b"", b"garbage", before[:-1], before + b"x"):
        with pytest.raises(BadGroupCommand):
            copy.check_snapshot(snapshot)
    copy.check_snapshot(before)
    assert copy.state.snapshot() == before
