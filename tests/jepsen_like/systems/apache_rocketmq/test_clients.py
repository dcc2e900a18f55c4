"""A broker of Apache RocketMQ that does not know a topic proves nothing about its messages."""

import random

import pytest

from jepsen_like.systems.apache_rocketmq import brokers
from jepsen_like.systems.apache_rocketmq.clients import ApacheConnection
from jepsen_like.systems.rocketmq.clients import BrokerConnection, Pulled, UnknownTopic
from jepsen_like.systems.rocketmq.log_workload import QueueWorkload
from jepsen_like.systems.rocketmq_target.clients import TargetConnection
from jepsen_like.workload.model import Seen
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from tests.jepsen_like.systems.rocketmq.test_clients import broker


def answer_as_a_master_without_the_topic(request: Command) -> Command:
    """A broker that an operator lets lead before it has copied the topic."""
    if request.code == RequestCode.PULL_MESSAGE:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST)
    if request.code == brokers.CONFIG.code:
        return request.answer(ResponseCode.SUCCESS, body=f"{brokers.ROLE}=SYNC_MASTER\n".encode())
    return request.answer(ResponseCode.SUCCESS, body=KVTable(table={"brokerRole": "SYNC_MASTER"}).encode())


@pytest.mark.parametrize("kind", [ApacheConnection, TargetConnection])
async def test_a_master_that_does_not_know_the_topic_proves_nothing(kind: type[BrokerConnection]) -> None:
    async with broker(answer_as_a_master_without_the_topic, kind) as connection:
        answer = await connection.pull_of_master(0, 0)
    assert answer == UnknownTopic()
    workload = QueueWorkload(pairs=1, queues=1)
    assert workload.interpret(workload.probe(random.Random(1)), answer) == Seen(())


async def test_a_master_of_ours_that_does_not_know_the_topic_holds_nothing() -> None:
    async with broker(answer_as_a_master_without_the_topic, BrokerConnection) as connection:
        assert await connection.pull_of_master(0, 0) == Pulled(0, ())
