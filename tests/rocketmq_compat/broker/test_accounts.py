"""Brokers with accounts: who is served, what is reported, how the file is read again, and how brokers serve each other."""

import os
from pathlib import Path

import pytest

from rocketmq_compat.acls import Credentials
from rocketmq_compat.broker.authorization import UnusableAclFile
from rocketmq_compat.broker.broker import BrokerPlan
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader
from tests.rocketmq_compat.broker.pairs import ANY_PORT, Events, ask, eventually, pair, running_broker, send_header

ACCOUNTS = """
accounts:
  - accessKey: producer
    secretKey: produces
    topicPerms: [T=PUB]
  - accessKey: operator
    secretKey: operates
    admin: true
"""
PRODUCER, OPERATOR = Credentials("producer", "produces"), Credentials("operator", "operates")
NO_KEY = "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    return path


def with_accounts(path: Path) -> tuple[str, str]:
    return "aclEnable=true", f"aclFile={path}"


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def send_to(client: RemotingClient, topic: str) -> Command:
    return await client.ask(Command(RequestCode.SEND_MESSAGE, ext=send_header(topic).ext(), body=b"m"), timeout_s=20)


async def test_a_request_is_served_for_an_account_that_may_and_refused_for_others(accounts: Path) -> None:
    events = Events()
    async with running_broker(*with_accounts(accounts), events=events) as broker:
        async with connected_client(broker.address) as stranger:
            for _ in range(3):
                answer = await send_to(stranger, "T")
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NO_KEY)
            assert (await ask(stranger, RequestCode.GET_BROKER_CONFIG)).remark == NO_KEY
        async with connected_client(broker.address, sign=PRODUCER.sign) as producer:
            assert (await send_to(producer, "T")).code == ResponseCode.SUCCESS
            refused = await send_to(producer, "U")
            assert refused.remark is not None
            assert refused.remark.endswith("AclException: No default permission for topic:U")
            header = CreateTopicRequestHeader(topic="U", read_queue_nums=1, write_queue_nums=1, perm=6)
            assert (await ask(producer, RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SYSTEM_ERROR
            assert broker.context.topics.get("U") is None
            assert (await ask(producer, RequestCode.GET_ALL_TOPIC_CONFIG)).code == ResponseCode.SYSTEM_ERROR
        async with connected_client(broker.address, sign=OPERATOR.sign) as operator:
            assert (await ask(operator, RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
            assert (await ask(operator, RequestCode.GET_ALL_TOPIC_CONFIG)).code == ResponseCode.SUCCESS
    denied = events.select("denied")
    assert denied[0] == {
        "access_key": "", "host": "127.0.0.1", "code": RequestCode.SEND_MESSAGE, "reason": "No accessKey is configured",
    }  # fmt: skip
    assert [each["code"] for each in denied] == [10, 26, 10, 17, 21], "the same refusal is reported once"
    assert "produces" not in repr(events.seen)


async def test_the_file_is_read_again_when_it_changes_and_a_bad_one_changes_nothing(accounts: Path) -> None:
    events = Events()
    async with running_broker(*with_accounts(accounts), events=events) as broker:
        authorization = broker._authorization
        assert authorization is not None

        def look() -> None:
            authorization.tick(authorization.deadline)

        look()
        assert events.select("accounts") == [], "it has not changed"
        write(accounts, ACCOUNTS + "  - accessKey: newcomer\n    secretKey: 'comes-in'\n    admin: true\n")
        look()
        assert events.select("accounts") == [{"file": str(accounts), "count": 3}]
        async with connected_client(broker.address, sign=Credentials("newcomer", "comes-in").sign) as newcomer:
            assert (await send_to(newcomer, "T")).code == ResponseCode.SUCCESS
            write(accounts, "accounts: oops\n")
            look()
            look()
            (event,) = events.select("accounts_refused")
            assert event["reason"] == f"aclFile {accounts}: line 1: accounts is a list"
            os.unlink(accounts)
            look()
            assert (await send_to(newcomer, "T")).code == ResponseCode.SUCCESS, "the accounts stay as they were"
            write(accounts, ACCOUNTS)
            look()
            assert (await send_to(newcomer, "T")).code == ResponseCode.SYSTEM_ERROR


async def test_a_broker_without_a_file_that_it_can_read_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidProperty, match="set aclFile"):
        BrokerPlan(listen=ANY_PORT, data="d", properties=Properties.read(BROKER_PROPERTIES, ["aclEnable=true"]))
    missing = tmp_path / "missing.yml"
    with pytest.raises(UnusableAclFile, match="No such file"):
        async with running_broker(*with_accounts(missing)):
            pass


async def test_a_slave_copies_the_tables_of_a_master_with_accounts(accounts: Path) -> None:
    """Which `pair` waits for: it signs as the administrator of its own file."""
    async with pair(*with_accounts(accounts), of_slave=with_accounts(accounts)) as both:
        assert both.slave.synced.is_set()
        async with connected_client(both.master.address, sign=PRODUCER.sign) as producer:
            assert (await send_to(producer, "T")).code == ResponseCode.SUCCESS
        await eventually(lambda: both.slave.context.topics.get("T") is not None)


async def test_without_accounts_handlers_are_not_wrapped() -> None:
    async with running_broker() as broker:
        assert broker._authorization is None
