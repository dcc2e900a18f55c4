"""Retention of the commit log: `fileReservedTime` in hours, and a bound in bytes. Pure, except for reads of the log.

Whole segments go, oldest first; the newest one, which is being written, always stays. A segment goes by age once its
newest message is older. RocketMQ knows no bound in bytes: it removes files once the disk is fuller than
`diskMaxUsedSpaceRatio`.
"""

from typing import Final

import attrs

from log.retention import Retention
from rocketmq_compat.storage.commit_log import CommitLog

_HOUR_MS: Final = 3_600_000


@attrs.frozen(kw_only=True)
class CommitLogRetention:
    """The retention rule; None stands for no bound. Raises `ValueError` for an impossible bound."""

    hours_max: int | None = 72
    """`fileReservedTime`."""
    bytes_max: int | None = None
    """Segments go while the others hold at least so many bytes."""

    def __attrs_post_init__(self) -> None:
        """Refuse impossible bounds."""
        if (self.hours_max is not None and self.hours_max <= 0) or (self.bytes_max is not None and self.bytes_max < 0):
            raise ValueError("what is kept is more than 0 hours, and 0 bytes or more")


def start_to_keep(log: CommitLog, rule: CommitLogRetention, now_ms: int) -> int:
    """Returns the physical offset at which the log should begin: its start now, or where a later segment begins."""
    age_ms_max = None if rule.hours_max is None else rule.hours_max * _HOUR_MS
    kept = Retention(bytes_max=rule.bytes_max, age_ms_max=age_ms_max).first_index(log.segment_facts(), now_ms)
    return max(log.start_offset, kept)
