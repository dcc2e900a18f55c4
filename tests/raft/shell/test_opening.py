"""The arguments of `open` are checked before anything is touched, and named in the error."""

import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from log.policy import FlushPolicy
from raft.addresses import address_of
from raft.client import Client
from raft.config import RaftConfig
from raft.group import RaftGroup
from raft.register import RegisterMachine
from raft.settings import NodeSettings
from tests.ports import free_ports
from tests.raft.shell.nodes import until


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush", "none"),
        ("flush", "nonsense"),
        ("flush", None),
        ("raft", {}),
        ("segment_bytes_max", 1e9),
        ("segment_bytes_max", "65536"),
        ("retention_bytes", True),
        ("flush_stall_s", math.inf),
        ("flush_stall_s", math.nan),
        ("flush_stall_s", "5"),
    ],
)
def test_a_setting_of_another_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name} is of type .*not {value!r}"):
        NodeSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"), [("heartbeat_s", "0.1"), ("heartbeat_s", math.nan), ("cache_bytes_max", 1.5)]
)
def test_a_setting_of_the_core_of_another_type_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} is of type"):
        RaftConfig(**{name: value})
    with pytest.raises(TypeError, match=f"{name} is of type"):
        attrs.evolve(RaftConfig(), **{name: value})


def test_a_flush_policy_that_is_none_is_told_which_there_are() -> None:
    with pytest.raises(TypeError, match=r"one of FlushPolicy\.BEFORE_ACK, .*; not 'none'"):
        NodeSettings(flush="none")  # type: ignore[arg-type]


def test_seconds_may_be_whole() -> None:
    assert NodeSettings(retention_s=3600, flush=FlushPolicy.NONE).retention.age_ms_max == 3_600_000


class Half:
    """A state machine that cannot answer."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        pass

    def apply(self, index: int, command: bytes) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        pytest.param({"state_machine": object()}, TypeError, "a state machine has `check`", id="no machine"),
        pytest.param({"state_machine": Half()}, TypeError, "a state machine has `check`", id="half a machine"),
        pytest.param({"state_machine": RegisterMachine}, TypeError, "RegisterMachine'> is none", id="a class"),
        pytest.param({"state_machine": 0}, TypeError, "0 is none", id="a machine that is false"),
        pytest.param({"settings": {"flush": "none"}}, TypeError, "settings are NodeSettings", id="no settings"),
        pytest.param({"settings": {}}, TypeError, "settings are NodeSettings", id="empty settings"),
        pytest.param({"members": {1: "127.0.0.1"}}, ValueError, "not an address: '127.0.0.1'", id="no port"),
        pytest.param({"members": {1: ("127.0.0.1", "1")}}, ValueError, "not an address", id="a port in words"),
        pytest.param({"members": {1: "h:1", 2: 4011}}, ValueError, "not an address: 4011", id="a port alone"),
        pytest.param({"listen": "127.0.0.1"}, ValueError, "not an address: '127.0.0.1'", id="no port to listen at"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_touched(
    tmp_path: Path, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"members": {1: ("127.0.0.1", free_ports(1)[0])}, **given}
    with pytest.raises(error, match=text):
        async with RaftGroup.open(node_id=1, directory=str(tmp_path / "1"), **arguments):
            pass
    assert not (tmp_path / "1").exists()


async def test_members_may_be_given_as_clients_take_them(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    members = {1: f"127.0.0.1:{port}"}
    async with RaftGroup.open(node_id=1, members=members, directory=str(tmp_path)) as group:
        await until(lambda: group.status()["role"] == "leader")
        async with Client(list(members.values()), "quorumlog") as client:
            assert (await client.append([b"x"])).base_offset == 0
        assert group.address == ("127.0.0.1", port)
    async with RaftGroup.open(node_id=1, members=members, directory=str(tmp_path), listen=members[1]) as group:
        assert group.address == ("127.0.0.1", port)


@pytest.mark.parametrize(
    ("given", "meant"), [("h:1", ("h", 1)), (("h", 1), ("h", 1)), (["h", 0], ("h", 0)), ("[::1]:65535", ("::1", 65535))]
)
def test_an_address_is_a_pair_or_a_text(given: object, meant: tuple[str, int]) -> None:
    assert address_of(given) == meant


@pytest.mark.parametrize(
    "given", ["h", "h:", ":1", "h:0", "h:65536", "h:-1", ("h", 65536), ("", 1), ("h",), None, 4011]
)
def test_anything_else_is_no_address(given: object) -> None:
    with pytest.raises(ValueError, match="not an address"):
        address_of(given)


TAKEN = ("127.0.0.1", 4001)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"members": {1: TAKEN, 2: "127.0.0.1:4001"}}, "nodes 1 and 2 at one address, 127.0.0.1:4001"),
        ({"members": {1: TAKEN, 2: ("127.0.0.1", 4002)}, "listen": "127.0.0.1:4002"}, "is to listen where node 2 is"),
        (
            {"members": {1: TAKEN, 2: ("127.0.0.1", 4002)}, "advertised": {1: "a:1", 2: "a:1"}},
            "advertised has nodes 1 and 2 at one address, a:1",
        ),
        ({"members": {1: TAKEN}, "advertised": {2: "a:1"}}, "node 2 is advertised, and not among the members"),
    ],
)
async def test_nodes_that_would_be_taken_for_each_other_are_refused(
    tmp_path: Path, given: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        async with RaftGroup.open(node_id=1, directory=str(tmp_path / "1"), **given):
            pass
    assert not (tmp_path / "1").exists(), "nothing was touched"


def test_a_leader_that_would_step_down_at_every_flush_is_refused() -> None:
    with pytest.raises(ValueError, match="flush_stall_s >= heartbeat_s"):
        NodeSettings(flush_stall_s=0.01)
