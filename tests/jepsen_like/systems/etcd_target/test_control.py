"""A run finds the members, touches its own keys alone, and tells which member takes part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.port.port import Access, NotServing, RunningCluster
from jepsen_like.systems.etcd.processes import STATUS
from jepsen_like.systems.etcd.register_workload import encode
from jepsen_like.systems.etcd_target import control as module
from jepsen_like.systems.etcd_target.access import AUTHENTICATE
from jepsen_like.systems.etcd_target.control import DELETE, MEMBERS, RANGE, EtcdTargetControl, addresses_of, natural
from jepsen_like.systems.etcd_target.system import EtcdTarget
from tests.jepsen_like.systems.etcd_target.gateway import Answer, Gateway, gateway

PREFIX = "quorumlog-run-1/"
LEADER = {"header": {"member_id": "7"}, "leader": "7", "raftTerm": "2", "raftIndex": "9", "raftAppliedIndex": "9"}
MODE = EtcdTarget.configure(())


def answers(**others: Answer) -> dict[str, Answer]:
    return {STATUS: (200, LEADER), RANGE: (200, {}), DELETE: (200, {}), **others}


def control_of(given: Gateway, properties: Path | None = None) -> EtcdTargetControl:
    target = RunningCluster(servers=(given.address,), properties=properties)
    return EtcdTargetControl(Access("run-1", target=target), {1: given.address})


def member(number: int, name: str, *urls: str) -> Mapping[str, Any]:
    return {"ID": str(number), "name": name, "clientURLs": urls}


async def test_members_are_numbered_by_their_names_and_asked_where_they_were_given() -> None:
    listed = [member(7, "etcd-10"), member(8, "etcd-9", "https://h9:2379"), member(9, "etcd-1", "http://[::1]:1")]
    async with gateway({MEMBERS: (200, {"header": {"member_id": "7"}, "members": listed})}) as given:
        found = await addresses_of(RunningCluster(servers=(given.address,)))
        assert found == {1: ("::1", 1), 2: ("h9", 2379), 3: given.address}


def test_numbers_in_names_count_by_their_value() -> None:
    assert sorted(["m10", "m9", "a", "m", "2b"], key=natural) == ["2b", "a", "m", "m9", "m10"]


async def test_a_member_that_has_never_started_is_told() -> None:
    listed = [member(7, "m1", "http://h:1"), {"ID": "8", "peerURLs": ["http://h:2"]}]
    async with gateway({MEMBERS: (200, {"header": {"member_id": "7"}, "members": listed})}) as given:
        with pytest.raises(NotServing, match="member 8 has not started"):
            await addresses_of(RunningCluster(servers=(given.address,)))


async def test_a_refusal_is_told_with_the_address() -> None:
    async with gateway({MEMBERS: (400, {"message": "etcdserver: user name is empty"})}) as given:
        with pytest.raises(
            NotServing, match=rf"bootstrap-servers.*:{given.address[1]}: etcdserver: user name is empty"
        ):
            await addresses_of(RunningCluster(servers=(given.address,)))


async def test_keys_are_removed_only_by_the_run_that_made_them() -> None:
    async with gateway(answers()) as given:
        control = control_of(given)
        await control.clear()
        assert given.asked == []
        await control.prepare(MODE, "register", within_s=1)
        await control.clear()
        ours = {"key": encode(PREFIX), "range_end": encode("quorumlog-run-10")}
        assert [(path, body) for path, body, _ in given.asked] == [
            (RANGE, {**ours, "count_only": True}),
            (DELETE, ours),
        ]


async def test_keys_that_are_there_already_stay() -> None:
    async with gateway(answers(**{RANGE: (200, {"count": "1"})})) as given:
        control = control_of(given)
        with pytest.raises(NotServing, match=f"begin with {PREFIX}"):
            await control.prepare(MODE, "register", within_s=1)
        await control.clear()
        assert [path for path, _, _ in given.asked] == [RANGE]


async def test_keys_that_stay_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLEAR_WITHIN_S", 0.05)
    async with gateway(answers(**{DELETE: (503, {"message": "etcdserver: no leader"})})) as given:
        control = control_of(given)
        control.is_ours = True
        with pytest.raises(NotServing, match=r"could not be deleted.*no leader"):
            await control.clear()


async def test_a_member_takes_no_part_that_is_silent_or_knows_no_leader() -> None:
    async with gateway(answers()) as given:
        control = control_of(given)
        assert await control.absence(1) is None
        given.answers[STATUS] = (400, {"message": "etcdserver: user name is empty"})
        assert await control.absence(1) is None
        given.answers[STATUS] = (200, {**LEADER, "leader": "0"})
        assert "knows no leader" in (await control.absence(1) or "")
    with ReservedPorts(1) as reserved:
        silent = ("127.0.0.1", reserved.ports[0])
        control = EtcdTargetControl(Access("run-1", target=RunningCluster(servers=(silent,))), {1: silent})
        assert (await control.absence(1) or "").startswith("silent at 127.0.0.1:")


async def test_one_token_is_shown_until_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("user=me:mine\n")
    async with gateway(answers(**{AUTHENTICATE: (200, {"token": "a"})})) as given:
        control = control_of(given, tmp_path / "client")
        assert await control.status(1) is not None
        assert await control.status(1) is not None
        given.answers[AUTHENTICATE], given.refused_tokens = (200, {"token": "b"}), frozenset({"a"})
        assert await control.status(1) is not None
        assert [token for path, _, token in given.asked if path == STATUS] == ["a", "a", "a", "b"]
        assert given.asked[0] == (AUTHENTICATE, {"name": "me", "password": "mine"}, "")


async def test_members_agree_once_all_have_the_same_of_the_run() -> None:
    async with gateway(answers()) as one, gateway(answers()) as other:
        target = RunningCluster(servers=(one.address, other.address))
        control = EtcdTargetControl(Access("run-1", target=target), {1: one.address, 2: other.address})
        assert await control.settle(within_s=1) == {}
        other.answers[RANGE] = (200, {"kvs": [{"key": encode(f"{PREFIX}r1"), "value": encode("5")}]})
        with pytest.raises(NotServing, match="do not hold the same"):
            await control.settle(within_s=0.1)
        other.answers |= {RANGE: (200, {}), STATUS: (200, {**LEADER, "raftAppliedIndex": "8"})}
        with pytest.raises(NotServing, match="n2 lags"):
            await control.settle(within_s=1.5)
