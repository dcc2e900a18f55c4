"""The JSON bodies of requests and answers, under the names of RocketMQ's own classes.

`json_body` reads and writes them. Pure.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, ClassVar

import attrs

from rocketmq_compat.remoting.headers.fields import WireName
from rocketmq_compat.remoting.json_body import CLIENT_BODY_BYTES_MAX, JsonBody

READABLE = 4
WRITABLE = 2
INHERITED = 1
"""The bits of `perm` (PermName.java)."""


class MessageQueue(JsonBody):
    """One queue of a topic at one broker name."""

    broker_name: str
    queue_id: int
    topic: str


class DataVersion(JsonBody):
    """The version of a table: two tables have the same data if all three values are the same."""

    state_version: int = 0
    timestamp: int = 0
    """The time of the last change, in ms."""
    counter: int = 0
    """The number of changes."""


# Topics and groups


class TopicConfig(JsonBody):
    """A topic on one broker."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = READABLE | WRITABLE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = attrs.field(factory=dict)


class TopicConfigSerializeWrapper(JsonBody):
    """The topics of a broker: the answer to GET_ALL_TOPIC_CONFIG, and a part of a registration."""

    topic_config_table: Mapping[str, TopicConfig] = attrs.field(factory=dict)
    data_version: DataVersion = DataVersion()


class TopicList(JsonBody):
    """Names of topics."""

    topic_list: tuple[str, ...] = ()
    broker_addr: str | None = None


class RetryPolicyType(enum.Enum):
    """The delays of a message that is sent back (5.x): by delay levels, or longer each time."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class GroupRetryPolicy(JsonBody):
    """The policy of a group. Only consumers of POP are served by it, so none is here."""

    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED


class SubscriptionGroupConfig(JsonBody):
    """A consumer group on one broker."""

    bytes_max: ClassVar[int | None] = CLIENT_BODY_BYTES_MAX
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    attributes: Mapping[str, str] = attrs.field(factory=dict)


class SubscriptionGroupWrapper(JsonBody):
    """The consumer groups of a broker: the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    subscription_group_table: Mapping[str, SubscriptionGroupConfig] = attrs.field(factory=dict)
    forbidden_table: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    """Topics that a group may not read, by group (5.x): none here."""
    data_version: DataVersion = DataVersion()


class GroupList(JsonBody):
    """Names of groups: the answer to QUERY_TOPIC_CONSUME_BY_WHO."""

    group_list: tuple[str, ...] = ()


# Routes


class QueueData(JsonBody):
    """The queues of a topic at one broker name."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


class BrokerData(JsonBody):
    """The brokers of one name, by their ids; 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str] = attrs.field(factory=dict)
    enable_acting_master: bool = False
    """True if a slave stands in for its master (5.x); never here. Some clients cannot decode a route without it."""


class BrokerMemberGroup(JsonBody):
    """The same as brokers ask for it."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str] = attrs.field(factory=dict)


class TopicRouteData(JsonBody):
    """The route of a topic: the answer to GET_ROUTEINFO_BY_TOPIC."""

    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


class ClusterInfo(JsonBody):
    """All brokers by name, and the names of each cluster: the answer to GET_BROKER_CLUSTER_INFO."""

    broker_addr_table: Mapping[str, BrokerData] = attrs.field(factory=dict)
    cluster_addr_table: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


class GetBrokerMemberGroupResponseBody(JsonBody):
    """The brokers of one name: the answer to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup | None = None


class RegisterBrokerBody(JsonBody):
    """The topics that a broker registers with."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = attrs.field(factory=TopicConfigSerializeWrapper)
    filter_server_list: tuple[str, ...] = ()


class KVTable(JsonBody):
    """Names and values: GET_KVLIST_BY_NAMESPACE, GET_BROKER_RUNTIME_INFO, and the answer to a registration."""

    table: Mapping[str, str] = attrs.field(factory=dict)


# Clients


class ConsumeType(enum.Enum):
    """The way in which consumers get messages: they pull, or are pushed; in the order of the C++ client's numbers."""

    CONSUME_ACTIVELY = "PULL"
    CONSUME_PASSIVELY = "PUSH"


class ConsumeModel(enum.Enum):
    """MessageModel.java: whether each consumer of a group gets all messages, or they share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(enum.Enum):
    """The position at which a group that is new to a queue begins."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


class SubscriptionData(JsonBody):
    """The messages of a topic that a group subscribes to: `*`, or tags with `||` between them."""

    topic: str
    sub_string: str = "*"
    tags_set: tuple[str, ...] = ()
    code_set: tuple[int, ...] = ()
    """The hashes of the tags."""
    sub_version: int = 0
    class_filter_mode: bool = False
    expression_type: str = "TAG"


class ProducerData(JsonBody):
    """A producer group that a client is in."""

    group_name: str


