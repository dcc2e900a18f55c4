"""Unmodified clients in processes of their own, against librdkafka's mock cluster: what they report stands in the history."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import Action, ErrorCode, Op, Outcome
from jepsen_like.port.port import NotServing
from jepsen_like.systems.kafka.load import load_of
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.recorder import Recorder

pytestmark = [pytest.mark.cluster]
CONCURRENCY = 6


@contextlib.contextmanager
def mock_cluster() -> Iterator[str]:
    """The `bootstrap.servers` of three brokers within a client of this process."""
    keeper = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = keeper.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del keeper


async def run_load(directory: Path, servers: str, mode: KafkaMode, *, enough: int, rate: float = 0.0) -> list[Op]:
    """Runs a load until so many messages are acknowledged; returns its operations."""
    with HistoryWriter(directory) as history:
        recorder = Recorder(history)
        load = load_of(mode, "log", recorder, servers, "log", LoadPlan(concurrency=CONCURRENCY, rate=rate, seed=7))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                while recorder.counts.acked < enough:  # noqa: ASYNC110 - the load has no event
                    await trio.sleep(0.02)
                load.stop()
            assert await load.final_reads()
        ends = load.claimed_ends()
        assert not recorder.nonsense
    ops = list(HistoryReader.open(directory).ops())
    placed = [op for op in ops if op.f is Action.APPEND and op.type is Outcome.OK]
    assert ends == {partition: 1 + max(op.offset for op in placed if op.object == partition) for partition in range(3)}
    return ops


@pytest.mark.parametrize("acks", [pytest.param("1", marks=pytest.mark.campaign), "all"])
async def test_every_message_is_one_operation_with_its_offset(tmp_path: Path, acks: str) -> None:
    with mock_cluster() as servers:
        ops = await run_load(tmp_path, servers, KafkaMode.of([f"acks={acks}"]), enough=300)
    sent = [op for op in ops if op.f is Action.APPEND]
    assert len({op.a for op in sent}) == len(sent) > 300
    assert all(op.type is Outcome.OK and op.t_inv < op.t_ret and op.offset >= 0 for op in sent)
    for partition in range(3):
        offsets = sorted(op.offset for op in sent if op.object == partition)
        assert offsets == list(range(len(offsets))) != []
    under_way = max(sum(other.t_inv <= op.t_inv < other.t_ret for other in sent) for op in sent)
    assert under_way <= CONCURRENCY


async def test_reads_bring_the_values_that_were_sent(tmp_path: Path) -> None:
    with mock_cluster() as servers:
        ops = await run_load(tmp_path, servers, KafkaMode.of([]), enough=500, rate=300)
    placed = {(op.object, op.offset): op for op in ops if op.f is Action.APPEND and op.type is Outcome.OK}
    reads = [op for op in ops if op.f is Action.READ]
    assert len(reads) > 50
    for read in reads:
        sent = placed[read.object, read.offset]
        assert sent.a == read.a
        assert read.t_ret > sent.t_inv


@pytest.mark.campaign
async def test_a_group_is_recorded_as_a_queue_that_keeps_its_promises(tmp_path: Path) -> None:
    mode, system = KafkaMode.of([]), KafkaAdapter()
    (tmp_path / "test.json").write_text(json.dumps(system.describe(mode, "group")))
    with mock_cluster() as servers, HistoryWriter(tmp_path / "history.parquet") as history:
        recorder = system.recorder("group", history)
        load = load_of(mode, "group", recorder, servers, "log", LoadPlan(concurrency=CONCURRENCY, rate=200, seed=7))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                while recorder.counts.acked < 1500:  # noqa: ASYNC110 - the load has no event
                    await trio.sleep(0.02)
                load.stop()
            assert await load.final_reads()
        assert not recorder.nonsense
    ops = list(HistoryReader.open(tmp_path / "history.parquet").ops())
    acked = {op.a for op in ops if op.f is Action.SEND and op.type is Outcome.OK}
    finals = {op.process for op in ops if op.f is Action.TAIL}
    assert {op.a for op in ops if op.f is Action.POLL and op.process in finals} == acked
    assert {op.process for op in ops if op.f is Action.POLL} > finals
    assert {Action.ASSIGN, Action.REVOKE, Action.COMMIT, Action.COMMITTED} < {op.f for op in ops}
    verdict = check_run(tmp_path, Model.QUEUE, Engine.LOCAL)
    assert verdict.as_json()["valid"] is True


async def test_a_client_process_that_ends_ends_the_load(tmp_path: Path) -> None:
    with mock_cluster() as servers, HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        load = load_of(KafkaMode.of([]), "log", recorder, servers, "log", LoadPlan(concurrency=2, seed=1))

        async def kill_one() -> None:
            while recorder.counts.acked < 20:  # noqa: ASYNC110 - the load has no event
                await trio.sleep(0.02)
            load.workers[0].popen.kill()

        with trio.fail_after(60), pytest.RaisesGroup(pytest.RaisesGroup(NotServing)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                nursery.start_soon(kill_one)
        assert all(worker.popen.poll() is not None for worker in load.workers)


async def test_messages_to_brokers_that_are_gone_are_of_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jepsen_like.systems.kafka.mode.MESSAGE_WITHIN_MS", 500)
    monkeypatch.setattr("jepsen_like.systems.kafka.load.REQUEST_WITHIN_MS", 500)
    with HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        load = load_of(KafkaMode.of([]), "log", recorder, "127.0.0.1:1", "log", LoadPlan(concurrency=2, seed=1))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                while recorder.counts.info < 2:  # noqa: ASYNC110 - the load has no event
                    await trio.sleep(0.02)
                load.stop()
        load.kill()
    ops = list(HistoryReader.open(tmp_path).ops())
    assert {(op.type, op.err) for op in ops} == {(Outcome.INFO, ErrorCode.TIMEOUT)}


async def test_a_load_that_is_stopped_before_it_has_begun_ends(tmp_path: Path) -> None:
    with mock_cluster() as servers, HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        load = load_of(KafkaMode.of([]), "log", recorder, servers, "log", LoadPlan(concurrency=2, seed=1))
        load.stop()
        with trio.fail_after(30):
            await load.run()
            assert await load.final_reads()
        assert recorder.counts.acked == 3
