"""The settings of an etcd cluster, and what a run with them is held to, after etcd's own documentation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.etcd.settings import EtcdSettings

REPLICATION: Final = "raft"
SOURCES: Final = {
    False: "etcd.io, API guarantees: any completed operation is durable, and reads are linearizable by default",
    True: "etcd --help, --unsafe-no-fsync: disables fsync, unsafe, will cause data loss",
}
"""By `unsafe_no_fsync`, where etcd states what it promises."""
_AFTER_ELECTION: Final = "a minority: after an election of a second or two; more: once a majority is back"
_THROUGHOUT: Final = "all the time, slowly; if a leader's heartbeats are late, after an election"
SERVES: Final = {
    **dict.fromkeys(("kill", "pause", "restart", "half-open", "reset", "power", "zone-down"), _AFTER_ELECTION),
    **dict.fromkeys(("partition", "zone-cut"), "where a majority is together: after an election; elsewhere not"),
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow", "throttle", "loss", "duplicate", "reorder", "corrupt"), _THROUGHOUT),
}
"""The time at which the cluster serves again, or that it never stops, by kind of fault."""


@attrs.frozen
class EtcdMode(Mode):
    """One raft group of all members."""

    effective: EtcdSettings
    replication: str = REPLICATION
    settings: Mapping[str, Any] = attrs.field(
        default=attrs.Factory(lambda self: attrs.asdict(self.effective), takes_self=True)
    )

    @classmethod
    def of(cls, words: Sequence[str], replication: str = REPLICATION) -> "EtcdMode":
        """Raises `WrongMode`."""
        return cls(EtcdSettings.of(words))

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "EtcdMode":
        """Of a run's test.json. Raises `ValueError` for settings that no longer exist."""
        try:
            return cls(EtcdSettings.of_json(test["settings"]))
        except WrongMode as error:
            raise ValueError(str(error)) from error

    @property
    def acks_are_durable(self) -> bool:
        """True if a member flushes before it acknowledges."""
        return not self.effective.unsafe_no_fsync

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Registers that may have lost writes cannot be judged."""
        if self.acks_are_durable or all(KINDS[kind].reach is Reach.NOTHING for kind in kinds):
            return None
        return "with unsafe_no_fsync these faults may cost acknowledged writes, and what is left of registers cannot be judged"

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        return "nothing that was acknowledged is lost by any of these faults"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """No fault may cost anything."""
        return ()

    def spare(self, nodes: int) -> int:
        """A minority."""
        return (nodes - 1) // 2
