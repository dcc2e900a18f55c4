"""The acknowledgements of brokers to the clients of a test, compared with the logs of every replica.

The replicas of a partition must hold the same bytes below its high watermark, batch for batch, and in them everything
that was acknowledged, at the acknowledged offset.
"""

import bisect
from collections.abc import Mapping

import attrs

from jepsen_like.testing.ledger import NOTHING_LOST, show, show_first
from kafka_compat.model import TopicPartition
from kafka_compat.records import read_records

Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


@attrs.frozen
class KafkaVerdict:
    """The result of `check`. `broken` lists every promise that does not hold, in words."""

    acknowledged: int
    """Records that are known to be acknowledged."""
    compared: int
    """Partitions of which all replicas were compared."""
    broken: tuple[str, ...] = ()
    expired: int = 0
    """Acknowledged records that have left their log by retention or because they were deleted."""

    @property
    def valid(self) -> bool:
        """True if every promise holds."""
        return not self.broken

    def __str__(self) -> str:
        told = f"{self.acknowledged} acknowledged, {self.compared} partitions compared"
        told += f", {self.expired} have left their log" if self.expired else ""
        return f"{told}: {'; '.join(show_first(self.broken)) or NOTHING_LOST}"


@attrs.define
class ReplicaRecords:
    """The batches of one replica, by base offset in order, from the offset `start` to the high watermark."""

    start: int
    batches: dict[int, bytes] = attrs.field(factory=dict)

    def contents(self) -> dict[int, Content]:
        """Returns the records by offset. Raises `InvalidBatch` for a batch that cannot be read."""
        return {each.offset: (each.key, each.value) for batch in self.batches.values() for each in read_records(batch)}


@attrs.define
class RecordLedger:
    """Only ever appended to, so that clients in several threads may write into it."""

    acknowledged: int = 0
    _promised: dict[TopicPartition, dict[int, Content]] = attrs.field(factory=dict)
    _broken: list[str] = attrs.field(factory=list)

    def on_acknowledged(self, topic: str, partition: int, offset: int, content: Content) -> None:
        """A broker told a client that this record is there."""
        self.acknowledged += 1
        known = self._promised.setdefault(TopicPartition(topic, partition), {}).setdefault(offset, content)
        if known != content:
            self._broken.append(
                f"{topic}-{partition}: {_show(known)} and {_show(content)} were acknowledged at {offset}"
            )

    def forget(self, topic: str) -> None:
        """The test deleted this topic."""
        for name in [each for each in self._promised if each.topic == topic]:
            del self._promised[name]

    def on_broken(self, what: str) -> None:
        """Something else happened that may never happen."""
        self._broken.append(what)

    def verdict(self, logs: Mapping[TopicPartition, Mapping[int, ReplicaRecords]]) -> KafkaVerdict:
        """Hold the promises against the logs of all replicas, by broker."""
        broken, expired = list(self._broken), 0
        for name, replicas in sorted(logs.items(), key=lambda item: str(item[0])):
            broken += differences(name, replicas)
        for name, promised in self._promised.items():
            if name not in logs:
                broken.append(f"{name} is gone, with {len(promised)} acknowledged records")
                continue
            for broker, log in sorted(logs[name].items()):
                held = log.contents()
                expired += sum(offset < log.start for offset in promised) if broker == min(logs[name]) else 0
                for offset, content in sorted(promised.items()):
                    if offset < log.start:
                        continue
                    if offset not in held:
                        broken.append(f"{name}: offset {offset}, {_show(content)}, is lost on broker {broker}")
                    elif (found := held[offset]) != content:
                        broken.append(
                            f"{name}: offset {offset} was {_show(content)} and is {_show(found)} on broker {broker}"
                        )
        return KafkaVerdict(self.acknowledged, len(logs), tuple(broken), expired)


def differences(name: TopicPartition, replicas: Mapping[int, ReplicaRecords]) -> list[str]:
    """Returns where the replicas of a partition first differ, in words; of each only from where all begin."""
    if not replicas:
        return []
    begin = max(log.start for log in replicas.values())
    cut = {broker: _from(log, begin) for broker, log in sorted(replicas.items())}
    first, *others = cut
    found = []
    for other in others:
        if cut[other] == cut[first]:
            continue
        at = min(base for base in {*cut[first], *cut[other]} if cut[first].get(base) != cut[other].get(base))
        found.append(f"{name}: the logs of brokers {first} and {other} differ at offset {at}")
    return found


def _from(log: ReplicaRecords, begin: int) -> dict[int, bytes]:
    bases = sorted(log.batches)
    return {base: log.batches[base] for base in bases[max(0, bisect.bisect_right(bases, begin) - 1) :]}


def _show(content: Content) -> str:
    value = content[1]
    return repr(value) if value is None else show(value)
