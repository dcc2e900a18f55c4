"""The promises of RabbitMQ by type of queue and reaction to partitions, after its own documentation.

A run is held to these. A loss that a row allows is reported and attributed, and any other loss is a finding.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.port.port import FaultSeen
from jepsen_like.systems.rabbitmq.settings import PartitionHandling, QueueType

HEALS_WITHIN_S: Final = 20.0
"""Sides that parted may go on apart for so long after the fault: until one has been restarted."""


@attrs.frozen(kw_only=True)
class QueuePromise:
    """One row: the losses that one type of queue allows when nodes lose sight of each other."""

    queue_type: QueueType
    handling: frozenset[PartitionHandling]
    may_lose: str
    """In words; empty for nothing."""
    source: str


PROMISES: Final = (
    QueuePromise(
        queue_type=QueueType.QUORUM,
        handling=frozenset(PartitionHandling),
        may_lose="",
        source="rabbitmq.com, Quorum Queues, Data Safety: a confirmed message is kept as long as a majority of the nodes "
        "that host the queue is not lost for good",
    ),
    QueuePromise(
        queue_type=QueueType.MIRRORED,
        handling=frozenset({PartitionHandling.PAUSE_MINORITY}),
        may_lose="",
        source="rabbitmq.com, Classic Queue Mirroring: a message is confirmed once all mirrors have accepted it; Partitions: "
        "pause_minority prefers consistency to availability",
    ),
    QueuePromise(
        queue_type=QueueType.MIRRORED,
        handling=frozenset({PartitionHandling.AUTOHEAL, PartitionHandling.IGNORE}),
        may_lose="what was confirmed on the side that gives way, while nodes did not see each other",
        source="rabbitmq.com, Partitions: one side is chosen as the authority, and changes on other sides are lost",
    ),
)
PARTING: Final = frozenset({"partition", "flapping", "zone-cut", "pause", "loss"})
"""The kinds of faults after which running nodes may have lost sight of each other."""
_AFTER_ELECTION: Final = "a minority: after an election of some seconds; more: once a majority is back"
_THROUGHOUT: Final = "all the time, slowly; nodes that lose sight of each other: after an election"
SERVES: Final = {
    **dict.fromkeys(("kill", "pause", "restart", "half-open", "reset", "power", "zone-down"), _AFTER_ELECTION),
    **dict.fromkeys(("partition", "zone-cut"), "where a majority is together: after an election; elsewhere not"),
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow", "throttle", "loss", "duplicate", "reorder", "corrupt"), _THROUGHOUT),
}
"""The time at which a queue takes messages again, or that it never stops, by kind of fault."""


def promise_of(queue_type: QueueType, handling: PartitionHandling) -> QueuePromise:
    """Returns the row of a queue and its cluster."""
    return next(row for row in PROMISES if row.queue_type is queue_type and handling in row.handling)


def allowances(faults: Iterable[FaultSeen], row: QueuePromise) -> tuple[Allowance, ...]:
    """Returns the faults that parted nodes, each for the time in which a side may have gone on alone."""
    return tuple(
        Allowance(
            fault=fault.id,
            kind=fault.kind,
            promise=f"rabbitmq: {row.may_lose}, may be lost",
            since_ns=fault.begun_ns,
            begun_ns=fault.begun_ns,
            injected_ns=fault.ended_ns + round(HEALS_WITHIN_S * 1e9),
        )
        for fault in faults
        if row.may_lose and fault.kind in PARTING
    )
