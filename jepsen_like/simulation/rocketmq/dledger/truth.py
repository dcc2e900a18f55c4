"""The group's decisions as an observer of all brokers knows them: commands in order, results by rules of its own."""

from collections import Counter
from collections.abc import Callable

import attrs

from jepsen_like.simulation.rocketmq.dledger.requests import TIMER_LEVEL
from rocketmq_compat.consumers.timers import TimerState, due_ms_of
from rocketmq_compat.consumers.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_compat.raft_state import BeginLeadership, ChangeTables, StoreRecords, TableChanges, decode_group_command
from rocketmq_compat.records import read_heads, read_properties

Accuse = Callable[[str, int, str], None]
QueueKey = tuple[str, int]


@attrs.frozen
class StoredMessage:
    """The place of a message; `index` is the index of its entry in the raft log."""

    index: int
    physical: int
    queue_offset: int
    topic: str
    queue: int


@attrs.frozen
class CommandOutcome:
    """The state after a command."""

    command: bytes
    had_effect: bool
    term: int
    end: int


@attrs.define(eq=False)
class BrokerGroupTruth:
    """Everything that some broker has applied."""

    report: Accuse
    counts: Counter[str]
    term: int = 0
    content: bytearray = attrs.field(factory=bytearray)
    """The commit log, from its first byte on."""
    topics: set[str] = attrs.field(factory=set)
    offsets: dict[tuple[str, str, int], int] = attrs.field(factory=dict)
    changed_at: dict[object, int] = attrs.field(factory=dict)
    """The index of the newest change of each offset and topic, by its name."""
    delays: dict[int, int] = attrs.field(factory=dict)
    nexts: dict[QueueKey, int] = attrs.field(factory=dict)
    stored: dict[tuple[str, bytes], StoredMessage] = attrs.field(factory=dict)
    """By topic and body: where it was stored first."""
    delayed: dict[bytes, tuple[int, int]] = attrs.field(factory=dict)
    """Level and offset of delayed messages, by body."""
    timers: dict[bytes, int] = attrs.field(factory=dict)
    """The times at which messages with a time of their own are due, in ms."""
    delivered: set[bytes] = attrs.field(factory=set)
    """Bodies of delayed messages that are in their real queues."""
    outcomes: dict[int, list[CommandOutcome]] = attrs.field(factory=dict)
    """By index, of each command of that entry."""
    deleted: dict[str, set[int]] = attrs.field(factory=dict)
    """Topics that were deleted once, with the brokers that may have their old queues.

    A broker has them if it derived all queues from its whole commit log again. One reset to a snapshot does not know
    where a topic's queues began again, and may go on behind old messages: a hole, but no offset twice.
    """

    @property
    def end(self) -> int:
        """The end of the commit log."""
        return len(self.content)

    def on_applied(self, node: int, index: int, ordinal: int, command: bytes, had_effect: bool) -> CommandOutcome:
        """Check that a broker applied here what others did, to the effect it must have (G2); returns the outcome."""
        known = self.outcomes.setdefault(index, [])
        if ordinal == len(known):
            known.append(self._apply(node, index, command))
        outcome = known[ordinal]
        if outcome.command != command:
            self.report("G2", node, f"applies another command at {index} than the first broker that came there")
        if outcome.had_effect != had_effect:
            words = ("has no effect", "has an effect")
            self.report("G2", node, f"the command at {index} {words[had_effect]}, and must not be so")
        return outcome

    def _apply(self, node: int, index: int, command: bytes) -> CommandOutcome:
        decoded = decode_group_command(command)
        had_effect = decoded.term >= self.term
        match decoded:
            case BeginLeadership(term=term):
                self.term = max(self.term, term)
            case StoreRecords(base=base, payload=payload):
                had_effect &= base == self.end
                self.counts["overtaken_commands"] += not had_effect
                if had_effect:
                    self._store(node, index, payload)
            case ChangeTables(changes=changes) if had_effect:
                self._change(node, index, changes)
            case ChangeTables():
                self.counts["overtaken_commands"] += 1
        return CommandOutcome(command, had_effect, self.term, self.end)

    def _store(self, node: int, index: int, payload: bytes) -> None:
        base = self.end
        self.content += payload
        for start, head in read_heads(payload):
            key = head.topic, head.queue_id
            body = bytes(head.body(payload[start:]))
            message = StoredMessage(index, base + start, head.queue_offset, *key)
            if head.physical_offset != message.physical:
                self.report("G3", node, f"{body!r} says that it is at {head.physical_offset}, and is at {base + start}")
            expected = self.nexts.get(key, 0)
            if head.queue_offset > expected and head.topic in self.deleted:
                self.counts["holes_after_deletions"] += 1
            elif head.queue_offset != expected:
                self.report("G3", node, f"{body!r} gets offset {head.queue_offset} of {key}, not {expected}")
            self.nexts[key] = head.queue_offset + 1
            if head.topic not in self.topics:
                self.report("G7", node, f"{body!r} is stored in {head.topic}, a topic that the group does not know")
            if head.topic == SCHEDULE_TOPIC:
                self.delayed[body] = head.queue_id + 1, head.queue_offset
            elif head.topic == TIMER_TOPIC:
                self.delayed[body] = TIMER_LEVEL, head.queue_offset
                self.timers[body] = due_ms_of(read_properties(head.properties)) or 0
            elif body in self.delayed:
                self._deliver(node, body, head.store_ms)
            elif (head.topic, body) in self.stored:
                self.report("G3", node, f"{body!r} is stored twice")
            self.stored.setdefault((head.topic, body), message)

    def _deliver(self, node: int, body: bytes, store_ms: int) -> None:
        """G8: a delayed message comes again only if the group had not yet decided it delivered, and never early."""
        level, offset = self.delayed[body]
        self.counts["redeliveries" if body in self.delivered else "deliveries"] += 1
        self.delivered.add(body)
        if level == TIMER_LEVEL:
            self.counts["timer_deliveries"] += 1
            due_ms, state = self.timers[body], TimerState.among(self.delays)
            if store_ms < due_ms:
                self.report("G8", node, f"{body!r} is delivered at {store_ms}, and due at {due_ms}")
            if offset < state.waits_from or (offset < state.decided_end and due_ms <= state.decided_ms):
                self.report("G8", node, f"{body!r} is delivered again, although {state} is decided")
        elif offset < self.delays.get(level, 0):
            self.report("G8", node, f"{body!r} is delivered again, although level {level} is at {self.delays[level]}")

    def _change(self, node: int, index: int, changes: TableChanges) -> None:
        self.changed_at.update(dict.fromkeys((*changes.topics, *changes.offsets), index))
        for topic, config in changes.topics.items():
            (self.topics.discard if config is None else self.topics.add)(topic)
            if config is None:
                self.counts["topics_deleted"] += 1
                self.deleted.setdefault(topic, set())
                self.nexts = {key: each for key, each in self.nexts.items() if key[0] != topic}
        for key, offset in changes.offsets.items():
            if offset is None:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = offset
        for level, offset in changes.delays.items():
            if offset < self.delays.get(level, 0):
                self.report("G8", node, f"level {level} goes back from {self.delays[level]} to {offset}")
        self.delays.update(changes.delays)
        self._decide_timers(node)

    def _decide_timers(self, node: int) -> None:
        """G8: a timer message that is decided to be delivered was delivered."""
        state = TimerState.among(self.delays)
        for body, due_ms in list(self.timers.items()):
            _, offset = self.delayed[body]
            is_decided = offset < state.waits_from or (offset < state.decided_end and due_ms <= state.decided_ms)
            if is_decided and body not in self.delivered:
                self.report("G8", node, f"{body!r}, due at {due_ms}, is decided by {state}, and was not delivered")
