"""The batcher alone: which requests share an entry, and when it leaves."""

import math

import attrs
import crc32c
import pytest

from log.frame import Pieces, buffers_of
from raft.batching import EMPTY_ROUND, JOIN_ROUNDS_MAX, PIPELINE_S, Batcher, Proposal, join_data
from raft.errors import RaftError
from raft.model import EntryKind, Token
from raft.net.decoder import LARGE_BYTES
from raft.requests import Request, refuse


@attrs.define
class Refused:
    """A caller that notes its errors by request id."""

    errors: dict[int, RaftError] = attrs.field(factory=dict)

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        raise AssertionError("the batcher answers no one")

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        raise AssertionError("the batcher answers no one")

    def on_readable(self, request_id: int) -> None:
        raise AssertionError("the batcher answers no one")

    def on_refused(self, request_id: int, error: RaftError) -> None:
        self.errors[request_id] = error


CALLER = Refused()


def batcher_of(
    batch_bytes_min: int = 100, batch_bytes_max: int = 1000, pending_bytes_max: int = 1 << 20, heartbeat_s: float = 0.1
) -> Batcher:
    return Batcher(
        batch_bytes_min=batch_bytes_min,
        batch_bytes_max=batch_bytes_max,
        pending_bytes_max=pending_bytes_max,
        heartbeat_s=heartbeat_s,
    )


def request(request_id: int, size: int = 10) -> Request:
    return Request(CALLER, request_id, 1, bytes(size))


def is_due(batcher: Batcher, now: float = 0.0, *, leads: bool = True, disk_is_busy: bool = False) -> bool:
    return batcher.is_due(now, leads=leads, disk_is_busy=disk_is_busy)


def ids(requests: list[Request]) -> list[int]:
    return [each.request_id for each in requests]


def propose(batcher: Batcher, token: int, now: float = 0.0) -> Proposal:
    """The next entry of appends is under way."""
    requests = batcher.take(EntryKind.RECORDS)
    proposal = Proposal(EntryKind.RECORDS, requests, sum(len(each.data) for each in requests), now)
    batcher.begin(Token(token), proposal)
    return proposal


def commit(batcher: Batcher, token: int, now: float = 0.0) -> None:
    batcher.note_committed(batcher.end(Token(token)), now)


def test_a_lone_request_leaves_at_once() -> None:
    batcher = batcher_of()
    assert not is_due(batcher)
    batcher.add_append(request(1))
    assert is_due(batcher)
    assert ids(batcher.take(EntryKind.RECORDS)) == [1]
    assert not batcher.waiting
    assert not is_due(batcher)


def test_commands_and_appends_leave_in_entries_of_their_own() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    batcher.add_command(request(2))
    batcher.add_append(request(3))
    assert ids(batcher.take(EntryKind.COMMANDS)) == [2]
    assert ids(batcher.take(EntryKind.COMMANDS)) == []
    assert ids(batcher.take(EntryKind.RECORDS)) == [1, 3]


def test_requests_wait_for_a_busy_disk_unless_they_fill_half_an_entry() -> None:
    batcher = batcher_of(batch_bytes_min=100)
    batcher.add_append(request(1, 49))
    assert not is_due(batcher, disk_is_busy=True)
    batcher.add_append(request(2, 1))
    assert batcher.fills_half
    assert is_due(batcher, disk_is_busy=True)


def test_a_node_that_does_not_lead_lets_no_one_wait_for_a_refusal() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    propose(batcher, 1)
    batcher.add_append(request(2))
    assert not is_due(batcher, disk_is_busy=True)
    assert is_due(batcher, leads=False, disk_is_busy=True)


def test_requests_wait_for_the_entry_under_way_but_no_longer_than_the_pipeline_allows() -> None:
    batcher = batcher_of()
    assert batcher.deadline == math.inf
    batcher.add_append(request(1))
    propose(batcher, 1, now=5.0)
    assert batcher.deadline == math.inf, "no request waits"
    batcher.add_append(request(2))
    assert batcher.deadline == 5.0 + PIPELINE_S
    assert not is_due(batcher, 5.0)
    assert is_due(batcher, batcher.deadline)
    commit(batcher, 1, now=5.0)
    assert batcher.deadline == math.inf


def test_after_an_answer_the_next_entry_waits_for_rounds_that_bring_requests() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    propose(batcher, 1)
    batcher.add_append(request(2))
    commit(batcher, 1)
    for number in range(JOIN_ROUNDS_MAX):
        assert batcher.has_postponed
        assert not is_due(batcher)
        batcher.add_append(request(3 + number, 1))
        batcher.begin_round()
    assert not batcher.has_postponed
    assert is_due(batcher)


