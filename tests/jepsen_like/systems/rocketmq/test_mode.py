"""Properties become what brokers are told, and what a run is held to."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.port.observations import Observation, OwnEnd, Ready, RoleReported
from jepsen_like.port.port import Member, ProcessPlan, WrongMode
from jepsen_like.systems.rocketmq.division import Division
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq.processes import members_of, observe
from jepsen_like.systems.rocketmq.system import RocketMqSystem

SYSTEM = RocketMqSystem()
PEERS = {node: ("127.0.0.1", 2000 + node) for node in (1, 2, 3, 4)}
ADVERTISED = {node: ("127.0.0.1", 3000 + node) for node in (1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["flushDiskTyp=SYNC_FLUSH"], "Did you mean flushDiskType"),
        (["flushDiskType=NEVER"], "flushDiskType=NEVER"),
        (["brokerRole=SLAVE"], "brokerRole follows from --replication"),
        (["queues=0"], "queues takes a number from 1 to 64"),
        (["queues=many"], "queues takes a number from 1 to 64"),
        (["pairs=0"], "pairs takes a number from 1 to 15"),
        (["sendMsgTimeout=5"], "is a property of producers and consumers"),
    ],
)
def test_a_property_that_makes_no_sense_is_refused_with_what_to_give(words: list[str], said: str) -> None:
    with pytest.raises(WrongMode) as refused:
        SYSTEM.configure(words, "async-slave")
    assert said in str(refused.value)


def test_a_mode_comes_back_from_its_test_json() -> None:
    mode = RocketMode.of(["flushDiskType=SYNC_FLUSH", "queues=3", "pairs=2"], "sync-slave").on(4)
    test = json.loads(json.dumps({"settings": mode.settings, "replication": mode.replication, "nodes": 4}))
    again = SYSTEM.mode_of(test)
    assert isinstance(again, RocketMode)
    assert (again.queues, again.acks_are_durable, again.rule) == (3, True, mode.rule)
    assert again.groups(range(1, 5)) == ((1, 2), (3, 4))
    with pytest.raises(KeyError):
        SYSTEM.mode_of({"settings": {}, "replication": "raft"})


@pytest.mark.parametrize(
    ("replication", "words", "durable"),
    [
        ("async-slave", [], False),
        ("async-slave", ["flushDiskType=SYNC_FLUSH"], True),
        ("async-slave", ["ack=durable"], False),
        ("raft", [], True),
        ("raft", ["ack=page-cache"], False),
        ("raft", ["ack=page-cache", "flushDiskType=SYNC_FLUSH"], False),
    ],
)
def test_what_makes_an_acknowledgement_durable(replication: str, words: list[str], durable: bool) -> None:
    assert RocketMode.of(words, replication).acks_are_durable is durable


def test_a_name_server_is_a_member_without_data() -> None:
    members = members_of(3)
    assert [(each.id, each.role, each.holds_data) for each in members] == [
        (4, "nameserver", False),
        (1, "broker", True),
        (2, "broker", True),
        (3, "broker", True),
    ]
    assert SYSTEM.address_line({4: ADVERTISED[4]}) == "namesrvAddr=127.0.0.1:3004"


def test_brokers_that_cannot_be_divided_evenly_are_refused() -> None:
    with pytest.raises(WrongMode, match="5 brokers cannot be divided evenly among 2 groups"):
        RocketMode.of(["pairs=2"], "async-slave").on(5)


def settings_of(
    node: int, role: str, replication: str, promoted: Sequence[int] = (), pairs: int = 1
) -> tuple[list[str], dict[str, str]]:
    plan = ProcessPlan(
        member=Member(node, role),
        cluster_id="c",
        listen=("127.0.0.1", 1000 + node),
        data=Path("data"),
        peers={each: address for each, address in PEERS.items() if each != node},
        advertised=ADVERTISED,
        mode=RocketMode.of(["haDivergence=rocketmq", f"pairs={pairs}"], replication).on(len(PEERS) - 1),
        promoted=promoted,
    )
    command = SYSTEM.command(plan)
    words = [word for option, word in itertools.pairwise(command) if option == "--set"]
    return command, dict(word.split("=", 1) for word in words)


def test_brokers_dial_each_other_and_the_name_server_through_the_fault_network() -> None:
    command, master = settings_of(1, "broker", "sync-slave")
    assert command[command.index("--listen") + 1] == "127.0.0.1:1001"
    assert command[command.index("--advertise") + 1] == "127.0.0.1:3001"
    assert command[command.index("--ha-listen") + 1] == "127.0.0.1:0", "there are several masters on one machine"
    assert (master["brokerRole"], master["brokerId"], master["namesrvAddr"]) == ("SYNC_MASTER", "0", "127.0.0.1:2004")
    assert master["haDivergence"] == "rocketmq"
    _, slave = settings_of(3, "broker", "async-slave")
    assert (slave["brokerRole"], slave["brokerId"], slave["haMasterAddress"]) == ("SLAVE", "3", "127.0.0.1:2001")
    _, promoted = settings_of(2, "broker", "sync-slave", [2])
    assert (promoted["brokerRole"], promoted["brokerId"]) == ("SYNC_MASTER", "0")
    _, former = settings_of(1, "broker", "sync-slave", [2])
    assert (former["brokerRole"], former["brokerId"], former["haMasterAddress"]) == ("SLAVE", "1", "127.0.0.1:2002")
    _, member = settings_of(2, "broker", "raft")
    assert member["dLegerPeers"] == "n1-127.0.0.1:2001;n2-127.0.0.1:1002;n3-127.0.0.1:2003"
    assert (member["dLegerSelfId"], "brokerRole" in member) == ("n2", False)


def test_every_group_has_a_master_and_peers_of_its_own() -> None:
    groups = Division(pairs=2, nodes=6)
    assert (groups.scopes, groups.all()) == (("broker-a", "broker-b"), ((1, 2, 3), (4, 5, 6)))
    assert [groups.master(number, [2, 6, 5]) for number in (0, 1)] == [2, 5]
    assert (groups.members_named("broker-b"), groups.objects(1, 4)) == ((4, 5, 6), range(4, 8))
    mode = RocketMode.of(["pairs=3"], "sync-slave").on(3)
    assert [settings_of(node, "broker", "sync-slave", pairs=3)[1]["brokerName"] for node in (1, 2, 3)] == list(
        mode.division.scopes
    )
    _, master = settings_of(3, "broker", "sync-slave", [1], pairs=3)
    assert (master["brokerRole"], master["brokerId"]) == ("SYNC_MASTER", "0"), (
        "another group's promotion changes nothing"
    )
    _, alone = settings_of(2, "broker", "raft", pairs=3)
    assert alone["dLegerPeers"] == "n2-127.0.0.1:1002"


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        ({"event": "listening", "address": "127.0.0.1:1"}, Ready()),
        ({"event": "role", "role": "master", "epoch": 3, "broker": "a"}, RoleReported("leader", 3, "a")),
        ({"event": "role", "role": "slave", "epoch": 3, "broker": "b"}, RoleReported("follower", 3, "b")),
        ({"event": "failed", "status": 4, "reason": "no disk"}, OwnEnd(4, "no disk")),
        ({"event": "of another day"}, None),
    ],
)
def test_a_line_of_a_process_is_understood(event: dict[str, Any], seen: Observation | None) -> None:
    assert observe(event) == seen


def test_copies_are_compared_unless_rocketmq_itself_would_not() -> None:
    assert RocketMode.of([], "sync-slave").copies_agree
    mode = RocketMode.of(["haDivergence=rocketmq"], "sync-slave")
    assert not mode.copies_agree
    assert SYSTEM.describe(mode, "log")["final_logs"] == 1
    pairs = RocketMode.of(["haDivergence=rocketmq", "pairs=2"], "sync-slave").on(4)
    scopes = {"broker-a": [0, 1], "broker-b": [2, 3]}
    described = SYSTEM.describe(pairs, "log")
    assert (described["final_logs"], described["scopes"]) == (2, scopes)
    assert RocketMode.of(["haDivergence=rocketmq"], "raft").copies_agree


def test_an_operator_promotes_no_member_of_a_raft_group() -> None:
    for kind in ("promote-by-hand", "wipe-master"):
        assert "use kill" in str(RocketMode.of([], "raft").refusal(Model.LOG, [kind]))
        assert RocketMode.of([], "sync-slave").refusal(Model.LOG, [kind]) is None
    assert "what consumers see" in str(RocketMode.of([], "sync-slave").refusal(Model.QUEUE, ["wipe-master"]))
