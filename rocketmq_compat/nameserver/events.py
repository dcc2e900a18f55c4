"""The events and effects of a name server. A connection is any value by which the shell identifies connections."""

from collections.abc import Hashable

from log.values import frozen
from rocketmq_compat.remoting.bodies import DataVersion, QueueData, TopicConfigSerializeWrapper

Connection = Hashable


@frozen
class BrokerIdentity:
    """A broker: its cluster, its name, its id (0 is the master of the name) and where clients reach it, HOST:PORT."""

    cluster: str
    name: str
    broker_id: int
    address: str


# Events


@frozen
class BrokerRegistered:
    """A broker registers (REGISTER_BROKER) with its topics, or with None if it sent none."""

    connection: Connection
    broker: BrokerIdentity
    ha_address: str
    topics: TopicConfigSerializeWrapper | None
    expires_after_s: float


@frozen
class TopicRegistered:
    """A broker states the queues of one of its topics (REGISTER_TOPIC_IN_NAMESRV).

    Without queues, the topic is gone there.
    """

    topic: str
    queues: tuple[QueueData, ...]


@frozen
class BrokerUnregistered:
    """A broker leaves (UNREGISTER_BROKER)."""

    broker: BrokerIdentity


@frozen
class BrokerBeat:
    """A broker is still there (BROKER_HEARTBEAT)."""

    connection: Connection
    broker: BrokerIdentity


@frozen
class DataVersionQuery:
    """A broker asks if its topics have to be registered again (QUERY_DATA_VERSION).

    If not, this counts as a sign of life.
    """

    connection: Connection
    broker: BrokerIdentity
    version: DataVersion


@frozen
class BrokerConnectionLost:
    """A connection has ended, perhaps one by which brokers registered."""

    connection: Connection


@frozen
class RegistrationTimePassed:
    """Time has passed."""


@frozen
class TopicDeletion:
    """An administrator deletes a topic, at the brokers of one cluster or everywhere (DELETE_TOPIC_IN_NAMESRV)."""

    topic: str
    cluster: str | None


@frozen
class WritePermChange:
    """An administrator forbids or allows writing to all topics at a broker name (WIPE_, ADD_WRITE_PERM_OF_BROKER)."""

    broker_name: str
    is_writable: bool


@frozen
class KvPut:
    """An administrator stores a value."""

    namespace: str
    key: str
    value: str


@frozen
class KvDeletion:
    """An administrator deletes a value."""

    namespace: str
    key: str


NamesrvEvent = (
    BrokerRegistered
    | TopicRegistered
    | BrokerUnregistered
    | BrokerBeat
    | DataVersionQuery
    | BrokerConnectionLost
    | RegistrationTimePassed
    | TopicDeletion
    | WritePermChange
    | KvPut
    | KvDeletion
)

# Effects


@frozen
class RegistrationAccepted:
    """The answer to a registration.

    A slave gets its master's addresses for clients and for slaves, if there is a master.
    """

    master_address: str | None = None
    ha_address: str | None = None


@frozen
class RegistrationRefused:
    """The answer to a registration that has no effect."""

    reason: str


@frozen
class DataVersionCompared:
    """The answer to a query: whether the broker has to register."""

    is_changed: bool


@frozen
class TopicsChanged:
    """The answer to a change of the write permission: of so many topics."""

    count: int


@frozen
class BrokerAppeared:
    """For operators: a broker is in the routes that was not, or is there with another address or id."""

    broker: BrokerIdentity


@frozen
class BrokerRemoved:
    """For operators: a broker is no longer in the routes."""

    broker: BrokerIdentity
    reason: str


@frozen
class CloseBrokerConnection:
    """Close the connection of a broker that is silent, as RocketMQ does: it then registers by another."""

    connection: Connection
    reason: str


@frozen
class KvChanged:
    """A value that an administrator stored or deleted (None) must be kept before the answer."""

    namespace: str
    key: str
    value: str | None


@frozen
class KvRefused:
    """The answer to a value for which there is no room."""

    reason: str


NamesrvEffect = (
    RegistrationAccepted
    | RegistrationRefused
    | DataVersionCompared
    | TopicsChanged
    | BrokerAppeared
    | BrokerRemoved
    | CloseBrokerConnection
    | KvChanged
    | KvRefused
)
