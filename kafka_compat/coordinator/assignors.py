"""The server-side assignors of KIP-848, `uniform` and `range`: pure functions from subscriptions to partitions."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Partition: TypeAlias = tuple[bytes, int]
"""Topic id and number."""
Partitions: TypeAlias = frozenset[Partition]
NOTHING: Final[Partitions] = frozenset()
Subscriptions: TypeAlias = Mapping[str, frozenset[bytes]]
"""The ids of each member's existing topics, by member."""
Assignor: TypeAlias = Callable[[Subscriptions, Mapping[bytes, int], Mapping[str, Partitions]], dict[str, Partitions]]
"""Takes subscriptions, partition counts by topic id, and the assignment before."""


def uniform(
    subscriptions: Subscriptions, counts: Mapping[bytes, int], before: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Gives members as equal numbers of partitions as subscriptions allow, and moves as few as that takes."""
    held = {
        member: {each for each in before.get(member, NOTHING) if each[0] in topics and each[1] < counts[each[0]]}
        for member, topics in sorted(subscriptions.items())
    }
    subscribers: dict[bytes, list[str]] = {}
    for member, topics in sorted(subscriptions.items()):
        for topic in topics:
            subscribers.setdefault(topic, []).append(member)
    owners: dict[Partition, str] = {}
    for member, partitions in held.items():
        for partition in sorted(partitions):
            if owners.setdefault(partition, member) != member:
                partitions.discard(partition)
    for topic in sorted(subscribers, key=lambda each: (len(subscribers[each]), each)):
        for number in range(counts[topic]):
            if (topic, number) not in owners:
                least = min(subscribers[topic], key=lambda each: len(held[each]))
                held[least].add((topic, number))
                owners[topic, number] = least
    _balance(held, subscribers, owners)
    return {member: frozenset(partitions) for member, partitions in held.items()}


def _balance(
    held: dict[str, set[Partition]], subscribers: Mapping[bytes, list[str]], owners: dict[Partition, str]
) -> None:
    """Move partitions to members that have at least two fewer. Each move makes the sum of squares smaller."""
    moved = True
    while moved:
        moved = False
        for partition in sorted(owners):
            owner = owners[partition]
            least = min(subscribers[partition[0]], key=lambda each: len(held[each]))
            if len(held[owner]) - len(held[least]) > 1:
                held[owner].discard(partition)
                held[least].add(partition)
                owners[partition] = least
                moved = True


def by_range(
    subscriptions: Subscriptions, counts: Mapping[bytes, int], before: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Gives each member a run of neighbours of every topic, the same run in topics with as many partitions."""
    assigned: dict[str, set[Partition]] = {member: set() for member in subscriptions}
    for topic in {each for topics in subscriptions.values() for each in topics}:
        members = [member for member in subscriptions if topic in subscriptions[member]]
        least, more = divmod(counts[topic], len(members))
        first = 0
        for place, member in enumerate(members):
            end = first + least + (place < more)
            assigned[member].update((topic, number) for number in range(first, end))
            first = end
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": by_range}
"""By name; the first is the default."""
