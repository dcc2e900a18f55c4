"""The topics of a target: made and changed as the source has them, with partitions and settings."""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import trio

from jepsen_like.mirror.ends import ClusterRefused, LinkBroken
from jepsen_like.mirror.kafka.client import ClusterClient, check
from jepsen_like.mirror.kept import LINKS_TOPIC
from kafka_compat.protocol.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_compat.protocol.apis.delete_topics import (
    DELETE_TOPICS,
    DeleteTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_compat.protocol.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

TOPIC: Final = 2
SET_BY_TOPIC: Final = 1
"""The source of a setting that belongs to the topic itself."""
SET, DELETE = 0, 1
OF_ONE_CLUSTER: Final = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
MESSAGE_BYTES_MAX: Final = "max.message.bytes"
NO_LIMIT: Final = 2**31 - 1
MIN_IN_SYNC: Final = "min.insync.replicas"
TIMEOUT_MS: Final = 10_000
SEEN_WITHIN_S: Final = 15.0
LOOK_EVERY_S: Final = 0.05
LINKS_REPLICAS_MAX: Final = 3
LINKS_SETTINGS: Final = {"cleanup.policy": "compact"}


@attrs.frozen
class TopicForm:
    """The shape of a topic: partitions, copies, and its own settings."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]

    @property
    def message_bytes_max(self) -> int:
        """The largest batch that the topic takes, as far as it has a limit of its own."""
        return int(self.settings.get(MESSAGE_BYTES_MAX, NO_LIMIT))

    def within(self, brokers: int) -> "TopicForm":
        """Returns the form in a cluster of so many brokers, which may have fewer copies."""
        replicas = min(self.replicas, brokers)
        settings = dict(self.settings)
        if int(settings.get(MIN_IN_SYNC, 1)) > replicas:
            settings[MIN_IN_SYNC] = str(replicas)
        return TopicForm(self.partitions, replicas, settings)


async def read_forms(client: ClusterClient, names: Iterable[str]) -> dict[str, TopicForm]:
    """Returns the forms of topics that were there at the last refresh. Raises `LinkBroken` and `ClusterRefused`."""
    wanted = sorted(names)
    if not wanted:
        return {}
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None) for name in wanted
        )
    )
    answer: DescribeConfigsResponse = await client.ask_any(DESCRIBE_CONFIGS, 2, request)
    settings: dict[str, dict[str, str]] = {}
    for result in answer.results:
        check(result.error_code, f"the settings of {result.resource_name}")
        settings[result.resource_name] = {
            each.name: each.value or ""
            for each in result.configs
            if each.config_source == SET_BY_TOPIC and each.name not in OF_ONE_CLUSTER and not each.is_sensitive
        }
    replicas = {
        topic.name: max((len(each.replica_nodes) for each in topic.partitions), default=1)
        for topic in client.view.topics
    }
    counts = client.partition_counts()
    return {name: TopicForm(counts[name], replicas[name], settings[name]) for name in wanted if name in counts}


async def shape_topics(client: ClusterClient, forms: Mapping[str, TopicForm]) -> None:
    """Make the topics of the target, and give those that are there the partitions and settings that they lack.

    Raises `LinkBroken` and `ClusterRefused`.
    """
    await client.refresh()
    brokers, counts = len(client.brokers), client.partition_counts()
    fitting = {name: form.within(brokers) for name, form in forms.items()}
    for name, form in fitting.items():
        if counts.get(name, 0) > form.partitions:
            raise ClusterRefused(
                f"topic {name} has {counts[name]} partitions in the target and {form.partitions} in the source; nothing "
                "was copied; give the source as many, or leave the topic out by --topics"
            )
    await _create(client, {name: form for name, form in fitting.items() if name not in counts})
    await _grow(
        client, {name: form for name, form in fitting.items() if counts.get(name, form.partitions) < form.partitions}
    )
    present = await read_forms(client, [name for name in fitting if name in counts])
    await _alter(client, fitting, present)
    await _wait_for(client, {name: form.partitions for name, form in fitting.items()})


async def make_links_topic(client: ClusterClient) -> None:
    """Make the topic that keeps the links, if it is missing. Raises `LinkBroken` and `ClusterRefused`."""
    await client.refresh()
    if LINKS_TOPIC not in client.partition_counts():
        replicas = min(LINKS_REPLICAS_MAX, len(client.brokers))
        await _create(client, {LINKS_TOPIC: TopicForm(1, replicas, LINKS_SETTINGS)})
    await _wait_for(client, {LINKS_TOPIC: 1})


async def delete_topics(client: ClusterClient, names: Iterable[str]) -> None:
    """Delete topics, and wait until no broker knows them. Raises `LinkBroken` and `ClusterRefused`."""
    gone = sorted(names)
    request = DeleteTopicsRequest(
        topics=tuple(DeleteTopic(name=name, topic_id=bytes(16)) for name in gone), timeout_ms=TIMEOUT_MS
    )
    answer: DeleteTopicsResponse = await client.ask_any(DELETE_TOPICS, 6, request)
    for each in answer.responses:
        if each.error_code != KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(each.error_code, f"deleting topic {each.name} of the target")
    await _wait_for(client, dict.fromkeys(gone, 0))


async def _create(client: ClusterClient, forms: Mapping[str, TopicForm]) -> None:
    if not forms:
        return
    topics = tuple(
        CreateTopic(
            name=name,
            num_partitions=form.partitions,
            replication_factor=form.replicas,
            assignments=(),
            configs=tuple(CreateTopicConfig(name=key, value=value) for key, value in form.settings.items()),
        )
        for name, form in forms.items()
    )
    answer: CreateTopicsResponse = await client.ask_any(
        CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    )
    for each in answer.topics:
        if each.error_code != KafkaErrorCode.TOPIC_ALREADY_EXISTS:
            check(
                each.error_code, f"making topic {each.name} in the target ({each.error_message or 'no reason given'})"
            )


async def _grow(client: ClusterClient, forms: Mapping[str, TopicForm]) -> None:
    if not forms:
        return
    topics = tuple(
        CreatePartitionsTopic(name=name, count=form.partitions, assignments=None) for name, form in forms.items()
    )
    request = CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False)
    answer: CreatePartitionsResponse = await client.ask_any(CREATE_PARTITIONS, 2, request)
    for each in answer.results:
        check(each.error_code, f"adding partitions to {each.name} of the target")


async def _alter(client: ClusterClient, wanted: Mapping[str, TopicForm], present: Mapping[str, TopicForm]) -> None:
    resources: list[IncrementalAlterConfigsResource] = []
    for name, now in present.items():
        then = wanted[name].settings
        changes = [
            IncrementalAlterConfig(name=key, config_operation=SET, value=value)
            for key, value in then.items()
            if now.settings.get(key) != value
        ]
        changes += [
            IncrementalAlterConfig(name=key, config_operation=DELETE, value=None)
            for key in now.settings
            if key not in then
        ]
        if changes:
            resources.append(
                IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=tuple(changes))
            )
    if resources:
        request = IncrementalAlterConfigsRequest(resources=tuple(resources), validate_only=False)
        answer: IncrementalAlterConfigsResponse = await client.ask_any(INCREMENTAL_ALTER_CONFIGS, 1, request)
        for each in answer.responses:
            check(each.error_code, f"the settings of {each.resource_name} in the target")


async def _wait_for(client: ClusterClient, partitions: Mapping[str, int]) -> None:
    """Wait until these topics have so many partitions, all with a leader."""
    deadline = trio.current_time() + SEEN_WITHIN_S
    while True:
        await client.refresh()
        counts = client.partition_counts()
        if all(counts.get(name, 0) == count for name, count in partitions.items()):
            try:
                client.by_leader((name, at) for name, count in partitions.items() for at in range(count))
                return
            except LinkBroken:
                pass
        if trio.current_time() > deadline:
            raise LinkBroken(f"the target does not show {', '.join(partitions)} as it was asked to")
        await trio.sleep(LOOK_EVERY_S)
