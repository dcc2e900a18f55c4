"""Every seed is another world: its size, its speeds, its settings and its faults, drawn here and nowhere else.

Swarm testing: a run in which *every* fault is on hides the bugs that need one of them off, so each seed switches on a
random part of the faults and draws its own rates, windows, batch and cache sizes (tiny ones on purpose: segments roll,
caches miss, windows fill).
"""

import enum
import random

import attrs

from jepsen_like.simulation.streams import stream
from raft.config import RaftConfig


class FaultKind(enum.Enum):
    """What the nemesis can do to the cluster."""

    POWER_CUT = "power_cut"
    """Power is lost at once: whatever was not synced may be gone, in part or whole."""
    CUT_IN_FLUSH = "cut_in_flush"
    """Power is lost while the next fsync is under way."""
    CUT_AFTER_SEND = "cut_after_send"
    """Power is lost right after a chosen kind of message was put on the wire."""
    CUT_AFTER_ANSWER = "cut_after_answer"
    """Power is lost right after a client was told that its write is committed."""
    CUT_ALL = "cut_all"
    """Power is lost on every node at once."""
    KILL = "kill"
    """The process dies, its page cache survives."""
    PAUSE = "pause"
    """The process stands still and comes back with stale timers and a full inbox."""
    ISOLATE = "isolate"
    """One node is cut off from all others."""
    HALVES = "halves"
    """The nodes are split in two groups."""
    ONE_WAY = "one_way"
    """Some links are cut in one direction only."""
    BRIDGE = "bridge"
    """Two groups that see each other only through one node."""
    COUP = "coup"
    """A leader is cut off, alone or with one follower, while clients go on; as it comes back, its successor fails."""
    RESET = "reset"
    """Connections break: what was in flight is lost and both ends are told."""
    CLOCK_JUMP = "clock_jump"
    """A node's clock jumps forward."""
    SLOW_DISK = "slow_disk"
    """A node's fsyncs take many times longer."""
    DISK_FULL = "disk_full"
    """A node's disk has no room for entries, for a while."""
    DISK_FAILS = "disk_fails"
    """One of a node's next disk calls fails; a failed fsync may have lost what it should have saved."""
    LOSS_BURST = "loss_burst"
    """The network loses a third of all messages for a while."""


TELLING = frozenset({FaultKind.COUP, FaultKind.CUT_IN_FLUSH, FaultKind.CUT_AFTER_SEND})
"""Drawn twice as often: they aim at the moments in which most bugs show."""

SNAPSHOT_HEAD_BYTES = 24
"""What a snapshot of the simulated state machine has besides its filler (`record.Replica.snapshot`)."""


@attrs.frozen
class PlannedFault:
    """One fault: when it strikes, what it is, and the seed from which it draws everything else."""

    at_s: float
    kind: FaultKind
    name: str


@attrs.frozen(kw_only=True)
class Knobs:
    """Everything that one seed decides. Seconds of virtual time, bytes, probabilities from 0 to 1."""

    seed: int
    nodes: int
    raft: RaftConfig
    segment_bytes_max: int
    safety_s: float
    """How long faults strike before the world heals."""
    delay_s: float
    """Typical one-way delay of a message; the tail is several times that."""
    delay_s_spread: float
    loss: float
    duplicate: float
    fifo: bool
    """Whether a link keeps the order of messages, as one TCP connection does."""
    flush_s: float
    flush_s_spread: float
    handoff_s: float
    """From the end of an fsync to the moment the core hears of it."""
    load_s: float
    """How long entries that the cache no longer holds take from the disk."""
    drift: float
    """The most by which a node's clock runs too fast or too slow, as a fraction."""
    clients: int
    think_s: float
    retry_s: float
    """How long a client waits after a failure."""
    client_timeout_s: float
    burst: int
    """How many requests a client sends at once."""
    reads: float
    """The share of reads among the requests."""
    records_max: int
    filler_bytes_max: int
    """Records are padded up to this, so that byte windows and segments fill."""
    recovery_crash: float
    """How likely power is lost again right after a recovery touched the disk."""
    rot: float
    """How likely a node that comes back finds that a bit of its disk has changed."""
    faults: tuple[PlannedFault, ...]
    lost: frozenset[tuple[int, int, int]] = frozenset()
    """(from, to, number) of single messages that are lost, counted from 1 on each link; a seed draws none."""
    unasked: frozenset[tuple[int, int]] = frozenset()
    """(client, number) of single requests that are not made, counted from 1; a seed draws none."""
    retention_bytes: int | None = None
    """Oldest segments leave a node's log while the others hold at least so much; None: none ever leaves."""
    trim_every_s: float = 0.0
    """How often the rule of retention is asked, beside each time that the log has grown by a segment."""
    apply_bytes: int = 1_000_000
    """How much log one step gives to the state machine, where logs are trimmed."""
    snapshot_bytes: int = 0
    """How much a snapshot has beside what it must have."""
    reset_crash: float = 0.0
    """How likely power is lost while a log begins anew."""


