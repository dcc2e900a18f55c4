"""Every seed is another broker group: its size, its mode, its speeds and its faults, drawn here and nowhere else."""

import random
from typing import Any

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, Knobs, draw_faults, with_zones
from rocketmq_compat.replication.model import MASTER_ID, ReplicationConfig

ROCKETMQ_FAULTS = (
    FaultKind.POWER_CUT,
    FaultKind.CUT_AFTER_SEND,
    FaultKind.CUT_AFTER_ANSWER,
    FaultKind.CUT_ALL,
    FaultKind.KILL,
    FaultKind.PAUSE,
    FaultKind.ISOLATE,
    FaultKind.ONE_WAY,
    FaultKind.COUP,
    FaultKind.RESET,
    FaultKind.CLOCK_JUMP,
    FaultKind.SLOW_DISK,
    FaultKind.LOSS_BURST,
    FaultKind.DAMAGE,
    FaultKind.VANISH,
    FaultKind.STOPS,
)
"""A coup is an operator who promotes a slave."""
ROCKETMQ_TELLING = frozenset({FaultKind.COUP, FaultKind.POWER_CUT, FaultKind.CUT_AFTER_ANSWER})


RAFT_SHARE = 0.3
"""The share of worlds that are raft groups."""
LARGE_SHARE = 0.1
"""The share of other worlds with large records: those of a round do not fit into one batch."""


@attrs.frozen(kw_only=True)
class DledgerKnobs:
    """The knobs of raft groups alone. They share the knobs of the network, the disks, the clocks and the clients."""

    enabled: bool = False
    """enableDLegerCommitLog."""
    durable: bool = True
    """ack=durable, else page-cache."""
    heartbeat_s: float = 0.1
    election_s: float = 0.3
    """The shortest election timeout; the longest is twice as long."""
    flush_interval_s: float = 0.05
    """A write to the raft log waits this long for its flush with ack=page-cache."""
    flush_stall_s: float = 5.0
    """A leader whose flush takes longer hands over."""
    append_bytes_max: int = 1 << 20
    cache_bytes_max: int = 1 << 20
    snapshot_part_bytes_max: int = 1 << 20
    raft_segment_bytes: int = 1 << 16
    raft_log_bytes: int = 1 << 20
    """The raft log keeps at least this much."""
    commit_segment_bytes: int = 1 << 16
    commit_flush_ms: int = 500
    """flushIntervalCommitLog."""
    copy_bytes: int = 1 << 20
    """One answer has this much of a commit log."""
    administers: float = 0.0
    """The probability that another one makes or deletes a topic."""
    delayed: float = 0.0
    """The probability that a message is delayed."""


