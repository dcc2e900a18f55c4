"""Answers of brokers of Apache RocketMQ are read as they are meant: roles, terms and slaves."""

import json

import pytest

from jepsen_like.systems.apache_rocketmq.brokers import (
    BEFORE_ALL_TERMS,
    LEDGER_SUCCESS,
    NOT_ANSWERED,
    LedgerMember,
    config_of,
    slaves_of,
)
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command

MEMBER = LedgerMember(group="broker-a", member="n2", other="n1")
EXPIRED_TERM = 403


def answer(body: object, code: int = LEDGER_SUCCESS) -> Command:
    return Command(code, body=json.dumps(body).encode())


def test_an_outdated_heartbeat_names_another_member_as_a_leader_before_all_terms() -> None:
    beat = json.loads(bytes(MEMBER.outdated_heartbeat().body))
    assert beat == {"group": "broker-a", "remoteId": "n2", "localId": "n1", "leaderId": "n1", "term": BEFORE_ALL_TERMS}
    assert beat["term"] < 0


@pytest.mark.parametrize(("leader", "leads"), [("n2", True), ("n1", False), (None, False)])
def test_a_member_leads_when_it_follows_itself(leader: str | None, leads: bool) -> None:
    refused = answer({"code": EXPIRED_TERM, "term": 7})
    assert MEMBER.role(answer({"leaderId": leader}), refused) == (leads, 7)


def test_a_member_without_a_leader_names_none() -> None:
    assert MEMBER.role(answer({"peers": {}}), answer({"code": EXPIRED_TERM, "term": 0})) == (False, 0)


def test_a_refusal_is_no_answer() -> None:
    refused = answer({}, ResponseCode.SYSTEM_ERROR)
    for read in (config_of, slaves_of):
        with pytest.raises(NOT_ANSWERED):
            read(refused)


def test_a_configuration_is_read_line_by_line() -> None:
    body = b"brokerRole=SYNC_MASTER\nbrokerId=0\nbrokerName=broker-a\nmessageDelayLevel=1s 5s\n"
    config = config_of(Command(ResponseCode.SUCCESS, body=body))
    assert (config["brokerRole"], config["brokerId"], config["messageDelayLevel"]) == ("SYNC_MASTER", "0", "1s 5s")


def test_slaves_are_those_that_are_connected() -> None:
    connections = [{"addr": "n2", "slaveAckOffset": 4}, {"addr": "n3", "slaveAckOffset": 9}]
    assert slaves_of(answer({"master": True, "haConnectionInfo": connections})) == 2
