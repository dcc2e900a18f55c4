"""The final logs are read as they are, and a node that does not give its own is named."""

from pathlib import Path

import pytest
import trio

from jepsen_like.cluster.cluster import NotServing
from jepsen_like.history import DumpWriter
from jepsen_like.workload import dump
from raft.errors import ProtocolError
from tests.jepsen_like.fake_node import Answer, fake_node, is_silent, leads


async def dumped(answer: Answer, end: int, directory: Path) -> None:
    async with fake_node(answer) as node:
        with DumpWriter(directory) as writer:
            await dump.dump_logs({3: node.address}, "x", end, writer)


async def test_a_node_that_does_not_answer_is_named_with_where_it_stopped_and_how_long_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "READ_WITHIN_S", 0.05)
    said = pytest.RaisesExc(NotServing, match=r"^node 3 did not answer a read at 0 within 0\.05 s$")
    with trio.fail_after(10), pytest.RaisesGroup(said, flatten_subgroups=True):
        await dumped(is_silent, 7, tmp_path)


async def test_a_node_that_shows_less_than_it_has_committed_is_named(tmp_path: Path) -> None:
    said = pytest.RaisesExc(ProtocolError, match="node 3 has committed 7 records and shows 0")
    with pytest.RaisesGroup(said, flatten_subgroups=True):
        await dumped(leads, 7, tmp_path)
