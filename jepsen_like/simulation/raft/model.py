"""Raft as a model of the simulator, and how much must have happened in its worlds."""

from collections.abc import Mapping

from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.raft.explorer import RaftExplorer
from jepsen_like.simulation.raft.scope import read_scope
from jepsen_like.simulation.raft.swarm import CALM, RaftKnobs, draw
from jepsen_like.simulation.raft.tracing import COLUMNS
from jepsen_like.simulation.raft.world import RaftWorld

FLOORS: Mapping[str, int] = {
    "acknowledgements": 20_000,
    "reads": 15_000,
    "commands": 6_600,
    "queries": 5_000,
    "answered_jointly": 6_700,
    "answers_Busy": 4_400,
    "answers_StorageFull": 25,
    "answers_ShuttingDown": 16,
    "answers_OutcomeUnknown": 760,
    "delivered": 40_000,
    "taken_together": 7_200,
    "unknown_outcomes": 2_700,
    "refusals": 110_000,
    "leader_changes": 1_500,
    "truncations": 210,
    "loads": 8_100,
    "segment_rolls": 3_500,
    "restarts": 2_600,
    "power_cuts": 1_900,
    "power_cuts_in_flush": 490,
    "cuts_after_send": 150,
    "cuts_after_answer": 150,
    "torn_tails": 100,
    "recovery_crashes": 310,
    "cuts_that_took": 92,
    "kills": 710,
    "stops": 140,
    "pauses": 290,
    "ticks_waited": 100,
    "overslept": 250,
    "partitions": 720,
    "coups": 230,
    "resets": 410,
    "clock_jumps": 230,
    "timers_overtaken": 160,
    "slow_disks": 220,
    "slow_flushes": 490,
    "disks_stalled": 29,
    "disks_filled": 230,
    "disk_full": 70,
    "disk_failures": 180,
    "rots": 240,
    "rot_met": 2,
    "repairs": 145,
    "repairs_refused": 18,
    "directories_vanished": 190,
    "vanished_caught_up": 200,
    "caught_up": 145,
    "learners_added": 200,
    "promotions": 45,
    "removals": 55,
    "voters_changed": 110,
    "joint_changes": 29,
    "transfers": 100,
    "configurations_undone": 10,
    "new_directories": 30,
    "changes_Busy": 250,
    "trims": 1_000,
    "snapshot_parts": 130,
    "snapshots_installed": 50,
    "snapshots_ignored": 3,
    "snapshots_dropped": 6,
    "trimmed_restarts": 90,
    "cuts_in_reset": 4,
    "messages": 360_000,
    "messages_lost": 30_000,
    "messages_lost_by_chance": 12_000,
    "messages_stopped": 14_000,
    "held_by_pauses": 2_000,
    "messages_duplicated": 12_000,
    "messages_reordered": 32_000,
}
"""Every 1,000 seeds reach at least these counts: about half of the usual ones, or a fifth where they come in bursts.

All that begins with a trim comes in bursts: few worlds trim, and those often, so that blocks of sound seeds differ by
more than half. Faults are counted by their effects as well: a partition that stops no message, a pause that holds
nothing up, or a full disk that refuses nothing, would be one in name only.
"""


RAFT: SystemModel[RaftKnobs] = SystemModel(
    name="raft",
    draw=draw,
    calm=CALM,
    world=RaftWorld,
    floors=FLOORS,
    columns=COLUMNS,
    scope="nodes=3",
    read_scope=read_scope,
    explorer=RaftExplorer,
)
