"""The final logs are read as they are, and a node that does not give its own is named."""

from pathlib import Path
from typing import Any

import pytest
import trio

from jepsen_like.checker.rows.final_logs import final_logs_of
from jepsen_like.history.files import DumpWriter, read_dump, read_kept
from jepsen_like.port.port import Access, NotServing
from jepsen_like.systems.raft import dump
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.workload.payload import encode_value
from raft import client_codec
from raft.errors import ProtocolError, RecordsTrimmed
from raft.record_batch import pack_batch
from raft.results import RecordBatch
from tests.jepsen_like.fake_node import Answer, fake_node, is_silent, leads


async def dump_node(answer: Answer, end: int, directory: Path) -> None:
    async with fake_node(answer) as node:
        with DumpWriter(directory) as writer:
            await dump.dump_logs(RaftClients({3: node.address}, Access("x")), dump.Dump(writer, end))


async def test_a_node_that_does_not_answer_is_named_with_where_it_stopped_and_how_long_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "READ_WITHIN_S", 0.05)
    said = pytest.RaisesExc(NotServing, match=r"^node 3 did not answer a read at 0 within 0\.05 s$")
    with trio.fail_after(10), pytest.RaisesGroup(said, flatten_subgroups=True):
        await dump_node(is_silent, 7, tmp_path)


async def test_a_node_that_shows_less_than_it_has_committed_is_named(tmp_path: Path) -> None:
    said = pytest.RaisesExc(ProtocolError, match="node 3 has committed 7 records and shows 0")
    with pytest.RaisesGroup(said, flatten_subgroups=True):
        await dump_node(leads, 7, tmp_path)


def trimmed_log(*starts: int) -> Answer:
    """A node with records 0 to 9, one an entry, whose log begins at each of `starts` in turn, a read apart."""
    coming = list(starts)

    def answer(message_type: int, fields: list[Any]) -> bytes:
        request_id, offset, _ = fields
        start = coming.pop(0) if len(coming) > 1 else coming[0]
        if offset < start:
            return client_codec.encode_error(request_id, RecordsTrimmed(start))
        batch = RecordBatch(offset, 1, 1, pack_batch([encode_value(offset + 1, 100)]))
        return client_codec.encode_records(request_id, 10, [batch])

    return answer


async def test_a_log_is_read_from_where_it_begins_though_that_moves_on_meanwhile(tmp_path: Path) -> None:
    await dump_node(trimmed_log(0, 0, 4, 4, 8), 10, tmp_path)
    kept = read_kept(tmp_path)
    assert kept is not None
    assert kept[0].starts == {3: 8}
    (log,) = final_logs_of(read_dump(tmp_path), kept)[0]
    assert (log.first, log.values.tolist()) == (8, [9, 10])


async def test_a_log_of_which_nothing_is_left_is_a_log(tmp_path: Path) -> None:
    await dump_node(trimmed_log(10), 10, tmp_path)
    (log,) = final_logs_of(read_dump(tmp_path), read_kept(tmp_path))[0]
    assert (log.first, log.end) == (10, 10)


@pytest.mark.parametrize("start", [0, 11])
async def test_a_log_that_begins_nowhere_is_nonsense(tmp_path: Path, start: int) -> None:
    def answer(message_type: int, fields: list[Any]) -> bytes:
        return client_codec.encode_error(fields[0], RecordsTrimmed(start))

    said = pytest.RaisesExc(ProtocolError, match="node 3 answers a read at 0: the records before offset")
    with trio.fail_after(10), pytest.RaisesGroup(said, flatten_subgroups=True):
        await dump_node(answer, 10, tmp_path)
