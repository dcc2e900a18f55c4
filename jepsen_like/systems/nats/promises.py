"""The promises of JetStream by its sync interval, after its own documentation: the rows of `PROMISES` name the source.

A run is held to these. A loss that a row allows is reported and attributed, and any other loss is a finding.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import FaultSeen

SYNC_TAKES_S_MAX: Final = 5.0
"""The flush of an interval may take this long: until it has ended, its writes are not secured."""


@attrs.frozen(kw_only=True)
class SyncPromise:
    """One row: the losses that one kind of sync interval allows when servers lose their power."""

    flushes_first: bool
    may_lose: str
    """In words; empty for nothing."""
    source: str


PROMISES: Final = (
    SyncPromise(
        flushes_first=True,
        may_lose="",
        source="docs.nats.io, JetStream, sync_interval: `always` forces an fsync after each message",
    ),
    SyncPromise(
        flushes_first=False,
        may_lose="what was acknowledged within the sync interval, once a majority of the servers has lost its power",
        source="docs.nats.io, JetStream, sync_interval: by default JetStream relies on replication in the cluster to "
        "guarantee that data is available after an OS crash",
    ),
)
_AFTER_ELECTION: Final = "a minority: after an election, which takes up to 10 s; more: once a majority is back"
_THROUGHOUT: Final = "all the time, slowly; if a leader's heartbeats are late, after an election"
SERVES: Final = {
    **dict.fromkeys(("kill", "pause", "restart", "half-open", "reset", "power", "zone-down"), _AFTER_ELECTION),
    **dict.fromkeys(("partition", "zone-cut"), "where a majority is together: after an election; elsewhere not"),
    "damage": "after an election; the server that was hit, once it has all from others again",
    "flapping": "now and then; for good with the last cut: after an election at most",
    **dict.fromkeys(("slow", "zone-slow", "throttle", "loss", "duplicate", "reorder", "corrupt"), _THROUGHOUT),
}
"""The time at which a stream takes messages again, or that it never stops, by kind of fault."""


def promise_of(sync_within_s: float) -> SyncPromise:
    """The row of a sync interval, in seconds; 0: flushed before the acknowledgement."""
    return next(row for row in PROMISES if row.flushes_first == (not sync_within_s))


def reaches_unflushed(kind: str) -> bool:
    """Returns True if a fault of this kind takes what no flush has secured."""
    return KINDS[kind].reach is not Reach.NOTHING


def allowances(faults: Iterable[FaultSeen], nodes: int, sync_within_s: float) -> tuple[Allowance, ...]:
    """The power cuts by which, together with those within the interval before, a majority has lost its power."""
    row = promise_of(sync_within_s)
    reach_ns = round((sync_within_s + SYNC_TAKES_S_MAX) * 1e9)
    cuts = sorted((one for one in faults if reaches_unflushed(one.kind)), key=lambda one: one.begun_ns)
    return tuple(
        Allowance(
            fault=cut.id,
            kind=cut.kind,
            promise=f"nats: {row.may_lose} may be lost",
            since_ns=cut.begun_ns - reach_ns,
            begun_ns=cut.begun_ns,
            injected_ns=cut.injected_ns,
        )
        for cut in cuts
        if row.may_lose and 2 * len(_without_power(cut, cuts, reach_ns)) > nodes
    )


def _without_power(cut: FaultSeen, cuts: Sequence[FaultSeen], reach_ns: int) -> set[int]:
    """Returns the servers that lost their power with this cut, or so shortly before that they had flushed nothing since."""
    within = (one for one in cuts if cut.begun_ns - reach_ns <= one.begun_ns <= cut.begun_ns)
    return {node for one in within for node in one.nodes}
