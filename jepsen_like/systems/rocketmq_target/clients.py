"""Connections of a run with RocketMQ brokers that others run: the run's own topic and group, by its owner's account."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final

from jepsen_like.operate.access import BrokerAccess, UnusableAccess, access_of
from jepsen_like.port.port import RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_rocketmq import brokers
from jepsen_like.systems.rocketmq.clients import BrokerConnection, RocketClients
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer
from jepsen_like.systems.target.properties import wrong_file
from raft.net.certificates import UnusableFiles
from rocketmq_compat.remoting.errors import BadBody

ROLE: Final = brokers.ROLE


def access_to(target: RunningCluster) -> BrokerAccess:
    """Returns what the file of a target gives. Raises `WrongMode` for one that cannot be used."""
    try:
        return access_of(None, target.properties)
    except (UnusableAccess, UnusableFiles) as error:
        raise wrong_file(error) from None


class TargetConnection(BrokerConnection):
    """The requests of operations. Our brokers report their role, and Apache's have it in their configuration."""

    masters_know_topics: ClassVar[bool] = False
    """Apache's slaves copy topics every 10 s, so one that leads may hold messages of a topic that it does not know."""

    async def role(self) -> str:
        """Returns `brokerRole` as it is now. Raises `BrokerRefused` and `NoBrokerAnswer`."""
        try:
            return await self.role_in(await self.runtime_info())
        except (BadBody, KeyError, ValueError) as error:
            raise NoBrokerAnswer(str(error)) from error

    async def role_in(self, table: Mapping[str, str]) -> str:
        """Returns the role, with the runtime information at hand. Raises `NoBrokerAnswer`, `KeyError` and `ValueError`."""
        return table.get(ROLE) or brokers.config_of(await self.ask(brokers.CONFIG))[ROLE]


def connection_named(name: str) -> type[TargetConnection]:
    """Returns the connections whose topic and group have this name."""
    return type("NamedConnection", (TargetConnection,), {"topic": name, "group": name})


class TargetClients(RocketClients):
    """Connections with brokers of others."""

    def __init__(self, addresses: Mapping[int, Address], access: BrokerAccess, name: str) -> None:
        super().__init__(addresses, access.tls)
        self._access = access
        self._named = connection_named(name)

    async def connect(self, node: int, *, within_s: float) -> BrokerConnection:
        """A new connection. Raises `NoConnection`."""
        return await self._named.connect(self._addresses[node], within_s=within_s, access=self._access)

    def open(self, address: Address, within_s: float) -> AbstractAsyncContextManager[BrokerConnection]:
        """A connection for the time of a block. Entering it raises `NoConnection`."""
        return self._named.open(address, within_s=within_s, access=self._access)
