"""AlterPartitionReassignments and ListPartitionReassignments: the controller decides, and the metadata shows how far it is.

An answer without error means that the replicas are assigned; they catch up, or delete their copies, from then on.
"""

from collections.abc import Iterable

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.requests.topics import failure_of, limit_wait
from kafka_compat.controller.commands import (
    AlterReassignments,
    CommandResult,
    PartitionReassigned,
    Reassignment,
    ReassignmentsAltered,
)
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.handlers import serves


class ReassignmentRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @serves(ALTER_PARTITION_REASSIGNMENTS.key)
    def alter(self, call: ClientCall) -> None:
        """Begin, replace or cancel the reassignment of each partition."""
        request: AlterPartitionReassignmentsRequest = call.request
        allows = request.allow_replication_factor_change
        wanted = tuple(
            Reassignment(topic.name, partition.partition_index, partition.replicas)
            for topic in request.topics
            for partition in topic.partitions
        )

        def answer(error: KafkaErrorCode, message: str, responses: tuple[ReassignableTopicResponse, ...]) -> None:
            call.answer(
                AlterPartitionReassignmentsResponse(
                    allow_replication_factor_change=allows,
                    error_code=error,
                    error_message=message or None,
                    responses=responses,
                )
            )

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, ReassignmentsAltered):
                answer(KafkaErrorCode.NONE, "", _by_topic(result.partitions))
            else:
                answer(*failure_of(result), ())

        command = AlterReassignments(wanted, allows)
        self._context.controller.send(command, on_result, timeout_s=limit_wait(request.timeout_ms))

    @serves(LIST_PARTITION_REASSIGNMENTS.key)
    def list(self, call: ClientCall) -> None:
        """Answer with the partitions that are moving, as this broker knows them."""
        request: ListPartitionReassignmentsRequest = call.request
        image = self._context.image
        if request.topics is None:
            asked = {name: tuple(range(len(image.topics[name].partitions))) for name in sorted(image.topics)}
        else:
            asked = {topic.name: topic.partition_indexes for topic in request.topics}
        topics = []
        for name, numbers in asked.items():
            moving = tuple(self._moving(name, numbers))
            if moving:
                topics.append(OngoingTopicReassignment(name=name, partitions=moving))
        call.answer(ListPartitionReassignmentsResponse(topics=tuple(topics)))

    def _moving(self, topic: str, numbers: Iterable[int]) -> Iterable[OngoingPartitionReassignment]:
        for number in dict.fromkeys(numbers):
            state = self._context.image.partition(TopicPartition(topic, number))
            if state is not None and state.is_moving:
                yield OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=state.replicas,
                    adding_replicas=state.adding,
                    removing_replicas=state.removing,
                )


def _by_topic(results: Iterable[PartitionReassigned]) -> tuple[ReassignableTopicResponse, ...]:
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=result.partition, error_code=result.error, error_message=result.message or None
            )
        )
    return tuple(ReassignableTopicResponse(name=name, partitions=tuple(each)) for name, each in by_topic.items())
