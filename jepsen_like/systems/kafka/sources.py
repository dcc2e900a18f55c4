"""The statements of Kafka's own documentation that the rules of losses come from, by setting, each with its place.

The text is ours. A run of brokers that others wrote is held to these, and its promise names them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from jepsen_like.systems.kafka.promises import ALL_ACKS, IsrRule
from kafka_compat.config_keys import BEFORE_ACK

DOCUMENTATION: Final = "https://kafka.apache.org/documentation/"


@attrs.frozen
class Statement:
    """One statement: what it means for a record that was acknowledged, and where it stands."""

    means: str
    source: str


STATEMENTS: Final[Mapping[str, Statement]] = {
    "acks=0": Statement("nothing is acknowledged", f"{DOCUMENTATION}#producerconfigs_acks"),
    "acks=1": Statement(
        "the leader acknowledges alone, and what no follower has copied may be lost with it",
        f"{DOCUMENTATION}#producerconfigs_acks",
    ),
    "acks=all": Statement(
        "a record stays while one of the replicas that were in sync lives", f"{DOCUMENTATION}#producerconfigs_acks"
    ),
    "min.insync.replicas": Statement(
        "an acknowledged record has so many holders", f"{DOCUMENTATION}#brokerconfigs_min.insync.replicas"
    ),
    "unclean.leader.election.enable": Statement(
        "a replica that was not in sync may lead, which may cost records",
        f"{DOCUMENTATION}#brokerconfigs_unclean.leader.election.enable",
    ),
    "page cache": Statement(
        "flushes are left to the operating system, and replication takes their place",
        f"{DOCUMENTATION}#brokerconfigs_log.flush.interval.messages",
    ),
    "flush of each record": Statement(
        "a record is on the disk before it is acknowledged",
        f"{DOCUMENTATION}#brokerconfigs_log.flush.interval.messages",
    ),
}


def statements_for(rule: IsrRule) -> Sequence[Statement]:
    """Returns the statements that decide what these settings keep."""
    names = [f"acks={rule.acks}"]
    names += ["min.insync.replicas"] if rule.several and rule.acks == ALL_ACKS else []
    names += ["unclean.leader.election.enable"] if rule.unclean else []
    names.append("flush of each record" if rule.flush == BEFORE_ACK else "page cache")
    return [STATEMENTS[name] for name in names]


def cite(promise: str, rule: IsrRule) -> str:
    """Returns the promise of a run with the places that it comes from."""
    places = dict.fromkeys(statement.source for statement in statements_for(rule))
    return f"{promise} (by {', '.join(places)})"
