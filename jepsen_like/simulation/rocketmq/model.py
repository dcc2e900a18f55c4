"""RocketMQ's broker groups as a model of the simulator, of fixed roles or raft groups, and how much must have happened
in their worlds.
"""

from collections.abc import Mapping
from typing import Any

from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.world import SimulatedWorld
from jepsen_like.simulation.rocketmq.dledger.world import DledgerWorld
from jepsen_like.simulation.rocketmq.explorer import RocketmqExplorer, read_rocketmq_scope
from jepsen_like.simulation.rocketmq.swarm import ROCKETMQ_CALM, RocketmqKnobs, draw_rocketmq
from jepsen_like.simulation.rocketmq.world import RocketmqWorld

ROCKETMQ_FLOORS: Mapping[str, int] = {
    "puts_ok": 20_000,
    "puts_weak": 3_000,
    "puts_failed": 9_900,
    "puts_unknown": 6_000,
    "status_SEND_OK": 21_000,
    "status_FLUSH_DISK_TIMEOUT": 100,
    "status_FLUSH_SLAVE_TIMEOUT": 1_000,
    "status_SLAVE_NOT_AVAILABLE": 1_500,
    "refusals": 10_000,
    "pushes": 35_000,
    "welcomes": 2_600,
    "handshakes_refused": 200,
    "divergences": 63,
    "blocked_masters": 62,
    "divergences_discarded": 28,
    "slaves_wiped": 11,
    "promotions": 270,
    "two_masters": 77,
    "silent_divergences": 64,
    "pushes_behind_other_bytes": 800,
    "acknowledged_without_copies": 50,
    "excused_losses": 3_000,
    "tails_lost": 280,
    "bytes_lost": 370_000,
    "kills": 1_100,
    "power_cuts": 950,
    "wipes": 220,
    "traps": 350,
    "pauses": 120,
    "partitions": 230,
    "resets": 140,
    "clock_jumps": 100,
    "slow_disks": 100,
    "loss_bursts": 130,
    "rogue_reports": 400,
    "trims": 290,
    "restarts": 2_100,
    "segments_damaged": 100,
    "messages_consumed": 50_000,
    "starts_without_promised": 500,
    "losses_accepted": 120,
    "messages": 100_000,
    "messages_lost": 1_000,
    "messages_lost_by_chance": 390,
    "messages_stopped": 1_000,
    "messages_duplicated": 2_200,
    "messages_reordered": 2_700,
    "doubts_ended": 1_500,
    "copies_back": 300,
    "bytes_copied_back": 260_000,
    "tables_adopted": 260,
    "whole_masters": 880,
    "disks_damaged": 180,
    "disks_vanished": 150,
    "stops_of_all": 120,
    "raft_asked_unknown": 700,
    "raft_asked_unreached": 4_100,
    "raft_clock_jumps": 45,
    "raft_commands_applied": 36_000,
    "raft_commit_logs_trimmed": 36,
    "raft_commits_ok": 650,
    "raft_commits_refused": 1_000,
    "raft_copies_taken": 790,
    "raft_coups": 73,
    "raft_creates_ok": 160,
    "raft_deletes_ok": 47,
    "raft_deliveries": 640,
    "raft_disks_damaged": 25,
    "raft_disks_stalled": 13,
    "raft_disks_vanished": 14,
    "raft_kills": 320,
    "raft_loss_bursts": 44,
    "raft_masters": 380,
    "raft_messages": 73_000,
    "raft_messages_duplicated": 710,
    "raft_messages_lost": 1_300,
    "raft_messages_lost_by_chance": 400,
    "raft_messages_read": 5_900,
    "raft_messages_reordered": 1_900,
    "raft_messages_stopped": 1_900,
    "raft_partitions": 84,
    "raft_pauses": 36,
    "raft_power_cuts": 290,
    "raft_pulls_ok": 1_000,
    "raft_pulls_refused": 1_300,
    "raft_querys_ok": 970,
    "raft_raft_logs_trimmed": 1_600,
    "raft_redeliveries": 10,
    "raft_resets": 150,
    "raft_restarts": 610,
    "raft_sends_ok": 6_300,
    "raft_sends_refused": 8_800,
    "raft_slow_disks": 73,
    "raft_snapshots_installed": 44,
    "raft_snapshots_taken": 1_800,
    "raft_stops_of_all": 57,
    "raft_told_commit_log_complete": 41,
    "raft_told_commit_log_incomplete": 45,
    "raft_timer_deliveries": 100,
    "raft_topics_deleted": 40,
    "raft_traps": 95,
    "raft_worlds": 130,
}
"""Every 1,000 seeds reach at least these counts, about half of the usual ones.

Counts that begin with `raft_` come from raft groups, three of ten worlds.
"""


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
