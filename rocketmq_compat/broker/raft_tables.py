"""Topics, groups, consumer offsets and delay offsets of a raft group, which its log replicates like messages.

The leader changes its tables as any master does, and proposes the changes. A caller that needs a change committed waits
for it (`save`). Followers take over the committed tables. At its end a leader does so, which drops uncommitted changes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from log.values import evolve
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.tables import Saved
from rocketmq_compat.consumers.offsets import OffsetSnapshot
from rocketmq_compat.raft_state import BrokerGroupState, GroupTables, TableChanges

FOLLOW_EVERY_S: Final = 0.1

Propose = Callable[[int, TableChanges, Saved], None]
"""Takes the term, the changes and a callback.

It gets None once they are applied, or the reason why that is uncertain.
"""


class RaftTables:
    """Keeps the broker's tables and the tables of the group's state in step."""

    def __init__(
        self,
        context: Context,
        state: BrokerGroupState,
        delays: DelayedMessages,
        propose: Propose,
        dispatch: Callable[[], None],
    ) -> None:
        """`dispatch` shows consumers the whole commit log."""
        self.has_changed = False
        """True if the state's tables have changed since they were taken over."""
        self._follow_due = 0.0
        self._context = context
        self._state = state
        self._propose_changes = propose
        self._dispatch = dispatch
        self._delays = delays
        self._term: int | None = None
        """Of this node's leadership."""
        self._proposed = GroupTables()
        """The state's tables once all proposals are applied."""
        self._topic_changes = context.topics.watch()
        self._group_changes = context.groups.watch()
        self._offset_changes = context.offsets.watch()
        self._under_way = 0
        self._has_failed = False
        self._waiting: list[Saved] = []

    def begin(self, term: int) -> None:
        """Begin a leadership. Its topics get a version that name servers prefer to the versions of earlier masters."""
        context = self._context
        self._take_over()
        version = context.topics.version
        context.topics.version = evolve(
            version, state_version=term, timestamp=context.wall_ms(), counter=version.counter + 1
        )
        self._term = term
        self._has_failed = False
        self._propose_all()

    def end(self) -> None:
        """End this node's leadership."""
        self._term = None
        self._take_over()
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done("this broker is not the master any more")

    def save(self, done: Saved | None = None, *, names_only: bool = False) -> None:
        """Have the changes committed. `done` is called with None then, or with the reason why that is uncertain."""
        if self._term is not None:
            if done is not None:
                self._waiting.append(done)
            self.tick()
        elif done is not None:
            done("this broker is not the master of its group")

    def propose_names(self) -> None:
        """Propose changed topics and groups at once, so that they are committed before the next proposal."""
        context, proposed = self._context, self._proposed
        if (proposed.topic_version, proposed.group_version) != (context.topics.version, context.groups.version):
            self._propose()

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._follow_due if self._term is None and self.has_changed else math.inf

    def tick(self) -> None:
        """Once a round: propose the changes.

        As a follower, take over the committed tables at intervals, because it copies them all.
        """
        if self._term is None:
            if self.has_changed and self._follow_due <= self._context.clock():
                self._follow_due = self._context.clock() + FOLLOW_EVERY_S
                self._take_over()
        elif not self._under_way:
            if self._has_failed:
                self._has_failed = False
                self._propose_all()
            self._propose()

    def _propose_all(self) -> None:
        """Propose next every difference from the state."""
        self._proposed = self._state.tables.copy()
        for changes in (self._topic_changes, self._group_changes, self._offset_changes):
            changes.note_all()

    def _propose(self) -> None:
        context, waiting = self._context, self._waiting
        changes = self._proposed.changes_to(
            topics=context.topics.topics,
            topic_version=context.topics.version,
            changed_topics=self._topic_changes.take(),
            groups=context.groups.groups,
            group_version=context.groups.version,
            changed_groups=self._group_changes.take(),
            offsets=OffsetSnapshot(context.offsets.version, context.offsets.offsets),
            changed_offsets=self._offset_changes.take(),
            delays=self._delays.offsets,
        )
        if changes.is_empty and not waiting:
            return
        self._waiting = []
        if changes.is_empty and not self._under_way:
            for done in waiting:
                done(None)
            return
        assert self._term is not None, "only a master proposes"
        self._proposed.change(changes)
        self._under_way += 1
        self._propose_changes(self._term, changes, partial(self._on_settled, self._term, waiting))

    def _on_settled(self, term: int, waiting: list[Saved], failure: str | None) -> None:
        self._under_way -= 1
        self._has_failed |= failure is not None and self._term == term
        for done in waiting:
            done(failure)

    def _take_over(self) -> None:
        """Replace the broker's tables by the tables of the state."""
        self._dispatch()  # else delay offsets would seem to be beyond the ends of their queues, and be cut
        self.has_changed = False
        context, tables = self._context, self._state.tables
        if tables.topics:  # else no leader has committed its own yet
            context.topics.follow(tables.topic_version, tables.topics)
        context.groups.load(tables.group_version, tables.groups)
        context.offsets.load(OffsetSnapshot(tables.offset_version, tables.offsets))
        self._delays.follow(tables.delays)
