"""An administrator of a simulated Kafka cluster: makes a topic, deletes it and makes it again, changes settings, and moves
partitions to other brokers.

What is answered as done has been committed, and the broker that answers has applied it, or had no more time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jepsen_like.simulation.kafka.broker import SEGMENT_BYTES, SimulatedBroker
from jepsen_like.simulation.kafka.clients import BRIEF, TOPIC
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.wire import ClientWire
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.controller.commands import ResourceKind, ResourceName
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicConfig, CreateTopicsRequest
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

CREATE_VERSION, DELETE_VERSION, ALTER_VERSION, MOVE_VERSION = 7, 4, 1, 1
THROTTLES = 0.3
"""The probability that a throttle is set or ended before a move."""
THROTTLED_REPLICAS = {side: f"{side}.replication.throttled.replicas" for side in ("leader", "follower")}
NO_PARTITION = 1_000
SETTINGS = {
    "segment.bytes": (SEGMENT_BYTES, 2 * SEGMENT_BYTES),
    "retention.bytes": (2 * SEGMENT_BYTES, 1 << 30),
    "retention.ms": (3_000, 1 << 30),
}
"""Least values of which one is drawn; no value is asked for twice."""


class SimulatedAdministrator:
    """Asks any broker."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs) -> None:
        self._world = world
        self._knobs = knobs
        self._rng = stream(knobs.seed, "administrator")
        self._moves = stream(knobs.seed, "administrator/moves")
        self._wire = ClientWire(world, knobs, self._rng)
        self._drawn = 0

    def wake(self) -> None:
        """Change something; until the world heals."""
        world, rng = self._world, self._rng
        if world.healed:
            return
        world.schedule(world.now + (0.5 + rng.random()) / self._knobs.alters, self.wake)
        if rng.random() < 0.4:
            self._alter(rng.choice(list(SETTINGS)))
        elif BRIEF in world.audits.image.topics:
            self._delete()
        else:
            self._create()

    def move(self) -> None:
        """Move a partition, or cancel its move; until the world heals."""
        world, rng = self._world, self._moves
        if world.healed:
            return
        world.schedule(world.now + (0.5 + rng.random()) / self._knobs.alters, self.move)
        if rng.random() < THROTTLES:
            self._throttle(rng.choice(("leader", "follower")), ends=rng.random() < 0.3)
        key, truth = rng.choice(sorted(world.audits.truths.items(), key=lambda item: item[0]))
        state, replicas = truth.state, None
        if not state.is_moving or rng.random() < 0.6:
            replicas = self._draw_replicas(len(state.original))
        partition = ReassignablePartition(partition_index=key.partition, replicas=replicas)

        def lags(broker: SimulatedBroker, response: Any) -> bool:
            answered = [each for topic in response.responses for each in topic.partitions]
            world.counts["moves_taken"] += any(not each.error_code for each in answered)
            throttled = world.audits.image.topics[TOPIC].configs
            is_throttled = any("0:1" in throttled.get(name, "") for name in THROTTLED_REPLICAS.values())
            world.counts["moves_throttled"] += is_throttled and any(not each.error_code for each in answered)
            world.counts["moves_refused"] += any(each.error_code > 0 for each in answered)
            return False

        self._ask(
            ALTER_PARTITION_REASSIGNMENTS,
            MOVE_VERSION,
            AlterPartitionReassignmentsRequest(
                timeout_ms=round(1000 * self._knobs.timeout_s),
                topics=(ReassignableTopic(name=key.topic, partitions=(partition,)),),
            ),
            lags,
        )

    def _throttle(self, side: str, *, ends: bool) -> None:
        """Throttle the copies of the topic that catch up, at one side; or end that."""
        self._drawn += 1
        pairs = [] if ends else [f"{each}:{node}" for each in range(2) for node in range(1, self._knobs.nodes + 1)]
        # A partition that there is not makes it another value than all before.
        listed = ",".join((*pairs, f"{NO_PARTITION + self._drawn}:1"))
        change = IncrementalAlterConfig(name=THROTTLED_REPLICAS[side], config_operation=0, value=listed)

        def lags(broker: SimulatedBroker, response: Any) -> bool:
            self._world.counts["throttles_ended" if ends else "throttles_set"] += not response.responses[0].error_code
            return False

        resource = IncrementalAlterConfigsResource(
            resource_type=ResourceKind.TOPIC, resource_name=TOPIC, configs=(change,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        self._ask(INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, request, lags)

    def _draw_replicas(self, factor: int) -> tuple[int, ...]:
        """Returns as many brokers as now; where that leaves nothing to move, seldom, or often one more or less."""
        rng, nodes = self._moves, self._knobs.nodes
        wanted = self._knobs.replication_factor if factor < nodes or rng.random() < 0.2 else factor - 1
        if rng.random() < 0.2:
            wanted += rng.choice((-1, 1))
        return tuple(rng.sample(range(1, nodes + 1), max(1, min(nodes, wanted))))

    def _ask(
        self, api: Api[Any, Any], version: int, request: object, lags: Callable[[SimulatedBroker, Any], bool]
    ) -> None:
        """Send a request to any broker; `lags` returns True if an answer that it gives now is too early."""

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            gives_up_at = broker.reading() + self._knobs.timeout_s

            def on_answered(response: Any) -> None:
                if lags(broker, response) and broker.reading() < gives_up_at:
                    self._world.report("K7", broker.node, f"it answers {response}, and has not applied it")
                answers(response)

            broker.serve(api, version, request, on_answered)

        self._wire.call(self._rng.randint(1, self._knobs.nodes), ask, lambda response: None)

    def _draw(self, name: str) -> str:
        """Returns another value than all before."""
        self._drawn += 1
        return str(self._rng.choice(SETTINGS[name]) + self._drawn)

    def _note(self, value: str, error: int) -> None:
        if error == KafkaErrorCode.NOT_CONTROLLER:
            self._world.audits.refuses(value)

    def _create(self) -> None:
        value = self._draw("segment.bytes")
        topic = CreateTopic(
            name=BRIEF,
            num_partitions=1,
            replication_factor=self._knobs.replication_factor,
            assignments=(),
            configs=(CreateTopicConfig(name="segment.bytes", value=value),),
        )

        def lags(broker: SimulatedBroker, response: Any) -> bool:
            made = response.topics[0]
            self._note(value, made.error_code)
            known = self._world.audits.image.topics_by_id
            self._world.counts["topics_created"] += not made.error_code
            return not made.error_code and made.topic_id in known.keys() - broker.machine.image.topics_by_id.keys()

        self._ask(
            CREATE_TOPICS,
            CREATE_VERSION,
            CreateTopicsRequest(topics=(topic,), timeout_ms=round(1000 * self._knobs.timeout_s)),
            lags,
        )

    def _delete(self) -> None:
        doomed = self._world.audits.image.topics[BRIEF].topic_id

        def lags(broker: SimulatedBroker, response: Any) -> bool:
            error = response.responses[0].error_code
            self._world.counts["topics_deleted"] += not error
            return not error and doomed in broker.machine.image.topics_by_id

        self._ask(
            DELETE_TOPICS,
            DELETE_VERSION,
            DeleteTopicsRequest(topic_names=(BRIEF,), timeout_ms=round(1000 * self._knobs.timeout_s)),
            lags,
        )

    def _alter(self, name: str) -> None:
        value = self._draw(name)
        change = IncrementalAlterConfig(name=name, config_operation=0, value=value)
        resource = ResourceName(ResourceKind.TOPIC, TOPIC)
        request = IncrementalAlterConfigsRequest(
            resources=(
                IncrementalAlterConfigsResource(
                    resource_type=resource.kind, resource_name=resource.name, configs=(change,)
                ),
            ),
            validate_only=False,
        )

        def lags(broker: SimulatedBroker, response: Any) -> bool:
            error = response.responses[0].error_code
            self._note(value, error)
            if error:
                return False
            self._world.counts["settings_altered"] += 1
            machines = self._world.audits.machine, broker.machine
            values = [dict(each.image.configs_of(resource)).get(name) for each in machines]
            return values[0] == value != values[1]

        self._ask(INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, request, lags)
