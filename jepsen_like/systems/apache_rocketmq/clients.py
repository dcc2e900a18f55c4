"""Connects clients of a run to brokers of Apache RocketMQ, which tell their role in their configuration alone."""

from typing import ClassVar

from jepsen_like.systems.apache_rocketmq import brokers
from jepsen_like.systems.rocketmq.clients import BrokerConnection, RocketClients
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer


class ApacheConnection(BrokerConnection):
    """The requests of operations."""

    masters_know_topics: ClassVar[bool] = False
    """Slaves copy topics every 10 s, so one that an operator lets lead may hold messages of a topic that it does not know."""

    async def role(self) -> str:
        """Returns `brokerRole` as it is now. Raises `NoBrokerAnswer`."""
        try:
            return brokers.config_of(await self.ask(brokers.CONFIG))[brokers.ROLE]
        except (KeyError, ValueError) as error:
            raise NoBrokerAnswer(str(error)) from error


class ApacheClients(RocketClients):
    """Connections with the brokers of a group."""

    connection: ClassVar[type[BrokerConnection]] = ApacheConnection
