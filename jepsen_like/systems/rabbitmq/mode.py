"""The settings of a RabbitMQ cluster, and what a run with them is held to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.rabbitmq.promises import PARTING, QueuePromise, allowances, promise_of
from jepsen_like.systems.rabbitmq.settings import PartitionHandling, QueueType, RabbitSettings

REPLICATION: Final = "queue"


@attrs.frozen
class RabbitMode(Mode):
    """One queue, copied to every node."""

    effective: RabbitSettings
    replication: str = REPLICATION
    settings: Mapping[str, Any] = attrs.field(
        default=attrs.Factory(lambda self: attrs.asdict(self.effective), takes_self=True)
    )

    @classmethod
    def of(cls, words: Sequence[str], replication: str = REPLICATION) -> "RabbitMode":
        """Raises `WrongMode`."""
        return cls(RabbitSettings.of(words))

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "RabbitMode":
        """Of a run's test.json. Raises `ValueError` for settings that no longer exist."""
        try:
            return cls(RabbitSettings.of_json(test["settings"]))
        except WrongMode as error:
            raise ValueError(str(error)) from error

    @property
    def row(self) -> QueuePromise:
        """Returns the promise of these settings."""
        return promise_of(self.effective.queue_type, self.effective.cluster_partition_handling)

    @property
    def acks_are_durable(self) -> bool:
        """A message is confirmed when it is on disk: persistent ones are published, to a durable queue."""
        return True

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Nodes that parted for good need an operator, and a run has none."""
        if self.effective.cluster_partition_handling is PartitionHandling.IGNORE and PARTING & set(kinds):
            return "with cluster_partition_handling=ignore parted nodes stay apart until an operator restarts one side"
        return None

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        if not self.row.may_lose or not PARTING & set(kinds):
            return "no confirmed message is lost by any of these faults; messages may be delivered again"
        return f"{self.row.may_lose}, may be lost; nothing else"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """The faults that parted nodes, where the documentation gives up one side."""
        return allowances(faults, self.row)

    def spare(self, nodes: int) -> int:
        """A minority; of mirrors, whatever leaves nodes that go on."""
        return (nodes - 1) // 2

    @property
    def is_mirrored(self) -> bool:
        """True for a classic queue with mirrors."""
        return self.effective.queue_type is QueueType.MIRRORED
