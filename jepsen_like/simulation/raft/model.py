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
    "reads": 12_000,
    "commands": 8_000,
    "queries": 4_000,
    "answered_jointly": 8_000,
    "answers_Busy": 5_000,
    "answers_StorageFull": 60,
    "answers_ShuttingDown": 25,
    "answers_OutcomeUnknown": 700,
    "delivered": 50_000,
    "taken_together": 10_000,
    "unknown_outcomes": 2_000,
    "refusals": 20_000,
    "leader_changes": 1_500,
    "truncations": 200,
    "loads": 5_000,
    "segment_rolls": 3_000,
    "restarts": 2_000,
    "power_cuts": 1_500,
    "power_cuts_in_flush": 400,
    "cuts_after_send": 150,
    "cuts_after_answer": 120,
    "torn_tails": 100,
    "recovery_crashes": 200,
    "cuts_that_took": 70,
    "kills": 400,
    "stops": 150,
    "pauses": 250,
    "ticks_waited": 20,
    "overslept": 250,
    "partitions": 600,
    "coups": 150,
    "resets": 400,
    "clock_jumps": 200,
    "timers_overtaken": 150,
    "slow_disks": 200,
    "slow_flushes": 400,
    "disks_stalled": 25,
    "disks_filled": 200,
    "disk_full": 600,
    "disk_failures": 150,
    "rots": 300,
    "rot_met": 2,
    "repairs": 180,
    "repairs_refused": 25,
    "directories_vanished": 150,
    "vanished_caught_up": 150,
    "caught_up": 180,
    "trims": 1_000,
    "snapshot_parts": 130,
    "snapshots_installed": 50,
    "snapshots_ignored": 3,
    "snapshots_dropped": 6,
    "trimmed_restarts": 90,
    "cuts_in_reset": 4,
    "messages": 300_000,
    "messages_lost": 20_000,
    "messages_lost_by_chance": 8_000,
    "messages_stopped": 13_000,
    "held_by_pauses": 2_000,
    "messages_duplicated": 7_000,
    "messages_reordered": 20_000,
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
