"""Carries requests from clients of a simulated Kafka cluster to a broker: answers may be late, messages lost."""

import contextlib
import random
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from jepsen_like.simulation.kafka.broker import SimulatedBroker
from jepsen_like.simulation.kafka.group_truth import Term
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from kafka_compat.coordinator.answers import error_response
from kafka_compat.coordinator.events import GroupRequest, GroupRequestArrived
from kafka_compat.model import OFFSETS_TOPIC, TopicPartition
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

GROUPS = TopicPartition(OFFSETS_TOPIC, 0)
"""Its leader coordinates all groups."""
Tap = Generator[None, Any, None]
"""Runs to its yield as a request arrives at a coordinator, and gets the answer as that leaves."""


def _no_tap(term: Term) -> Tap:
    yield


class ClientWire:
    """The requests of one client, which draws from its own stream."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, rng: random.Random) -> None:
        self._world = world
        self._knobs = knobs
        self._rng = rng

    def call(
        self, node: int, ask: Callable[[SimulatedBroker, Callable[..., None]], None], done: Callable[..., None]
    ) -> None:
        """Send a request to a broker; `ask` is what it does there, and `done` takes what it answers."""
        world = self._world
        broker = world.brokers[node]

        def arrives() -> None:
            broker.take(ask, broker, answers)

        def answers(*values: object) -> None:
            delay = self._delay()
            if delay is not None:
                world.schedule(world.now + delay, done, *values)

        delay = self._delay()
        if delay is not None:
            world.schedule(world.now + delay, arrives)

    def _delay(self) -> float | None:
        knobs, rng = self._knobs, self._rng
        if not self._world.healed and rng.random() < knobs.late:
            return None if rng.random() < 0.4 else 3 * knobs.request_s * rng.random()
        return knobs.delay_s * (0.5 + rng.random())

    def leader(self, partition: TopicPartition) -> int:
        """Ask any broker; it may be wrong."""
        nodes = [node for node, broker in self._world.brokers.items() if broker.up]
        leader = self._world.leader_of(self._rng.choice(nodes), partition) if nodes else -1
        return leader if leader in self._world.brokers else self._rng.randint(1, self._knobs.nodes)

    def ask_group(
        self,
        request: GroupRequest,
        version: int,
        done: Callable[[Any], None],
        *,
        stale: list[int] | None = None,
        member_suffix: str = "",
        tap: Callable[[Term], Tap] = _no_tap,
        knows_topics: bool = False,
    ) -> None:
        """Ask the coordinator, under the eyes of `tap`. It `knows_topics` if the request is about them.

        `stale` gets the broker if another one leads by now: it may answer a read with what was true before.
        """

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            if stale is not None and not self._world.leads_groups(broker.node):
                stale.append(broker.node)
            hosted = broker.parts.replicas.hosted.get(GROUPS)
            seen = tap((broker.process, -1 if hosted is None else hosted.leader_epoch))
            next(seen)

            def make_arrival(token: int) -> GroupRequestArrived:
                return GroupRequestArrived(token, version, request, broker.wall_ms(), member_suffix=member_suffix)

            def on_answered(response: Any) -> None:
                assert type(response).__name__ == type(request).__name__.replace("Request", "Response")
                # As in Kafka, a heartbeat is welcome while groups are loaded.
                if not isinstance(request, HeartbeatRequest) and not getattr(response, "error_code", True):
                    self._world.audits.coordinates(broker)
                with contextlib.suppress(StopIteration):
                    seen.send(response)
                answers(response)

            if knows_topics:
                broker.parts.coordinators.groups.topics_known([GROUPS.partition])
            if not broker.parts.coordinators.groups.request(0, make_arrival, on_answered):
                answers(error_response(version, request, KafkaErrorCode.NOT_COORDINATOR))

        self.call(self.leader(GROUPS), ask, done)


def build_offset_commit(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
) -> OffsetCommitRequest:
    """Returns the commit of one offset; without a generation it comes from outside of the group."""
    commit = OffsetCommitPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=(OffsetCommitTopic(name=topic, partitions=(commit,)),),
    )


def build_offset_fetch(group: str, topic: str, partition: int, *, stable: bool = False) -> OffsetFetchRequest:
    """Returns the question for one offset; `stable`: for none that a transaction is about to change."""
    topics = (OffsetFetchTopic(name=topic, partition_indexes=(partition,)),)
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