@attrs.frozen(kw_only=True)
class RocketmqKnobs(Knobs):
    """Everything that one seed decides. Seconds of virtual time, sizes in bytes, probabilities from 0 to 1."""

    sync_master: bool
    """brokerRole=SYNC_MASTER."""
    sync_flush: bool
    """flushDiskType=SYNC_FLUSH of the master; of a slave that is promoted, too."""
    slave_sync_flush: bool
    five_x: bool
    """The flavour of replication: 5.x, else 4.x."""
    in_sync_replicas: int
    min_in_sync_replicas: int
    auto_in_sync_replicas: bool
    refuses: bool
    """haDivergence=refuse, else rocketmq."""
    fallbehind_bytes_max: int
    """haSlaveFallbehindMax, haMaxGapNotInSync."""
    push_bytes_max: int
    push_window_bytes: int
    sync_flush_timeout_s: float
    slave_timeout_s: float
    heartbeat_s: float
    silence_s: float
    reconnect_s: float
    flush_s: float
    writeback_s: float
    """The page cache is written to the disk this often, whatever waits for it; 0: never."""
    round_s: float
    """A broker works off what has arrived after so long at most."""
    drift: float
    wipes: float
    """The probability that a power cut costs the whole disk."""
    damage: float
    """The probability that a bit of a segment is changed."""
    rot: float
    """The probability that a byte of a push differs from what its checksum was made of."""
    rogues: float
    """A slave reports what it does not have this often, per second."""
    decide_s: float
    """An operator takes this long at most to decide about a divergence."""
    impatience: float
    """The probability that an operator who finds the master down or in doubt goes on without what it may have had."""
    burst: int
    """A client has at most this many records on their way."""
    record_bytes_max: int
    think_s: float
    consumes: float
    """The probability that a request is one of a consumer."""
    request_s: float
    """A client waits this long for an answer."""
    late: float
    """The probability that a request or answer of a client is late by up to three request timeouts, or lost."""
    unwaited: float
    """The probability that a record has the property WAIT=false."""
    lost_clients: float
    """The probability that a record is sent to a slave."""
    trims: float
    """Retention cuts a log this often, per second."""
    dledger: DledgerKnobs = DledgerKnobs()

    @property
    def patience_s(self) -> float:
        """After so much silence a connection is closed, or an election begins."""
        return self.dledger.election_s if self.dledger.enabled else self.silence_s

    @property
    def fails_proposals(self) -> bool:
        """True if proposals of a raft group fail now and then."""
        return self.dledger.enabled and self.seed % 3 == 0

    @property
    def seldom(self) -> float:
        """The probability that a message of a raft group goes to a topic with few others, which retention may empty."""
        return 0.04 if self.seed % 3 == 1 else 0.0

    @property
    def segment_bytes(self) -> int:
        """mappedFileSizeCommitLog: small where slaves are pushed little at a time."""
        return 4096 if self.push_window_bytes < 4000 else 1 << 16

    @property
    def copies_wanted(self) -> int:
        """inSyncReplicas, where there are as many brokers."""
        return min(self.in_sync_replicas, self.nodes)

    def config(self, node: int, *, is_master: bool) -> ReplicationConfig:
        """The settings of a broker."""
        return ReplicationConfig(
            broker_id=MASTER_ID if is_master else node,
            sync_master=self.sync_master,
            sync_flush=self.sync_flush if is_master else self.slave_sync_flush,
            total_replicas=self.nodes,
            flavor="5.x" if self.five_x else "4.x",
            divergence="refuse" if self.refuses else "rocketmq",
            sync_flush_timeout_s=self.sync_flush_timeout_s,
            slave_timeout_s=self.slave_timeout_s,
            in_sync_replicas=self.copies_wanted,
            min_in_sync_replicas=min(self.min_in_sync_replicas, self.copies_wanted),
            auto_in_sync_replicas=self.auto_in_sync_replicas,
            slave_fallbehind_bytes_max=self.fallbehind_bytes_max,
            in_sync_gap_bytes_max=self.fallbehind_bytes_max,
            heartbeat_s=self.heartbeat_s,
            silence_s_max=self.silence_s,
            reconnect_s=self.reconnect_s,
            push_bytes_max=self.push_bytes_max,
            push_window_bytes=self.push_window_bytes,
        )


ROCKETMQ_CALM = RocketmqKnobs(
    seed=0,
    nodes=2,
    safety_s=4.0,
    delay_s=0.002,
    delay_s_spread=0.2,
    loss=0.0,
    duplicate=0.0,
    fifo=True,
    clients=0,
    faults=(),
    sync_master=True,
    sync_flush=False,
    slave_sync_flush=False,
    five_x=False,
    in_sync_replicas=2,
    min_in_sync_replicas=1,
    auto_in_sync_replicas=False,
    refuses=True,
    fallbehind_bytes_max=1 << 20,
    push_bytes_max=400,
    push_window_bytes=1600,
    sync_flush_timeout_s=0.5,
    slave_timeout_s=0.3,
    heartbeat_s=0.2,
    silence_s=0.8,
    reconnect_s=0.2,
    flush_s=0.004,
    writeback_s=1.0,
    round_s=0.0,
    drift=0.0,
    wipes=0.0,
    damage=0.0,
    rot=0.0,
    rogues=0.0,
    decide_s=0.3,
    impatience=0.0,
    burst=1,
    record_bytes_max=30,
    think_s=0.05,
    consumes=0.0,
    request_s=0.8,
    late=0.0,
    unwaited=0.0,
    lost_clients=0.0,
    trims=0.0,
)
"""A good network, quick disks, no clients, no faults; a SYNC_MASTER of 4.x with a slave."""


