"""The tally of a comparison of the checker with a definition."""

import attrs


@attrs.frozen
class Tally:
    """Counts of a comparison."""

    histories: int = 0
    invalid: int = 0
    overlapping: int = 0
    """With three operations or more under way at once."""
    unknown: int = 0
    """With operations of unknown outcome."""
    repeated: int = 0
    """With a value written more than once."""
    undecided: int = 0
    witnesses: int = 0
    """Explanations that the search was asked about."""
    differences: tuple[str, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, field.name) + getattr(other, field.name) for field in attrs.fields(Tally)))
