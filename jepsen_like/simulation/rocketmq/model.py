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
    "puts_ok": 25_000,
    "puts_weak": 6_000,
    "puts_failed": 5_800,
    "puts_unknown": 7_000,
    "status_SEND_OK": 26_000,
    "status_FLUSH_DISK_TIMEOUT": 250,
    "status_FLUSH_SLAVE_TIMEOUT": 1_600,
    "status_SLAVE_NOT_AVAILABLE": 4_200,
    "refusals": 5_800,
    "pushes": 39_000,
    "welcomes": 2_500,
    "handshakes_refused": 1_600,
    "divergences": 700,
    "blocked_masters": 480,
    "losses_accepted": 56,
    "divergences_discarded": 260,
    "slaves_wiped": 70,
    "promotions": 370,
    "two_masters": 84,
    "silent_divergences": 51,
    "pushes_behind_other_bytes": 1_100,
    "acknowledged_without_copies": 49,
    "excused_losses": 5_800,
    "tails_lost": 360,
    "bytes_lost": 530_000,
    "kills": 1_100,
    "power_cuts": 1_000,
    "wipes": 250,
    "traps": 390,
    "pauses": 160,
    "partitions": 320,
    "resets": 160,
    "clock_jumps": 150,
    "slow_disks": 140,
    "loss_bursts": 160,
    "rogue_reports": 490,
    "trims": 310,
    "restarts": 2_100,
    "segments_damaged": 130,
    "messages": 110_000,
    "messages_lost": 1_000,
    "messages_lost_by_chance": 510,
    "messages_stopped": 1_100,
    "messages_duplicated": 1_800,
    "messages_reordered": 2_900,
    "raft_asked_unknown": 910,
    "raft_asked_unreached": 3_500,
    "raft_clock_jumps": 48,
    "raft_commands_applied": 37_000,
    "raft_commit_logs_trimmed": 14,
    "raft_commits_ok": 700,
    "raft_commits_refused": 1_200,
    "raft_copies_taken": 400,
    "raft_coups": 50,
    "raft_creates_ok": 73,
    "raft_deletes_ok": 11,
    "raft_deliveries": 730,
    "raft_disks_stalled": 2,
    "raft_kills": 110,
    "raft_loss_bursts": 48,
    "raft_masters": 350,
    "raft_messages": 73_000,
    "raft_messages_duplicated": 530,
    "raft_messages_lost": 2_200,
    "raft_messages_lost_by_chance": 670,
    "raft_messages_read": 7_600,
    "raft_messages_reordered": 3_000,
    "raft_messages_stopped": 2_700,
    "raft_partitions": 100,
    "raft_pauses": 70,
    "raft_power_cuts": 250,
    "raft_pulls_ok": 1_300,
    "raft_pulls_refused": 1_300,
    "raft_querys_ok": 1_100,
    "raft_raft_logs_trimmed": 1_400,
    "raft_redeliveries": 9,
    "raft_resets": 180,
    "raft_restarts": 400,
    "raft_sends_ok": 6_600,
    "raft_sends_refused": 8_800,
    "raft_slow_disks": 56,
    "raft_snapshots_installed": 13,
    "raft_snapshots_taken": 1_500,
    "raft_told_commit_log_incomplete": 13,
    "raft_topics_deleted": 9,
    "raft_traps": 74,
    "raft_worlds": 250,
}
"""What must happen at least so often in every 1,000 seeds: about half of what does. What begins with `raft_` happens in raft groups, three of ten
worlds."""


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
