"""Requests about the content of logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeLogDirs."""

import os

import attrs

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.broker.turns import Steps
from kafka_compat.model import INTERNAL_TOPICS, NO_LEADER, TopicPartition
from kafka_compat.partition.effects import AnswerEpochEnd, AnswerLatestOffset, AnswerLogStart
from kafka_compat.partition.events import EpochEndAsked, LatestOffsetAsked, LogStartDue
from kafka_compat.protocol.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafka_compat.protocol.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_compat.protocol.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.handlers import serves

LATEST, EARLIEST, NEWEST_TIME, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
FIRST_VERSIONS = {NEWEST_TIME: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""From which version of ListOffsets on a timestamp below `EARLIEST` means something."""
DEBUG_CONSUMER = -2
UNKNOWN = -1
READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE_VERSION = 5
"""Clients with older versions of ListOffsets know LEADER_NOT_AVAILABLE instead, after which they also try again."""


@attrs.define(eq=False)
class _Deletion:
    """A DeleteRecords request that waits for the partitions' answers."""

    call: ClientCall
    waits_for: int = 0
    began: bool = False
    results: list[tuple[str, list[DeleteRecordsPartitionResult]]] = attrs.field(factory=list)


class LogRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context, replicas: Replicas) -> None:
        self._context = context
        self._replicas = replicas

    def _missing(self, topic: str, partition: int) -> KafkaErrorCode:
        """Returns the error that explains why this broker has no replica of this partition."""
        known = self._context.image.partition(TopicPartition(topic, partition))
        return KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else KafkaErrorCode.NOT_LEADER_OR_FOLLOWER

    # ---------------------------------------------------------------- ListOffsets

    @serves(LIST_OFFSETS.key)
    def list_offsets(self, call: ClientCall) -> None:
        """Offsets by time, below what the caller's isolation level may read; for the debugging replica id -2 of this replica as it is."""
        self._context.turns.run(call, self._list_offsets(call, call.request))

    def _list_offsets(self, call: ClientCall, request: ListOffsetsRequest) -> Steps:
        topics: list[ListOffsetsTopicResponse] = []
        for topic in request.topics:
            partitions: list[ListOffsetsPartitionResponse] = []
            for asked in topic.partitions:
                partitions.append(self._offset(call.version, request, topic.name, asked))
                yield 1
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
        items = sum(1 + len(topic.partitions) for topic in topics)
        self._context.turns.answer(call, ListOffsetsResponse(topics=tuple(topics)), items)

    def _offset(
        self, version: int, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        if asked.timestamp < EARLIEST and version < FIRST_VERSIONS.get(asked.timestamp, version + 1):
            return ListOffsetsPartitionResponse(partition_index=index, error_code=KafkaErrorCode.UNSUPPORTED_VERSION)
        hosted = self._replicas.by_name(topic, index)
        if hosted is None:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=self._missing(topic, index))
        if request.replica_id == DEBUG_CONSUMER:
            log = hosted.log
            offset = log.start_offset if asked.timestamp == EARLIEST else log.end_offset
            return ListOffsetsPartitionResponse(partition_index=index, error_code=KafkaErrorCode.NONE, offset=offset)
        latest = self._latest(hosted, asked.current_leader_epoch, request.isolation_level == READ_COMMITTED)
        fatal = latest.error is not KafkaErrorCode.NONE and (
            latest.error is not KafkaErrorCode.OFFSET_NOT_AVAILABLE or asked.timestamp not in (EARLIEST, EARLIEST_LOCAL)
        )
        if fatal:
            error = latest.error
            if error is KafkaErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_VERSION:
                error = KafkaErrorCode.LEADER_NOT_AVAILABLE
            return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
        return self._find_offset(hosted, asked, latest)

    def _latest(self, hosted: LocalReplica, leader_epoch: int, read_committed: bool) -> AnswerLatestOffset:
        answers: list[Answer] = []
        token = self._replicas.token(answers.append)
        self._replicas.step(hosted, LatestOffsetAsked(token, leader_epoch, read_committed))
        (answer,) = answers
        assert isinstance(answer, AnswerLatestOffset), "answered as asked"
        return answer

    def _find_offset(
        self, hosted: LocalReplica, asked: ListOffsetsPartition, latest: AnswerLatestOffset
    ) -> ListOffsetsPartitionResponse:
        timestamp, offset, epoch = UNKNOWN, UNKNOWN, UNKNOWN
        if asked.timestamp == LATEST:
            offset, epoch = latest.offset, latest.leader_epoch
        elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
            offset, epoch = latest.log_start, _epoch_at(hosted, latest.log_start)
        elif asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING):
            pass  # nothing is ever tiered
        else:
            log = hosted.log
            found = log.find_newest_time() if asked.timestamp == NEWEST_TIME else log.find_time(asked.timestamp)
            if found is not None and found[0] < latest.offset:
                offset, timestamp = found
                epoch = _epoch_at(hosted, offset)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=KafkaErrorCode.NONE,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch,
        )

    # ---------------------------------------------------------------- OffsetForLeaderEpoch

    @serves(OFFSET_FOR_LEADER_EPOCH.key)
    def offset_for_leader_epoch(self, call: ClientCall) -> None:
        """Answer with the ends of epochs, by which consumers detect a truncation (KIP-320)."""
        self._context.turns.run(call, self._epoch_ends(call, call.request))

    def _epoch_ends(self, call: ClientCall, request: OffsetForLeaderEpochRequest) -> Steps:
        topics: list[OffsetForLeaderTopicResult] = []
        for topic in request.topics:
            partitions: list[OffsetForLeaderPartitionResult] = []
            for asked in topic.partitions:
                partitions.append(self._epoch_end(topic.topic, asked))
                yield 1
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions)))
        items = sum(1 + len(topic.partitions) for topic in topics)
        self._context.turns.answer(call, OffsetForLeaderEpochResponse(topics=tuple(topics)), items)

    def _epoch_end(self, topic: str, asked: OffsetForLeaderPartition) -> OffsetForLeaderPartitionResult:
        hosted = self._replicas.by_name(topic, asked.partition)
        if hosted is None:
            return OffsetForLeaderPartitionResult(
                error_code=self._missing(topic, asked.partition), partition=asked.partition
            )
        answers: list[Answer] = []
        token = self._replicas.token(answers.append)
        self._replicas.step(hosted, EpochEndAsked(token, asked.current_leader_epoch, asked.leader_epoch))
        (answer,) = answers
        assert isinstance(answer, AnswerEpochEnd), "answered as asked"
        return OffsetForLeaderPartitionResult(
            error_code=answer.error, partition=asked.partition, leader_epoch=answer.epoch, end_offset=answer.end_offset
        )

    # ---------------------------------------------------------------- DeleteRecords

    @serves(DELETE_RECORDS.key)
    def delete_records(self, call: ClientCall) -> None:
        """Move the start of logs; followers adopt it with their next fetch."""
        self._context.turns.run(call, self._delete_records(call, call.request))

    def _delete_records(self, call: ClientCall, request: DeleteRecordsRequest) -> Steps:
        deletion = _Deletion(call)
        for topic in request.topics:
            results: list[DeleteRecordsPartitionResult] = []
            deletion.results.append((topic.name, results))
            for partition in topic.partitions:
                self._delete(deletion, topic.name, partition.partition_index, partition.offset, results)
                yield 1
        deletion.began = True
        if not deletion.waits_for:
            self._answer_deletion(deletion)

    def _delete(
        self, deletion: _Deletion, topic: str, index: int, offset: int, results: list[DeleteRecordsPartitionResult]
    ) -> None:
        hosted = self._replicas.by_name(topic, index)
        if hosted is None or topic in INTERNAL_TOPICS:
            # Groups would lose what they have committed.
            error = KafkaErrorCode.INVALID_TOPIC_EXCEPTION if hosted is not None else self._missing(topic, index)
            results.append(DeleteRecordsPartitionResult(partition_index=index, low_watermark=UNKNOWN, error_code=error))
            return

        if hosted.leads and not hosted.settings.deletes:
            error = KafkaErrorCode.POLICY_VIOLATION
            results.append(DeleteRecordsPartitionResult(partition_index=index, low_watermark=UNKNOWN, error_code=error))
            return

        def on_answer(answer: Answer) -> None:
            assert isinstance(answer, AnswerLogStart), "answered as asked"
            results.append(
                DeleteRecordsPartitionResult(
                    partition_index=index, low_watermark=answer.log_start, error_code=answer.error
                )
            )
            deletion.waits_for -= 1
            if deletion.began and not deletion.waits_for:
                self._answer_deletion(deletion)

        deletion.waits_for += 1
        self._replicas.step(hosted, LogStartDue(offset, self._replicas.token(on_answer)))

    def _answer_deletion(self, deletion: _Deletion) -> None:
        response = DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(name=name, partitions=tuple(results)) for name, results in deletion.results
            )
        )
        items = sum(1 + len(results) for _, results in deletion.results)
        self._context.turns.answer(deletion.call, response, items)

    # ---------------------------------------------------------------- DescribeLogDirs

    @serves(DESCRIBE_LOG_DIRS.key)
    def describe_log_dirs(self, call: ClientCall) -> None:
        """Answer with the one directory of this broker and the logs in it."""
        self._context.turns.run(call, self._describe_log_dirs(call, call.request))

    def _describe_log_dirs(self, call: ClientCall, request: DescribeLogDirsRequest) -> Steps:
        asked = (
            None
            if request.topics is None
            else {TopicPartition(each.topic, number) for each in request.topics for number in each.partitions}
        )
        by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition, hosted in sorted(self._replicas.hosted.items()):
            if asked is None or partition in asked:
                by_topic.setdefault(partition.topic, []).append(_describe_partition(hosted))
            yield 1
        total, usable = _space(self._context.data)
        result = DescribeLogDirsResult(
            error_code=KafkaErrorCode.NONE,
            log_dir=self._context.data,
            topics=tuple(DescribeLogDirsTopic(name=topic, partitions=tuple(each)) for topic, each in by_topic.items()),
            total_bytes=total,
            usable_bytes=usable,
        )
        items = sum(1 + len(partitions) for partitions in by_topic.values())
        self._context.turns.answer(call, DescribeLogDirsResponse(results=(result,)), items)


def _space(directory: str) -> tuple[int, int]:
    """Returns the total and the free bytes of the file system, or UNKNOWN for a disk in memory."""
    try:
        space = os.statvfs(directory)
    except OSError:
        return UNKNOWN, UNKNOWN
    return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize


def _describe_partition(hosted: LocalReplica) -> DescribeLogDirsPartition:
    behind = 0 if hosted.leads or hosted.leader == NO_LEADER else hosted.high_watermark - hosted.log.end_offset
    return DescribeLogDirsPartition(
        partition_index=hosted.partition.partition,
        partition_size=hosted.log.size_bytes,
        offset_lag=max(behind, 0),
        is_future_key=False,
    )


def _epoch_at(hosted: LocalReplica, offset: int) -> int:
    """Returns the leader epoch of the record at `offset`, or -1 if it is unknown."""
    epoch = UNKNOWN
    for begin in hosted.decider.leader_epochs:
        if begin.start_offset > offset:
            break
        epoch = begin.epoch
    return epoch
