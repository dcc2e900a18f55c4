"""Every seed is another world: its size, its speeds, its settings and its faults, drawn here and nowhere else.

Swarm testing: *every* fault at once hides bugs that need one of them off, so each seed switches on a random part. It
draws rates, windows, batch and cache sizes, tiny ones on purpose: segments roll, caches miss, windows fill.
"""

import math
import random

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import Knobs, draw_faults, with_zones
from log.policy import FlushPolicy
from raft.config import RaftConfig

SNAPSHOT_HEAD_BYTES = 60
"""A snapshot of the simulated state machine has about these bytes besides its filler (`record.Replica.snapshot`)."""


@attrs.frozen(kw_only=True)
class DriverKnobs:
    """The settings of the drivers."""

    apply_bytes: int = 1_000_000
    """One round gives this much of the log to the state machine."""
    trim_every_s: float = 1.0
    """The retention rule is applied this often, in addition to each time that the log has grown by a segment."""
    round_s: float = 0.0
    """A round takes this long; what arrives meanwhile waits for the next one."""
    reads_max: int = 4
    """At most this many of the things that wait are taken in one round."""
    batch_bytes_max: int = 3_000_000
    """Appends that wait are joined into entries of at most this size."""
    pending_bytes_max: int = 32_000_000
    """Appends and commands that wait to be proposed; more are refused."""
    flush_every_s: float = 0.0
    """0: acknowledgements wait for the flush. Otherwise they do not, and a flush follows after so long, or, if that is
    infinite, with a full segment."""
    flush_stall_s: float = 5.0
    """A leader whose flush takes longer steps down."""
    subscribes: bool = False
    """True if each node has a subscriber."""
    spares: int = 0
    """So many more nodes are there, which may join."""
    changes: int = 0
    """An operator asks for so many changes of the members, or of the leader."""

    @property
    def flush_policy(self) -> FlushPolicy:
        """The event that acknowledgements wait for."""
        if not self.flush_every_s:
            return FlushPolicy.BEFORE_ACK
        return FlushPolicy.INTERVAL if math.isfinite(self.flush_every_s) else FlushPolicy.NONE


@attrs.frozen(kw_only=True)
class RaftKnobs(Knobs):
    """Everything that one seed decides. Seconds of virtual time, bytes, probabilities from 0 to 1."""

    raft: RaftConfig
    segment_bytes_max: int
    flush_s: float
    flush_s_spread: float
    handoff_s: float
    """From the end of an fsync to the moment the driver learns of it."""
    drift: float
    """The most by which a node's clock runs too fast or too slow, as a fraction."""
    think_s: float
    retry_s: float
    """A client waits this long after a failure."""
    client_timeout_s: float
    burst: int
    """A client sends this many requests at once."""
    reads: float
    """The share of reads among the requests."""
    commands: float = 0.0
    """The share of requests that concern the registers, and not the records."""
    records_max: int
    filler_bytes_max: int
    """Records are padded up to this, so that byte windows and segments fill."""
    recovery_crash: float
    """The probability that power is lost again right after a recovery touched the disk."""
    rot: float
    """The probability that a node that comes back finds that a bit of its disk has changed."""
    vanishes_s: tuple[float, ...] = ()
    """The times at which the directories of some nodes vanish."""
    retention_bytes: int | None = None
    """Oldest segments leave a node's log while the others hold at least so much; None: none ever leaves."""
    snapshot_bytes: int = 0
    """A snapshot has this many bytes in addition to what it must have."""
    driver: DriverKnobs = DriverKnobs()
    reset_crash: float = 0.0
    """The probability that power is lost while a log is reset to a snapshot."""
    trim_crash: float = 0.0
    """The probability that power is lost while a flush removes what has left a log."""

    @property
    def patience_s(self) -> float:
        """The longest election timeout."""
        return self.raft.election_timeout_s_max


CALM = RaftKnobs(
    seed=0,
    nodes=3,
    raft=RaftConfig(),
    segment_bytes_max=20_000,
    safety_s=6.0,
    delay_s=0.002,
    delay_s_spread=0.2,
    loss=0.0,
    duplicate=0.0,
    fifo=True,
    flush_s=0.001,
    flush_s_spread=0.2,
    handoff_s=0.0,
    rot=0.0,
    drift=0.0,
    clients=0,
    think_s=0.05,
    retry_s=0.1,
    client_timeout_s=1.0,
    burst=1,
    reads=0.3,
    records_max=1,
    filler_bytes_max=0,
    recovery_crash=0.0,
    faults=(),
)
"""A good network, fast disks, no clients, no faults."""


