"""The history records of one attempt exactly what can be known of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.port.port import Access
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.log_workload import LogWorkload
from jepsen_like.workload import load as load_module
from jepsen_like.workload.load import Connections, LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder
from raft import client_codec, errors
from raft.net.framing import encode_frame
from tests.jepsen_like.fake_node import Answer, fake_node, hangs_up, is_silent, leads, refuses


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "OPERATION_WITHIN_S", 0.05)
    monkeypatch.setattr(load_module, "PROBE_WITHIN_S", 0.05)
    monkeypatch.setattr(load_module, "CONNECT_WITHIN_S", 0.2)


def damage_answer(message_type: int, fields: list[Any]) -> bytes:
    frame = bytearray(leads(message_type, fields))
    frame[-1] ^= 1
    return bytes(frame)


def answers_something_else(message_type: int, fields: list[Any]) -> bytes:
    return client_codec.encode_applied(fields[0], 1, b"")


def uses_an_unknown_type(message_type: int, fields: list[Any]) -> bytes:
    return encode_frame(99, b"\x91\x01")


OUTCOMES = [
    pytest.param(leads, Outcome.OK, ErrorCode.NONE, id="an answer is ok"),
    pytest.param(refuses(errors.NotLeader(2, "x:1")), Outcome.FAIL, ErrorCode.NOT_LEADER, id="not leader"),
    pytest.param(refuses(errors.Busy()), Outcome.FAIL, ErrorCode.BUSY, id="busy"),
    pytest.param(refuses(errors.StorageFull()), Outcome.FAIL, ErrorCode.STORAGE_FULL, id="storage full"),
    pytest.param(refuses(errors.InvalidRequest("no")), Outcome.FAIL, ErrorCode.INVALID_REQUEST, id="invalid"),
    pytest.param(refuses(errors.ShuttingDown()), Outcome.FAIL, ErrorCode.SHUTTING_DOWN, id="shutting down"),
    pytest.param(refuses(errors.OutcomeUnknown()), Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME, id="unknown"),
    pytest.param(is_silent, Outcome.INFO, ErrorCode.TIMEOUT, id="no answer in time"),
    pytest.param(hangs_up, Outcome.INFO, ErrorCode.CONNECTION_LOST, id="connection lost"),
    pytest.param(damage_answer, Outcome.INFO, ErrorCode.CONNECTION_LOST, id="an answer with a wrong CRC"),
    pytest.param(uses_an_unknown_type, Outcome.INFO, ErrorCode.CONNECTION_LOST, id="an unknown answer"),
    pytest.param(answers_something_else, Outcome.INFO, ErrorCode.CONNECTION_LOST, id="the wrong answer"),
]


async def attempt_append(answer: Answer, directory: Path) -> tuple[Sequence[Op], Recorder]:
    with HistoryWriter(directory) as history:
        recorder = Recorder(history)
        async with fake_node(answer) as node:
            workload = LogWorkload()
            load = RoutedLoad(workload, recorder, RaftClients({1: node.address}, Access("x")), LoadPlan(concurrency=1))
            client = Connections(RaftClients({1: node.address}, Access("x")))
            request = workload.write(load._rng)
            await load._attempt(client, 1, request, recorder.new_process())
            client.close()
    return list(HistoryReader.open(directory).ops()), recorder


@pytest.mark.parametrize(("answer", "outcome", "code"), OUTCOMES)
async def test_an_attempt_is_recorded_with_what_is_known(
    answer: Answer, outcome: Outcome, code: ErrorCode, tmp_path: Path
) -> None:
    (op,), recorder = await attempt_append(answer, tmp_path)
    assert (op.f, op.type, op.err, op.a) == (Action.APPEND, outcome, code, 1)
    assert (op.t_ret == NEVER) == (outcome is Outcome.INFO)
    counts = recorder.counts
    assert (counts.ok, counts.fail, counts.info) == tuple(int(outcome is each) for each in Outcome)
    assert counts.acked == int(outcome is Outcome.OK)


async def test_an_answer_says_where_the_record_landed(tmp_path: Path) -> None:
    (op,), _ = await attempt_append(leads, tmp_path)
    assert (op.offset, op.epoch, op.count, op.node) == (7, 3, 1, 1)


async def test_a_write_of_a_probe_that_is_cancelled_has_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "OPERATION_WITHIN_S", 60.0)
    has_arrived = trio.Event()

    def takes_a_write_and_says_nothing(message_type: int, fields: list[Any]) -> bytes:
        if message_type != client_codec.APPEND:
            return leads(message_type, fields)
        has_arrived.set()
        return is_silent(message_type, fields)

    with HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        async with fake_node(takes_a_write_and_says_nothing) as node, trio.open_nursery() as probes:
            load = RoutedLoad(
                LogWorkload(), recorder, RaftClients({1: node.address}, Access("x")), LoadPlan(concurrency=1)
            )
            probes.start_soon(load._probe, 1)
            with trio.fail_after(10):
                await has_arrived.wait()
            probes.cancel_scope.cancel()
    (append,) = (op for op in HistoryReader.open(tmp_path).ops() if op.f is Action.APPEND)
    assert (append.type, append.t_ret, append.a) == (Outcome.INFO, NEVER, 1)
    assert recorder.counts.info == 1


async def test_what_was_never_asked_is_not_recorded(tmp_path: Path) -> None:
    listener = trio.socket.socket()
    await listener.bind(("127.0.0.1", 0))
    address = listener.getsockname()[:2]
    with HistoryWriter(tmp_path) as history, listener:
        recorder = Recorder(history)
        workload = LogWorkload()
        load = RoutedLoad(workload, recorder, RaftClients({1: address}, Access("x")), LoadPlan(concurrency=1))
        outcome = await load._attempt(
            Connections(RaftClients({1: address}, Access("x"))), 1, workload.write(load._rng), 0
        )
    assert outcome is Outcome.FAIL
    assert list(HistoryReader.open(tmp_path).ops()) == []


async def run_load(answers: Sequence[Answer], directory: Path, *, concurrency: int, seconds: float) -> Recorder:
    with HistoryWriter(directory) as history:
        recorder = Recorder(history)
        async with fake_node(answers[0]) as first, fake_node(answers[1]) as second:
            addresses = {1: first.address, 2: second.address}
            load = RoutedLoad(
                LogWorkload(), recorder, RaftClients(addresses, Access("x")), LoadPlan(concurrency=concurrency)
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await trio.sleep(seconds)
                load.stop()
    return recorder


async def test_a_process_ends_with_an_unknown_outcome_and_values_are_never_sent_twice(tmp_path: Path) -> None:
    turns = iter(range(1_000_000))

    def sometimes_silent(message_type: int, fields: list[Any]) -> bytes:
        silent = message_type == client_codec.APPEND and next(turns) % 5 == 4
        return is_silent(message_type, fields) if silent else leads(message_type, fields)

    await run_load([sometimes_silent, refuses(errors.NotLeader(1))], tmp_path, concurrency=3, seconds=1.0)
    ops = sorted(HistoryReader.open(tmp_path).ops(), key=lambda op: op.t_inv)
    unknown = [op for op in ops if op.type is Outcome.INFO]
    assert len(unknown) >= 3
    for op in unknown:
        assert not any(later.process == op.process for later in ops if later.t_inv > op.t_inv)
    appended = [op.a for op in ops if op.f is Action.APPEND]
    assert len(appended) == len(set(appended))


async def test_an_outage_costs_about_one_unknown_operation_per_client(tmp_path: Path) -> None:
    recorder = await run_load([is_silent, refuses(errors.NotLeader(1))], tmp_path, concurrency=8, seconds=1.0)
    assert recorder.counts.ok == 0
    assert recorder.counts.info <= 8, "clients kept asking a node that does not answer"


async def test_an_open_loop_keeps_its_rate_and_ends_when_it_is_told(tmp_path: Path) -> None:
    began = trio.current_time()
    with HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        async with fake_node(leads) as node:
            load = RoutedLoad(
                LogWorkload(),
                recorder,
                RaftClients({1: node.address}, Access("x")),
                LoadPlan(concurrency=40, rate=20.0),
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await trio.sleep(0.5)
                load.stop()
    assert trio.current_time() - began < 1.9, "40 clients hold the turns of two seconds"
    assert 2 <= len(recorder.from_intended_s) <= 11


async def test_an_open_loop_counts_latency_from_when_an_operation_was_due(tmp_path: Path) -> None:
    asked = iter(range(1_000_000))

    def slow_to_lead(message_type: int, fields: list[Any]) -> bytes:
        refused = next(asked) < 10
        return refuses(errors.NotLeader())(message_type, fields) if refused else leads(message_type, fields)

    with HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        async with fake_node(slow_to_lead) as node:
            load = RoutedLoad(
                LogWorkload(),
                recorder,
                RaftClients({1: node.address}, Access("x")),
                LoadPlan(concurrency=4, rate=100.0),
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await trio.sleep(0.8)
                load.stop()
    ops = [op for op in HistoryReader.open(tmp_path).ops() if op.type is Outcome.OK]
    assert max(recorder.from_intended_s) > 0.2, "ten refusals, one every 30 ms, kept the first operation waiting"
    assert max(op.t_ret - op.t_inv for op in ops) / 1e9 < max(recorder.from_intended_s)


async def test_clients_do_not_wait_for_an_old_leader_once_there_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "OPERATION_WITHIN_S", 3.0)
    turns = iter(range(1_000_000))

    def leads_then_is_paused(message_type: int, fields: list[Any]) -> bytes:
        return leads(message_type, fields) if next(turns) < 50 else is_silent(message_type, fields)

    def follows_then_leads(message_type: int, fields: list[Any]) -> bytes:
        paused = next(turns) >= 50
        return leads(message_type, fields) if paused else refuses(errors.NotLeader(1))(message_type, fields)

    recorder = await run_load([leads_then_is_paused, follows_then_leads], tmp_path, concurrency=4, seconds=1.5)
    assert recorder.counts.ok > 60, "every client waits three seconds for the old leader"
    assert 1 <= recorder.counts.info <= 8


async def test_load_finds_the_leader_and_keeps_every_client_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "OPERATION_WITHIN_S", 30.0)
    recorder = await run_load([refuses(errors.NotLeader(2)), leads], tmp_path, concurrency=4, seconds=0.5)
    assert recorder.counts.ok > 20
    assert recorder.counts.info == 0
    assert recorder.new_process() == 4 + 2, "a process number was drawn without need"


async def final_reads(answer: Answer, directory: Path) -> tuple[bool, Sequence[Op]]:
    with HistoryWriter(directory) as history:
        async with fake_node(answer) as node:
            workload = LogWorkload(expires=True)
            load = RoutedLoad(
                workload, Recorder(history), RaftClients({1: node.address}, Access("x")), LoadPlan(concurrency=1)
            )
            has_answered = await load.final_reads()
    return has_answered, sorted(HistoryReader.open(directory).ops(), key=lambda op: op.t_inv)


async def test_the_final_reads_begin_with_a_write_and_the_questions_reach_as_far(tmp_path: Path) -> None:
    has_answered, ops = await final_reads(leads, tmp_path)
    assert has_answered
    write = next(number for number, op in enumerate(ops) if op.f is Action.APPEND)
    assert {op.f for op in ops[:write]} <= {Action.TAIL}
    assert (ops[write].type, ops[write].offset) == (Outcome.OK, 7)
    assert [op.offset for op in ops[write:] if op.f is Action.READ] == list(range(9))


@pytest.mark.parametrize(
    ("does", "outcome"), [(refuses(errors.StorageFull()), Outcome.FAIL), (is_silent, Outcome.INFO)]
)
async def test_without_a_last_write_a_cluster_that_answers_every_question_has_not_recovered(
    does: Answer, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "FINAL_READS_WITHIN_S", 0.5)

    def takes_no_write(message_type: int, fields: list[Any]) -> bytes:
        return (does if message_type == client_codec.APPEND else leads)(message_type, fields)

    has_answered, ops = await final_reads(takes_no_write, tmp_path)
    writes = [op for op in ops if op.f is Action.APPEND]
    assert not has_answered
    assert len(writes) > 1
    assert {op.type for op in writes[:-1]} == {outcome}
    assert len({op.a for op in writes}) == len(writes), "a write was sent twice"


def begins_at(start: int) -> Answer:
    """A node that leads, and whose log has let go all below `start`."""

    def answer(message_type: int, fields: list[Any]) -> bytes:
        if message_type == client_codec.READ and fields[1] < 7:
            return client_codec.encode_error(fields[0], errors.RecordsTrimmed(start))
        return leads(message_type, fields)

    return answer


async def test_final_reads_about_what_has_left_are_answered_and_recorded_as_such(tmp_path: Path) -> None:
    has_answered, ops = await final_reads(begins_at(7), tmp_path)
    assert has_answered
    left = [op for op in ops if op.err is ErrorCode.TRIMMED]
    assert left
    assert all((op.f, op.type, op.seen) == (Action.READ, Outcome.FAIL, 7) for op in left)
    assert all(op.offset < 7 for op in left)


async def test_a_log_that_begins_no_later_than_the_place_it_refused_is_nonsense(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        async with fake_node(begins_at(0)) as node:
            workload = LogWorkload(expires=True)
            load = RoutedLoad(
                workload,
                recorder := Recorder(history),
                RaftClients({1: node.address}, Access("x")),
                LoadPlan(concurrency=1),
            )
            await load.final_reads()
    assert recorder.nonsense[0] == "node 1: READ at 0 was answered by a log that begins at 0"


async def test_where_nothing_may_leave_a_log_no_read_is_refused(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        async with fake_node(begins_at(7)) as node:
            load = RoutedLoad(
                LogWorkload(),
                recorder := Recorder(history),
                RaftClients({1: node.address}, Access("x")),
                LoadPlan(concurrency=1),
            )
            await load.final_reads()
    assert recorder.nonsense[0] == "node 1: READ at 0 was answered by a log that begins at 7"
    assert any(op.err is ErrorCode.TRIMMED for op in HistoryReader.open(tmp_path).ops())


async def test_a_write_that_is_answered_by_what_has_left_has_an_unknown_outcome(tmp_path: Path) -> None:
    ops, recorder = await attempt_append(refuses(errors.RecordsTrimmed(7)), tmp_path)
    assert [(op.type, op.err, op.seen) for op in ops] == [(Outcome.INFO, ErrorCode.PROTOCOL, NONE)]
    assert recorder.nonsense == ["node 1: APPEND was answered by a log that begins at 7"]


@pytest.mark.parametrize("start", [2**62, 10**19 - 1])
async def test_a_log_that_begins_where_no_log_can_is_nonsense(start: int, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        async with fake_node(begins_at(start)) as node:
            workload = LogWorkload(expires=True)
            load = RoutedLoad(
                workload,
                recorder := Recorder(history),
                RaftClients({1: node.address}, Access("x")),
                LoadPlan(concurrency=1),
            )
            with trio.move_on_after(1):
                await load.final_reads()
    assert recorder.nonsense[0] == f"node 1: READ was answered by a log that begins at {start}"
