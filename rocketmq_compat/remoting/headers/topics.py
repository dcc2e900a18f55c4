"""Topics and groups, as administrators make, delete and look at them, and the settings of a process."""

from rocketmq_compat.remoting.headers.fields import Count, ExtHeader, Int, Name


class CreateTopicRequestHeader(ExtHeader):
    """Makes a topic on a broker, or changes it: UPDATE_AND_CREATE_TOPIC."""

    topic: Name
    default_topic: str = ""
    read_queue_nums: Count
    write_queue_nums: Count
    perm: Int
    """4 read, 2 write, 1 inherit."""
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: str | None = None


class TopicRequestHeader(ExtHeader):
    """One topic: DELETE_TOPIC_IN_BROKER, GET_TOPIC_STATS_INFO, GET_TOPIC_CONFIG, QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: Name


class GroupRequestHeader(ExtHeader):
    """One consumer group: GET_SUBSCRIPTIONGROUP_CONFIG, QUERY_TOPICS_BY_CONSUMER."""

    group: Name


class DeleteSubscriptionGroupRequestHeader(ExtHeader):
    """Deletes a consumer group."""

    group_name: Name
    clean_offset: bool = False
    """True if its offsets are deleted with it."""


class GetConsumeStatsRequestHeader(ExtHeader):
    """Asks for the progress of a group, in all its topics or in one."""

    consumer_group: Name
    topic: str | None = None


class ConfigVersionResponseHeader(ExtHeader):
    """The version of the content of the body: the answer to GET_BROKER_CONFIG."""

    version: str
