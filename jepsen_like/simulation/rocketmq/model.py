"""RocketMQ's broker groups as a model of the simulator, of fixed roles or raft groups, and how much must have happened in their worlds."""

from collections.abc import Mapping
from typing import Any

from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.world import SimulatedWorld
from jepsen_like.simulation.rocketmq.dledger.world import DledgerWorld
from jepsen_like.simulation.rocketmq.explorer import RocketmqExplorer, read_rocketmq_scope
from jepsen_like.simulation.rocketmq.swarm import ROCKETMQ_CALM, RocketmqKnobs, draw_rocketmq
from jepsen_like.simulation.rocketmq.world import RocketmqWorld

ROCKETMQ_FLOORS: Mapping[str, int] = {
    "puts_ok": 37_000,
    "puts_weak": 8_700,
    "puts_failed": 8_400,
    "puts_unknown": 10_000,
    "status_SEND_OK": 38_000,
    "status_FLUSH_DISK_TIMEOUT": 370,
    "status_FLUSH_SLAVE_TIMEOUT": 2_300,
    "status_SLAVE_NOT_AVAILABLE": 6_000,
    "refusals": 8_400,
    "pushes": 56_000,
    "welcomes": 3_600,
    "handshakes_refused": 2_300,
    "divergences": 1_000,
    "blocked_masters": 690,
    "losses_accepted": 81,
    "divergences_discarded": 380,
    "slaves_wiped": 100,
    "promotions": 530,
    "two_masters": 120,
    "silent_divergences": 73,
    "pushes_behind_other_bytes": 1_700,
    "acknowledged_without_copies": 70,
    "excused_losses": 8_300,
    "tails_lost": 520,
    "bytes_lost": 760_000,
    "kills": 1_600,
    "power_cuts": 1_500,
    "wipes": 370,
    "traps": 570,
    "pauses": 230,
    "partitions": 470,
    "resets": 240,
    "clock_jumps": 220,
    "slow_disks": 200,
    "loss_bursts": 240,
    "rogue_reports": 710,
    "trims": 450,
    "restarts": 3_100,
    "segments_damaged": 190,
    "messages": 160_000,
    "messages_lost": 1_500,
    "messages_lost_by_chance": 730,
    "messages_stopped": 1_700,
    "messages_duplicated": 2_600,
    "messages_reordered": 4_200,
}
"""What must happen at least so often in every 1,000 seeds: about half of what does."""


def rocketmq_world(knobs: RocketmqKnobs, **options: Any) -> SimulatedWorld[RocketmqKnobs]:
    """The world of these knobs."""
    return (DledgerWorld if knobs.dledger.enabled else RocketmqWorld)(knobs, **options)


ROCKETMQ: SystemModel[RocketmqKnobs] = SystemModel(
    name="rocketmq",
    draw=draw_rocketmq,
    calm=ROCKETMQ_CALM,
    world=rocketmq_world,
    floors=ROCKETMQ_FLOORS,
    columns=f"{'state':<7} {'role':<6} {'log':<14} {'durable':>7}",
    scope="records=3,cuts=2,promotions=1",
    read_scope=read_rocketmq_scope,
    explorer=RocketmqExplorer,
)
