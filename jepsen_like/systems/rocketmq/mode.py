"""The settings of RocketMQ's broker groups, and what a run with them is held to."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.rocketmq import client_settings
from jepsen_like.systems.rocketmq.division import PAIRS_MAX, Division
from jepsen_like.systems.rocketmq.promises import (
    CopyLoss,
    CopyRule,
    RocketReplication,
    describe,
    groups_disturbed,
    losses_allowed,
)
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import ASYNC_MASTER, BROKER_PROPERTIES, DURABLE, REFUSE, SYNC_FLUSH, SYNC_MASTER

QUEUES: Final = "queues"
QUEUES_DEFAULT: Final = 2
QUEUES_MAX: Final = 64
PAIRS: Final = "pairs"
OWN: Final = (
    "brokerRole",
    "brokerName",
    "brokerId",
    "listenPort",
    "haListenPort",
    "haMasterAddress",
    "namesrvAddr",
    "storePathRootDir",
    "enableDLegerCommitLog",
    "dLegerGroup",
    "dLegerPeers",
    "dLegerSelfId",
)
"""Properties that follow from `--replication` and the cluster."""
SHOWN: Final = ("flushDiskType", "ack", "haDivergence", "replicationFlavor", "inSyncReplicas", "slaveTimeout")
"""Properties that promises are made of, with their defaults in test.json."""


@attrs.frozen
class RocketMode(Mode):
    """`settings`: RocketMQ's properties of every broker; `pairs`: groups; `queues`: of the run's topic in each."""

    replication: str
    settings: Mapping[str, Any]
    given: tuple[str, ...] = ()
    nodes: int = 1
    """The number of brokers of the cluster."""

    @classmethod
    def of(cls, words: Sequence[str], replication: str) -> "RocketMode":
        """Raises `WrongMode` for an unknown property, one not to be set here, and a value that it cannot have."""
        of_load, words = client_settings.split(words)
        counts, given = {QUEUES: QUEUES_DEFAULT, PAIRS: 1}, []
        for word in words:
            name, _, value = (part.strip() for part in word.partition("="))
            if name in counts:
                counts[name] = _count(name, value, QUEUES_MAX if name == QUEUES else PAIRS_MAX)
            elif name in OWN:
                raise WrongMode(f"--set: {name} follows from --replication and the cluster")
            else:
                given.append(word)
        try:
            properties = Properties.read(BROKER_PROPERTIES, given)
        except InvalidProperty as error:
            raise WrongMode(f"--set: {error}") from error
        settings = {name: properties.text(name) for name in SHOWN} | dict(properties.written) | counts | of_load
        return cls(RocketReplication(replication), settings, tuple(given))

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "RocketMode":
        """Of a run's test.json. Raises `KeyError` for one without the settings that promises are made of."""
        settings = test["settings"]
        for name in (*SHOWN, QUEUES, PAIRS, client_settings.CLIENT, client_settings.ORDER):
            settings[name]
        return cls(RocketReplication(test["replication"]), settings, nodes=int(test["nodes"]))

    def on(self, nodes: int) -> "RocketMode":
        """Every group has as many nodes."""
        if nodes % self.pairs:
            raise WrongMode(
                f"--nodes: {nodes} brokers cannot be divided evenly among {self.pairs} groups ({PAIRS}={self.pairs})"
            )
        return attrs.evolve(self, nodes=nodes)

    @property
    def queues(self) -> int:
        """The number of queues that the run's topic has in each group; each is an object of its history."""
        return int(self.settings[QUEUES])

    @property
    def pairs(self) -> int:
        """The number of groups."""
        return int(self.settings[PAIRS])

    @property
    def division(self) -> Division:
        """Which broker is of which group."""
        return Division(self.pairs, self.nodes)

    def groups(self, nodes: Sequence[int]) -> Sequence[Sequence[int]]:
        """As they are divided."""
        return self.division.all()

    @property
    def is_raft(self) -> bool:
        """True if each group elects its master."""
        return self.replication == RocketReplication.RAFT

    @property
    def copies_agree(self) -> bool:
        """True if a slave holds what its master holds, or is refused; RocketMQ itself does not compare them."""
        return self.is_raft or bool(self.settings["haDivergence"] == REFUSE)

    @property
    def master_role(self) -> str:
        """`brokerRole` of the master."""
        return SYNC_MASTER if self.replication == RocketReplication.SYNC_SLAVE else ASYNC_MASTER

    @property
    def rule(self) -> CopyRule:
        """The rule that decides about losses."""
        return CopyRule(RocketReplication(self.replication), self.acks_are_durable, self.copies_agree)

    # ---------------------------------------------------------------- what is promised

    @property
    def acks_are_durable(self) -> bool:
        """True if a record is flushed when it is acknowledged: on the master, in a raft group on a majority."""
        return bool(self.settings["ack"] == DURABLE if self.is_raft else self.settings["flushDiskType"] == SYNC_FLUSH)

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Why a run could not be judged."""
        if self.client_of(model) == client_settings.CPP_CLIENT and not client_settings.has_cpp_client():
            return f"client=wheel needs the package rocketmq, which cannot be imported here; run: {sys.executable} -m pip install rocketmq"
        by_hand = [kind for kind in ("promote-by-hand", "wipe-master") if kind in kinds]
        if self.is_raft and by_hand:
            return f"--nemesis {by_hand[0]}: a raft group elects its master itself; use kill"
        if model is Model.QUEUE and "wipe-master" in kinds:
            return "--nemesis wipe-master: what consumers see of an empty master is not judged yet; use promote-by-hand"
        return None

    def client_of(self, model: Model) -> str:
        """Which client a workload of this model has."""
        return client_settings.client_of(str(self.settings[client_settings.CLIENT]))

    @property
    def is_pinned(self) -> bool:
        """True if a key stays with its queue."""
        return bool(self.settings[client_settings.ORDER] == client_settings.PINNED)

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        return describe(self.rule, kinds)

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """See `promises`."""
        faults = tuple(faults)
        lost = losses_allowed(faults, self.rule, self.division, self.queues)
        return lost + groups_disturbed(faults, self.rule, self.division, self.queues)

    @property
    def may_hold_alone(self) -> bool:
        """True if a master acknowledges what no slave has."""
        return self.replication == RocketReplication.ASYNC_SLAVE

    def survives(self, kind: str) -> bool:
        """By the table."""
        return self.rule.may_lose(kind) is CopyLoss.NOTHING

    def spare(self, nodes: int) -> int:
        """A minority of a raft group; every slave."""
        return (nodes - 1) // 2 if self.is_raft else nodes - 1


def _count(name: str, value: str, most: int) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= most:
        raise WrongMode(f"--set: {name} takes a number from 1 to {most}, not {value!r}")
    return int(value)
