"""Names the losses that a mode allows a fault, and the losses that the fault has caused."""

import attrs

from jepsen_like.history.ops import NEVER, NONE


@attrs.frozen(kw_only=True)
class Allowance:
    """A fault that may cost acknowledged records: those acknowledged from `since_ns` on. Times on the history's clock.

    The fields behind `injected_ns` narrow or widen it for a queue; logs and registers take it as it is without them.
    """

    fault: int
    kind: str
    promise: str
    """The sentence of the promise that allows it."""
    since_ns: int
    begun_ns: int
    injected_ns: int
    """The moment when it was complete."""
    objects: frozenset[int] | None = None
    """The partitions that it may have reached; None: all."""
    node: int = NONE
    """The broker whose acknowledgements it may have cost; `NONE`: any. A record that does not say who acknowledged it counts."""
    epoch_max: int | None = None
    """The last leader epoch in which they may have been given, where they say it."""
    may_cost_read: bool = True
    """True if it may cost what consumers have read, too."""
    may_cost_commits: bool = False
    """True if it may cost what groups have committed."""
    is_tail: bool = True
    """True if it costs the end of a log only: nothing acknowledged before it survives behind what it cost."""

    may_cost_records: bool = True
    """True if it may cost records at all, and not only what brokers know of groups, or what readers see meanwhile (`other_log`)."""
    rewinds_ns: int = NONE
    """Positions that a pushed group committed no longer than this before it may be forgotten; `NONE`: none."""
    unlocks_ns: int = NONE
    """So long after it two members of a pushed group may hold one queue, because the lock was forgotten; `NONE`: they may not."""
    other_log: bool = False
    """True if another log, with another beginning, may have answered in place of this one while the fault held. For logs."""

    def reaches(self, obj: int) -> bool:
        """Returns True if it may have cost something of this object."""
        return self.objects is None or obj in self.objects


@attrs.frozen(kw_only=True)
class AllowedLoss:
    """The losses that one fault has caused, all of them allowed."""

    allowance: Allowance
    records: int
    first_offset: int
    last_offset: int
    """Inclusive, like everywhere that offsets are told."""
    first_acked_ns: int
    last_acked_ns: int
    examples: tuple[int, ...]
    """Some of the values, the earliest acknowledged first."""
    of: str = ""
    """The name of the partition, where there are several."""
    object: int = 0
    origin_ns: int | None = None
    """The moment from which sentences count times; None: they do not name any."""

    @property
    def reach_s(self) -> float:
        """Returns how long before the fault the earliest lost record was acknowledged, in seconds; 0 for not at all."""
        if self.allowance.begun_ns >= NEVER:
            return 0.0
        return max(0, self.allowance.begun_ns - self.first_acked_ns) / 1e9

    @property
    def says(self) -> str:
        """Returns the loss as a sentence. Places at which no record was reported may lie between the lost ones."""
        cause = self.allowance
        places = self.last_offset + 1 - self.first_offset
        among = "at" if places == self.records else f"among the {places:,} at"
        where = f" {among} offsets {self.first_offset:,} to {self.last_offset:,}" if self.last_offset != NONE else ""
        of = f" of {self.of}" if self.of else ""
        told = f"{self.records:,} acknowledged records{of}{where}"
        if cause.fault == NONE:
            return f"{told}; {cause.promise}"
        at = f" at {(cause.begun_ns - self.origin_ns) / 1e9:.1f} s" if self.origin_ns is not None else ""
        return (
            f"{told}, the earliest acknowledged {self.reach_s:.2f} s before fault {cause.fault} ({cause.kind}{at}); "
            f"{cause.promise}"
        )
