"""An operator's questions to a cluster of brokers, whichever protocol it serves. `open_administration` finds the protocol.

An `Administration` belongs to the adapter of its system. It returns rows; it raises `NotDone` if what was asked for
certainly has not happened, and `PerhapsDone` if that is unknown, each with the next command.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Protocol, Self

import attrs

from jepsen_like.operate.access import OPEN, BrokerAccess
from jepsen_like.operate.addresses import text_of_cluster
from jepsen_like.operate.outcomes import NotDone
from jepsen_like.operate.reassignment import Assignment, Partition
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address

ADMINISTRATIONS: Final = (
    "jepsen_like.systems.kafka.administration:KafkaAdministration",
    "jepsen_like.systems.rocketmq.administration:RocketMqAdministration",
)


@attrs.frozen
class Silent(Exception):
    """No address answers in this protocol; by address the reason."""

    reasons: Mapping[str, str]


@attrs.frozen
class TopicPlan:
    """A topic to make. None stands for the cluster's own default."""

    name: str
    partitions: int | None
    replicas: int | None
    settings: Mapping[str, str]


class Administration(Protocol):
    """Administers one cluster."""

    system: ClassVar[str]
    notes: list[str]
    """The gaps of the rows and their reasons: brokers that do not answer."""

    @classmethod
    async def open(cls, addresses: Sequence[Address], within_s: float, access: BrokerAccess) -> Self:
        """Returns one for the cluster that any of the addresses belongs to. Raises `Silent`."""

    async def brokers(self) -> list[Row]:
        """Returns the brokers, those that do not answer too."""

    async def topics(self) -> list[Row]:
        """Returns the topics by name."""

    async def topic(self, name: str) -> list[Row]:
        """Returns the partitions or queues of a topic."""

    async def create_topic(self, plan: TopicPlan) -> list[Row]:
        """Make a topic. Returns a row about it."""

    async def delete_topic(self, name: str) -> list[Row]:
        """Delete a topic. Returns a row about it."""

    async def assignment(self) -> Assignment:
        """Returns the brokers of each partition, as they are once no reassignment is under way."""

    async def reassign(self, wanted: Mapping[Partition, tuple[int, ...] | None]) -> None:
        """Let partitions move to other brokers; None cancels a move that is under way."""

    async def moving(self) -> list[Row]:
        """Returns the partitions that are moving, and how far the new copies are behind."""

    async def groups(self) -> list[Row]:
        """Returns the consumer groups by name, with how far they lag in all."""

    async def group(self, name: str) -> list[Row]:
        """Returns a group's position in each partition or queue."""


async def open_administration(
    addresses: Sequence[Address], within_s: float, access: BrokerAccess = OPEN
) -> Administration:
    """Returns one for the protocol in which these addresses answer. Raises `NotDone` if there is none."""
    reasons: dict[str, str] = {}
    for place in ADMINISTRATIONS:
        module, _, name = place.partition(":")
        kind: type[Administration] = getattr(importlib.import_module(module), name)
        try:
            return await kind.open(addresses, within_s, access)
        except Silent as silent:
            reasons |= {f"{address} as {kind.system}": reason for address, reason in silent.reasons.items()}
    why = ", ".join(f"{address}: {reason}" for address, reason in reasons.items())
    raise NotDone(
        f"no Kafka broker and no RocketMQ name server answers ({why}); check --cluster, and --tls and --command-config where they ask for them. For a raft group run: "
        f"quorumlog status --cluster {text_of_cluster(addresses)}"
    )
