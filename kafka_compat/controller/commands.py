"""The commands of `MetadataMachine` and their results, as values and as bytes.

A command contains everything that it refers to (topic ids, seeds, defaults), so that applying it needs no clock, no
chance and no configuration. Applying a command also validates it against the state of the cluster; a failed check gives
a result with an error code. Only bytes that are not a command are refused with `InvalidRequest`. A result with an error
had no effect. `message` is text for people, empty without an error.
"""

import enum
import functools
from typing import Any

import msgpack

from kafka_compat.acls import Acl, AclFilter, PatternType, Permission, ResourceType
from kafka_compat.controller import shapes
from kafka_compat.model import (
    NO_EPOCH,
    Endpoint,
    LogEnd,
    PartitionState,
    ScramCredential,
    ScramMechanism,
    TopicPartition,
)
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen

COMMAND_VERSION = 1
RESULT_VERSION = 1
QUERY_VERSION = 1
PRODUCER_IDS_PER_BLOCK = 1000
"""Producer ids in one block (ProducerIdsBlock of Kafka)."""
REPORTS_PER_COMMAND_MAX = 1_000
"""Logs in one `ReportLogs`."""
MESSAGE_MAX = 1_000
"""Characters that are kept of the message of a result."""
NONE = KafkaErrorCode.NONE

# -------------------------------------------------------------------- brokers


@frozen
class RegisterBroker:
    """A process of a broker begins; answered by `Registered`.

    The same incarnation again keeps its epoch and updates address and rack. Another incarnation is refused with
    DUPLICATE_BROKER_REGISTRATION while the registered one is not fenced. Otherwise it gets a new epoch, begins fenced,
    and leaves every ISR (ClusterControlManager.registerBroker).
    """

    broker: int
    incarnation: bytes
    """16 bytes, drawn once per process."""
    host: str
    port: int
    rack: str | None = None
    unclean_default: bool = False
    """unclean.leader.election.enable for topics, if neither topic nor cluster sets it.

    Every command that may elect has this field.
    """
    eligible: bool = False
    """True if eligible.leader.replicas.version is 1 (KIP-966): any member that leaves an ISR becomes eligible."""
    endpoints: tuple[Endpoint, ...] = ()
    """As in `BrokerRegistration`."""


@frozen
class UnfenceBroker:
    """A registered broker is caught up: it may lead and join ISRs, and partitions without leader elect.

    Answered by `Acknowledged`. The error is STALE_BROKER_EPOCH if the registration has another `epoch`, and
    INVALID_REQUEST if the broker is shutting down. Unfencing twice changes nothing.
    """

    broker: int
    epoch: int
    unclean_default: bool = False


@frozen
class FenceBroker:
    """A broker counts as dead: it leaves every ISR and its leaderships move, at once. Answered by `Acknowledged`.

    The error is STALE_BROKER_EPOCH if the registration has another `epoch`. Fencing twice changes nothing. `eligible`
    as in `RegisterBroker`.
    """

    broker: int
    epoch: int
    unclean_default: bool = False
    eligible: bool = False


@frozen
class BeginShutdown:
    """A broker begins a controlled shutdown: it loses ISRs and leaderships as in `FenceBroker`, but serves fetches.

    Answered by `Acknowledged`; the error is STALE_BROKER_EPOCH if the registration has another `epoch`.
    """

    broker: int
    epoch: int
    unclean_default: bool = False
    eligible: bool = False


