"""The settings of a run reach the brokers, and all that they send each other leads over the faults."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.port.port import FurtherPort, Member, NotServing, ProcessPlan
from jepsen_like.systems.apache_rocketmq import processes
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.processes import (
    HA,
    LEDGER,
    broker_settings,
    command_of,
    controller_settings,
    nameserver_settings,
)
from jepsen_like.systems.apache_rocketmq.promises import ApacheReplication
from jepsen_like.systems.archives.jars import JarSet
from jepsen_like.systems.rocketmq.cpp_client_load import DRAINED_WITHIN_S
from rocketmq_compat.remoting.frame import Command

NODES = (1, 2, 3)
NAMES = 4
BROKERS_LOOK_EVERY_S = 10.0
"""A broker looks for members that are silent this often, whatever its settings."""


def plan_of(node: int, replication: str, *words: str) -> ProcessPlan:
    others = [other for other in (*NODES, NAMES) if other != node]
    return ProcessPlan(
        member=Member(node, "broker" if node != NAMES else "nameserver"),
        cluster_id="run-1",
        listen=("127.0.0.1", 100 + node),
        data=Path("/data"),
        peers={other: (f"10.0.0.{other}", 100 + other) for other in others},
        advertised={other: (f"10.0.0.{other}", 900 + other) for other in (*NODES, NAMES)},
        mode=ApacheRocketMode.of(words, replication).on(len(NODES)),
        further={
            name: FurtherPort(
                listen=("127.0.0.1", port + node), peers={other: (f"10.0.0.{other}", port + other) for other in others}
            )
            for name, port in ((HA, 200), (LEDGER, 300))
        },
    )


def settings_of(node: int, replication: str, *words: str) -> dict[str, str]:
    plan = plan_of(node, replication, *words)
    assert isinstance(plan.mode, ApacheRocketMode)
    return broker_settings(plan, plan.mode)


def test_a_broker_tells_the_address_at_which_all_others_reach_it() -> None:
    settings = settings_of(1, "dledger")
    assert (settings["brokerIP1"], settings["brokerIP2"], settings["listenPort"]) == ("10.0.0.1", "10.0.0.1", "101")
    assert settings["namesrvAddr"] == f"10.0.0.{NAMES}:104"


def test_the_members_of_a_ledger_dial_each_other_over_the_faults() -> None:
    settings = settings_of(2, "dledger")
    assert settings["dLegerPeers"] == "n1-10.0.0.1:301;n2-127.0.0.1:302;n3-10.0.0.3:303"
    assert (settings["dLegerSelfId"], settings["dLegerGroup"]) == ("n2", "broker-a")
    assert settings["enableDLegerCommitLog"] == "true"
    assert "brokerRole" not in settings


@pytest.mark.parametrize(("replication", "role"), [("sync-slave", "SYNC_MASTER"), ("async-slave", "ASYNC_MASTER")])
def test_given_roles_have_one_master_and_slaves_that_learn_of_it(replication: str, role: str) -> None:
    master, slave = settings_of(1, replication), settings_of(3, replication)
    assert (master["brokerRole"], master["brokerId"]) == (role, "0")
    assert (slave["brokerRole"], slave["brokerId"]) == ("SLAVE", "3")
    assert (master["brokerIP2"], master["haListenPort"]) == ("10.0.0.1", "201")
    assert master["totalReplicas"] == "3"
    assert "enableDLegerCommitLog" not in master


def test_what_is_given_reaches_the_brokers_and_cannot_replace_where_they_listen() -> None:
    settings = settings_of(
        1, "sync-slave", "flushDiskType=SYNC_FLUSH", "inSyncReplicas=2", "waitTimeMillsInSendQueue=7"
    )
    assert (settings["flushDiskType"], settings["inSyncReplicas"]) == ("SYNC_FLUSH", "2")
    assert settings["waitTimeMillsInSendQueue"] == "7"
    assert not {"queues", "pairs", "client"} & settings.keys()
    assert nameserver_settings(plan_of(NAMES, "sync-slave")) == {"listenPort": "104", "bindAddress": "127.0.0.1"}


@pytest.mark.parametrize("replication", ApacheReplication)
def test_the_last_members_outlast_those_whose_end_a_broker_has_missed(replication: str) -> None:
    expires_s = int(settings_of(1, replication)["channelExpiredTimeout"]) / 1000
    assert 1 < expires_s + BROKERS_LOOK_EVERY_S < DRAINED_WITHIN_S / 2


def test_controllers_are_reached_over_the_faults_and_tell_their_own_address_to_brokers() -> None:
    plan = plan_of(2, "controller", "enableElectUncleanMaster=true", "allAckInSyncStateSet=true")
    assert isinstance(plan.mode, ApacheRocketMode)
    controller, broker = controller_settings(plan, plan.mode), broker_settings(plan, plan.mode)
    assert controller["controllerDLegerPeers"] == "n1-10.0.0.1:301;n2-10.0.0.2:302;n3-10.0.0.3:303"
    assert (controller["controllerDLegerSelfId"], controller["enableElectUncleanMaster"]) == ("n2", "true")
    assert broker["controllerAddr"] == "10.0.0.1:301;10.0.0.2:302;10.0.0.3:303"
    assert (broker["enableControllerMode"], broker["brokerRole"]) == ("true", "SLAVE")
    assert (broker["allAckInSyncStateSet"], "allAckInSyncStateSet" in controller) == ("true", False)
    assert not {"enableElectUncleanMaster", "brokerId", "enableDLegerCommitLog"} & broker.keys()


@pytest.mark.parametrize(("replication", "count"), [("controller", 1), ("dledger", 0)])
def test_each_broker_with_a_controller_starts_it_next_to_itself(
    monkeypatch: pytest.MonkeyPatch, replication: str, count: int
) -> None:
    monkeypatch.setattr(JarSet, "missing", lambda jars: "")
    monkeypatch.setattr(JarSet, "classpath", lambda jars: jars.full_name)
    launch = json.loads(command_of(plan_of(1, replication))[-1])
    assert [words[-3] for words in launch["beside"]] == ["org.apache.rocketmq.controller.ControllerStartup"] * count
    assert ("/data/files/controller.conf" in launch["files"]) == (count == 1)
    assert not json.loads(command_of(plan_of(NAMES, replication))[-1])["beside"]


@pytest.mark.parametrize("version", ["5.5.0", "5.1.4"])
def test_the_version_chooses_the_jars_and_is_no_setting_of_brokers(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(JarSet, "missing", lambda jars: "")
    monkeypatch.setattr(JarSet, "classpath", lambda jars: jars.full_name)
    launch = json.loads(command_of(plan_of(1, "controller", f"version={version}"))[-1])
    for words in (launch["argv"], *launch["beside"]):
        assert words[words.index("-cp") + 1] == f"apache-rocketmq-{version}"
    assert "version" not in settings_of(1, "controller", f"version={version}")


def test_a_version_that_was_not_fetched_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JarSet, "missing", lambda jars: jars.command)
    with pytest.raises(NotServing, match=r"5\.1\.4 is not on this machine.*quorumlog fetch apache-rocketmq-5\.1\.4"):
        command_of(plan_of(1, "controller", "version=5.1.4"))


@pytest.mark.parametrize(("role", "told"), [("SYNC_MASTER", "leader"), ("SLAVE", "follower")])
def test_a_broker_with_a_controller_tells_the_newest_epoch_of_its_log(
    monkeypatch: pytest.MonkeyPatch, role: str, told: str
) -> None:
    def ask(address: tuple[str, int], request: Command, *, within_s: float) -> Command:
        epochs = json.dumps({"epochList": [{"epoch": 2, "startOffset": 0}, {"epoch": 4, "startOffset": 9}]})
        return Command(0, body=epochs.encode() if request.code == 1007 else f"brokerRole={role}\n".encode())

    monkeypatch.setattr("jepsen_like.systems.apache_rocketmq.brokers.ask_now", ask)
    plan = plan_of(1, "controller")
    assert isinstance(plan.mode, ApacheRocketMode)
    look = processes.look_at_broker(processes.about_broker(plan, plan.mode))
    assert look
    assert look.roles == {"broker-a": (told, 4)}


def test_a_broker_that_leads_tells_its_term(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(address: tuple[str, int], request: Command, *, within_s: float) -> Command:
        body: Any = {50000: {"leaderId": "n1"}, 51002: {"code": 403, "term": 5}}.get(request.code)
        return Command(0, body=json.dumps(body).encode() if body else b"brokerRole=SYNC_MASTER\n")

    monkeypatch.setattr("jepsen_like.systems.apache_rocketmq.brokers.ask_now", ask)
    about = {"port": 1, "ledger": 2, "has_controller": False, "group": "broker-a", "member": "n1", "other": "n2"}
    looks = [processes.look_at_broker({**about, "member": member}) for member in ("n1", "n2")]
    assert [look.roles if look else None for look in looks] == [
        {"broker-a": ("leader", 5)},
        {"broker-a": ("follower", 5)},
    ]
