"""Notices as `quorumlog node` prints them: names and fields that readers of its lines rely on."""

import json
from typing import get_args

import pytest

from raft.effects import MembersChanged, RoleChanged, RoleName
from raft.membership import Configuration
from raft.model import LogIndex, NodeId, Offset, Position, Term
from raft.notices import (
    ConnectionClosed,
    ConnectionRefused,
    DiskStalled,
    FrameTooLarge,
    InvariantBroken,
    LinkDown,
    LinkRefused,
    LinkUp,
    LogRepaired,
    LogSetAside,
    LogTrimmed,
    LongTurn,
    NoSpaceLeft,
    Notice,
    SnapshotInstalled,
    SnapshotTooLarge,
    StandingLearned,
    event_of,
)

TWO = NodeId(2)
LINES: list[tuple[Notice, str]] = [
    (RoleChanged(RoleName.LEADER, Term(3), TWO), 'role {"role": "leader", "term": 3, "leader": 2}'),
    (RoleChanged(RoleName.CANDIDATE, Term(3), None), 'role {"role": "candidate", "term": 3, "leader": 0}'),
    (
        MembersChanged(Configuration([TWO], [NodeId(4)], [TWO, NodeId(3)]), is_settled=True),
        'members {"voters": [2], "learners": [4], "outgoing": [2, 3], "committed": true}',
    ),
    (LinkUp(TWO), 'link_up {"peer": 2}'),
    (LinkDown(TWO, "cut"), 'link_down {"peer": 2, "reason": "cut"}'),
    (LinkRefused(TWO, "no"), 'link_refused {"peer": 2, "reason": "no"}'),
    (ConnectionClosed("h:1", "client", "why"), 'connection_closed {"peer": "h:1", "role": "client", "reason": "why"}'),
    (ConnectionRefused("h:1", "full"), 'connection_refused {"peer": "h:1", "reason": "full"}'),
    (NoSpaceLeft("none"), 'storage_full {"detail": "none"}'),
    (DiskStalled(5.25), 'disk_stalled {"seconds": 5.25}'),
    (LogTrimmed(LogIndex(4), Offset(3)), 'trimmed {"start_index": 4, "start_offset": 3}'),
    (
        SnapshotInstalled(LogIndex(4), Offset(3), LogIndex(5)),
        'snapshot_installed {"start_index": 4, "start_offset": 3, "applied_index": 5}',
    ),
    (SnapshotTooLarge(9, 8), 'snapshot_too_large {"bytes": 9, "bytes_max": 8}'),
    (FrameTooLarge(TWO, 9, 8), 'frame_too_large {"peer": 2, "bytes": 9, "bytes_max": 8}'),
    (LogSetAside("the mark"), 'set_aside {"reason": "the mark"}'),
    (
        StandingLearned(Term(3), Position(LogIndex(4), Term(2))),
        'standing_learned {"term": 3, "floor": {"index": 4, "term": 2}}',
    ),
    (
        LongTurn(250, "raft: taking a snapshot", 240, 200),
        'long_turn {"ms": 250, "cause": "raft: taking a snapshot", "cause_ms": 240, "processor_ms": 200}',
    ),
    (InvariantBroken("the term fell", "n1@1"), 'broken_invariant {"reason": "the term fell", "state": "n1@1"}'),
    (
        LogRepaired(7, 9, Position(LogIndex(4), Term(3))),
        'repaired {"cut_from": 7, "cut_to": 9, "floor": {"index": 4, "term": 3}}',
    ),
]


@pytest.mark.parametrize(("notice", "line"), LINES, ids=[line for _, line in LINES])
def test_a_notice_is_printed_as_it_always_was(notice: Notice, line: str) -> None:
    event, fields = event_of(notice)
    assert f"{event} {json.dumps(fields)}" == line


def test_every_notice_is_pinned() -> None:
    assert {type(notice) for notice, _ in LINES} == set(get_args(Notice))
