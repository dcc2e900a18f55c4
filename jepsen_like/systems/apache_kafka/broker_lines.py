"""The lines that a broker of Apache Kafka prints, as events of the form that our own brokers print.

The launcher has the broker's logger print each line as JSON, with the time of the monotonic clock. What its lines mean
is read from their text, as release 4 writes it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

STARTED: Final = "Kafka Server started"
_LED: Final = re.compile(
    r"\[Broker id=\d+\] Leader (?P<topic>\S+)-(?P<partition>\d+) with topic id .* starts at leader epoch (?P<epoch>\d+) "
    r"from .* ISR \[(?P<isr>[\d,]*)\]"
)
_FOLLOWED: Final = re.compile(
    r"\[Broker id=\d+\] Follower (?P<topic>\S+)-(?P<partition>\d+) starts at leader epoch (?P<epoch>\d+) "
)
_SHRUNK: Final = re.compile(
    r"\[Partition (?P<topic>\S+)-(?P<partition>\d+) broker=\d+\] ISR updated to (?P<isr>[\d,]*) "
)
_QUORUM: Final = re.compile(r"\[RaftManager id=\d+\] Completed transition to (?P<role>\w+)\(.*?\bepoch=(?P<epoch>\d+)")


def translate(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the event that a line of JSON stands for; the line itself for one that means nothing here."""
    says = str(event.get("says", ""))
    if says.endswith(STARTED):
        return {**event, "event": "listening"}
    if found := _LED.match(says):
        replicas = [int(replica) for replica in found["isr"].split(",") if replica]
        return {**event, **_of_partition(found), "role": "leader", "leader_epoch": int(found["epoch"]), "isr": replicas}
    if found := _FOLLOWED.match(says):
        return {**event, **_of_partition(found), "role": "follower", "leader_epoch": int(found["epoch"])}
    if found := _SHRUNK.match(says):
        replicas = [int(replica) for replica in found["isr"].split(",") if replica]
        return {**event, **_of_partition(found), "event": "isr", "isr": replicas}
    if found := _QUORUM.match(says):
        role = found["role"].removesuffix("State").lower()
        return {**event, "event": "controller", "role": role, "term": int(found["epoch"])}
    return event


def _of_partition(found: "re.Match[str]") -> dict[str, Any]:
    return {"event": "partition", "topic": found["topic"], "partition": int(found["partition"])}