def draw(seed: int) -> RaftKnobs:
    """The world of `seed`."""
    rng = stream(seed, "swarm")
    raft = _raft_config(rng)
    safety_s = rng.uniform(6.0, 12.0) * raft.election_timeout_s_max
    calm_network = rng.random() < 0.35
    knobs = RaftKnobs(
        seed=seed,
        nodes=_nodes(seed, rng.choice((3, 3, 3, 4, 5, 5))),
        raft=raft,
        segment_bytes_max=rng.choice((4096, 6000, 20_000)),
        safety_s=safety_s,
        delay_s=raft.election_timeout_s_min * rng.choice((0.005, 0.02, 0.06)),
        delay_s_spread=rng.choice((0.2, 1.0, 3.0)),
        loss=0.0 if calm_network else rng.choice((0.0, 0.01, 0.05, 0.15)),
        duplicate=0.0 if calm_network else rng.choice((0.0, 0.02, 0.1)),
        fifo=calm_network or rng.random() < 0.4,
        flush_s=raft.election_timeout_s_min * rng.choice((0.002, 0.01, 0.04, 0.12)),
        flush_s_spread=rng.choice((0.2, 1.0, 2.0)),
        handoff_s=rng.choice((0.0, 0.0002, 0.002)),
        drift=rng.choice((0.0, 0.0, 0.05, 0.3)),
        clients=rng.randint(1, 4),
        think_s=raft.heartbeat_s * rng.choice((0.2, 0.5, 1.5)),
        retry_s=raft.heartbeat_s * rng.choice((1.0, 3.0, 6.0)),
        client_timeout_s=raft.election_timeout_s_max * rng.uniform(1.0, 4.0),
        burst=rng.choice((1, 1, 1, 3, 8)),
        reads=rng.choice((0.1, 0.3, 0.6)),
        records_max=rng.choice((1, 3, 10)),
        filler_bytes_max=rng.choice((0, 40, 300, 900)),
        recovery_crash=rng.choice((0.0, 0.0, 0.3)),
        rot=rng.choice((0.0, 0.0, 0.25, 0.7)),
        faults=draw_faults(seed, safety_s),
    )
    return with_zones(_with_page_cache(_with_changes(_with_trims(_with_vanishes(_with_driver(knobs))))))


def _with_driver(knobs: RaftKnobs) -> RaftKnobs:
    """The settings of the drivers, and what the clients ask them; drawn apart, so that older seeds keep all else."""
    rng = stream(knobs.seed, "driver")
    driver = DriverKnobs(
        apply_bytes=rng.choice((1, 1000, 1_000_000)),
        round_s=knobs.delay_s * rng.choice((0.0, 0.0, 0.3)),
        reads_max=rng.choice((1, 4, 64)),
        batch_bytes_max=rng.choice((1, 200, 3_000_000)),
        pending_bytes_max=rng.choice((1500, 32_000_000, 32_000_000)),
        flush_stall_s=knobs.raft.election_timeout_s_max * rng.choice((0.3, 1.0, 1000.0)),
        subscribes=rng.random() < 0.3,
    )
    return attrs.evolve(knobs, commands=rng.choice((0.0, 0.2, 0.5)), driver=driver)


def _with_page_cache(knobs: RaftKnobs) -> RaftKnobs:
    """In one of six worlds, drawn apart, nodes acknowledge from the page cache, and power cuts may cost such records.

    Nothing leaves a log or is damaged there: a snapshot may know what the group has lost; its node must stay down.
    """
    rng = stream(knobs.seed, "page cache")
    if rng.random() >= 1 / 6:
        return knobs
    every_s = knobs.raft.heartbeat_s * rng.choice((0.1, 1.0, 10.0, float("inf")))
    driver = attrs.evolve(knobs.driver, flush_every_s=every_s, spares=0, changes=0)
    return attrs.evolve(knobs, driver=driver, retention_bytes=None, rot=0.0, vanishes_s=())


