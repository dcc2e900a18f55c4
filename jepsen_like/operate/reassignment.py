"""Plans by which partitions move to other brokers, and the JSON in which Kafka's own tool writes them. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.operate.outcomes import NotDone
from jepsen_like.operate.tables import Row

VERSION: Final = 1
Partition = tuple[str, int]
"""A topic and the number of a partition."""
Assignment = Mapping[Partition, tuple[int, ...]]
"""Broker ids in the order of preference, by partition."""


class UnusablePlan(NotDone):
    """A plan that fits no cluster, or not this one."""


@attrs.frozen
class MovePlan:
    """The replicas that partitions have, and the ones that they are to have."""

    now: Assignment
    """The brokers of each partition once nothing is moving any more."""
    targets: Assignment

    @property
    def wanted(self) -> Assignment:
        """The targets without the partitions that need no further order; they may still be on their way."""
        return {each: to for each, to in self.targets.items() if self.now[each] != to}

    @classmethod
    def of(cls, now: Assignment, wanted: Assignment) -> "MovePlan":
        """Returns the plan. Raises `UnusablePlan` for a partition that is not there."""
        for topic, partition in wanted:
            if (topic, partition) not in now:
                raise UnusablePlan(f"there is no partition {topic}-{partition}; nothing was changed")
        return cls(now, wanted)

    def rows(self) -> list[Row]:
        """Returns a row for each partition that moves."""
        return [
            {
                "topic": topic,
                "partition": partition,
                "replicas": list(self.now[topic, partition]),
                "to": list(to),
                "adds": [each for each in to if each not in self.now[topic, partition]],
                "removes": [each for each in self.now[topic, partition] if each not in to],
            }
            for (topic, partition), to in sorted(self.wanted.items())
        ]


def read_plan(text: str) -> Assignment:
    """Returns the assignment in the JSON of kafka-reassign-partitions. Raises `UnusablePlan`."""
    try:
        content: Any = json.loads(text)
        if content.get("version", VERSION) != VERSION:
            raise UnusablePlan(f"the plan has version {content['version']!r}, and only {VERSION} is known")
        found: dict[Partition, tuple[int, ...]] = {}
        for row in content["partitions"]:
            topic, partition, replicas = row["topic"], row["partition"], row["replicas"]
            if type(topic) is not str or not all(type(each) is int and each >= 0 for each in (partition, *replicas)):
                raise ValueError(f"a row is not of the form {_EXAMPLE}")
            if (topic, partition) in found:
                raise ValueError(f"it has the partition {topic}-{partition} twice")
            found[topic, partition] = tuple(replicas)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else f"{error}"
        raise UnusablePlan(f'the plan is not of the form {{"version":1,"partitions":[{_EXAMPLE}]}}: {reason}') from None
    return found


_EXAMPLE: Final = '{"topic":"t","partition":0,"replicas":[1,2,3]}'


def write_plan(assignment: Assignment) -> str:
    """Returns an assignment as JSON, as kafka-reassign-partitions reads it."""
    rows = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": VERSION, "partitions": rows}, separators=(",", ":"))


def spread(now: Assignment, brokers: Sequence[int]) -> Assignment:
    """Returns every partition on all of these brokers; the first of them takes turns, because it is to lead."""
    turns = {each: each[1] % len(brokers) for each in now}
    return {each: (*brokers[turn:], *brokers[:turn]) for each, turn in turns.items()}


def replace(now: Assignment, replaced: Iterable[tuple[int, int]]) -> Assignment:
    """Returns every partition with brokers replaced by others, in their places.

    Raises `UnusablePlan` where the other broker has a copy already.
    """
    others = dict(replaced)
    wanted = {each: tuple([others.get(broker, broker) for broker in brokers]) for each, brokers in now.items()}
    for (topic, partition), brokers in wanted.items():
        twice = next((broker for broker in brokers if brokers.count(broker) > 1), None)
        if twice is not None:
            raise UnusablePlan(
                f"broker {twice} has a copy of {topic}-{partition} already; give that partition its brokers by --plan"
            )
    return wanted
