"""Answers of controllers of Apache RocketMQ are read as they are meant: who leads them, and who may be the next master."""

import json

import pytest

from jepsen_like.systems.apache_rocketmq.brokers import NOT_ANSWERED
from jepsen_like.systems.apache_rocketmq.controllers import (
    NO_EPOCH,
    SyncState,
    ask_sync_state,
    epoch_of,
    leads_controllers,
    sync_states_of,
)
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command

NOT_LEADER = 2007


def answer(body: object) -> Command:
    return Command(ResponseCode.SUCCESS, body=json.dumps(body).encode())


def replicas(*addresses: str) -> list[dict[str, object]]:
    return [{"brokerAddress": address, "alive": True} for address in addresses]


def test_the_set_of_a_group_is_read_with_both_of_its_epochs() -> None:
    state = {
        "masterAddress": "n1:1",
        "masterEpoch": 3,
        "syncStateSetEpoch": 7,
        "inSyncReplicas": replicas("n1:1", "n3:1"),
    }
    found = sync_states_of(answer({"replicasInfoTable": {"broker-a": state}}))
    assert found == {"broker-a": SyncState(3, 7, "n1:1", frozenset({"n1:1", "n3:1"}))}


def test_a_group_without_a_master_has_a_set_all_the_same() -> None:
    state = {"masterEpoch": 3, "syncStateSetEpoch": 8, "inSyncReplicas": replicas("n1:1")}
    assert sync_states_of(answer({"replicasInfoTable": {"broker-a": state}}))["broker-a"].master == ""


def test_the_word_of_the_newer_master_is_newer_whatever_its_set_counts() -> None:
    old, new = SyncState(3, 9, "n1:1", frozenset()), SyncState(4, 1, "n2:1", frozenset())
    assert max(new, old) is new
    assert max(SyncState(4, 2, "n2:1", frozenset()), new).set_epoch == 2


def test_the_request_names_the_groups() -> None:
    assert json.loads(bytes(ask_sync_state(("broker-a", "broker-b")).body)) == ["broker-a", "broker-b"]


@pytest.mark.parametrize(("told", "leads"), [({"isLeader": "true"}, True), ({"isLeader": "false"}, False), ({}, False)])
def test_a_controller_tells_whether_it_leads(told: dict[str, str], *, leads: bool) -> None:
    assert leads_controllers(Command(ResponseCode.SUCCESS, ext=told)) is leads


def test_a_controller_that_does_not_lead_gives_no_answer() -> None:
    with pytest.raises(NOT_ANSWERED):
        sync_states_of(Command(NOT_LEADER))
    with pytest.raises(NOT_ANSWERED):
        leads_controllers(Command(NOT_LEADER))


def test_a_log_without_a_master_has_no_epoch() -> None:
    assert epoch_of(answer({"epochList": []})) == NO_EPOCH
    assert epoch_of(answer({"epochList": [{"epoch": 2}, {"epoch": 5}]})) == 5
