"""Places the replicas of new partitions on brokers: Kafka's StripedReplicaPlacer.

Racks take turns, sorted, from an offset that advances by one with every partition. In a rack its brokers take turns,
sorted, from an offset of their own that advances likewise. Unfenced brokers come before fenced ones, and each broker
gets at most one replica of a partition. The first replica, which will lead, is always on an unfenced broker. So
replicas spread over racks first and over brokers second. After as many partitions as there are unfenced brokers, racks
and brokers are shuffled, against few sets of replicas. Kafka's random draws follow here from a seed in the command.
"""

from collections.abc import Iterable, Sequence

from attrs import define, field

from kafka_compat.controller.refusal import Refused
from kafka_compat.model import BrokerRegistration
from kafka_compat.protocol.error_codes import KafkaErrorCode

_MASK = 2**64 - 1


@define
class SeededDraws:
    """Numbers that look random and follow from a seed, the same in every process (SplitMix64, Steele et al. 2014)."""

    state: int

    def below(self, bound: int) -> int:
        """Returns the next number, from 0 up to and without `bound`."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % bound

    def shuffle(self, values: list[object]) -> None:
        """Reorder a list (Fisher and Yates)."""
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]


@define
class _Turns:
    """Brokers that take turns: each at most once per partition, beginning one further with every partition."""

    brokers: list[int] = field(factory=list)
    _offset: int = 0
    _taken: int = 0
    _round: int = 0

    def begin(self, offset: int) -> None:
        if self.brokers:
            self._offset = offset % len(self.brokers)

    def next(self, partition_round: int) -> int | None:
        if not self.brokers:
            return None
        if self._round != partition_round:
            self._round = partition_round
            self._taken = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._taken >= len(self.brokers):
            return None
        broker = self.brokers[(self._taken + self._offset) % len(self.brokers)]
        self._taken += 1
        return broker


@define
class _Rack:
    fenced: _Turns = field(factory=_Turns)
    unfenced: _Turns = field(factory=_Turns)

    def next(self, partition_round: int) -> int | None:
        broker = self.unfenced.next(partition_round)
        return broker if broker is not None else self.fenced.next(partition_round)


def place(
    brokers: Iterable[BrokerRegistration],
    partitions: int,
    replication_factor: int,
    seed: int,
    existing: Sequence[Sequence[int]] = (),
) -> list[tuple[int, ...]]:
    """Returns the broker ids of each new partition, the preferred leader first.

    `existing` are the replicas of the partitions that the topic has already: the turns continue from their end. Brokers
    that are shutting down get no replica. Raises `Refused` with INVALID_REPLICATION_FACTOR if there are too few
    brokers, or all are fenced.
    """
    usable = sorted((broker for broker in brokers if not broker.shutting_down), key=lambda broker: broker.id)
    _check(replication_factor, usable)
    draws = SeededDraws(seed)
    racks: dict[str | None, _Rack] = {}
    for broker in usable:
        rack = racks.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
    names = sorted(racks, key=lambda name: (name is not None, name or ""))
    rack_of = {broker.id: broker.rack for broker in usable}
    for name in names:
        rack = racks[name]
        rack.fenced.begin(draws.below(max(1, len(rack.fenced.brokers))))
        last = _last_place(existing, rack_of, name, rack.unfenced.brokers)
        rack.unfenced.begin(draws.below(max(1, len(rack.unfenced.brokers))) if last is None else last + 1)
    offset = draws.below(len(names))
    if existing and existing[-1][0] in rack_of:
        offset = (names.index(rack_of[existing[-1][0]]) + 1) % len(names)
    return _stripe(names, racks, offset, partitions, replication_factor, draws)


def _check(replication_factor: int, usable: Sequence[BrokerRegistration]) -> None:
    if replication_factor <= 0:
        problem = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif replication_factor > len(usable):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered."
        )
    elif all(broker.fenced for broker in usable):
        problem = "All brokers are currently fenced."
    else:
        return
    raise Refused(KafkaErrorCode.INVALID_REPLICATION_FACTOR, problem)


def _last_place(
    existing: Sequence[Sequence[int]], rack_of: dict[int, str | None], rack: str | None, unfenced: list[int]
) -> int | None:
    """Returns the place at which the turns of a rack ended, or None.

    It is the place of the rack's first broker in the newest partition that uses the rack.
    """
    for replicas in reversed(existing):
        for broker in replicas:
            if broker in rack_of and rack_of[broker] == rack:
                return unfenced.index(broker) if broker in unfenced else None
    return None


def _stripe(
    names: list[str | None],
    racks: dict[str | None, _Rack],
    offset: int,
    partitions: int,
    replication_factor: int,
    draws: SeededDraws,
) -> list[tuple[int, ...]]:
    unfenced = sum(len(rack.unfenced.brokers) for rack in racks.values())
    partition_round = 0
    placed = []
    for _ in range(partitions):
        if partition_round == unfenced and unfenced > 1:
            draws.shuffle(names)  # type: ignore[arg-type]
            for rack in racks.values():
                draws.shuffle(rack.fenced.brokers)  # type: ignore[arg-type]
                draws.shuffle(rack.unfenced.brokers)  # type: ignore[arg-type]
            partition_round = 0
        placed.append(_place_one(names, racks, offset % len(names), partition_round, replication_factor))
        partition_round += 1
        offset += 1
    return placed


def _place_one(
    names: list[str | None], racks: dict[str | None, _Rack], offset: int, partition_round: int, replication_factor: int
) -> tuple[int, ...]:
    first = offset
    while (leader := racks[names[first]].unfenced.next(partition_round)) is None:
        first = (first + 1) % len(names)
    replicas = [leader]
    # The rack of the leader has had its turn; it is passed over once, when the turns come to it.
    passed = False
    at = offset
    while len(replicas) < replication_factor:
        if at == first and not passed:
            passed = True
        else:
            broker = racks[names[at]].next(partition_round)
            if broker is not None:
                replicas.append(broker)
        at = (at + 1) % len(names)
    return tuple(replicas)