def draw_rocketmq(seed: int) -> RocketmqKnobs:
    """The broker group of `seed`: one of fixed roles, or a raft group."""
    return with_zones(draw_raft_group(seed) if stream(seed, "mode").random() < RAFT_SHARE else draw_fixed_roles(seed))


def draw_raft_group(seed: int) -> RocketmqKnobs:
    """A raft group. A broker whose disk is gone cannot come back to it, so power cuts take no disks."""
    rng = stream(seed, "dledger")
    durable = rng.random() < 0.75
    safety_s = rng.uniform(3.0, 6.0)
    calm_network = rng.random() < 0.5
    election_s = rng.uniform(0.2, 0.5)
    trims_raft = rng.random() < 0.6
    delay_s, flush_s = rng.choice((0.001, 0.005, 0.02)), rng.choice((0.001, 0.01, 0.04))
    dledger = DledgerKnobs(
        enabled=True,
        durable=durable,
        heartbeat_s=election_s / rng.choice((3, 5)),
        election_s=election_s,
        flush_interval_s=rng.choice((0.01, 0.05, 0.5)),
        flush_stall_s=rng.choice((0.3, 5.0)),
        append_bytes_max=rng.choice((300, 1 << 20)),
        cache_bytes_max=rng.choice((1, 2000, 1 << 20)),
        snapshot_part_bytes_max=rng.choice((500, 1 << 20)),
        raft_segment_bytes=4096 if trims_raft else 1 << 16,
        raft_log_bytes=rng.choice((0, 4096)) if trims_raft else 1 << 20,
        commit_segment_bytes=rng.choice((4096, 1 << 16)),
        commit_flush_ms=rng.choice((50, 500, 5000)),
        copy_bytes=rng.choice((1, 600, 1 << 20)),
    )
    consumes = rng.choice((0.1, 0.4))
    administers, delayed = rng.choice((0.0, 0.1, 0.3)), rng.choice((0.0, 0.1, 0.3))
    return attrs.evolve(
        ROCKETMQ_CALM,
        seed=seed,
        nodes=rng.choice((1, 3, 3, 3, 5)),
        safety_s=safety_s,
        delay_s=delay_s,
        delay_s_spread=rng.choice((0.2, 1.0, 3.0)),
        loss=0.0 if calm_network else rng.choice((0.0, 0.002, 0.01)),
        duplicate=0.0 if calm_network else rng.choice((0.0, 0.03)),
        fifo=calm_network or rng.random() < 0.6,
        faults=draw_faults(seed, safety_s, ROCKETMQ_FAULTS, ROCKETMQ_TELLING),
        flush_s=flush_s,
        drift=rng.choice((0.0, 0.0, 0.05, 0.1)),
        trims=rng.choice((0.0, 0.7, 4.0)),
        clients=rng.randint(1, 3),
        burst=rng.choice((1, 4, 8)),
        record_bytes_max=rng.choice((20, 200, 1000)),
        think_s=rng.choice((0.02, 0.06)),
        consumes=consumes,
        request_s=rng.choice((0.3, 0.8)),
        lost_clients=rng.choice((0.0, 0.1)),
        silence_s=1.0,
        dledger=attrs.evolve(dledger, administers=administers, delayed=delayed),
    )


