"""The nouns that the modules of this package share: refusals, versions of tables, the topics of a group."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import attrs

from rocketmq_compat.remoting.bodies import DataVersion
from rocketmq_compat.remoting.codes import ResponseCode

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"


@attrs.define
class RequestRefused(Exception):
    """A request has no effect: the shell answers with this code, and this text as the remark."""

    code: ResponseCode
    remark: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.remark}"


KeyT = TypeVar("KeyT")


@attrs.define(eq=False)
class ChangedKeys(Generic[KeyT]):
    """The keys of a table that have changed since they were last taken, for callers that handle only changes."""

    is_all: bool = True
    """The table has changed as a whole, or was not looked at yet."""
    keys: dict[KeyT, None] = attrs.field(factory=dict)

    def note(self, keys: Iterable[KeyT]) -> None:
        """These have changed."""
        if not self.is_all:
            self.keys.update(dict.fromkeys(keys))

    def note_all(self) -> None:
        """Everything may have changed."""
        self.is_all = True
        self.keys.clear()

    def take(self) -> tuple[KeyT, ...] | None:
        """Returns the changed keys, or None if everything may have changed. They count as unchanged from now on."""
        taken = None if self.is_all else tuple(self.keys)
        self.is_all = False
        self.keys.clear()
        return taken

    @property
    def is_empty(self) -> bool:
        """True if there are no changes."""
        return not (self.is_all or self.keys)


@attrs.define
class WatchedTable(Generic[KeyT]):
    """A table with a version, whose changes are noted for watchers."""

    version: DataVersion = attrs.field(factory=DataVersion)
    _watchers: list[ChangedKeys[KeyT]] = attrs.field(factory=list)

    def watch(self) -> ChangedKeys[KeyT]:
        """Returns a watcher that notes the changes from now on."""
        watcher: ChangedKeys[KeyT] = ChangedKeys()
        self._watchers.append(watcher)
        return watcher

    def _note_change(self, time_ms: int, keys: Iterable[KeyT]) -> None:
        self.version = next_version(self.version, time_ms)
        self._note(keys)

    def _note(self, keys: Iterable[KeyT]) -> None:
        for watcher in self._watchers:
            watcher.note(keys)

    def _note_all(self) -> None:
        for watcher in self._watchers:
            watcher.note_all()


def next_version(version: DataVersion, time_ms: int) -> DataVersion:
    """Returns the version of a table after a change at this time, in milliseconds of the wall clock."""
    return DataVersion(state_version=version.state_version, timestamp=time_ms, counter=version.counter + 1)


def retry_topic(group: str) -> str:
    """Returns the topic to which messages of a consumer group go that are to be consumed again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Returns the topic to which messages of a consumer group go that were sent back too often."""
    return DEAD_LETTER_PREFIX + group
