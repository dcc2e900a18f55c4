"""The retention rule as data, and the segments of a log that it keeps. Pure.

Whole segments are trimmed, oldest first, so a log keeps up to one segment more than it must. The owner decides what may
be trimmed at all (what every replica has, what is applied): it passes the lower index to `SegmentedLog.trim`.
"""

from collections.abc import Sequence

import attrs
from attrs.validators import ge, optional


@attrs.frozen
class SegmentFacts:
    """One segment as a rule sees it. `newest_ms` is the greatest timestamp of its frames; None if that is not known."""

    first_index: int
    size_bytes: int
    newest_ms: int | None


@attrs.frozen(kw_only=True)
class Retention:
    """Bounds on what is kept; None = no bound. Raises `ValueError` for negative ones."""

    bytes_max: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Segments leave while the others hold at least so many bytes."""
    age_ms_max: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """A segment leaves when its newest frame is older.

    A timestamp that is missing, or in the future because a clock was fast, is ignored: that of the next segment counts
    instead, because it is not older.
    """

    def first_index(self, segments: Sequence[SegmentFacts], now_ms: int) -> int:
        """Returns the lowest index that must be kept of these segments, which are in order and at least one.

        The last one always stays: it is written to.
        """
        left_bytes = sum(each.size_bytes for each in segments)
        for each, newest_ms in zip(segments[:-1], _stamps(segments[:-1], now_ms), strict=True):
            left_bytes -= each.size_bytes
            too_many = self.bytes_max is not None and left_bytes >= self.bytes_max
            too_old = self.age_ms_max is not None and newest_ms is not None and now_ms - newest_ms > self.age_ms_max
            if not too_many and not too_old:
                return each.first_index
        return segments[-1].first_index


def _stamps(segments: Sequence[SegmentFacts], now_ms: int) -> list[int | None]:
    """Returns the latest time at which each segment was written; None if no timestamp from it on is valid."""
    stamps: list[int | None] = []
    following: int | None = None
    for each in reversed(segments):
        if each.newest_ms is not None and each.newest_ms <= now_ms:
            following = each.newest_ms
        stamps.append(following)
    return stamps[::-1]


KEEP_ALL = Retention()
