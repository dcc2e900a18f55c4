"""Workloads draw requests and interpret answers."""

import random
from collections import Counter

import msgpack
import pytest

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.raft.log_workload import LogWorkload
from jepsen_like.systems.raft.register_workload import RaftRegisterWorkload
from jepsen_like.workload.model import Nonsense, Request, Workload
from jepsen_like.workload.payload import DAMAGED, decode_value, encode_value
from raft.record_batch import pack_batch
from raft.results import Appended, Applied, RecordBatch, Records, Tail


@pytest.mark.parametrize("size", [8, 9, 100, 1000])
@pytest.mark.parametrize("value", [1, 255, 2**40 + 3, DAMAGED - 1])
def test_a_record_carries_its_value_and_nothing_else(size: int, value: int) -> None:
    record = encode_value(value, size)
    assert len(record) == size
    assert decode_value(record) == (value, True)


def test_a_record_with_any_changed_byte_is_damaged_and_no_client_s_value() -> None:
    record = encode_value(77, 40)
    for position in range(len(record)):
        changed = bytearray(record)
        changed[position] ^= 0x10
        value, is_whole = decode_value(bytes(changed))
        assert not is_whole
        assert value >= DAMAGED
    assert not decode_value(record[:5])[1]
    assert not decode_value(bytes(40))[1]


@pytest.mark.parametrize("size", [9, 24, 100, 1000])
@pytest.mark.parametrize("value", [1, 77, 10**9])
def test_a_part_of_a_record_is_no_client_s_value(size: int, value: int) -> None:
    record = encode_value(value, size)
    for length in range(size):
        assert decode_value(record[:length])[0] > 2**40, length
    assert not any(decode_value(record[:length])[1] for length in range(16, size))
    assert decode_value(record + record[-8:])[0] > 2**40


def draw_requests(workload: Workload, count: int) -> list[Request]:
    rng = random.Random(1)
    return [workload.request(rng) for _ in range(count)]


def test_the_log_mix_appends_reads_and_tails_with_values_used_once() -> None:
    requests = draw_requests(LogWorkload(), 3000)
    mix = Counter(request.f for request in requests)
    assert set(mix) == {Action.APPEND, Action.READ, Action.TAIL}
    assert mix[Action.APPEND] > mix[Action.READ] > mix[Action.TAIL] > 100
    values = [value for request in requests for value in request.values]
    assert len(values) == len(set(values))
    assert {len(request.values) for request in requests if request.f is Action.APPEND} == {1, 2, 3, 4}


def test_the_register_mix_reads_writes_and_swaps_what_was_seen() -> None:
    workload = RaftRegisterWorkload(keys=3)
    for key in (1, 2, 3):
        workload.interpret(read_of(workload, key), make_applied(100 + key))
    requests = draw_requests(workload, 3000)
    mix = Counter(request.f for request in requests)
    assert set(mix) == {Action.READ, Action.WRITE, Action.CAS}
    assert {request.a - request.object for request in requests if request.f is Action.CAS} == {100}
    new = [request.b if request.f is Action.CAS else request.a for request in requests if request.is_write]
    assert len(new) == len(set(new))


def read_of(workload: RaftRegisterWorkload, key: int) -> Request:
    return next(request for request in workload.final_reads() if request.object == key)


def make_applied(result: object) -> Applied:
    return Applied(1, msgpack.packb(result))


def entry(base_offset: int, values: list[int]) -> RecordBatch:
    batches = [pack_batch([encode_value(value, 24)]) for value in values]
    return RecordBatch(base_offset, 5, len(values), b"".join(batches))


def log_read(offset: int) -> Request:
    return Request(Action.READ, lambda connection: connection.read(offset), offset=offset)


def test_a_log_read_sees_the_records_from_its_offset_on() -> None:
    seen = LogWorkload().interpret(log_read(11), Records(20, (entry(10, [7, 8, 9]),)))
    assert (list(seen.values), seen.offset, seen.epoch, seen.is_whole) == ([8, 9], 11, 5, True)


def test_a_log_read_at_the_end_sees_nothing() -> None:
    seen = LogWorkload().interpret(log_read(11), Records(11, ()))
    assert (list(seen.values), seen.offset) == ([NONE], 11)


def test_an_answer_about_another_offset_is_nonsense() -> None:
    with pytest.raises(Nonsense, match="read at 9"):
        LogWorkload().interpret(log_read(9), Records(20, (entry(10, [7]),)))
    with pytest.raises(Nonsense, match="does not answer"):
        LogWorkload().interpret(log_read(9), Tail(20, 1))
    append = LogWorkload().write(random.Random(1))
    with pytest.raises(Nonsense, match="does not answer"):
        LogWorkload().interpret(append, Appended(1, 2, 1))


def test_records_have_left_only_where_they_may_and_only_those_below_the_start() -> None:
    LogWorkload(expires=True).on_trimmed(log_read(3), 7)
    for workload, request in (
        (LogWorkload(), log_read(3)),
        (LogWorkload(expires=True), log_read(7)),
        (LogWorkload(expires=True), LogWorkload().write(random.Random(1))),
    ):
        with pytest.raises(Nonsense, match="answered by a log that begins at 7"):
            workload.on_trimmed(request, 7)


def test_a_damaged_record_is_seen_as_damaged() -> None:
    batch = pack_batch([b"\0" * 24])
    seen = LogWorkload().interpret(log_read(10), Records(20, (RecordBatch(10, 5, 1, batch),)))
    assert not seen.is_whole
    assert seen.values[0] >= DAMAGED


def test_a_register_answer_says_what_the_register_held() -> None:
    workload = RaftRegisterWorkload(keys=1)
    read = read_of(workload, 1)
    assert workload.interpret(read, make_applied(None)).values == (NONE,)
    assert workload.interpret(read, make_applied(5)).values == (5,)
    assert workload.interpret(read, make_applied("text")).values[0] >= DAMAGED
    cas = next(request for request in draw_requests(workload, 100) if request.f is Action.CAS)
    assert workload.interpret(cas, make_applied([True, cas.a])).seen == cas.a
    assert workload.interpret(cas, make_applied([False, 9])).seen == 9
    with pytest.raises(Nonsense):
        workload.interpret(cas, make_applied(True))
