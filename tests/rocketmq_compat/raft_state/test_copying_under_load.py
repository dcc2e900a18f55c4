"""A broker that copies what it lacks comes to an end, although messages are stored all the time."""

from rocketmq_compat.broker.copying import CommitLogCopying
from tests.rocketmq_compat.raft_state.test_copies_machine import CopiesMachine
from tests.rocketmq_compat.raft_state.test_quiet_queues import BUSY, expire, group, put

__all__ = ["group"]


def test_a_copy_is_complete_although_each_answer_comes_behind_a_new_message(group: CopiesMachine) -> None:
    expire(group)
    group.install(3)
    leader, node = group.nodes[1], group.nodes[3]
    asks = CommitLogCopying(node.context, node.copy, [1])
    serves = CommitLogCopying(leader.context, leader.copy, [3])
    for _ in range(10):
        asked = asks.next(group.now)
        assert asked is not None
        answer = serves.serve(asked.header)
        put(group, BUSY)
        group.apply(3, 99)
        asks.on_answer(group.now, asked, answer)
        if not node.copy.incomplete.is_set():
            break
    assert node.copy.lacks == ""
    log, theirs = node.context.store.log, leader.context.store.log
    read = [each.byte_reader().read(log.start_offset, log.end_offset) for each in (log, theirs)]
    assert bytes(read[0] or b"") == bytes(read[1] or b"")
    put(group, BUSY)
    group.apply(3, 99)
    assert log.end_offset == theirs.end_offset
