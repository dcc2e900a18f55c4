"""Unmodified clients in processes of their own, against librdkafka's mock cluster: what they report stands in the history."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import Action, Op, Outcome
from jepsen_like.systems.kafka.load import load_of
from jepsen_like.systems.kafka.mode import KafkaMode
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


async def loaded(directory: Path, servers: str, mode: KafkaMode, *, enough: int, rate: float = 0.0) -> list[Op]:
    """The operations of a load that ran until so many messages were acknowledged."""
    with HistoryWriter(directory) as history:
        recorder = Recorder(history)
        load = load_of(mode, "log", recorder, servers, "log", LoadPlan(concurrency=CONCURRENCY, rate=rate, seed=7))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                while recorder.counts.acked < enough:  # noqa: ASYNC110 - the load tells nobody
                    await trio.sleep(0.02)
                load.stop()
            assert await load.final_reads()
        ends = load.claimed_ends()
        assert not recorder.nonsense
    ops = list(HistoryReader.open(directory).ops())
    placed = [op for op in ops if op.f is Action.APPEND and op.type is Outcome.OK]
    assert ends == {partition: 1 + max(op.offset for op in placed if op.object == partition) for partition in range(3)}
    return ops


@pytest.mark.parametrize("acks", ["1", "all"])
async def test_every_message_is_one_operation_with_its_offset(tmp_path: Path, acks: str) -> None:
    with mock_cluster() as servers:
        ops = await loaded(tmp_path, servers, KafkaMode.of([f"acks={acks}"]), enough=300)
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
        ops = await loaded(tmp_path, servers, KafkaMode.of([]), enough=500, rate=300)
    placed = {(op.object, op.offset): op for op in ops if op.f is Action.APPEND and op.type is Outcome.OK}
    reads = [op for op in ops if op.f is Action.READ]
    assert len(reads) > 50
    for read in reads:
        sent = placed[read.object, read.offset]
        assert sent.a == read.a
        assert read.t_ret > sent.t_inv
