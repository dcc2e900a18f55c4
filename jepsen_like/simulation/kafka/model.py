"""Kafka as a model of the simulator, and how much must have happened in its worlds."""

from collections.abc import Mapping

from jepsen_like.simulation.kafka.explorer import KafkaExplorer, read_kafka_scope
from jepsen_like.simulation.kafka.swarm import KAFKA_CALM, KafkaKnobs, draw_kafka
from jepsen_like.simulation.kafka.world import KafkaWorld
from jepsen_like.simulation.kernel.model import SystemModel

KAFKA_FLOORS: Mapping[str, int] = {}
"""What must happen at least so often in every 1,000 seeds: about half of what does."""

KAFKA: SystemModel[KafkaKnobs] = SystemModel(
    name="kafka",
    draw=draw_kafka,
    calm=KAFKA_CALM,
    world=KafkaWorld,
    floors=KAFKA_FLOORS,
    columns=f"{'state':<7} {'epoch':>5} {'index':>5} {'leads':<16}",
    scope="records=2,elections=2",
    read_scope=read_kafka_scope,
    explorer=KafkaExplorer,
)
