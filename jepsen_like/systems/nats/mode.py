"""The settings of a NATS cluster, and what a run with them is held to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.nats.promises import allowances, promise_of, reaches_unflushed
from jepsen_like.systems.nats.settings import NatsSettings

REPLICATION: Final = "jetstream"
REPLICAS_MAX: Final = 5
"""A stream of JetStream has at most so many copies."""


@attrs.frozen
class NatsMode(Mode):
    """One stream, copied to every server."""

    effective: NatsSettings
    nodes: int = 3
    replication: str = REPLICATION
    settings: Mapping[str, Any] = attrs.field(
        default=attrs.Factory(lambda self: attrs.asdict(self.effective), takes_self=True)
    )

    @classmethod
    def of(cls, words: Sequence[str], replication: str = REPLICATION) -> "NatsMode":
        """Raises `WrongMode`."""
        return cls(NatsSettings.of(words))

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "NatsMode":
        """Of a run's test.json. Raises `ValueError` for settings that no longer exist."""
        try:
            return cls(NatsSettings.of_json(test["settings"]), int(test["nodes"]))
        except WrongMode as error:
            raise ValueError(str(error)) from error

    @property
    def acks_are_durable(self) -> bool:
        """True if a server flushes before it acknowledges."""
        return not self.effective.sync_within_s

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Every run of a log can be judged."""
        return None

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        row = promise_of(self.effective.sync_within_s)
        if not row.may_lose or not any(map(reaches_unflushed, kinds)):
            return "nothing that was acknowledged is lost by any of these faults"
        return f"{row.may_lose} may be lost; nothing else"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """Power cuts of a majority within the sync interval."""
        return allowances(faults, self.nodes, self.effective.sync_within_s)

    def on(self, nodes: int) -> "NatsMode":
        """A copy on every server."""
        if nodes > REPLICAS_MAX:
            raise WrongMode(f"--nodes: a stream has at most {REPLICAS_MAX} copies, one on each server, not {nodes}")
        return attrs.evolve(self, nodes=nodes)

    def spare(self, nodes: int) -> int:
        """A minority."""
        return (nodes - 1) // 2
