"""Every seed is another Kafka cluster: its size, settings, speeds and faults, drawn here and nowhere else."""

import random
from typing import Any

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, Knobs, draw_faults, with_zones

KAFKA_FAULTS = (
    FaultKind.POWER_CUT,
    FaultKind.CUT_AFTER_SEND,
    FaultKind.CUT_AFTER_ANSWER,
    FaultKind.CUT_ALL,
    FaultKind.KILL,
    FaultKind.PAUSE,
    FaultKind.ISOLATE,
    FaultKind.HALVES,
    FaultKind.ONE_WAY,
    FaultKind.BRIDGE,
    FaultKind.COUP,
    FaultKind.RESET,
    FaultKind.CLOCK_JUMP,
    FaultKind.SLOW_DISK,
    FaultKind.LOSS_BURST,
    FaultKind.DAMAGE,
    FaultKind.VANISH,
    FaultKind.STOPS,
)
KAFKA_TELLING = frozenset(
    {FaultKind.STOPS, FaultKind.COUP, FaultKind.ISOLATE, FaultKind.KILL, FaultKind.CUT_AFTER_ANSWER}
)


@attrs.frozen(kw_only=True)
class ClientKnobs(Knobs):
    """The load of clients and administrators on a simulated Kafka cluster. Seconds of virtual time, probabilities from 0 to 1."""

    acks_all: float
    """The share of producers with acks=all; others have acks=1 or, seldom, 0."""
    idempotent: float
    burst: int
    """A producer has at most this many batches on their way."""
    think_s: float
    retry_s: float
    request_s: float
    """A client waits this long for an answer; a produce request may wait so long at the broker, too."""
    late: float
    """The probability that a request or answer of a client is late by up to three request timeouts, or lost."""
    readers: int
    members: int
    """Members of the consumer group; 0: there is none."""
    consumer_protocol: bool
    """True if they are members by KIP-848."""
    throttle: int
    """Copies that catch up get at most so many bytes a second, where an administrator throttles them."""
    transactors: int
    """Transactional producers; 0: there are no transactions."""
    strikes: float
    """The probability that the power of a transaction's coordinator is cut as it decides one."""
    alters: float
    """An administrator makes or deletes a topic, or changes a setting, and moves a partition, each this often, per second;
    0: there is none."""
    trims: float
    """Retention or DeleteRecords cuts a log this often, per second."""


@attrs.frozen(kw_only=True)
class KafkaKnobs(ClientKnobs):
    """Everything that one seed decides. Seconds of virtual time, probabilities from 0 to 1."""

    replication_factor: int
    partitions: int
    """Of the clients' topic; the offsets topic has one."""
    min_isr: int
    unclean: bool
    """unclean.leader.election.enable of the clients' topic."""
    eligible: bool
    """eligible.leader.replicas.version is 1, its default; no seed draws 0."""
    before_ack: bool
    """flush=before-ack: only what is flushed counts."""
    lag_s: float
    """replica.lag.time.max.ms."""
    session_s: float
    """broker.session.timeout.ms; heartbeats come twice in it. A member of the group has as long a session."""
    silence: float
    """broker.silence.timeout.ms as a share of the session; 1: only the end of the session fences a silent broker."""
    fence_on_close: bool
    balance_s: float
    """leader.imbalance.check.interval.seconds; 0: no automatic rebalance."""
    fetch_wait_s: float
    timeout_s: float
    """A broker gives up a fetch or a command after this time, and sends it again."""
    commit_s: float
    """The raft group takes this long to commit a command."""
    election_s: float
    """The raft group is without a leader for this long when it has lost one."""
    apply_lag: float
    """The probability that a broker applies only a part of the commands that it learns of, and the rest later."""
    flush_s: float
    writeback_s: float
    """The page cache is written to the disk this often where no acknowledgement waits for it; 0: never."""
    checkpoint_s: float
    """High watermarks are checkpointed this often."""
    truncation_s: float
    """A truncation takes this long at most."""
    drift: float
    wipes: float
    """The probability that a power cut costs the whole disk."""
    graceful: float
    """The probability that a killed broker is asked to shut down instead."""
    snapshots: float
    """The probability that a broker that starts has a snapshot of the metadata."""
    relapses: float
    """The probability that a starting broker ends, or loses its controller, as it opens its logs or soon after."""

    def rack_of(self, node: int) -> str | None:
        """broker.rack of a broker: its zone; None in a world without zones."""
        return f"zone{self.zone_of(node)}" if self.zones else None

    @property
    def patience_s(self) -> float:
        """The session of a broker: after so much silence others act."""
        return self.session_s


KAFKA_CALM = KafkaKnobs(
    seed=0,
    nodes=3,
    safety_s=4.0,
    delay_s=0.002,
    delay_s_spread=0.2,
    loss=0.0,
    duplicate=0.0,
    fifo=True,
    clients=0,
    faults=(),
    replication_factor=3,
    partitions=1,
    min_isr=2,
    unclean=False,
    eligible=True,
    before_ack=False,
    lag_s=1.0,
    session_s=0.9,
    silence=1.0,
    fence_on_close=True,
    balance_s=0.0,
    fetch_wait_s=0.3,
    timeout_s=0.8,
    commit_s=0.005,
    election_s=0.3,
    apply_lag=0.0,
    flush_s=0.004,
    writeback_s=1.0,
    checkpoint_s=1.0,
    truncation_s=0.0,
    drift=0.0,
    wipes=0.0,
    graceful=0.0,
    snapshots=0.0,
    relapses=0.0,
    acks_all=1.0,
    idempotent=1.0,
    burst=1,
    think_s=0.05,
    retry_s=0.1,
    request_s=0.6,
    late=0.0,
    readers=0,
    members=0,
    consumer_protocol=False,
    throttle=20_000,
    transactors=0,
    strikes=0.0,
    alters=0.0,
    trims=0.0,
)
"""A good network, quick disks, no clients, no faults."""


