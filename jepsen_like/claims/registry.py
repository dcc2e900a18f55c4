"""Every experiment, in the order in which they are carried out."""

from collections.abc import Iterable
from typing import Final

from jepsen_like.claims.experiment import Experiment
from jepsen_like.claims.experiments import (
    cities,
    equal_to_dledger,
    kafka_acks,
    kafka_controller,
    kafka_groups,
    kafka_isr,
    kafka_layout,
    kafka_schedules,
    kafka_throughput,
    kafka_zones,
    modes,
    question_rocketmq,
    raft_elections,
    raft_quorum,
    raft_zones,
    rocketmq_consumers,
    rocketmq_groups,
    rocketmq_names,
    rocketmq_pairs,
)

EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    *raft_quorum.EXPERIMENTS,
    *raft_elections.EXPERIMENTS,
    *raft_zones.EXPERIMENTS,
    *rocketmq_pairs.EXPERIMENTS,
    *rocketmq_groups.EXPERIMENTS,
    *rocketmq_consumers.EXPERIMENTS,
    *rocketmq_names.EXPERIMENTS,
    *modes.EXPERIMENTS,
    *cities.EXPERIMENTS,
    *question_rocketmq.EXPERIMENTS,
    *kafka_acks.EXPERIMENTS,
    *kafka_isr.EXPERIMENTS,
    *kafka_layout.EXPERIMENTS,
    *kafka_schedules.EXPERIMENTS,
    *kafka_controller.EXPERIMENTS,
    *kafka_groups.EXPERIMENTS,
    *kafka_throughput.EXPERIMENTS,
    *kafka_zones.EXPERIMENTS,
    *equal_to_dledger.EXPERIMENTS,
)


def experiments_of(claims: Iterable[str]) -> tuple[Experiment, ...]:
    """Returns the experiments that have a part in any of these claims, in order."""
    wanted = frozenset(claims)
    return tuple(one for one in EXPERIMENTS if wanted.intersection(one.claims))