def test_a_round_that_brings_no_request_shortens_the_wait() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    batcher.add_append(request(2))
    propose(batcher, 1)
    commit(batcher, 1)
    batcher.add_append(request(3))
    batcher.begin_round()  # it brought the third
    rounds = 1
    while batcher.has_postponed:
        batcher.begin_round()
        rounds += 1
    assert rounds == 1 + math.ceil((JOIN_ROUNDS_MAX - 1) / EMPTY_ROUND)


def test_an_answer_to_one_client_alone_postpones_nothing() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    propose(batcher, 1)
    commit(batcher, 1)
    batcher.add_append(request(2))
    assert not batcher.has_postponed
    assert is_due(batcher)


def test_an_entry_stays_below_its_bound_and_a_larger_request_stays_whole() -> None:
    batcher = batcher_of(batch_bytes_min=100)
    for number, size in enumerate([40, 40, 40, 400, 60, 40]):
        batcher.add_append(request(number, size))
    taken = [ids(batcher.take(EntryKind.RECORDS)) for _ in range(5)]
    assert taken == [[0, 1], [2], [3], [4, 5], []]


@pytest.mark.parametrize(("took_s", "bound"), [(0.0, 1000), (0.01, 1000), (0.02, 500), (0.05, 200), (1.0, 100)])
def test_an_entry_holds_what_the_group_commits_in_the_time_of_a_heartbeat(took_s: float, bound: int) -> None:
    batcher = batcher_of(batch_bytes_min=100, batch_bytes_max=1000, heartbeat_s=0.1)
    batcher.add_append(request(0, 100))
    propose(batcher, 1, now=1.0)
    commit(batcher, 1, now=1.0 + took_s)
    for number in range(1, 200):
        batcher.add_append(request(number))
    taken = batcher.take(EntryKind.RECORDS)
    assert sum(len(each.data) for each in taken) == pytest.approx(bound, abs=10)


def test_small_entries_show_no_pace_and_another_leader_begins_again() -> None:
    batcher = batcher_of(batch_bytes_min=100, batch_bytes_max=1000)

    def next_bytes() -> int:
        for number in range(120):
            batcher.add_append(request(number))
        taken = len(batcher.take(EntryKind.RECORDS))
        batcher.clear()
        return 10 * taken

    batcher.add_append(request(0, 49))
    propose(batcher, 1)
    commit(batcher, 1)
    assert next_bytes() == 100
    batcher.add_append(request(0, 50))
    propose(batcher, 2)
    commit(batcher, 2)
    assert next_bytes() == 1000
    batcher.forget_pace()
    assert next_bytes() == 100


@pytest.mark.parametrize("batch_bytes_min", [100, 20])
def test_bytes_that_wait_are_bounded_and_those_that_left_make_room(batch_bytes_min: int) -> None:
    batcher = batcher_of(batch_bytes_min=batch_bytes_min, pending_bytes_max=30)
    for turn in range(5):
        for number in range(3):
            assert not batcher.is_full, f"turn {turn}"
            batcher.add_append(request(number))
        assert batcher.is_full
        while batcher.take(EntryKind.RECORDS):
            pass


def test_clearing_returns_each_request_once_and_tells_apart_what_was_under_way() -> None:
    batcher = batcher_of()
    batcher.add_append(request(1))
    propose(batcher, 1)
    batcher.add_append(request(2))
    batcher.add_command(request(3))
    waiting, under_way = batcher.clear()
    assert (ids(waiting), ids(under_way)) == ([2, 3], [1])
    assert batcher.clear() == ([], [])
    assert not batcher.waiting


@pytest.mark.parametrize("size", [10, LARGE_BYTES])
def test_joined_data_is_that_of_all_requests_with_its_checksum(size: int) -> None:
    parts = [bytes([number]) * size for number in range(3)]
    requests = [
        Request(CALLER, number, 1, part, None if number else crc32c.crc32c(part)) for number, part in enumerate(parts)
    ]
    data, crc = join_data(requests)
    assert b"".join(buffers_of(data)) == b"".join(parts)
    assert crc == crc32c.crc32c(b"".join(parts))
    assert isinstance(data, Pieces) == (size >= LARGE_BYTES), "large data is not copied"
    assert join_data(requests[:1])[0] is parts[0]


def test_refusing_answers_every_request_with_the_error() -> None:
    error = RaftError()
    caller = Refused()
    refuse([Request(caller, number, 1, b"") for number in range(3)], error)
    assert caller.errors == dict.fromkeys(range(3), error)
