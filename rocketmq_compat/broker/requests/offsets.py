"""Offsets: the offsets of groups (14, 15, 43), and the begin, end, or position at a time of queues (29 to 32)."""

from collections.abc import Callable, Mapping

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.tables import TablesPort, answering, offset_wrapper
from rocketmq_compat.remoting.bodies import DelayOffsetSerializeWrapper
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.headers.offsets import (
    LOWER,
    UPPER,
    DelayOffsetsResponseHeader,
    EarliestMsgStoretimeResponseHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketmq_compat.remoting.session import RemotingCall


class OffsetQueries:
    """Answers all requests about offsets."""

    def __init__(self, context: Context, tables: TablesPort, delay_offsets: Callable[[], Mapping[int, int]]) -> None:
        self._context = context
        self._tables = tables
        self._delay_offsets = delay_offsets

    @serves(RequestCode.QUERY_CONSUMER_OFFSET)
    def _query(self, call: RemotingCall) -> None:
        context = self._context
        header = QueryConsumerOffsetRequestHeader.read(call.request.ext)
        start, _ = context.store.queue((header.topic, header.queue_id)) or (0, 0)
        offset = context.offsets.query(
            (header.consumer_group, header.topic, header.queue_id),
            queue_start=start,
            start_in_memory=self._start_is_in_memory(),
            zero_if_unknown=header.set_zero_if_not_found,
        )
        call.answer(header=OffsetResponseHeader(offset=offset))

    def _start_is_in_memory(self) -> bool:
        """Returns True if all of the log is likely to be in memory (`checkInDiskByConsumeOffset`, for offset 0)."""
        context = self._context
        percent = context.properties.number("accessMessageInMemoryMaxRatio")
        log = context.store.log
        return (log.end_offset - log.start_offset) * 100 <= context.memory_bytes * percent

    @serves(RequestCode.UPDATE_CONSUMER_OFFSET)
    def _update(self, call: RemotingCall) -> None:
        context = self._context
        if context.is_raft:
            context.require_master()
        header = UpdateConsumerOffsetRequestHeader.read(call.request.ext)
        context.topics.require(header.topic)
        context.groups.require(context.wall_ms(), header.consumer_group)
        _, end = context.store.queue((header.topic, header.queue_id)) or (0, 0)
        key = header.consumer_group, header.topic, header.queue_id
        context.offsets.commit(context.wall_ms(), key, header.commit_offset, queue_end=end)
        if context.is_raft:
            self._tables.save(answering(call))
        else:
            call.answer()  # it is written now and then

    @serves(RequestCode.GET_ALL_CONSUMER_OFFSET)
    def _all(self, call: RemotingCall) -> None:
        call.answer(body=offset_wrapper(self._context.offsets.snapshot()).encode())

    @serves(RequestCode.GET_ALL_DELAY_OFFSET)
    def _delays(self, call: RemotingCall) -> None:
        header = DelayOffsetsResponseHeader(log_end=self._context.store.log.end_offset)
        call.answer(header=header, body=DelayOffsetSerializeWrapper(offset_table=self._delay_offsets()).encode())

    @serves(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    def _search(self, call: RemotingCall) -> None:
        header = SearchOffsetRequestHeader.read(call.request.ext)
        boundary = (header.boundary_type or LOWER).lower()
        if boundary not in (LOWER, UPPER):
            raise BadHeader(f"{boundary[:60]!r} is neither {LOWER} nor {UPPER}", "boundaryType")
        key = header.topic, header.queue_id
        offset = self._context.store.offset_at_time(key, header.timestamp, is_upper=boundary == UPPER)
        call.answer(header=OffsetResponseHeader(offset=offset))

    @serves(RequestCode.GET_MAX_OFFSET)
    def _max(self, call: RemotingCall) -> None:
        header = QueueRequestHeader.read(call.request.ext)
        _, end = self._context.store.queue((header.topic, header.queue_id)) or (0, 0)
        call.answer(header=OffsetResponseHeader(offset=end))

    @serves(RequestCode.GET_MIN_OFFSET)
    def _min(self, call: RemotingCall) -> None:
        header = QueueRequestHeader.read(call.request.ext)
        start, _ = self._context.store.queue((header.topic, header.queue_id)) or (0, 0)
        call.answer(header=OffsetResponseHeader(offset=start))

    @serves(RequestCode.GET_EARLIEST_MSG_STORETIME)
    def _earliest(self, call: RemotingCall) -> None:
        header = QueueRequestHeader.read(call.request.ext)
        key = header.topic, header.queue_id
        start, _ = self._context.store.queue(key) or (0, 0)
        found = self._context.store.store_time(key, start)
        call.answer(header=EarliestMsgStoretimeResponseHeader(timestamp=-1 if found is None else found))
