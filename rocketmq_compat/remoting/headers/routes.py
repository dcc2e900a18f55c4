"""Name servers: brokers register (103, 104, 904, 322), clients ask for routes (105), administrators change settings.

The codes of administrators are 100 to 102, 205 and 327.
"""

from rocketmq_compat.remoting.headers.fields import Count, ExtHeader, Long, Name, Offset


class GetRouteInfoRequestHeader(ExtHeader):
    """The route of a topic: which brokers have queues of it."""

    topic: Name
    accept_standard_json_only: bool = False


class RegisterBrokerRequestHeader(ExtHeader):
    """Announces a broker, with the topics in the body.

    Used by REGISTER_BROKER, UNREGISTER_BROKER, QUERY_DATA_VERSION, BROKER_HEARTBEAT.
    """

    cluster_name: Name
    broker_name: Name
    broker_addr: Name
    """The address at which clients reach it, HOST:PORT."""
    broker_id: Offset
    """0 is the master."""
    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: Long = 0
    heartbeat_timeout_millis: Long | None = None


class RegisterBrokerResponseHeader(ExtHeader):
    """A slave's information about its master; empty for a master, and while there is no master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class QueryDataVersionResponseHeader(ExtHeader):
    """States if the broker has to register again, because the name server has other data from it."""

    changed: bool


class PutKvConfigRequestHeader(ExtHeader):
    """Stores a value.

    In the namespace ORDER_TOPIC_CONFIG it pins the queues of a topic whose order matters: `broker-a:4;broker-b:4`.
    """

    namespace: Name
    key: Name
    value: str


class KvConfigRequestHeader(ExtHeader):
    """A value: GET_KV_CONFIG, DELETE_KV_CONFIG."""

    namespace: Name
    key: Name


class GetKvConfigResponseHeader(ExtHeader):
    """The value."""

    value: str | None = None


class GetKvListRequestHeader(ExtHeader):
    """All values of a namespace: GET_KVLIST_BY_NAMESPACE."""

    namespace: Name


class NamesrvTopicRequestHeader(ExtHeader):
    """A topic that is to be forgotten (DELETE_TOPIC_IN_NAMESRV), in one cluster or everywhere."""

    topic: Name
    cluster_name: str | None = None


class GetTopicsByClusterRequestHeader(ExtHeader):
    """The topics of a cluster."""

    cluster: Name


class BrokerNameRequestHeader(ExtHeader):
    """The queues of a broker name: WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER."""

    broker_name: Name


class WipeWritePermResponseHeader(ExtHeader):
    """The number of topics that are no longer writable at the broker."""

    wipe_topic_count: Count


class AddWritePermResponseHeader(ExtHeader):
    """The number of topics that are writable at the broker again."""

    add_topic_count: Count


class BrokerMemberGroupRequestHeader(ExtHeader):
    """The brokers of one name: GET_BROKER_MEMBER_GROUP."""

    cluster_name: Name
    broker_name: Name
