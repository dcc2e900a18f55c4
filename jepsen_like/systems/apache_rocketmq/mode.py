"""The settings of Apache RocketMQ's broker groups, and what a run with them is held to."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.port.port import FaultSeen, WrongMode
from jepsen_like.systems.apache_rocketmq.promises import REWINDS, ApacheReplication, ControllerRule, may_lose
from jepsen_like.systems.archives.catalogue import APACHE_ROCKETMQS
from jepsen_like.systems.rocketmq.client_settings import CLIENT, HOLDS, ORDER, OWN, PINNED
from jepsen_like.systems.rocketmq.mode import OWN as OF_ROLES
from jepsen_like.systems.rocketmq.mode import PAIRS, QUEUES, QUEUES_DEFAULT, QUEUES_MAX, RocketMode
from jepsen_like.systems.rocketmq.promises import (
    COMMITTED_EVERY_S,
    COPIED_EVERY_S,
    CopyLoss,
    CopyRule,
    RocketReplication,
)
from rocketmq_compat.config_keys import ASYNC_FLUSH, SYNC_FLUSH

FLUSH: Final = "flushDiskType"
IN_SYNC: Final = "inSyncReplicas"
VERSION: Final = "version"
ALL_ACK: Final = "allAckInSyncStateSet"
MIN_IN_SYNC: Final = "minInSyncReplicas"
UNCLEAN: Final = "enableElectUncleanMaster"
OF_CONTROLLERS: Final = (UNCLEAN,)
"""The settings that controllers take, and not brokers."""
FOLLOWS: Final = (
    *(*OF_ROLES, "bindAddress", "brokerClusterName", "brokerIP1", "brokerIP2", "totalReplicas"),
    *("enableControllerMode", "controllerAddr", "fetchControllerAddrByDnsLookup"),
)
"""Settings that follow from `--replication` and the cluster."""
HOLDS_MS: Final = 2
"""A member takes so long for a message."""
RULES: Final = {FLUSH: (ASYNC_FLUSH, SYNC_FLUSH), IN_SYNC: tuple("123456789")}
"""The settings of which promises are made, with the values that they can have; the first is Apache's own default."""
VERSIONS: Final = {VERSION: tuple(each.version for each in APACHE_ROCKETMQS)}
CONTROLLER_RULES: Final = {ALL_ACK: ("false", "true"), MIN_IN_SYNC: tuple("123456789"), UNCLEAN: ("false", "true")}
"""The same of groups with a controller, in addition; the last one is a setting of the controllers."""
HEALED_S: Final = 10.0
"""A master that was replaced while it was cut off may acknowledge for so long after the cut, until it knows."""


def broker_names() -> tuple[str, ...]:
    """Returns the names of all settings of a broker, as one of them lists them."""
    return tuple(resources.files(__package__).joinpath("settings.txt").read_text().split())


