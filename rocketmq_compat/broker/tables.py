"""Topics, groups, consumer offsets and delay offsets on disk: read at the start, written after changes.

They are written at intervals, as in RocketMQ. After a crash a group consumes again from its last written offset, and
the queues of a topic prove that it exists. Changes by an administrator are written before the answer (`save`): a topic
or a group by itself, at any number of others.

Delay offsets are written once the commit log is durable up to its end at the time when they were taken. A message that
they count as delivered is in its real queue after every crash.

A broker with missing or damaged files gets their content from another copy before it serves: a slave from its master
(`SlaveSync`), a master from its slaves (`tables_of_pair.py`).
"""

import json
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, cast

import attrs

from log.errors import NoSpace
from rocketmq_compat.broker.context import Context, DiskWork
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.offsets import OffsetKey, OffsetSnapshot
from rocketmq_compat.consumers.topics import TopicTable, new_topic
from rocketmq_compat.remoting.bodies import (
    ConsumerOffsetSerializeWrapper,
    DataVersion,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.json_body import JsonBody
from rocketmq_compat.remoting.session import RemotingCall
from rocketmq_compat.storage.checkpoints import CheckpointName, derived_topics

WrapperT = TypeVar("WrapperT", bound=JsonBody)
Saved = Callable[[str | None], None]
"""Called with None when the changes will last, or with the reason why that is uncertain."""


class TablesPort(Protocol):
    """Makes changes of the tables last."""

    def save(self, done: Saved | None = None, *, names_only: bool = False) -> None:
        """Make the changes last; with `names_only` only the changes of topics and groups."""


SEPARATOR = "@"
"""Between topic and group, in a key of the offset table."""


def answering(call: RemotingCall, body: bytes = b"") -> Saved:
    """Returns a callback that answers a call, with `body`, when its changes last."""

    def on_saved(failure: str | None) -> None:
        if failure is None:
            call.answer(body=body)
        else:
            call.refuse(ResponseCode.SYSTEM_ERROR, f"perhaps it does not last: {failure}")

    return on_saved


def topic_wrapper(table: TopicTable) -> TopicConfigSerializeWrapper:
    """Returns the topics as they are sent and written; to be encoded, since it has them as JSON already."""
    encoded = cast("Mapping[str, TopicConfig]", table.encode())
    return TopicConfigSerializeWrapper(topic_config_table=encoded, data_version=table.version)


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
    """Returns the snapshot that `offset_wrapper` encoded.

    Raises `BadBody` for a key without a topic and a group, and negative offsets.
    """
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

    def __init__(self, context: Context, disk: DiskWork, delay_offsets: Callable[[], Mapping[int, int]]) -> None:
        self._context = context
        self._disk = disk
        self._delay_offsets = delay_offsets
        self._written: dict[CheckpointName, object] = {}
        """The identity of the state of each table that was written, or is being written."""
        self._changes = {CheckpointName.TOPICS: context.topics.watch(), CheckpointName.GROUPS: context.groups.watch()}
        self._taken_delays: tuple[int, Mapping[int, int]] | None = None
        """Delay offsets that are to be written, and the end of the log when they were taken."""
        self._under_way = 0
        """Writes that have not ended."""

    def save(self, done: Saved | None = None, *, names_only: bool = False) -> None:
        """Write the changes.

        `done` is called when they are on disk, or with the reason if the disk is full; the old files stay then.
        """
        work = [self._topics_to_write(), self._groups_to_write()]
        if not names_only:
            work += [self._offsets_to_write(), self._delays_to_write()]
        self._submit([each for each in work if each is not None], done)

    def save_all(self) -> None:
        """Write everything as it is. The commit log must be durable."""
        self._taken_delays = self._context.store.log.end_offset, dict(self._delay_offsets())
        self.save()

    def _submit(self, work: list["_Write"], done: Saved | None) -> None:
        if not work:
            if done is not None and self._under_way:
                # What is to last is being written; whether that succeeds is known when the thread comes to this.
                self._disk.submit(lambda: None, lambda error: self._submit([], done))
            elif done is not None:
                done(None)
            return
        self._under_way += 1

        def write() -> None:
            for write in work:
                write.write()

        def on_written(error: BaseException | None) -> None:
            self._under_way -= 1
            if isinstance(error, NoSpace):
                for write in work:
                    write.forget()
                self._context.tell("checkpoint_failed", reason=str(error))
            elif error is not None:
                raise error
            else:
                self._note_files()
            if done is not None:
                done(None if error is None else str(error))

        self._disk.submit(write, on_written)

    def _note_files(self) -> None:
        """Note the present files: a noted file that is missing at the next start is lost."""
        store = self._context.store
        tables = frozenset(store.checkpoints.present()) | store.copy.notes.tables
        store.copy.change(lambda notes: attrs.evolve(notes, tables=tables))

    def _topics_to_write(self) -> "_Write | None":
        topics = self._context.topics
        return self._entries(CheckpointName.TOPICS, topics.topics, topics.version, lambda: topic_wrapper(topics))

    def _groups_to_write(self) -> "_Write | None":
        groups = self._context.groups
        return self._entries(CheckpointName.GROUPS, groups.groups, groups.version, lambda: group_wrapper(groups))

    def _entries(
        self,
        name: CheckpointName,
        entries: Mapping[str, JsonBody],
        version: DataVersion,
        wrapper: Callable[[], JsonBody],
    ) -> "_Write | None":
        """Returns the write of a table with a journal: single changed entries, or the whole table.

        None without changes.
        """
        changes, checkpoints = self._changes[name], self._context.store.checkpoints
        if changes.is_empty:
            return None
        keys = changes.take()
        if keys is None or checkpoints.wants_file(name):
            content = json.loads(wrapper().encode())
            return _Write(lambda: checkpoints.write(name, content), changes.note_all)
        lines = {key: json.loads(entries[key].encode()) if key in entries else None for key in keys}
        of_table = json.loads(version.encode())
        return _Write(lambda: checkpoints.append(name, lines, of_table), changes.note_all)

    def _offsets_to_write(self) -> "_Write | None":
        offsets = self._context.offsets
        return self._whole(CheckpointName.CONSUMER_OFFSETS, offsets.version, lambda: offset_wrapper(offsets.snapshot()))

    def _delays_to_write(self) -> "_Write | None":
        log, now = self._context.store.log, dict(self._delay_offsets())
        if self._taken_delays is None:
            self._taken_delays = log.end_offset, now
        end, taken = self._taken_delays
        if log.durable_offset < end:
            return None
        self._taken_delays = None if taken == now else (log.end_offset, now)
        return self._whole(CheckpointName.DELAY_OFFSETS, taken, lambda: DelayOffsetSerializeWrapper(offset_table=taken))

    def _whole(self, name: CheckpointName, state: object, wrapper: Callable[[], JsonBody]) -> "_Write | None":
        if self._written.get(name) == state:
            return None
        self._written[name] = state
        content, checkpoints = json.loads(wrapper().encode()), self._context.store.checkpoints
        return _Write(lambda: checkpoints.write(name, content), lambda: self._written.pop(name, None))


@attrs.frozen
class _Write:
    """One file to write, in the disk thread, and the action that plans it again if the disk is full."""

    write: Callable[[], None]
    forget: Callable[[], object]


def load_tables(context: Context) -> Mapping[int, int]:
    """Reads the tables into the context, and returns the delay offsets by level.

    An unusable file is reported to operators and added to the lost tables (`Context.lost_tables`), unless it was never
    written. Raises `StorageFailed` if the disk fails.
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
            context.lost_tables.add(CheckpointName.CONSUMER_OFFSETS)
            context.tell("checkpoint_unusable", file=CheckpointName.CONSUMER_OFFSETS.file, reason=str(error))
    found_delays = _read(context, CheckpointName.DELAY_OFFSETS, DelayOffsetSerializeWrapper)
    return {} if found_delays is None else found_delays.offset_table


def _read(context: Context, name: CheckpointName, wrapper: type[WrapperT]) -> WrapperT | None:
    found = context.store.checkpoints.read(name)
    reason, table = found.trouble, None
    if found.content or reason is None:
        try:
            table = wrapper.of(dict(found.content))
        except BadBody as error:
            reason = str(error)
    if reason is None:
        return table
    noted, is_missing = context.store.copy.found, reason.endswith("is missing")
    if noted is None or name in noted.tables or not is_missing:
        context.lost_tables.add(name)
    if context.store.log.end_offset or not is_missing:
        context.tell("checkpoint_unusable", file=name.file, reason=reason)
    return table