class ConsumerData(JsonBody):
    """A consumer group of a client, and its subscriptions."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: ConsumeModel = ConsumeModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class HeartbeatData(JsonBody):
    """The description of a client, sent to every broker each 30 s: HEART_BEAT."""

    bytes_max: ClassVar[int | None] = CLIENT_BODY_BYTES_MAX
    client_id: Annotated[str, WireName("clientID")]
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()


class CheckClientRequestBody(JsonBody):
    """Asks if the broker can serve a subscription, before the first heartbeat: CHECK_CLIENT_CONFIG."""

    bytes_max: ClassVar[int | None] = CLIENT_BODY_BYTES_MAX
    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None


class GetConsumerListByGroupResponseBody(JsonBody):
    """The ids of a group's clients."""

    consumer_id_list: tuple[str, ...] = ()


class LockBatchRequestBody(JsonBody):
    """Queues that a client wants for itself (LOCK_BATCH_MQ), or gives back (UNLOCK_BATCH_MQ)."""

    bytes_max: ClassVar[int | None] = CLIENT_BODY_BYTES_MAX
    consumer_group: str
    client_id: str
    mq_set: frozenset[MessageQueue] = frozenset()
    only_this_broker: bool = False


class LockBatchResponseBody(JsonBody):
    """Those it has."""

    lock_ok_mq_set: Annotated[frozenset[MessageQueue], WireName("lockOKMQSet")] = frozenset()


class ClientConnection(JsonBody):
    """Connection.java: a client as administrators see it."""

    client_id: str
    client_addr: str
    language: str
    version: int


class ConsumerConnection(JsonBody):
    """The answer to GET_CONSUMER_CONNECTION_LIST."""

    connection_set: tuple[ClientConnection, ...] = ()
    subscription_table: Mapping[str, SubscriptionData] = attrs.field(factory=dict)
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: ConsumeModel = ConsumeModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


class ProducerConnection(JsonBody):
    """The answer to GET_PRODUCER_CONNECTION_LIST."""

    connection_set: tuple[ClientConnection, ...] = ()


# Offsets


class ConsumerOffsetSerializeWrapper(JsonBody):
    """Offsets by `topic@group` and queue id: the answer to GET_ALL_CONSUMER_OFFSET."""

    offset_table: Mapping[str, Mapping[int, int]] = attrs.field(factory=dict)
    data_version: DataVersion = DataVersion()


class DelayOffsetSerializeWrapper(JsonBody):
    """Offsets by delay level: the answer to GET_ALL_DELAY_OFFSET."""

    offset_table: Mapping[int, int] = attrs.field(factory=dict)
    data_version: DataVersion = DataVersion()


class TopicOffset(JsonBody):
    """The begin and end of a queue."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int


class TopicStatsTable(JsonBody):
    """The queues of a topic: the answer to GET_TOPIC_STATS_INFO."""

    offset_table: Mapping[MessageQueue, TopicOffset] = attrs.field(factory=dict)
    topic_put_tps: float = 0.0
    """Messages a second (5.x), which are not counted here."""


class OffsetWrapper(JsonBody):
    """The progress of a group in a queue."""

    broker_offset: int
    """The end of the queue."""
    consumer_offset: int
    last_timestamp: int
    """The store time of the message before `consumer_offset`, in ms."""
    pull_offset: int = 0


class ConsumeStats(JsonBody):
    """The progress of a group: the answer to GET_CONSUME_STATS."""

    offset_table: Mapping[MessageQueue, OffsetWrapper] = attrs.field(factory=dict)
    consume_tps: float = 0.0


# Users and policies (ACL 2.0)


class UserInfo(JsonBody):
    """A user: AUTH_CREATE_USER, AUTH_UPDATE_USER, and the answers of AUTH_GET_USER and AUTH_LIST_USER."""

    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    user_type: str | None = None
    """Super or Normal."""
    user_status: str | None = None
    """enable or disable."""


class PolicyEntryInfo(JsonBody):
    """One entry: `Topic:orders*`, for example, with actions, addresses (also as CIDR) and the decision."""

    resource: str | None = None
    actions: tuple[str, ...] = ()
    source_ips: tuple[str, ...] | None = None
    decision: str | None = None
    """Allow or Deny."""


class PolicyInfo(JsonBody):
    """The entries of one type: Custom, or Default, which count after those."""

    policy_type: str | None = None
    entries: tuple[PolicyEntryInfo, ...] = ()


class AclInfo(JsonBody):
    """The policies of a subject, `User:NAME`: AUTH_CREATE_ACL, AUTH_UPDATE_ACL, AUTH_GET_ACL, AUTH_LIST_ACL."""

    subject: str | None = None
    policies: tuple[PolicyInfo, ...] = ()


class AuthTable(JsonBody):
    """All users and policies of a broker, as its file has them."""

    users: tuple[UserInfo, ...] = ()
    acls: tuple[AclInfo, ...] = ()
