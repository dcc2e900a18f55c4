"""Kafka as a model of the simulator, and how much must have happened in its worlds."""

from collections.abc import Mapping

from jepsen_like.simulation.kafka.explorer import KafkaExplorer, read_kafka_scope
from jepsen_like.simulation.kafka.swarm import KAFKA_CALM, KafkaKnobs, draw_kafka
from jepsen_like.simulation.kafka.world import KafkaWorld
from jepsen_like.simulation.kernel.model import SystemModel

KAFKA_FLOORS: Mapping[str, int] = {
    "acknowledgements": 24_000,
    "reads": 4_100,
    "produces_ok": 26_000,
    "produces_failed": 9_200,
    "produces_unknown": 9_900,
    "offset_commits": 3_300,
    "offset_fetches": 3_000,
    "generations": 600,
    "group_joins": 1_800,
    "group_assignments": 1_300,
    "group_commits": 3_300,
    "group_commits_refused": 24,
    "group_leaves": 110,
    "members_removed": 18,
    "elections": 2_100,
    "unclean_elections": 110,
    "isr_shrinks": 2_700,
    "isr_expansions": 2_800,
    "eligible_replicas": 3_600,
    "eligible_elections": 540,
    "compared_elections": 300,
    "gone_on_alone": 2_100,
    "suspects": 1_500,
    "log_reports": 2_400,
    "truncations": 470,
    "trims": 2_600,
    "fenced_brokers": 4_000,
    "controller_changes": 750,
    "alter_partitions": 4_000,
    "coordinator_loads": 1_100,
    "last_copies_lost": 220,
    "logs_lost_in_part": 850,
    "excused_losses": 2_700,
    "kills": 320,
    "power_cuts": 1_100,
    "wipes": 250,
    "damages": 200,
    "vanishes": 220,
    "stops": 280,
    "traps": 410,
    "shutdowns": 39,
    "pauses": 210,
    "partitions": 1_100,
    "coups": 360,
    "resets": 690,
    "clock_jumps": 210,
    "slow_disks": 210,
    "loss_bursts": 170,
    "restarts": 1_500,
    "messages": 320_000,
    "messages_lost": 9_900,
    "messages_lost_by_chance": 3_400,
    "messages_stopped": 12_000,
    "messages_duplicated": 6_100,
    "messages_reordered": 15_000,
}
"""Every 1,000 seeds reach at least these counts, about half of the usual ones."""

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
