"""A run counts from where its part of a log begins, and tells records of others from its own."""

import random
from pathlib import Path

import pytest

from jepsen_like.checker.rows.final_logs import final_logs_of
from jepsen_like.history.files import DumpWriter, read_dump, read_kept
from jepsen_like.history.ops import Action
from jepsen_like.port.port import Access, WrongMode
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.dump import Dump, dump_logs
from jepsen_like.systems.raft.log_workload import LogWorkload
from jepsen_like.systems.raft.records import RecordCodec, is_of_others
from jepsen_like.systems.raft_target.control import codec_of
from jepsen_like.systems.raft_target.mode import mode_of
from jepsen_like.workload.model import Nonsense, Request
from raft import client_codec
from raft.record_batch import pack_batch
from raft.results import Appended, RecordBatch, Records, Tail
from tests.jepsen_like.fake_node import fake_node

OURS = codec_of("run-5")
BEGIN = 40


def workload() -> LogWorkload:
    return LogWorkload(begin=BEGIN, codec=OURS)


def draw(made: LogWorkload, f: Action) -> Request:
    rng = random.Random(1)
    return next(request for _ in range(200) if (request := made.request(rng)).f is f)


def test_a_record_of_the_run_is_known_by_its_beginning() -> None:
    record = OURS.encode(7, 100)
    assert record.startswith(b"quorumlog-run-5 ")
    assert OURS.decode(record, 3) == (7, True)
    for other in (b"order 7", codec_of("run-6").encode(7, 100), RecordCodec().encode(7, 100)):
        value, is_whole = OURS.decode(other, 3)
        assert is_whole
        assert is_of_others(value)
        assert OURS.decode(other, 4) != (value, True)


def test_a_damaged_record_of_the_run_is_no_record_of_others() -> None:
    value, is_whole = OURS.decode(OURS.encode(7, 100)[:-1], 3)
    assert not is_whole
    assert not is_of_others(value)


def test_offsets_of_the_history_count_from_the_begin() -> None:
    made = workload()
    append, read = draw(made, Action.APPEND), made._read(0, anywhere=False)
    assert made.interpret(append, Appended(BEGIN + 2, len(append.values), 1)).offset == 2
    entry = RecordBatch(BEGIN, 3, 2, pack_batch([b"order 7", OURS.encode(9, 100)]))
    seen = made.interpret(read, Records(BEGIN + 2, (entry,)))
    assert seen.offset == 0
    assert [is_of_others(value) for value in seen.values] == [True, False]
    assert made.interpret(draw(made, Action.TAIL), Tail(BEGIN + 9, 3)).offset == 9


def test_a_log_that_was_cut_behind_the_begin_is_seen() -> None:
    made = workload()
    assert made.interpret(draw(made, Action.TAIL), Tail(BEGIN - 3, 1)).offset == 0
    append = draw(made, Action.APPEND)
    with pytest.raises(Nonsense, match="landed at 3 of a log that had reached 40"):
        made.interpret(append, Appended(3, len(append.values), 1))


@pytest.mark.parametrize("span", [1, 2])
async def test_final_logs_hold_the_part_of_the_run_though_it_begins_within_an_entry(tmp_path: Path, span: int) -> None:
    def answer(message_type: int, fields: list[object]) -> bytes:
        request_id, offset, _ = fields
        assert isinstance(request_id, int)
        assert isinstance(offset, int)
        assert BEGIN <= offset < BEGIN + 3
        first = RecordBatch(BEGIN + 1 - span, 1, span, pack_batch([OURS.encode(9, 100), OURS.encode(1, 100)][-span:]))
        others = [
            RecordBatch(at, 1, 1, pack_batch([OURS.encode(at - BEGIN + 1, 100)])) for at in range(BEGIN + 1, BEGIN + 5)
        ]
        entries = [first, *others]
        return client_codec.encode_records(request_id, BEGIN + 5, entries)

    async with fake_node(answer) as node:
        with DumpWriter(tmp_path) as writer:
            await dump_logs(RaftClients({3: node.address}, Access("x")), Dump(writer, BEGIN + 3, BEGIN, OURS))
    (log,) = final_logs_of(read_dump(tmp_path), read_kept(tmp_path))[0]
    assert (log.first, log.end, log.values.tolist()) == (0, 3, [1, 2, 3])


def test_only_facts_that_promises_are_made_of_can_be_given() -> None:
    assert not mode_of(["flush=none"]).acks_are_durable
    with pytest.raises(WrongMode, match="not the run's to set"):
        mode_of(["retention_bytes=1000"])