@attrs.frozen
class ApacheRocketMode(RocketMode):
    """`settings` are those of a run, by Apache's names; what is not there has its default."""

    @classmethod
    def of(cls, words: Sequence[str], replication: str) -> "ApacheRocketMode":
        """Raises `WrongMode` for an unknown setting, one not to be set here, and a value that it cannot have."""
        given = {name.strip(): value.strip() for name, _, value in (word.partition("=") for word in words)}
        rules = _rules(replication) | VERSIONS
        for name, value in given.items():
            _check(name, value, rules)
        load = {QUEUES: int(given.pop(QUEUES, QUEUES_DEFAULT)), PAIRS: 1, CLIENT: OWN, ORDER: PINNED, HOLDS: HOLDS_MS}
        settings = {name: values[0] for name, values in rules.items()} | given | load
        return cls(ApacheReplication(replication), settings, tuple(f"{name}={value}" for name, value in given.items()))

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "ApacheRocketMode":
        """Of a run's test.json. Raises `KeyError` for one without the settings that promises are made of."""
        settings = test["settings"]
        for name in (*_rules(test["replication"]), QUEUES):
            settings[name]
        return cls(ApacheReplication(test["replication"]), settings, nodes=int(test["nodes"]))

    @property
    def version(self) -> str:
        """The version of Apache RocketMQ."""
        return str(self.settings[VERSION])

    @property
    def for_brokers(self) -> Mapping[str, str]:
        """The given settings that brokers take."""
        given = dict(word.split("=", 1) for word in self.given)
        return {name: value for name, value in given.items() if name not in (*OF_CONTROLLERS, VERSION)}

    @property
    def for_controllers(self) -> Mapping[str, str]:
        """The given settings that controllers take."""
        given = dict(word.split("=", 1) for word in self.given)
        return {name: value for name, value in given.items() if name in OF_CONTROLLERS}

    @property
    def is_raft(self) -> bool:
        """True for a group that elects its master."""
        return self.is_ledger or self.has_controller

    @property
    def is_ledger(self) -> bool:
        """True for a DLedger group."""
        return self.replication == ApacheReplication.DLEDGER

    @property
    def has_controller(self) -> bool:
        """True for a group whose master a controller chooses."""
        return self.replication == ApacheReplication.CONTROLLER

    @property
    def copies_agree(self) -> bool:
        """True in a group that elects; with given roles a slave's log is not compared with its master's."""
        return self.is_raft

    @property
    def master_role(self) -> str:
        """`brokerRole` of the master."""
        return "SYNC_MASTER" if self.replication == ApacheReplication.SYNC_SLAVE else "ASYNC_MASTER"

    @property
    def acks_are_durable(self) -> bool:
        """True if a master flushes before it acknowledges, and stays the master."""
        return not self.is_raft and bool(self.settings[FLUSH] == SYNC_FLUSH)

    @property
    def rule(self) -> CopyRule:
        """The rule of quorumlog's own brokers that replicate so: a master that counts one copy waits for no slave.

        They have no controller.
        """
        if self.has_controller:
            asks_all = self.settings[ALL_ACK] == "true" or int(self.settings[IN_SYNC]) >= self.division.size
            waits_for_all = asks_all and self.settings[UNCLEAN] == "false"
            like = RocketReplication.SYNC_SLAVE if waits_for_all else RocketReplication.ASYNC_SLAVE
            return ControllerRule(like, self.acks_are_durable, waits_for_all=waits_for_all)
        if self.is_raft:
            like = RocketReplication.RAFT
        elif self.replication == ApacheReplication.SYNC_SLAVE and int(self.settings[IN_SYNC]) > 1:
            like = RocketReplication.SYNC_SLAVE
        else:
            like = RocketReplication.ASYNC_SLAVE
        return CopyRule(like, self.acks_are_durable, self.copies_agree)

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        losses = {self.rule.may_lose(kind) for kind in kinds} - {CopyLoss.NOTHING}
        if not losses:
            return "nothing that was acknowledged is lost by any of these faults"
        words = " and ".join(may_lose(loss, ApacheReplication(self.replication)) for loss in sorted(losses))
        return f"{words} may be lost; nothing else"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """As of quorumlog's own brokers that replicate so, but that no replication holds the positions of groups."""
        rewinds_ns = round((COPIED_EVERY_S + COMMITTED_EVERY_S) * 1e9)
        late_ns = round(HEALED_S * 1e9) if self.has_controller else 0
        return tuple(
            attrs.evolve(each, promise=self._describe_loss(each.kind), injected_ns=each.injected_ns + late_ns)
            if each.may_cost_records
            else attrs.evolve(each, promise=REWINDS, rewinds_ns=rewinds_ns)
            for each in super().allowances(faults)
        )

    def _describe_loss(self, kind: str) -> str:
        words = may_lose(self.rule.may_lose(kind), ApacheReplication(self.replication))
        return f"apache-rocketmq, {self.replication}: {words} may be lost"

    @property
    def may_hold_alone(self) -> bool:
        """True if a master acknowledges what no slave has."""
        return self.rule.replication is RocketReplication.ASYNC_SLAVE


def _rules(replication: str) -> dict[str, tuple[str, ...]]:
    return RULES | CONTROLLER_RULES if replication == ApacheReplication.CONTROLLER else RULES


def _check(name: str, value: str, rules: Mapping[str, tuple[str, ...]]) -> None:
    """Raises `WrongMode`."""
    known = (*rules, QUEUES, *broker_names())
    if name in FOLLOWS:
        raise WrongMode(f"--set: {name} follows from --replication and the cluster")
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"did you mean {nearest[0]}?" if nearest else "Apache RocketMQ's documentation lists them"
        raise WrongMode(f"--set: {name} is no setting of a broker; {hint}")
    if name in rules and value not in rules[name]:
        raise WrongMode(f"--set: {name} takes {' or '.join(rules[name])}, not {value!r}")
    if name == QUEUES and not (value.isdecimal() and 1 <= int(value) <= QUEUES_MAX):
        raise WrongMode(f"--set: {name} takes a number from 1 to {QUEUES_MAX}, not {value!r}")