def _with_vanishes(knobs: RaftKnobs) -> RaftKnobs:
    """In one of four worlds directories vanish, once or a few times; drawn apart, so that older seeds keep all else.

    Nothing rots there: a cut log and vanished ones may leave no sound copy of a floor, and the group waits forever.
    """
    rng = stream(knobs.seed, "vanishes")
    if knobs.nodes == 1 or rng.random() >= 0.25:
        return knobs
    times = [rng.uniform(0.1, 0.9) * knobs.safety_s for _ in range(rng.choice((1, 1, 2, 3)))]
    return attrs.evolve(knobs, vanishes_s=tuple(sorted(times)), rot=0.0)


def _with_trims(knobs: RaftKnobs) -> RaftKnobs:
    """In two of five worlds logs are trimmed, with writes enough that some leave; snapshots come twice or late."""
    rng = stream(knobs.seed, "trims")
    if rng.random() >= 0.4:
        return knobs
    # Where nearly all is kept, much is written: damage in what a restart does not read is met as it is applied.
    kept = rng.choice((0.0, 0.0, 0.3, 1.0, 3.0, 30.0))
    trimming = attrs.evolve(
        knobs,
        retention_bytes=int(knobs.segment_bytes_max * kept),
        driver=attrs.evolve(knobs.driver, trim_every_s=rng.choice((0.0, 0.0, 1.0))),
        snapshot_bytes=rng.choice((0, 0, 3000)),
        reset_crash=rng.choice((0.0, 0.0, 0.3)),
        rot=0.7 if kept > 10 and not knobs.vanishes_s else knobs.rot,
        burst=8 if kept > 10 else knobs.burst,
        duplicate=max(knobs.duplicate, rng.choice((0.0, 0.0, 0.15))),
        fifo=knobs.fifo and rng.random() < 0.5,
        segment_bytes_max=rng.choice((4096, 4096, knobs.segment_bytes_max)),
        filler_bytes_max=max(knobs.filler_bytes_max, rng.choice((0, 300, 900))),
    )
    # Snapshots travel whole or in a few parts, and power may fail in a trim; drawn apart, so that older seeds keep all else.
    parts = stream(knobs.seed, "parts").choice((1, 2, 5))
    trim_crash = stream(knobs.seed, "trim crash").choice((0.0, 0.3))
    part_bytes_max = (trimming.snapshot_bytes + SNAPSHOT_HEAD_BYTES) // parts + 1
    raft = attrs.evolve(knobs.raft, snapshot_part_bytes_max=part_bytes_max)
    return attrs.evolve(trimming, raft=raft, trim_crash=trim_crash)


def _with_changes(knobs: RaftKnobs) -> RaftKnobs:
    """In one of five worlds members change; drawn apart. Nothing rots there: too few disks may be left as they were."""
    rng = stream(knobs.seed, "changes")
    if rng.random() >= 0.2:
        return knobs
    driver = attrs.evolve(knobs.driver, spares=rng.choice((1, 2, 2, 3)), changes=rng.randint(4, 24))
    return attrs.evolve(knobs, driver=driver, rot=0.0)


def _nodes(seed: int, usual: int) -> int:
    """Now and then a group of one node, or of two, which need each other."""
    rng = stream(seed, "small")
    return rng.choice((1, 2)) if rng.random() < 0.04 else usual


def _raft_config(rng: random.Random) -> RaftConfig:
    heartbeat_s = rng.uniform(0.04, 0.12)
    election_timeout_s_min = heartbeat_s * rng.uniform(2.5, 6.0)
    append_bytes_max = rng.choice((1, 200, 600, 4000, 1_000_000))
    return RaftConfig(
        heartbeat_s=heartbeat_s,
        election_timeout_s_min=election_timeout_s_min,
        election_timeout_s_max=election_timeout_s_min * rng.uniform(1.3, 2.5),
        append_bytes_max=append_bytes_max,
        inflight_messages_max=rng.choice((1, 2, 4, 8)),
        inflight_bytes_max=append_bytes_max * rng.choice((1, 3, 10)),
        uncommitted_bytes_max=rng.choice((1500, 20_000, 1_000_000)),
        cache_bytes_max=rng.choice((1, 500, 4000, 1_000_000)),
    )