@frozen
class LogReport:
    """The reach of a replica's log, and a mark if the log may lack records."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    """The newest epoch that this replica has taken up.

    Its log end counts only if the partition has had no leader since then.
    """
    doubtful: bool
    """True if the log or the note of its end was damaged or lost, or a loss of power may have taken its end."""
    last_epoch: int
    """The newest leader epoch that began in its log, NO_EPOCH if none did."""
    end_offset: int


@frozen
class UnregisterBroker:
    """Forget a broker that is fenced and has no copies, with its settings (KIP-584's UnregisterBroker); a client asks for it."""

    broker: int


@frozen
class ReportLogs:
    """A broker reports logs of its own; answered by `Acknowledged`, or by STALE_BROKER_EPOCH as above.

    A command has at most REPORTS_PER_COMMAND_MAX reports. Before it is unfenced, a broker reports its doubtful logs:
    they leave ISR and ELR, and become suspects. It reports any log whose end the image lacks
    (`ClusterImage.log_ends_wanted`), because an election compares them. Reports of unknown partitions, or of partitions
    without a replica there, are ignored.
    """

    broker: int
    epoch: int
    partitions: tuple[LogReport, ...]
    unclean_default: bool = False


@frozen
class AllocateProducerIds:
    """A broker needs a block of producer ids; answered by `ProducerIdsAllocated`. STALE_BROKER_EPOCH as above."""

    broker: int
    epoch: int


# -------------------------------------------------------------------- partitions


@frozen
class ProposedMember:
    """A proposed member of the ISR, with the epoch of the process that the leader saw fetching (KIP-903).

    NO_EPOCH is accepted only for a member of the committed ISR: a new process would have changed the partition epoch.
    """

    broker: int
    epoch: int = NO_EPOCH


@frozen
class IsrChange:
    """The ISR that a leader proposes for one partition; a compare-and-set on both epochs."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[ProposedMember, ...]
    recovering: bool = False
    """False once the leader of an unclean election is sure of its log."""
    keeps_eligible: bool = False
    """If true, replicas that leave the ISR become eligible, and eligible ones stay so.

    If false, the leader goes on alone with this ISR, and all replicas outside of it lose their eligibility.
    """


@frozen
class AlterPartition:
    """A leader changes ISRs (KIP-497); answered by `PartitionsAltered`, which has a result for each change."""

    broker: int
    epoch: int
    changes: tuple[IsrChange, ...]


class ElectionType(enum.IntEnum):
    """The kinds of election, with the numbers of ElectLeaders on Kafka's wire."""

    PREFERRED = 0
    UNCLEAN = 1


@frozen
class ElectLeaders:
    """Elect leaders on request (KIP-460); answered by `LeadersElected`.

    `partitions` None stands for all partitions; the result then omits those without need of an election.
    """

    election: ElectionType
    partitions: tuple[TopicPartition, ...] | None = None


@frozen
class Reassignment:
    """One partition is to have other replicas, the preferred leader first; None cancels what is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@frozen
class AlterReassignments:
    """Move partitions to other replicas (KIP-455), each for itself; answered by `ReassignmentsAltered`.

    A partition that comes twice is refused.
    """

    partitions: tuple[Reassignment, ...]
    allows_factor_change: bool = True
    """If false, a target of another size is refused (KIP-860)."""


# -------------------------------------------------------------------- topics


@frozen
class NewTopic:
    """One topic to be created: it has either counts, or an assignment with both counts -1.

    The caller resolves defaults. `configs` are pairs of name and value, validated by the caller, and kept as they are.
    """

    name: str
    topic_id: bytes
    """16 bytes, drawn by the caller; used only if the topic is created."""
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Pairs of a partition and its broker ids, the preferred leader first."""
    configs: tuple[tuple[str, str], ...] = ()


@frozen
class CreateTopics:
    """Create topics independently of each other; answered by `TopicsCreated`.

    Placement begins at `seed`: draw it at random.
    """

    topics: tuple[NewTopic, ...]
    seed: int = 0
    validate_only: bool = False


@frozen
class TopicReference:
    """A topic by name, or by id (name None)."""

    name: str | None = None
    topic_id: bytes | None = None


@frozen
class DeleteTopics:
    """Delete topics, each for itself; answered by `TopicsDeleted`."""

    topics: tuple[TopicReference, ...]


@frozen
class MorePartitions:
    """One topic that is to have `total` partitions; the new ones may be assigned, in order, by broker ids."""

    name: str
    total: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@frozen
class CreatePartitions:
    """Add partitions to topics, to each for itself; answered by `PartitionsCreated`."""

    topics: tuple[MorePartitions, ...]
    seed: int = 0
    validate_only: bool = False


# -------------------------------------------------------------------- configs


class ResourceKind(enum.IntEnum):
    """The kinds of resource, with the numbers of ConfigResource on Kafka's wire."""

    TOPIC = 2
    BROKER = 4


@frozen(order=True)
class ResourceName:
    """The owner of a config: a topic by name, or a broker by its decimal id.

    BROKER with "" is the default of all brokers.
    """

    kind: ResourceKind
    name: str


@frozen
class ConfigSetting:
    """Set a config to a string that the caller has validated, or with None delete it, which restores the default."""

    name: str
    value: str | None


@frozen
class ResourceChange:
    """The settings to change of one resource; all others stay."""

    resource: ResourceName
    settings: tuple[ConfigSetting, ...]


@frozen
class AlterConfigs:
    """Change configs, each resource for itself (IncrementalAlterConfigs); answered by `ConfigsAltered`.

    `replaces` deletes the settings that a change does not name (AlterConfigs). Where this allows unclean elections, partitions without leader elect at once.
    """

    changes: tuple[ResourceChange, ...]
    validate_only: bool = False
    unclean_default: bool = False
    replaces: bool = False


@frozen
class CredentialChange:
    """The credential of a user for one mechanism: a new one, or None to delete it."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None = None


@frozen
class AlterCredentials:
    """Change SCRAM credentials (AlterUserScramCredentials, KIP-554), of each user all or none.

    Answered by `CredentialsAltered`.
    """

    changes: tuple[CredentialChange, ...]


# -------------------------------------------------------------------- access control lists


@frozen
class CreateAcls:
    """Make ACLs, each for itself; one that exists stays. Answered by `AclsCreated`."""

    acls: tuple[Acl, ...]


@frozen
class DeleteAcls:
    """Delete the ACLs that filters match, each filter for itself, in order; answered by `AclsDeleted`."""

    filters: tuple[AclFilter, ...]


Command = (
    RegisterBroker
    | UnfenceBroker
    | FenceBroker
    | BeginShutdown
    | AllocateProducerIds
    | AlterPartition
    | ElectLeaders
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | ReportLogs
    | AlterCredentials
    | CreateAcls
    | DeleteAcls
    | AlterReassignments
    | UnregisterBroker
)

# -------------------------------------------------------------------- results


@frozen
class Registered:
    """The answer to `RegisterBroker`; `epoch` is NO_EPOCH with an error."""

    epoch: int = NO_EPOCH
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class Acknowledged:
    """The answer to `UnfenceBroker`, `FenceBroker`, `BeginShutdown`, `ReportLogs` and `UnregisterBroker`."""

    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class ProducerIdsAllocated:
    """The answer to `AllocateProducerIds`: `count` ids from `first` on, which appear in no other answer."""

    first: int = -1
    count: int = 0
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class PartitionAltered:
    """The result of one `IsrChange`, and the committed state after it; None for an unknown partition."""

    topic_id: bytes
    partition: int
    error: KafkaErrorCode
    message: str
    state: PartitionState | None


@frozen
class PartitionsAltered:
    """The answer to `AlterPartition`; an error of its own (STALE_BROKER_EPOCH) leaves `partitions` empty."""

    partitions: tuple[PartitionAltered, ...] = ()
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class PartitionElected:
    """The result of the election of one partition."""

    topic: str
    partition: int
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class LeadersElected:
    """The answer to `ElectLeaders`."""

    partitions: tuple[PartitionElected, ...]


@frozen
class PartitionReassigned:
    """The result for one partition."""

    topic: str
    partition: int
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class ReassignmentsAltered:
    """The answer to `AlterReassignments`, in the order of the command; a partition that came twice is there once."""

    partitions: tuple[PartitionReassigned, ...]


@frozen
class TopicCreated:
    """The result of one `NewTopic`. Counts are -1 with an error."""

    name: str
    topic_id: bytes
    partitions: int = -1
    replication_factor: int = -1
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class TopicsCreated:
    """The answer to `CreateTopics`, in the order of the command; a name that came twice is there once."""

    topics: tuple[TopicCreated, ...]


@frozen
class TopicDeleted:
    """The result of one `TopicReference`, with its name and id if they are known."""

    name: str | None
    topic_id: bytes | None
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class TopicsDeleted:
    """The answer to `DeleteTopics`, in the order of the command."""

    topics: tuple[TopicDeleted, ...]


@frozen
class TopicGrown:
    """The result of one `MorePartitions`."""

    name: str
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class PartitionsCreated:
    """The answer to `CreatePartitions`, in the order of the command; a name that came twice is there once."""

    topics: tuple[TopicGrown, ...]


@frozen
class ResourceAltered:
    """The result of one `ResourceChange`."""

    resource: ResourceName
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class ConfigsAltered:
    """The answer to `AlterConfigs`, in the order of the command."""

    resources: tuple[ResourceAltered, ...]


@frozen
class UserAltered:
    """The result for one user."""

    user: str
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class CredentialsAltered:
    """The answer to `AlterCredentials`, each user once."""

    users: tuple[UserAltered, ...]


@frozen
class AclCreated:
    """The result for one ACL."""

    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class AclsCreated:
    """The answer to `CreateAcls`, in the order of the command."""

    results: tuple[AclCreated, ...]


@frozen
class AclsMatched:
    """The ACLs that one filter has deleted."""

    acls: tuple[Acl, ...] = ()
    error: KafkaErrorCode = NONE
    message: str = ""


@frozen
class AclsDeleted:
    """The answer to `DeleteAcls`, in the order of the command."""

    results: tuple[AclsMatched, ...]


CommandResult = (
    Registered
    | Acknowledged
    | ProducerIdsAllocated
    | PartitionsAltered
    | LeadersElected
    | TopicsCreated
    | TopicsDeleted
    | PartitionsCreated
    | ConfigsAltered
    | CredentialsAltered
    | AclsCreated
    | AclsDeleted
    | ReassignmentsAltered
)

# -------------------------------------------------------------------- queries


class MetadataQuery(enum.IntEnum):
    """The queries, which change nothing."""

    APPLIED_INDEX = 1
    """Answered with the index of the last command applied, as a decimal.

    A linearizable query proves that a node is up to date.
    """
    SNAPSHOT = 2
    """Answered with a snapshot of the machine."""


# -------------------------------------------------------------------- bytes

_BROKERS = shapes.array(shapes.BROKER_ID, 10_000)
_ERROR = shapes.enumeration(KafkaErrorCode)
_FLAG = shapes.BOOLEAN
_TOPIC_PARTITION = shapes.record(TopicPartition, shapes.TEXT, shapes.INT32)
LOG_ENDS = shapes.array(
    shapes.record(LogEnd, shapes.BROKER_ID, shapes.NUMBER, shapes.integer(-1, shapes.INT32_MAX), shapes.NUMBER), 10_000
)
"""Packs the log ends of a PartitionState, in results and snapshots."""
_PARTITION_STATE = shapes.record(
    PartitionState,
    shapes.UUID,
    _BROKERS,
    _BROKERS,
    shapes.integer(-1, shapes.INT32_MAX),
    shapes.integer(0, shapes.INT32_MAX),
    shapes.integer(0, shapes.INT32_MAX),
    _FLAG,
    _BROKERS,
    _BROKERS,
    LOG_ENDS,
    _BROKERS,
    _BROKERS,
    added=5,
)
"""Packs a PartitionState in results."""
_RESOURCE = shapes.record(ResourceName, shapes.enumeration(ResourceKind), shapes.TEXT)

_BROKER_AND_EPOCH = (shapes.BROKER_ID, shapes.NUMBER)
_CONFIG_NAME = shapes.TEXT
_CONFIG_VALUE = shapes.text(shapes.VALUE_MAX)
_ISR_CHANGE = shapes.record(
    IsrChange,
    shapes.UUID,
    shapes.INT32,
    shapes.INT32,
    shapes.INT32,
    shapes.array(shapes.record(ProposedMember, shapes.BROKER_ID, shapes.NUMBER_OR_NONE), 10_000),
    _FLAG,
    _FLAG,
    added=1,
)
_LOG_REPORT = shapes.record(
    LogReport, shapes.UUID, shapes.INT32, shapes.INT32, _FLAG, shapes.integer(-1, shapes.INT32_MAX), shapes.NUMBER
)
_NEW_TOPIC = shapes.record(
    NewTopic,
    shapes.TEXT,
    shapes.UUID,
    shapes.INT32,
    shapes.INT32,
    shapes.array(shapes.tuple_of(shapes.INT32, _BROKERS)),
    shapes.array(shapes.tuple_of(_CONFIG_NAME, _CONFIG_VALUE)),
)
_MORE_PARTITIONS = shapes.record(MorePartitions, shapes.TEXT, shapes.INT32, shapes.optional(shapes.array(_BROKERS)))
_RESOURCE_CHANGE = shapes.record(
    ResourceChange, _RESOURCE, shapes.array(shapes.record(ConfigSetting, _CONFIG_NAME, shapes.optional(_CONFIG_VALUE)))
)
ACL = shapes.record(
    Acl,
    shapes.enumeration(ResourceType),
    shapes.TEXT,
    shapes.enumeration(PatternType),
    shapes.TEXT,
    shapes.TEXT,
    shapes.enumeration(AclOperation),
    shapes.enumeration(Permission),
)
"""Packs an ACL, in commands, results and snapshots."""
_ACL_FILTER = shapes.record(
    AclFilter,
    shapes.enumeration(ResourceType),
    shapes.optional(shapes.TEXT),
    shapes.enumeration(PatternType),
    shapes.optional(shapes.TEXT),
    shapes.optional(shapes.TEXT),
    shapes.enumeration(AclOperation),
    shapes.enumeration(Permission),
)
_REFERENCE = shapes.record(TopicReference, shapes.optional(shapes.TEXT), shapes.optional(shapes.UUID))


_ADDED: dict[type[Any], int] = {RegisterBroker: 2, FenceBroker: 1, BeginShutdown: 1, AlterConfigs: 1}
"""The number of fields that later releases have added to a command.

Older bytes lack them and get the defaults, which preserve their meaning.
"""


def _number_shapes(*numbered: tuple[int, type[Any], tuple[shapes.Shape, ...]]) -> shapes.Shape:
    return shapes.one_of(
        {number: (kind, shapes.record(kind, *fields, added=_ADDED.get(kind, 0))) for number, kind, fields in numbered}
    )


_COMMAND = _number_shapes(
    (1, RegisterBroker, (
        shapes.BROKER_ID, shapes.UUID, shapes.TEXT, shapes.integer(0, 65_535), shapes.optional(shapes.TEXT), _FLAG,
        _FLAG, shapes.ENDPOINTS,
    )),
    (2, UnfenceBroker, (*_BROKER_AND_EPOCH, _FLAG)),
    (3, FenceBroker, (*_BROKER_AND_EPOCH, _FLAG, _FLAG)),
    (4, BeginShutdown, (*_BROKER_AND_EPOCH, _FLAG, _FLAG)),
    (5, AllocateProducerIds, _BROKER_AND_EPOCH),
    (6, AlterPartition, (*_BROKER_AND_EPOCH, shapes.array(_ISR_CHANGE))),
    (7, ElectLeaders, (shapes.enumeration(ElectionType), shapes.optional(shapes.array(_TOPIC_PARTITION)))),
    (8, CreateTopics, (shapes.array(_NEW_TOPIC), shapes.NUMBER, _FLAG)),
    (9, DeleteTopics, (shapes.array(_REFERENCE),)),
    (10, CreatePartitions, (shapes.array(_MORE_PARTITIONS), shapes.NUMBER, _FLAG)),
    (11, AlterConfigs, (shapes.array(_RESOURCE_CHANGE), _FLAG, _FLAG, _FLAG)),
    (12, ReportLogs, (*_BROKER_AND_EPOCH, shapes.array(_LOG_REPORT, REPORTS_PER_COMMAND_MAX), _FLAG)),
    (13, AlterCredentials, (
        shapes.array(shapes.record(
            CredentialChange, shapes.TEXT, shapes.SCRAM_MECHANISM, shapes.optional(shapes.SCRAM_CREDENTIAL),
        )),
    )),
    (14, CreateAcls, (shapes.array(ACL),)),
    (15, DeleteAcls, (shapes.array(_ACL_FILTER),)),
    (16, AlterReassignments, (
        shapes.array(shapes.record(Reassignment, shapes.TEXT, shapes.INT32, shapes.optional(_BROKERS))), _FLAG,
    )),
    (17, UnregisterBroker, (shapes.BROKER_ID,)),
)  # fmt: skip
_CONTROLLERS_OWN = frozenset((2, 3, 4))
"""Only the controller itself decides who is fenced and who may shut down."""
_FOR_CLIENTS = frozenset((7, 8, 9, 10, 11, 13, 14, 15, 16, 17))
"""The others begin with the broker that they speak for."""
BEGINNING_BYTES = 64
_ENDING = (_ERROR, shapes.cut_text(MESSAGE_MAX))
_RESULT = _number_shapes(
    (1, Registered, (shapes.NUMBER_OR_NONE, *_ENDING)),
    (2, Acknowledged, _ENDING),
    (3, ProducerIdsAllocated, (shapes.NUMBER_OR_NONE, shapes.NUMBER, *_ENDING)),
    (4, PartitionsAltered, (
        shapes.array(shapes.record(
            PartitionAltered, shapes.UUID, shapes.INT32, *_ENDING, shapes.optional(_PARTITION_STATE),
        )),
        *_ENDING,
    )),
    (5, LeadersElected, (shapes.array(shapes.record(PartitionElected, shapes.TEXT, shapes.INT32, *_ENDING)),)),
    (6, TopicsCreated, (
        shapes.array(shapes.record(TopicCreated, shapes.TEXT, shapes.UUID, shapes.INT32, shapes.INT32, *_ENDING)),
    )),
    (7, TopicsDeleted, (
        shapes.array(shapes.record(
            TopicDeleted, shapes.optional(shapes.TEXT), shapes.optional(shapes.UUID), *_ENDING,
        )),
    )),
    (8, PartitionsCreated, (shapes.array(shapes.record(TopicGrown, shapes.TEXT, *_ENDING)),)),
    (9, ConfigsAltered, (shapes.array(shapes.record(ResourceAltered, _RESOURCE, *_ENDING)),)),
    (10, CredentialsAltered, (shapes.array(shapes.record(UserAltered, shapes.TEXT, *_ENDING)),)),
    (11, AclsCreated, (shapes.array(shapes.record(AclCreated, *_ENDING)),)),
    (12, AclsDeleted, (shapes.array(shapes.record(AclsMatched, shapes.array(ACL), *_ENDING)),)),
    (13, ReassignmentsAltered, (
        shapes.array(shapes.record(PartitionReassigned, shapes.TEXT, shapes.INT32, *_ENDING)),
    )),
)  # fmt: skip
_QUERY = shapes.enumeration(MetadataQuery)


def encode_command(command: Command) -> bytes:
    """Returns the bytes of a command. Decoding them, in `MetadataMachine.check`, finds values out of bounds."""
    return shapes.encode(COMMAND_VERSION, _COMMAND, command)


@functools.lru_cache(maxsize=32)
def decode_command(data: bytes) -> Command:
    """Returns the command in `data`: it is checked, then applied. Raises `InvalidRequest` for anything else."""
    command: Command = shapes.decode(COMMAND_VERSION, _COMMAND, data, "a command of the controller")
    return command


def may_send(broker: int, data: bytes) -> bool:
    """Returns True if a broker may have this command carried out: one for a client, or one that speaks for itself.

    Looks at the beginning alone, as large commands are decoded where they are checked. What is no command passes.
    """
    reader = msgpack.Unpacker(max_buffer_size=BEGINNING_BYTES)
    reader.feed(data[1:BEGINNING_BYTES])
    try:
        reader.read_array_header()
        number = reader.unpack()
        if number in _FOR_CLIENTS:
            return True
        reader.read_array_header()
        return number not in _CONTROLLERS_OWN and bool(reader.unpack() == broker)
    except (ValueError, msgpack.UnpackException):
        return True


@functools.lru_cache(maxsize=32)
def encode_result(result: CommandResult) -> bytes:
    """Returns the bytes of a result."""
    return shapes.encode(RESULT_VERSION, _RESULT, result)


def decode_result(data: bytes) -> CommandResult:
    """Returns the result in `data`. Raises `InvalidRequest` for anything else, another version included."""
    result: CommandResult = shapes.decode(RESULT_VERSION, _RESULT, data, "a result of the controller")
    return result


def encode_query(query: MetadataQuery) -> bytes:
    """Returns the bytes of a query."""
    return shapes.encode(QUERY_VERSION, _QUERY, query)


def decode_query(data: bytes) -> MetadataQuery:
    """Returns the query in `data`. Raises `InvalidRequest` for anything else, another version included."""
    query: MetadataQuery = shapes.decode(QUERY_VERSION, _QUERY, data, "a query to the controller")
    return query