def draw_fixed_roles(seed: int) -> RocketmqKnobs:
    """A master and its slaves."""
    rng = stream(seed, "rocketmq")
    nodes = rng.choice((2, 2, 3, 3, 4))
    safety_s = rng.uniform(4.0, 7.0)
    calm_network = rng.random() < 0.5
    delay_s, spread = rng.choice((0.001, 0.005, 0.02)), rng.choice((0.2, 1.0, 3.0))
    flush_s = rng.choice((0.001, 0.01, 0.05))
    drawn = attrs.evolve(
        ROCKETMQ_CALM,
        seed=seed,
        nodes=nodes,
        safety_s=safety_s,
        delay_s=delay_s,
        delay_s_spread=spread,
        loss=0.0 if calm_network else rng.choice((0.0, 0.002, 0.01)),
        duplicate=0.0 if calm_network else rng.choice((0.0, 0.03, 0.1)),
        fifo=calm_network or rng.random() < 0.4,
        faults=draw_faults(seed, safety_s, ROCKETMQ_FAULTS, ROCKETMQ_TELLING),
        **_mode(rng, nodes),
        **_timeouts(rng, delay_s * (0.5 + spread), flush_s),
        **_local(rng),
        flush_s=flush_s,
        **_load(rng),
    )
    if stream(seed, "large").random() >= LARGE_SHARE:
        return drawn
    return attrs.evolve(
        drawn, record_bytes_max=40_000, clients=3, burst=6, think_s=0.1, round_s=0.02, fallbehind_bytes_max=1 << 20
    )


def _mode(rng: random.Random, nodes: int) -> dict[str, Any]:
    """Returns the knobs of the mode, which decide what is promised."""
    return {
        "sync_master": rng.random() < 0.7,
        "sync_flush": rng.random() < 0.4,
        "slave_sync_flush": rng.random() < 0.4,
        "five_x": rng.random() < 0.5,
        "in_sync_replicas": rng.randint(1, nodes),
        "min_in_sync_replicas": rng.choice((1, 2)),
        "auto_in_sync_replicas": rng.random() < 0.4,
        "refuses": rng.random() < 0.85,
        "fallbehind_bytes_max": rng.choice((500, 2000, 1 << 20)),
        "push_bytes_max": rng.choice((100, 400, 4000, 4000)),
        "push_window_bytes": rng.choice((1, 1, 400, 4000)),
    }


def _timeouts(rng: random.Random, travel_s: float, flush_s: float) -> dict[str, Any]:
    """Returns timeouts: a near broker can be reached within them, but not always."""
    silence_s = rng.uniform(0.5, 1.0)
    return {
        "sync_flush_timeout_s": (0.03 + 5 * flush_s) * rng.choice((1, 3)),
        "slave_timeout_s": (0.03 + 4 * travel_s + 5 * flush_s) * rng.choice((1, 3)),
        "silence_s": silence_s,
        "heartbeat_s": silence_s / rng.choice((3, 4)),
        "reconnect_s": rng.choice((0.05, 0.2)),
    }


def _local(rng: random.Random) -> dict[str, Any]:
    """Returns the knobs of single brokers: disks, clocks, damage, and the operator."""
    return {
        "writeback_s": rng.choice((0.0, 0.3, 1.0)),
        "round_s": rng.choice((0.0, 0.002, 0.02)),
        "drift": rng.choice((0.0, 0.0, 0.05, 0.2)),
        "wipes": rng.choice((0.0, 0.2, 0.5)),
        "damage": rng.choice((0.0, 0.0, 0.005)),
        "rot": rng.choice((0.0, 0.0, 0.01)),
        "rogues": rng.choice((0.0, 0.0, 1.0)),
        "decide_s": rng.choice((0.2, 0.8)),
        "impatience": rng.choice((0.0, 0.3, 0.3, 0.3)),
        "trims": rng.choice((0.0, 0.0, 0.7)),
    }


def _load(rng: random.Random) -> dict[str, Any]:
    """Returns the knobs of clients."""
    return {
        "clients": rng.randint(1, 3),
        "burst": rng.choice((1, 3, 6)),
        "record_bytes_max": rng.choice((10, 30, 120)),
        "think_s": rng.choice((0.02, 0.06, 0.2)),
        "consumes": rng.choice((0.0, 0.2)),
        "request_s": rng.choice((0.3, 0.8)),
        "late": rng.choice((0.0, 0.0, 0.05)),
        "unwaited": rng.choice((0.0, 0.1)),
        "lost_clients": rng.choice((0.0, 0.1)),
    }
