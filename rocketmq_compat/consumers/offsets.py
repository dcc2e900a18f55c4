"""Consumer offsets of a broker: the position of each group in each queue (`ConsumerOffsetManager`).

A group may commit a lower offset than before, and then consumes again from there. An offset beyond the end of its queue
is refused, because the group would skip messages that are stored later. The replicated log does not contain offsets: a
slave copies the whole table at intervals (`follow`).
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from log.values import frozen
from rocketmq_compat.consumers.model import RequestRefused, WatchedTable
from rocketmq_compat.remoting.bodies import DataVersion
from rocketmq_compat.remoting.codes import ResponseCode

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group, topic, queue id."""
OFFSETS_MAX: Final = 1_000_000
"""Of all groups and queues. Above, a group cannot commit to a queue for the first time."""


class CommitEffect(enum.Enum):
    """The effect of a commit."""

    ADVANCED = "advanced"
    """The offset is higher than before, or the first."""
    UNCHANGED = "unchanged"
    WENT_BACK = "went back"
    """The offset is lower than before: allowed, and worth a notice."""


@frozen
class OffsetSnapshot:
    """The table at one moment."""

    version: DataVersion
    offsets: Mapping[OffsetKey, int]


@attrs.define
class ConsumerOffsets(WatchedTable[OffsetKey]):
    """The offsets of all groups."""

    offsets_max: int = OFFSETS_MAX
    offsets: dict[OffsetKey, int] = attrs.field(factory=dict)
    """Every offset, as it is now."""
    _ahead: set[OffsetKey] = attrs.field(factory=set)
    """Offsets committed to this broker above its master's at the last copy."""
    _snapshot: OffsetSnapshot | None = None

    def commit(self, time_ms: int, key: OffsetKey, offset: int, *, queue_end: int) -> CommitEffect:
        """Takes the offset of the next message that a group consumes from a queue that ends at `queue_end`.

        Raises `RequestRefused` with SYSTEM_ERROR for an offset that is negative or beyond the end of the queue, and for
        one above the limit of the table.
        """
        if not 0 <= offset <= queue_end:
            group, topic, queue_id = key
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"offset {offset} of group {group} is outside of queue {queue_id} of topic {topic}, which ends at {queue_end}",
            )
        before = self.offsets.get(key)
        if before == offset:
            return CommitEffect.UNCHANGED
        if before is None and len(self.offsets) >= self.offsets_max:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{self.offsets_max} offsets are kept, no more are taken")
        self.offsets[key] = offset
        self._ahead.add(key)
        self._note_changes(time_ms, (key,))
        return CommitEffect.WENT_BACK if before is not None and offset < before else CommitEffect.ADVANCED

    def get(self, key: OffsetKey) -> int | None:
        """Returns the committed offset, or None."""
        return self.offsets.get(key)

    def groups_of_topic(self, topic: str) -> set[str]:
        """Returns the groups that have committed offsets of a topic."""
        return {group for group, name, _ in self.offsets if name == topic}

    def topics_of_group(self, group: str) -> set[str]:
        """Returns the topics with committed offsets of a group."""
        return {topic for name, topic, _ in self.offsets if name == group}

    def query(self, key: OffsetKey, *, queue_start: int, start_in_memory: bool, zero_if_unknown: bool = True) -> int:
        """Returns the offset at which a consumer begins (`ConsumerManageProcessor.queryConsumerOffset`).

        Without a committed offset it is 0 if the queue begins there and its first message is likely to be in memory (a
        topic so young that a new group should not miss its beginning). Otherwise it raises `RequestRefused` with
        QUERY_NOT_FOUND, after which a client decides by its consume-from-where.
        """
        found = self.offsets.get(key)
        if found is not None:
            return found
        if not zero_if_unknown:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
            )
        if queue_start <= 0 and start_in_memory:
            return 0
        raise RequestRefused(
            ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        )

    def remove_group(self, time_ms: int, group: str) -> None:
        """Delete the offsets of a group."""
        self._remove(time_ms, [key for key in self.offsets if key[0] == group])

    def remove_topic(self, time_ms: int, topic: str) -> None:
        """Delete all offsets of a topic."""
        self._remove(time_ms, [key for key in self.offsets if key[1] == topic])

    def snapshot(self) -> OffsetSnapshot:
        """Returns the present table, for a checkpoint or a slave; later commits do not change the returned one."""
        if self._snapshot is None:
            self._snapshot = OffsetSnapshot(self.version, dict(self.offsets))
        return self._snapshot

    def load(self, snapshot: OffsetSnapshot) -> None:
        """Replace the table by the content of a checkpoint."""
        self.version = snapshot.version
        self.offsets = dict(snapshot.offsets)
        self._ahead.clear()
        self._snapshot = None
        self._note_all()

    def follow(self, snapshot: OffsetSnapshot) -> None:
        """Take over the master's table as a slave, but keep higher offsets that were committed here.

        RocketMQ's slave takes the master's even then: after a long outage of the master, groups consume again the
        messages that they consumed from the slave (apache/rocketmq#1094).
        """
        kept = {
            key: own
            for key in self._ahead
            if (own := self.offsets.get(key)) is not None and own > snapshot.offsets.get(key, -1)
        }
        self.load(snapshot)
        self.offsets.update(kept)
        self._ahead.update(kept)

    def merge(self, time_ms: int, snapshot: OffsetSnapshot) -> None:
        """Add the offsets of another copy; of two the greater counts."""
        for key, offset in snapshot.offsets.items():
            self.offsets[key] = max(offset, self.offsets.get(key, 0))
        self._note_changes(time_ms, snapshot.offsets)

    def _remove(self, time_ms: int, keys: list[OffsetKey]) -> None:
        for key in keys:
            del self.offsets[key]
            self._ahead.discard(key)
        if keys:
            self._note_changes(time_ms, keys)

    def _note_changes(self, time_ms: int, keys: Iterable[OffsetKey]) -> None:
        self._snapshot = None
        self._note_change(time_ms, keys)
