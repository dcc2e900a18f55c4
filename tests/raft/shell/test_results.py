"""Results of a state machine are checked at the node: one caller gets a typed error, everything else goes on."""

from pathlib import Path

import pytest
import trio

from raft.client import Client
from raft.errors import InvalidResult, NotLeader
from raft.group import RaftGroup
from raft.settings import NodeSettings
from tests.ports import free_ports
from tests.raft.shell.nodes import CLUSTER_ID, FAST

HUGE = bytes(20 << 20)
RETURNED: dict[bytes, object] = {
    b"none": None,
    b"text": "text",
    b"number": 7,
    b"huge": HUGE,
    b"array": bytearray(b"ab"),
}


class Careless:
    """Returns whatever the command names."""

    def __init__(self) -> None:
        self.applied = 0

    def check(self, command: bytes, *, read_only: bool) -> None:
        pass

    def apply(self, index: int, command: bytes) -> bytes:
        self.applied += 1
        return RETURNED.get(command, b"%d" % self.applied)  # type: ignore[return-value]

    def query(self, command: bytes) -> bytes:
        return RETURNED.get(command, b"%d" % self.applied)  # type: ignore[return-value]


async def test_a_result_that_is_none_reaches_its_caller_as_an_error_and_the_connection_goes_on(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with RaftGroup.open(
        node_id=1,
        members={1: ("127.0.0.1", port)},
        directory=str(tmp_path),
        cluster_id=CLUSTER_ID,
        state_machine=Careless(),
        settings=NodeSettings(raft=FAST),
    ) as group:
        with trio.fail_after(30):
            assert await group.wait_for_leader() == 1
            async with Client([f"127.0.0.1:{port}"], CLUSTER_ID) as client:
                for place in (group, client):
                    for command in (b"none", b"text", b"number", b"huge"):
                        with pytest.raises(
                            InvalidResult, match="the command is committed and applied at index"
                        ) as caught:
                            await place.apply(command)
                        assert not caught.value.definite
                        with pytest.raises(InvalidResult, match="the query had no effect"):
                            await place.query(command)
                    assert (await place.apply(b"array")).result == b"ab"
                assert (await client.query(b"how many")).result == b"10", "each was applied once"


async def test_waiting_for_a_leader_ends_when_there_is_none(tmp_path: Path) -> None:
    members = {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(2), 1)}
    async with RaftGroup.open(node_id=1, members=members, directory=str(tmp_path)) as group:
        with pytest.raises(NotLeader):
            await group.wait_for_leader(timeout_s=0.05)