def draw_kafka(seed: int) -> KafkaKnobs:
    """The cluster of `seed`."""
    rng = stream(seed, "kafka")
    nodes = rng.choice((2, 3, 3, 3, 3, 4))
    factor = min(nodes, rng.choice((2, 3, 3, 3)))
    session_s = rng.uniform(0.5, 1.2)
    safety_s = rng.uniform(2.5, 4.5)
    calm_network = rng.random() < 0.4
    drawn = attrs.evolve(
        KAFKA_CALM,
        seed=seed,
        nodes=nodes,
        safety_s=safety_s,
        delay_s=rng.choice((0.001, 0.005, 0.02)),
        delay_s_spread=rng.choice((0.2, 1.0, 3.0)),
        loss=0.0 if calm_network else rng.choice((0.0, 0.01, 0.05)),
        duplicate=0.0 if calm_network else rng.choice((0.0, 0.03, 0.1)),
        fifo=calm_network or rng.random() < 0.4,
        faults=draw_faults(seed, safety_s, KAFKA_FAULTS, KAFKA_TELLING),
        replication_factor=factor,
        partitions=rng.choice((1, 1, 2)),
        min_isr=rng.choice((1, 2, 2, factor)),
        unclean=rng.random() < 0.3,
        before_ack=rng.random() < 0.35,
        lag_s=session_s * rng.choice((0.5, 0.8, 2.0)),
        session_s=session_s,
        fence_on_close=rng.random() < 0.7,
        balance_s=rng.choice((0.0, 0.0, 0.5, 1.5)),
        fetch_wait_s=rng.choice((0.1, 0.3)),
        timeout_s=max(rng.choice((0.4, 0.8)), rng.choice((0.3, 0.8))),
        commit_s=rng.choice((0.002, 0.01, 0.05)),
        election_s=rng.choice((0.1, 0.3, 0.8)),
        silence=stream(seed, "silence").choice((1.0, 0.67)),
        alters=stream(seed, "alters").choice((0.0, 0.0, 1.0, 3.0)),
        transactors=stream(seed, "transactors").choice((0, 0, 0, 2, 3)),
        consumer_protocol=stream(seed, "group protocol").random() < 0.5,
        throttle=stream(seed, "throttle").choice((4_000, 20_000, 100_000)),
        strikes=stream(seed, "strikes").choice((0.0, 0.05, 0.15)),
        relapses=stream(seed, "relapses").choice((0.0, 0.3, 0.6)),
        trims=stream(seed, "trims").choice((0.0, 0.0, 1.0, 5.0)),
        **_local(rng),
        **_load(rng),
    )
    # Connections keep the order of what they carry: on slower ones no follower could stay in the ISR.
    one_way_max_s = min(drawn.session_s / 12, drawn.lag_s / 6)
    delay_s = min(drawn.delay_s, one_way_max_s / (0.5 + drawn.delay_s_spread))
    # With a flush before the acknowledgement, a request waits for one log after the other of every disk in sync.
    request_s = max(drawn.request_s, 20 * drawn.flush_s) if drawn.before_ack else drawn.request_s
    # Who misses a leader waits for many round trips: on slower ones reports would come and go, and hold up the rest.
    is_slow = delay_s * (0.5 + drawn.delay_s_spread) > drawn.session_s / 50
    silence = 1.0 if is_slow else drawn.silence
    return with_zones(attrs.evolve(drawn, delay_s=delay_s, request_s=request_s, silence=silence))


def _local(rng: random.Random) -> dict[str, Any]:
    """Returns the knobs of single brokers: disks, clocks, and the ways in which they apply and end."""
    return {
        "apply_lag": rng.choice((0.0, 0.2, 0.6)),
        "flush_s": rng.choice((0.001, 0.01, 0.05)),
        "writeback_s": rng.choice((0.0, 0.5, 2.0)),
        "checkpoint_s": rng.choice((0.3, 1.0, 100.0)),
        "truncation_s": rng.choice((0.0, 0.0, 0.05, 0.3)),
        "drift": rng.choice((0.0, 0.0, 0.05, 0.2)),
        "wipes": rng.choice((0.0, 0.2, 0.6)),
        "graceful": rng.choice((0.0, 0.3)),
        "snapshots": rng.choice((0.0, 0.5, 1.0)),
    }


def _load(rng: random.Random) -> dict[str, Any]:
    """Returns the knobs of clients."""
    return {
        "clients": rng.randint(1, 3),
        "acks_all": rng.choice((0.5, 1.0, 1.0)),
        "idempotent": rng.choice((0.0, 0.5, 1.0)),
        "burst": rng.choice((1, 1, 3, 5)),
        "think_s": rng.choice((0.02, 0.06, 0.2)),
        "retry_s": rng.choice((0.05, 0.15)),
        "request_s": rng.choice((0.2, 0.5, 1.0)),
        "late": rng.choice((0.0, 0.0, 0.03, 0.1)),
        "readers": rng.choice((0, 1, 1)),
        "members": rng.choice((0, 0, 2, 3)),
    }
