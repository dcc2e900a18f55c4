"""The settings of a raft cluster, and what a run with them is held to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import KeepRule
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import kinds_named
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.raft.promises import Replication, allowances, describe, may_lose
from log.frame import HEADER_BYTES
from log.policy import FlushPolicy
from log.retention import KEEP_ALL
from raft.settings import NodeSettings, WrongSetting, parse_settings


@attrs.frozen
class RaftMode(Mode):
    """`words` are the `name=value` settings of every node."""

    replication: str
    settings: Mapping[str, Any]
    words: tuple[str, ...]
    effective: NodeSettings

    @classmethod
    def of(cls, words: Sequence[str], replication: str = Replication.RAFT) -> "RaftMode":
        """Raises `WrongMode` for a setting that does not exist or a value that it cannot have."""
        try:
            effective = parse_settings(words)
        except WrongSetting as error:
            raise WrongMode(f"--set: {error}") from error
        shown = attrs.asdict(effective)
        return cls(Replication(replication).value, {**shown.pop("raft"), **shown}, tuple(words), effective)

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "RaftMode":
        """Of a run's test.json, as far as its promises need the settings."""
        settings = test["settings"]
        flush, interval_s = FlushPolicy(settings["flush"]), float(settings["flush_interval_s"])
        effective = NodeSettings(flush=flush, flush_interval_s=interval_s)
        return cls(Replication(test["replication"]).value, settings, (), effective)

    @property
    def acks_are_durable(self) -> bool:
        """True if a node flushes before it acknowledges or votes."""
        return self.effective.flush is FlushPolicy.BEFORE_ACK

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Why a run could not be judged."""
        if not may_lose(Replication(self.replication), self.effective.flush, kinds):
            return None
        if self.effective.retention != KEEP_ALL:
            return (
                f"with flush={self.effective.flush.value} these faults may cost what a snapshot contains already, and a node "
                "that has only its snapshot does not come back: use flush=before-ack, or no retention"
            )
        if model is not Model.LOG:
            return (
                f"with flush={self.effective.flush.value} these faults may cost acknowledged writes, and what is left can only "
                "be judged for a log: use --workload log"
            )
        return None

    def keep_rule(self, kinds: Iterable[str]) -> KeepRule:
        """Returns the rule by which the nodes may trim their logs."""
        names = tuple(kinds)
        return KeepRule(
            retention_bytes=self.effective.retention_bytes,
            retention_s=self.effective.retention_s,
            frame_bytes=HEADER_BYTES,
            segment_bytes_max=self.effective.segment_bytes_max,
            # What no flush has secured may come back with the file that had left.
            starts_stay=not any(kind.reach is Reach.UNFLUSHED for kind in kinds_named(names)),
        )

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        return describe(Replication(self.replication), self.effective.flush, kinds)

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """Power cuts and damage, where nothing is flushed before it is acknowledged."""
        return allowances(faults, Replication(self.replication), self.effective.flush, self.effective.flush_interval_s)

    def spare(self, nodes: int) -> int:
        """A minority."""
        return (nodes - 1) // 2