def draw(seed: int) -> Knobs:
    """The world of `seed`."""
    rng = stream(seed, "swarm")
    raft = _raft_config(rng)
    safety_s = rng.uniform(6.0, 12.0) * raft.election_timeout_s_max
    calm_network = rng.random() < 0.35
    knobs = Knobs(
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
        load_s=_load_s(seed, raft.election_timeout_s_max),
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
        faults=_faults(seed, safety_s),
    )
    return _with_trims(knobs)


def _with_trims(knobs: Knobs) -> Knobs:
    """In two of five worlds logs are trimmed; enough is written there that something leaves, and snapshots come twice or late."""
    rng = stream(knobs.seed, "trims")
    if rng.random() >= 0.4:
        return knobs
    # Where nearly all is kept, much is written: damage in what a restart does not read is met as it is applied.
    kept = rng.choice((0.0, 0.0, 0.3, 1.0, 3.0, 30.0))
    trimming = attrs.evolve(
        knobs,
        retention_bytes=int(knobs.segment_bytes_max * kept),
        trim_every_s=rng.choice((0.0, 0.0, 1.0)),
        apply_bytes=rng.choice((1, 1000, 1_000_000)),
        snapshot_bytes=rng.choice((0, 0, 3000)),
        reset_crash=rng.choice((0.0, 0.0, 0.3)),
        rot=0.7 if kept > 10 else knobs.rot,
        burst=8 if kept > 10 else knobs.burst,
        duplicate=max(knobs.duplicate, rng.choice((0.0, 0.0, 0.15))),
        fifo=knobs.fifo and rng.random() < 0.5,
        segment_bytes_max=rng.choice((4096, 4096, knobs.segment_bytes_max)),
        filler_bytes_max=max(knobs.filler_bytes_max, rng.choice((0, 300, 900))),
    )
    # Snapshots travel whole or in a few parts; drawn apart, so that older seeds keep all else.
    parts = stream(knobs.seed, "parts").choice((1, 2, 5))
    part_bytes_max = (trimming.snapshot_bytes + SNAPSHOT_HEAD_BYTES) // parts + 1
    return attrs.evolve(trimming, raft=attrs.evolve(knobs.raft, snapshot_part_bytes_max=part_bytes_max))


def _nodes(seed: int, usual: int) -> int:
    """Now and then one that needs nobody, or two that need each other."""
    rng = stream(seed, "small")
    return rng.choice((1, 2)) if rng.random() < 0.04 else usual


def _load_s(seed: int, election_timeout_s_max: float) -> float:
    """Mostly quick; sometimes leaders come and go meanwhile."""
    return stream(seed, "loads").choice(
        (0.0, 0.0002, 0.002, 0.5 * election_timeout_s_max, 3.0 * election_timeout_s_max)
    )


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


def _faults(seed: int, safety_s: float) -> tuple[PlannedFault, ...]:
    """A random part of the kinds, each with its own weight, at random moments; some seeds have no fault at all."""
    rng = stream(seed, "faults")
    kinds = [kind for kind in FaultKind if rng.random() < 0.5]
    if not kinds or rng.random() < 0.02:
        return ()
    weights = [rng.choice((1, 2, 4)) * (2 if kind in TELLING else 1) for kind in kinds]
    count = rng.randint(2, 14)
    times = sorted(rng.uniform(0.05, 0.95) * safety_s for _ in range(count))
    chosen = rng.choices(kinds, weights, k=count)
    return tuple(
        PlannedFault(at_s, kind, f"fault/{number}")
        for number, (at_s, kind) in enumerate(zip(times, chosen, strict=True))
    )
