"""Administration of topics: CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders, by the controller.

The timeout of a request limits the wait for the controller. When a success is answered, it has been committed, and this
broker has applied it, or could not within that time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.config import ConfigRow, InvalidSetting, check_topic_setting
from kafka_compat.controller.commands import (
    CommandResult,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    LeadersElected,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicReference,
    TopicsCreated,
    TopicsDeleted,
)
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreatedTopicConfig,
    CreateTopic,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_compat.protocol.apis.delete_topics import (
    DELETE_TOPICS,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_compat.protocol.apis.elect_leaders import (
    ELECT_LEADERS,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID
from raft.net.handlers import serves

DEFAULT = -1
TIMEOUT_S_MAX = 60.0


def limit_wait(timeout_ms: int) -> float:
    """Returns the seconds for which a request with this timeout may wait for the controller."""
    return min(max(timeout_ms / 1000, 0.1), TIMEOUT_S_MAX)


class TopicRequests:
    """The handlers of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # ---------------------------------------------------------------- CreateTopics

    @serves(CREATE_TOPICS.key)
    def create_topics(self, call: ClientCall) -> None:
        """Topics whose settings are wrong are refused here, all others by the controller."""
        request: CreateTopicsRequest = call.request
        refused: dict[str, CreateTopicResult] = {}
        wanted: list[NewTopic] = []
        names = Counter(each.name for each in request.topics)
        asked = {each.name: each for each in request.topics}
        for topic in request.topics:
            if names[topic.name] > 1:
                refused[topic.name] = _build_refusal(
                    topic.name, KafkaErrorCode.INVALID_REQUEST, "the topic is named twice"
                )
                continue
            try:
                wanted.append(self._new_topic(topic))
            except InvalidSetting as error:
                refused[topic.name] = _build_refusal(topic.name, KafkaErrorCode.INVALID_CONFIG, str(error))

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, TopicsCreated):
                made = {each.name: self._describe_created(each, asked) for each in result.topics}
            else:
                made = {each.name: _build_refusal(each.name, *failure_of(result)) for each in wanted}
            outcomes = refused | made
            call.answer(CreateTopicsResponse(topics=tuple(outcomes[name] for name in names)))

        if not wanted:
            on_result(TopicsCreated(()))
            return
        command = CreateTopics(tuple(wanted), self._context.rng.getrandbits(31), request.validate_only)
        self._context.controller.send(command, on_result, timeout_s=limit_wait(request.timeout_ms))

    def _new_topic(self, topic: CreateTopic) -> NewTopic:
        settings = self._context.settings
        configs = tuple((each.name, check_topic_setting(each.name, each.value)) for each in topic.configs)
        partitions, replicas = topic.num_partitions, topic.replication_factor
        if not topic.assignments:
            if partitions == DEFAULT:
                partitions = settings.number("num.partitions")
            if replicas == DEFAULT:
                replicas = settings.number("default.replication.factor")
        return NewTopic(
            topic.name,
            self._context.new_id(),
            partitions,
            replicas,
            tuple((each.partition_index, each.broker_ids) for each in topic.assignments),
            configs,
        )

    def _describe_created(self, made: TopicCreated, asked: Mapping[str, CreateTopic]) -> CreateTopicResult:
        if made.error:
            return _build_refusal(made.name, made.error, made.message)
        overrides = {each.name: each.value for each in asked[made.name].configs if each.value is not None}
        return CreateTopicResult(
            name=made.name,
            topic_id=made.topic_id,
            error_code=KafkaErrorCode.NONE,
            error_message=None,
            num_partitions=made.partitions,
            replication_factor=made.replication_factor,
            configs=tuple(map(_created_config, self._context.settings.describe_topic(overrides))),
        )

    # ---------------------------------------------------------------- DeleteTopics

    @serves(DELETE_TOPICS.key)
    def delete_topics(self, call: ClientCall) -> None:
        """By name or id."""
        request: DeleteTopicsRequest = call.request
        references = [TopicReference(name=each) for each in request.topic_names] + [
            TopicReference(name=topic.name) if topic.name is not None else TopicReference(topic_id=topic.topic_id)
            for topic in request.topics
        ]

        def answer(topics: Iterable[TopicDeleted]) -> None:
            responses = (
                DeleteTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id or NO_UUID,
                    error_code=topic.error,
                    error_message=topic.message or None,
                )
                for topic in topics
            )
            call.answer(DeleteTopicsResponse(responses=tuple(responses)))

        def refuse_all(error: KafkaErrorCode, message: str) -> None:
            answer(TopicDeleted(each.name, each.topic_id, error, message) for each in references)

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, TopicsDeleted):
                answer(result.topics)
            else:
                refuse_all(*failure_of(result))

        if not self._context.settings.flag("delete.topic.enable"):
            refuse_all(KafkaErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
            return
        self._context.controller.send(
            DeleteTopics(tuple(references)), on_result, timeout_s=limit_wait(request.timeout_ms)
        )

    # ---------------------------------------------------------------- CreatePartitions

    @serves(CREATE_PARTITIONS.key)
    def create_partitions(self, call: ClientCall) -> None:
        """Add partitions to existing topics."""
        request: CreatePartitionsRequest = call.request
        wanted = tuple(
            MorePartitions(
                topic.name,
                topic.count,
                None if topic.assignments is None else tuple(one.broker_ids for one in topic.assignments),
            )
            for topic in request.topics
        )

        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, PartitionsCreated):
                topics = result.topics
            else:
                topics = tuple(TopicGrown(topic.name, *failure_of(result)) for topic in wanted)
            results = tuple(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=topic.error, error_message=topic.message or None
                )
                for topic in topics
            )
            call.answer(CreatePartitionsResponse(results=results))

        command = CreatePartitions(wanted, self._context.rng.getrandbits(31), request.validate_only)
        self._context.controller.send(command, on_result, timeout_s=limit_wait(request.timeout_ms))

    # ---------------------------------------------------------------- ElectLeaders

    @serves(ELECT_LEADERS.key)
    def elect_leaders(self, call: ClientCall) -> None:
        """Elect the preferred leaders, or replicas that are out of sync."""
        request: ElectLeadersRequest = call.request
        asked = request.topic_partitions
        if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
            call.answer(_no_election(request))
            return
        partitions = (
            None
            if asked is None
            else tuple(TopicPartition(each.topic, number) for each in asked for number in each.partitions)
        )

        def on_result(result: CommandResult | CommandFailed) -> None:
            if not isinstance(result, LeadersElected):
                error, _ = failure_of(result)
                call.answer(ElectLeadersResponse(error_code=error, replica_election_results=()))
                return
            by_topic: dict[str, list[ElectLeadersPartitionResult]] = {}
            for partition in result.partitions:
                by_topic.setdefault(partition.topic, []).append(
                    ElectLeadersPartitionResult(
                        partition_id=partition.partition,
                        error_code=partition.error,
                        error_message=partition.message or None,
                    )
                )
            call.answer(
                ElectLeadersResponse(
                    error_code=KafkaErrorCode.NONE,
                    replica_election_results=tuple(
                        ElectLeadersTopicResult(topic=topic, partition_result=tuple(results))
                        for topic, results in by_topic.items()
                    ),
                )
            )

        command = ElectLeaders(ElectionType(request.election_type), partitions)
        self._context.controller.send(command, on_result, timeout_s=limit_wait(request.timeout_ms))


def _no_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Returns the refusal of an unknown kind of election."""
    error, message = KafkaErrorCode.INVALID_REQUEST, f"there are no elections of type {request.election_type}"
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ElectLeadersTopicResult(
                topic=topic.topic,
                partition_result=tuple(
                    ElectLeadersPartitionResult(partition_id=number, error_code=error, error_message=message)
                    for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def failure_of(result: CommandResult | CommandFailed) -> tuple[KafkaErrorCode, str]:
    """Returns error and text for a command that has no result of its own kind."""
    failed = result if isinstance(result, CommandFailed) else CommandFailed("the controller sent another answer", False)
    return failed.error, failed.reason


def _build_refusal(name: str, error: KafkaErrorCode, message: str) -> CreateTopicResult:
    return CreateTopicResult(name=name, error_code=error, error_message=message, configs=())


def _created_config(row: ConfigRow) -> CreatedTopicConfig:
    return CreatedTopicConfig(
        name=row.name, value=row.value, read_only=row.read_only, config_source=row.source, is_sensitive=row.sensitive
    )
