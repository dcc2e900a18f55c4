"""Topics, groups, consumer offsets and delay offsets on the disk: read at the start, written when they have changed.

They are written now and then, as RocketMQ does: after a crash a group consumes again what it committed since, and a topic that its
first message created is known by its queues. What an administrator changes is written before the answer (`save`).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from log.errors import NoSpace
from raft.disk_thread import DiskThread
from rocketmq_compat.broker.context import BrokerContext
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.offsets import OffsetKey, OffsetSnapshot
from rocketmq_compat.consumers.topics import TopicTable, new_topic
from rocketmq_compat.remoting.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.json_body import JsonBody
from rocketmq_compat.remoting.session import RemotingCall
from rocketmq_compat.storage.checkpoints import CheckpointName, derived_topics

WrapperT = TypeVar("WrapperT", bound=JsonBody)
Saved = Callable[[str | None], None]
"""Called with None when what had changed will last, or with the reason if perhaps it will not."""


class TablesPort(Protocol):
    """What makes changes of the tables last."""

    def save(self, done: Saved | None = None) -> None:
        """Make what has changed last."""


SEPARATOR = "@"
"""Between topic and group, in a key of the offset table."""


def answering(call: RemotingCall, body: bytes = b"") -> Saved:
    """Returns what answers a call, with `body`, when what it has changed lasts."""

    def saved(failure: str | None) -> None:
        if failure is None:
            call.answer(body=body)
        else:
            call.refuse(ResponseCode.SYSTEM_ERROR, f"perhaps it does not last: {failure}")

    return saved


def topic_wrapper(table: TopicTable) -> TopicConfigSerializeWrapper:
    """Returns the topics as they are sent and written."""
    return TopicConfigSerializeWrapper(topic_config_table=table.topics, data_version=table.version)


def group_wrapper(table: GroupTable) -> SubscriptionGroupWrapper:
    """Returns the groups as they are sent and written."""
    return SubscriptionGroupWrapper(subscription_group_table=table.groups, data_version=table.version)


def offset_wrapper(snapshot: OffsetSnapshot) -> ConsumerOffsetSerializeWrapper:
    """Returns consumer offsets as they are sent and written."""
    table: dict[str, dict[int, int]] = {}
    for (group, topic, queue_id), offset in snapshot.offsets.items():
        table.setdefault(f"{topic}{SEPARATOR}{group}", {})[queue_id] = offset
    return ConsumerOffsetSerializeWrapper(offset_table=table, data_version=snapshot.version)


def offset_snapshot(wrapper: ConsumerOffsetSerializeWrapper) -> OffsetSnapshot:
    """Returns what `offset_wrapper` was given. Raises `BadBody` for a key without a topic and a group, and negative offsets."""
    offsets: dict[OffsetKey, int] = {}
    for name, of_queues in wrapper.offset_table.items():
        topic, separator, group = name.partition(SEPARATOR)
        if not separator:
            raise BadBody(f"{name[:100]!r} is no topic and group", "offsetTable")
        for queue_id, offset in of_queues.items():
            if offset < 0:
                raise BadBody(f"a negative offset of {name[:100]}", "offsetTable")
            offsets[group, topic, queue_id] = offset
    return OffsetSnapshot(wrapper.data_version, offsets)


class BrokerTables:
    """The files of the tables. `delay_offsets` gives the delay offsets as they are."""

    def __init__(
        self, context: BrokerContext, disk: DiskThread, delay_offsets: Callable[[], Mapping[int, int]]
    ) -> None:
        self._context = context
        self._disk = disk
        self._delay_offsets = delay_offsets
        self._written: dict[CheckpointName, object] = {}
        """What tells the state of each table that was written, or is being written."""
        self._under_way = 0
        """Writes that have not ended."""

    def save(self, done: Saved | None = None) -> None:
        """Write what has changed; `done` is called when it is on the disk, or with the reason if the disk is full: the old files stay then."""
        contents: dict[CheckpointName, Mapping[str, Any]] = {}
        for name, (state, wrapper) in self._states().items():
            if self._written.get(name) != state:
                self._written[name] = state
                contents[name] = json.loads(wrapper().encode())
        if not contents:
            if done is not None and self._under_way:
                # What is to last is being written; whether that succeeds is known when the thread comes to this.
                self._disk.submit(lambda: None, lambda error: self.save(done))
            elif done is not None:
                done(None)
            return
        self._under_way += 1
        checkpoints = self._context.store.checkpoints

        def write() -> None:
            for name, content in contents.items():
                checkpoints.write(name, content)

        def written(error: BaseException | None) -> None:
            self._under_way -= 1
            if isinstance(error, NoSpace):
                for name in contents:
                    self._written.pop(name, None)
                self._context.tell("checkpoint_failed", reason=str(error))
            elif error is not None:
                raise error
            if done is not None:
                done(None if error is None else str(error))

        self._disk.submit(write, written)

    def _states(self) -> dict[CheckpointName, tuple[object, Callable[[], JsonBody]]]:
        context = self._context
        delays = dict(self._delay_offsets())
        return {
            CheckpointName.TOPICS: (context.topics.version, lambda: topic_wrapper(context.topics)),
            CheckpointName.GROUPS: (context.groups.version, lambda: group_wrapper(context.groups)),
            CheckpointName.CONSUMER_OFFSETS: (
                context.offsets.version,
                lambda: offset_wrapper(context.offsets.snapshot()),
            ),
            CheckpointName.DELAY_OFFSETS: (delays, lambda: DelayOffsetSerializeWrapper(offset_table=delays)),
        }


def load_tables(context: BrokerContext) -> Mapping[int, int]:
    """Reads the tables into the context, and returns the delay offsets by level. A file that cannot be used is reported to operators.

    Raises `StorageFailed` if the disk fails.
    """
    found_topics = _read(context, CheckpointName.TOPICS, TopicConfigSerializeWrapper)
    if found_topics is not None:
        context.topics.load(found_topics.data_version, found_topics.topic_config_table)
    for name, queues in derived_topics(each.key for each in context.store.derived.queues).items():
        if context.topics.get(name) is None:
            context.topics.load(context.topics.version, {name: new_topic(name, queues, queues)})
    found_groups = _read(context, CheckpointName.GROUPS, SubscriptionGroupWrapper)
    if found_groups is not None:
        context.groups.load(found_groups.data_version, found_groups.subscription_group_table)
    found_offsets = _read(context, CheckpointName.CONSUMER_OFFSETS, ConsumerOffsetSerializeWrapper)
    if found_offsets is not None:
        try:
            context.offsets.load(offset_snapshot(found_offsets))
        except BadBody as error:
            context.tell("checkpoint_unusable", file=CheckpointName.CONSUMER_OFFSETS.file, reason=str(error))
    found_delays = _read(context, CheckpointName.DELAY_OFFSETS, DelayOffsetSerializeWrapper)
    return {} if found_delays is None else found_delays.offset_table


def _read(context: BrokerContext, name: CheckpointName, wrapper: type[WrapperT]) -> WrapperT | None:
    found = context.store.checkpoints.read(name)
    reason = found.trouble
    if reason is None:
        try:
            return wrapper.of(dict(found.content))
        except BadBody as error:
            reason = str(error)
    if context.store.log.end_offset or not reason.endswith("is missing"):
        context.tell("checkpoint_unusable", file=name.file, reason=reason)
    return None
