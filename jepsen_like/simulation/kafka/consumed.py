"""The offsets that transactions of a simulated Kafka cluster commit for a group, and what is promised of them (K15).

Each transactional id commits offsets of one partition, and each offset is higher than those before. So, whatever fails:

- what a client is given as the stable offset is at least what was committed before it asked (KIP-447);
- the offset of a transaction that was not committed is never given (KIP-98);
- at the end the offset is that of the last transaction whose records are committed, too.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any

from jepsen_like.simulation.kafka.broker import SimulatedBroker
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.wire import GROUPS, ClientWire, build_offset_fetch
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.coordinator.events import GroupRequestArrived
from kafka_compat.protocol.apis.transactions import (
    AddOffsetsToTxnRequest,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

TRANSFORMERS = "transformers"
"""The group."""
FETCH_VERSION = 7
"""The first that asks for stable offsets."""


class ConsumedOffsets:
    """The offsets of the group as its producers know them, and a reader of them."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, topic: str, partitions: int) -> None:
        self.is_excused = False
        """True if the group's coordinator has lost something, with an excuse."""
        self.seen: dict[tuple[int, int], None] = {}
        """Partitions and offsets that were given."""
        self._world = world
        self._knobs = knobs
        self._topic = topic
        self._partitions = partitions
        self._wire = ClientWire(world, knobs, stream(knobs.seed, "consumed"))
        self._taken: Counter[int] = Counter()
        self._committed: Counter[int] = Counter()
        """By partition: the highest offset of a transaction whose producer was answered that it is committed."""

    def take(self, partition: int) -> int:
        """Returns the next offset of a partition, for one transaction."""
        self._taken[partition] += 1
        return self._taken[partition]

    def on_committed(self, partition: int, offset: int) -> None:
        """A transaction with this offset is committed."""
        self._committed[partition] = max(self._committed[partition], offset)

    # ---------------------------------------------------------------- requests of producers

    def add_request(self, transactional_id: str, producer: tuple[int, int]) -> AddOffsetsToTxnRequest:
        """Returns the request by which a producer of version 0 announces offsets."""
        return AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=TRANSFORMERS,
        )

    def commit_request(
        self, transactional_id: str, producer: tuple[int, int], partition: int, offset: int
    ) -> TxnOffsetCommitRequest:
        """Returns the request that commits an offset in a transaction."""
        commit = TxnOffsetCommitPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        return TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=TRANSFORMERS,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=(TxnOffsetCommitTopic(name=self._topic, partitions=(commit,)),),
        )

    # ---------------------------------------------------------------- the reader

    def wake(self) -> None:
        """Ask for the stable offset of one partition after the other, until the world heals."""
        world, knobs = self._world, self._knobs
        if world.healed:
            return
        world.schedule(world.now + knobs.think_s + knobs.fetch_wait_s, self.wake)
        partition = int(world.now * 1000) % self._partitions
        committed, stale = self._committed[partition], list[int]()
        request = build_offset_fetch(TRANSFORMERS, self._topic, partition, stable=True)

        def on_done(response: Any) -> None:
            if stale or response.error_code or self.is_excused:
                return
            found = response.topics[0].partitions[0]
            world.counts["unstable_offsets"] += found.error_code == KafkaErrorCode.UNSTABLE_OFFSET_COMMIT
            if found.error_code == KafkaErrorCode.NONE:
                world.counts["stable_offsets"] += 1
                self._on_given(partition, max(found.committed_offset, 0), committed)

        self._wire.ask_group(request, FETCH_VERSION, on_done, stale=stale)

    def _on_given(self, partition: int, offset: int, committed: int) -> None:
        if offset:
            self.seen[partition, offset] = None
        if offset < committed:
            what = f"{offset} is given for partition {partition}, and {committed} was committed before"
            self._world.report("K15", 0, f"{TRANSFORMERS}: {what}")

    # ---------------------------------------------------------------- the end

    def judge(
        self, leader: SimulatedBroker, outcomes: Mapping[tuple[int, int], bool], report: Callable[[str], None]
    ) -> None:
        """Report each offset that was given and is not committed, and each that is not the last committed one.

        `outcomes`: by partition and offset of each transaction, if its records are committed.
        """
        committed: Set[tuple[int, int]] = {each for each, commits in outcomes.items() if commits}
        for partition, offset in self.seen:
            if (partition, offset) not in committed:
                report(f"{offset} of partition {partition} was given, and its transaction is not committed")
        for partition in range(self._partitions):
            last = max((offset for each, offset in committed if each == partition), default=0)
            found = self._last_of(leader, partition)
            if found != last:
                report(f"the offset of partition {partition} is {found}, and {last} of the last committed transaction")

    def _last_of(self, leader: SimulatedBroker, partition: int) -> int | str:
        """Returns the offset as the coordinator has it now, or the name of an error; 0 without one."""
        answers: list[Any] = []
        request = build_offset_fetch(TRANSFORMERS, self._topic, partition, stable=True)

        def make_arrival(token: int) -> GroupRequestArrived:
            return GroupRequestArrived(token, FETCH_VERSION, request, leader.wall_ms())

        if not leader.parts.coordinators.groups.request(GROUPS.partition, make_arrival, answers.append) or not answers:
            return "not coordinated"
        found = answers[0].topics[0].partitions[0]
        error = KafkaErrorCode(answers[0].error_code or found.error_code)
        return max(found.committed_offset, 0) if error is KafkaErrorCode.NONE else error.name
