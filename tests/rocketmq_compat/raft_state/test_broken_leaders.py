"""A broken leader of a raft group can commit bytes that are no messages: they end no member, and no consumer sees them."""

import pytest

from rocketmq_compat.raft_state import BadGroupCommand, StoreRecords, encode_group_command
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


def test_a_snapshot_that_is_none_is_refused_before_it_costs_anything(group: CopiesMachine) -> None:
    copy = group.nodes[1].copy
    before = copy.state.snapshot()
    for snapshot in (b"", b"garbage", before[:-1], before + b"x"):
        with pytest.raises(BadGroupCommand):
            copy.check_snapshot(snapshot)
    copy.check_snapshot(before)
    assert copy.state.snapshot() == before
