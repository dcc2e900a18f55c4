"""The settings of a ZooKeeper ensemble, and what a run with them is held to, after its own documentation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import FaultSeen, Mode, WrongMode

REPLICATION: Final = "zab"
FORCE_SYNC: Final = "forceSync"
YES, NO = "yes", "no"
SOURCES: Final = {
    YES: "zookeeper.apache.org, Programmer's Guide, Consistency Guarantees: once an update has been applied, it will persist",
    NO: "zookeeper.apache.org, Administrator's Guide, Unsafe Options: with forceSync=no updates need not be on the media",
}
"""By `forceSync`, where ZooKeeper states what it promises."""
_AFTER_ELECTION: Final = "a minority: after an election of a second or two; more: once a majority is back"
_THROUGHOUT: Final = "all the time, slowly; if a leader's heartbeats are late, after an election"
SERVES: Final = {
    **dict.fromkeys(("kill", "pause", "restart", "half-open", "reset", "power", "zone-down"), _AFTER_ELECTION),
    **dict.fromkeys(("partition", "zone-cut"), "where a majority is together: after an election; elsewhere not"),
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow", "throttle", "loss", "duplicate", "reorder", "corrupt"), _THROUGHOUT),
}
"""The time at which the ensemble serves again, or that it never stops, by kind of fault."""


@attrs.frozen
class ZooMode(Mode):
    """One ensemble of all servers."""

    settings: Mapping[str, Any]
    replication: str = REPLICATION

    @classmethod
    def of(cls, words: Sequence[str], replication: str = REPLICATION) -> "ZooMode":
        """Raises `WrongMode`."""
        return cls.of_test({"settings": dict(word.partition("=")[::2] for word in words)})

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "ZooMode":
        """Of a run's test.json. Raises `WrongMode` for settings that do not exist."""
        settings = {FORCE_SYNC: YES, **test["settings"]}
        if settings.keys() != {FORCE_SYNC} or settings[FORCE_SYNC] not in (YES, NO):
            raise WrongMode(f"--set: zookeeper has one setting, {FORCE_SYNC}={YES} or {NO}")
        return cls(settings)

    @property
    def acks_are_durable(self) -> bool:
        """True if a server flushes before it acknowledges."""
        return bool(self.settings[FORCE_SYNC] == YES)

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Registers that may have lost writes cannot be judged."""
        if self.acks_are_durable or all(KINDS[kind].reach is Reach.NOTHING for kind in kinds):
            return None
        return f"with {FORCE_SYNC}={NO} these faults may cost acknowledged writes, and what is left of registers cannot be judged"

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        return "nothing that was acknowledged is lost by any of these faults"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """No fault may cost anything."""
        return ()

    def spare(self, nodes: int) -> int:
        """A minority."""
        return (nodes - 1) // 2
