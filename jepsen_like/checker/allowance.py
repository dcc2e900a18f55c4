"""What a mode allows a fault to cost, and what the fault has cost."""

import attrs


@attrs.frozen(kw_only=True)
class Allowance:
    """A fault that may cost acknowledged records: those acknowledged from `since_ns` on. Times on the history's clock."""

    fault: int
    kind: str
    promise: str
    """What allows it, in words."""
    since_ns: int
    begun_ns: int
    injected_ns: int
    """When it was complete."""


@attrs.frozen(kw_only=True)
class AllowedLoss:
    """What one fault has cost, all of it allowed."""

    allowance: Allowance
    records: int
    first_offset: int
    last_offset: int
    """Inclusive, like everywhere that offsets are told."""
    first_acked_ns: int
    last_acked_ns: int
    examples: tuple[int, ...]
    """Some of the values, the earliest acknowledged first."""

    @property
    def reach_s(self) -> float:
        """Returns how long before the fault the earliest lost record was acknowledged, in seconds; 0 for not at all."""
        return max(0, self.allowance.begun_ns - self.first_acked_ns) / 1e9

    @property
    def says(self) -> str:
        """Returns the loss as a sentence. Places at which no record was reported may lie between the lost ones."""
        cause = self.allowance
        places = self.last_offset + 1 - self.first_offset
        where = "at" if places == self.records else f"among the {places:,} at"
        return (
            f"{self.records:,} acknowledged records {where} offsets {self.first_offset:,} to {self.last_offset:,}, the earliest "
            f"acknowledged {self.reach_s:.2f} s before fault {cause.fault} ({cause.kind}); {cause.promise}"
        )
