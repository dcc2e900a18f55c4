"""The state machine of the controller: it applies each command to the cluster, the same on every broker.

It is a `SnapshotMachine` of raft. One command is one atomic change: fencing a broker moves all its leaderships and
leaves all its ISRs at once. `apply` makes all decisions that depend on the state, and its result carries the error.
`check` refuses only bytes that are not a command. After `apply` or `restore`, `drain_changes` returns the changes.
"""

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from attrs import define, field

from kafka_compat.controller.acl_commands import create_acls, delete_acls
from kafka_compat.controller.alter_partition import alter
from kafka_compat.controller.changes import ImageChanges
from kafka_compat.controller.commands import (
    PRODUCER_IDS_PER_BLOCK,
    Acknowledged,
    AllocateProducerIds,
    AlterConfigs,
    AlterCredentials,
    AlterPartition,
    AlterReassignments,
    BeginShutdown,
    Command,
    CommandResult,
    ConfigsAltered,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    LeadersElected,
    MetadataQuery,
    PartitionAltered,
    PartitionElected,
    PartitionReassigned,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    RegisterBroker,
    Registered,
    ReportLogs,
    ResourceAltered,
    ResourceChange,
    ResourceKind,
    ResourceName,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicReference,
    TopicsCreated,
    TopicsDeleted,
    UnfenceBroker,
    UnregisterBroker,
    decode_command,
    decode_query,
    encode_result,
)
from kafka_compat.controller.credentials import alter_credentials
from kafka_compat.controller.elections import UNCLEAN_ELECTION, ElectionRule
from kafka_compat.controller.image import ClusterImage, ImageDelta, broker_of
from kafka_compat.controller.refusal import Refused
from kafka_compat.controller.snapshot import encode_image, restore_image
from kafka_compat.controller.topics import (
    PARTITIONS_PER_COMMAND_MAX,
    check_setting,
    find,
    find_repeated,
    more_partitions,
    new_topic,
)
from kafka_compat.model import NO_EPOCH, NO_LEADER, BrokerRegistration, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

OfRegistration = UnfenceBroker | FenceBroker | BeginShutdown | ReportLogs | AllocateProducerIds | AlterPartition
"""The commands that name a registration, and are refused if it is not the newest of its broker."""
_RESULTS: Mapping[type[OfRegistration], type[Acknowledged | ProducerIdsAllocated | PartitionsAltered]] = {
    UnfenceBroker: Acknowledged,
    FenceBroker: Acknowledged,
    BeginShutdown: Acknowledged,
    ReportLogs: Acknowledged,
    AllocateProducerIds: ProducerIdsAllocated,
    AlterPartition: PartitionsAltered,
}
DELTAS_MAX = 10_000
"""Deltas that wait for `drain_changes`; more become one that stands for everything."""


@define
class MetadataMachine:
    """The controller as a `raft.SnapshotMachine`. `image` is one object for the life of the machine."""

    image: ClusterImage = field(factory=ClusterImage)
    _deltas: list[ImageDelta] = field(factory=list)

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Raises `InvalidRequest` unless `command` is a command, or a query if `read_only`."""
        if read_only:
            decode_query(command)
        else:
            decode_command(command)

    def apply(self, index: int, command: bytes) -> bytes:
        """Carry out the command at `index`.

        Returns the encoded result. Raises `InvalidRequest` for bytes that are not a command.
        """
        self.image.index = index
        decoded = decode_command(command)
        changes = ImageChanges(self.image)
        result = self._carry_out(index, decoded, changes)
        self._report(changes.delta(index))
        return encode_result(result)

    def query(self, command: bytes) -> bytes:
        """Returns the answer to a `MetadataQuery`. Raises `InvalidRequest` for an invalid query."""
        match decode_query(command):
            case MetadataQuery.APPLIED_INDEX:
                return str(self.image.index).encode()
            case MetadataQuery.SNAPSHOT:
                return self.snapshot()

    @property
    def assigned(self) -> dict[int, str]:
        """The copies of each broker, which it takes with it if it leaves; see `raft.state_machine.AssigningMachine`."""
        counts: Counter[int] = Counter()
        for topic in self.image.topics.values():
            for state in topic.partitions:
                counts.update(state.replicas)
        return {
            broker: f"it has copies of {count} partitions; move them first, and wait for that: "
            f"quorumlog topics reassign --replace {broker}=ID --execute"
            for broker, count in sorted(counts.items())
        }

    def snapshot(self) -> bytes:
        """Returns the image as bytes; equal for equal images."""
        return encode_image(self.image)

    def check_snapshot(self, snapshot: bytes) -> None:
        """See `CheckedMachine`."""
        restore_image(ClusterImage(), snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Replace the image by the one in `snapshot`. Raises `InvalidRequest`, and changes nothing, for other bytes."""
        restore_image(self.image, snapshot)
        self._deltas = [ImageDelta(self.image.index, everything=True)]

    def drain_changes(self) -> list[ImageDelta]:
        """Returns the deltas since the last call, in the order of commands. The first may stand for everything."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def _report(self, delta: ImageDelta) -> None:
        if delta.empty:
            return
        if len(self._deltas) >= DELTAS_MAX:
            delta = ImageDelta(delta.index, everything=True)
            self._deltas.clear()
        self._deltas.append(delta)

    def _carry_out(self, index: int, command: Command, changes: ImageChanges) -> CommandResult:
        if isinstance(command, OfRegistration):
            stale = _stale(self.image, command.broker, command.epoch)
            if stale is not None:
                return _RESULTS[type(command)](error=KafkaErrorCode.STALE_BROKER_EPOCH, message=stale)
        match command:
            case RegisterBroker():
                return _register(index, command, changes)
            case UnfenceBroker():
                return _unfence(command, changes)
            case FenceBroker():
                return _fence(command, changes)
            case BeginShutdown():
                return _begin_shutdown(command, changes)
            case ReportLogs():
                return _report_logs(command, changes)
            case AllocateProducerIds():
                return _allocate_producer_ids(command, changes)
            case AlterPartition():
                return _alter_partitions(command, changes)
            case ElectLeaders():
                return _elect_leaders(command, changes)
            case CreateTopics():
                return _create_topics(command, changes)
            case DeleteTopics():
                return _delete_topics(command, changes)
            case CreatePartitions():
                return _create_partitions(command, changes)
            case AlterConfigs():
                return _alter_configs(command, changes)
            case AlterCredentials():
                return alter_credentials(command, changes)
            case CreateAcls():
                return create_acls(command, changes)
            case DeleteAcls():
                return delete_acls(command, changes)
            case AlterReassignments():
                return _alter_reassignments(command, changes)
            case UnregisterBroker():
                return _unregister(command, changes, self.assigned.get(command.broker))
            case _:
                assert_never(command)


# -------------------------------------------------------------------- brokers


def _stale(image: ClusterImage, broker: int, epoch: int) -> str | None:
    """Returns the reason why this is not the registration of the process that sends or is named, or None."""
    registration = image.brokers.get(broker)
    if registration is None:
        return f"No broker registration found for broker id {broker}"
    if registration.epoch != epoch:
        return f"Expected broker epoch {registration.epoch}, but got broker epoch {epoch}"
    return None


def _register(index: int, command: RegisterBroker, changes: ImageChanges) -> Registered:
    existing = changes.image.brokers.get(command.broker)
    if existing is not None and existing.incarnation == command.incarnation:
        amended = evolve(existing, host=command.host, port=command.port, rack=command.rack, endpoints=command.endpoints)
        if amended != existing:
            changes.put_broker(amended)
        return Registered(existing.epoch)
    if existing is not None and not existing.fenced:
        return Registered(
            error=KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION,
            message=f"Another process is registered as broker {command.broker} and is not fenced. After a restart this "
            "resolves itself once the session of that process has expired.",
        )
    changes.put_broker(
        BrokerRegistration(
            command.broker,
            index,
            command.incarnation,
            command.host,
            command.port,
            command.rack,
            served_epoch=NO_EPOCH if existing is None else existing.served_epoch,
            endpoints=command.endpoints,
        )
    )
    # As fencing did, unless eligibility was off then: what is left are ISRs of which it is the last member.
    changes.take_out(command.broker, unclean_default=command.unclean_default, eligible=command.eligible)
    return Registered(index)


def _unfence(command: UnfenceBroker, changes: ImageChanges) -> Acknowledged:
    registration = changes.image.brokers[command.broker]
    if registration.shutting_down:
        return Acknowledged(KafkaErrorCode.INVALID_REQUEST, f"broker {command.broker} is shutting down")
    if registration.fenced:
        changes.put_broker(evolve(registration, fenced=False, served_epoch=registration.epoch))
        changes.elect_leaderless(unclean_default=command.unclean_default)
    return Acknowledged()


def _fence(command: FenceBroker, changes: ImageChanges) -> Acknowledged:
    registration = changes.image.brokers[command.broker]
    if not registration.fenced:
        changes.put_broker(evolve(registration, fenced=True))
        changes.take_out(command.broker, unclean_default=command.unclean_default, eligible=command.eligible)
    return Acknowledged()


def _unregister(command: UnregisterBroker, changes: ImageChanges, assigned: str | None) -> Acknowledged:
    """`assigned` is why it is still needed, if it has copies."""
    registration = changes.image.brokers.get(command.broker)
    if registration is None:
        message = f"Broker ID {command.broker} is not currently registered"
        return Acknowledged(KafkaErrorCode.BROKER_ID_NOT_REGISTERED, message)
    if not registration.fenced:
        message = f"broker {command.broker} is in service, or its session has not ended yet: stop it first"
        return Acknowledged(KafkaErrorCode.INVALID_REQUEST, message)
    if assigned is not None:
        return Acknowledged(KafkaErrorCode.INVALID_REQUEST, f"broker {command.broker} is still needed: {assigned}")
    changes.remove_broker(command.broker)
    return Acknowledged()


def _begin_shutdown(command: BeginShutdown, changes: ImageChanges) -> Acknowledged:
    registration = changes.image.brokers[command.broker]
    if not registration.shutting_down:
        changes.put_broker(evolve(registration, shutting_down=True))
        changes.take_out(command.broker, unclean_default=command.unclean_default, eligible=command.eligible)
    return Acknowledged()


def _report_logs(command: ReportLogs, changes: ImageChanges) -> Acknowledged:
    for report in command.partitions:
        changes.report(command.broker, report, unclean_default=command.unclean_default)
    return Acknowledged()


def _allocate_producer_ids(command: AllocateProducerIds, changes: ImageChanges) -> ProducerIdsAllocated:
    first = changes.image.next_producer_id
    changes.image.next_producer_id = first + PRODUCER_IDS_PER_BLOCK
    return ProducerIdsAllocated(first, PRODUCER_IDS_PER_BLOCK)


# -------------------------------------------------------------------- partitions


def _alter_partitions(command: AlterPartition, changes: ImageChanges) -> PartitionsAltered:
    image = changes.image
    results = []
    for change in command.changes:
        code, message = KafkaErrorCode.NONE, ""
        try:
            state = alter(image, command.broker, change)
            changes.put_partition(TopicPartition(image.topics_by_id[change.topic_id].name, change.partition), state)
        except Refused as refused:
            code, message = refused.code, refused.message
        after = image.partition_by_id(change.topic_id, change.partition)
        results.append(PartitionAltered(change.topic_id, change.partition, code, message, after))
    return PartitionsAltered(tuple(results))


def _elect_leaders(command: ElectLeaders, changes: ImageChanges) -> LeadersElected:
    partitions = command.partitions
    if partitions is None:
        unclean = command.election is ElectionType.UNCLEAN
        partitions = tuple(changes.image.leaderless() if unclean else changes.image.not_preferred())
    return LeadersElected(tuple([_elect_leader(command.election, key, changes) for key in partitions]))


def _elect_leader(election: ElectionType, key: TopicPartition, changes: ImageChanges) -> PartitionElected:
    state = changes.image.partition(key)
    if state is None:
        return PartitionElected(
            key.topic, key.partition, KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {key}"
        )
    unclean = election is ElectionType.UNCLEAN
    if state.leader == state.replicas[0] or (unclean and state.leader != NO_LEADER):
        return PartitionElected(
            key.topic, key.partition, KafkaErrorCode.ELECTION_NOT_NEEDED, f"broker {state.leader} leads it already"
        )
    if changes.elect(key, ElectionRule.UNCLEAN if unclean else ElectionRule.PREFERRED):
        return PartitionElected(key.topic, key.partition)
    code = KafkaErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else KafkaErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return PartitionElected(key.topic, key.partition, code, "no replica that may lead instead is active")


def _alter_reassignments(command: AlterReassignments, changes: ImageChanges) -> ReassignmentsAltered:
    twice = find_repeated((each.topic, each.partition) for each in command.partitions)
    results: dict[tuple[str, int], PartitionReassigned] = {}
    for wanted in command.partitions:
        key = wanted.topic, wanted.partition
        try:
            if key in twice:
                raise Refused(KafkaErrorCode.INVALID_REQUEST, "The partition is named twice.")
            changes.reassign(wanted, allows_factor_change=command.allows_factor_change)
        except Refused as refused:
            results[key] = PartitionReassigned(*key, refused.code, refused.message)
        else:
            results[key] = PartitionReassigned(*key)
    return ReassignmentsAltered(tuple(results.values()))


# -------------------------------------------------------------------- topics


def _create_topics(command: CreateTopics, changes: ImageChanges) -> TopicsCreated:
    twice = find_repeated(topic.name for topic in command.topics)
    room = PARTITIONS_PER_COMMAND_MAX
    results: dict[str, TopicCreated] = {}
    for place, wanted in enumerate(command.topics):
        try:
            if wanted.name in twice:
                raise Refused(KafkaErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = new_topic(changes.image, command, place, room)
        except Refused as refused:
            results[wanted.name] = TopicCreated(
                wanted.name, wanted.topic_id, error=refused.code, message=refused.message
            )
            continue
        room -= len(topic.partitions)
        if not command.validate_only:
            changes.create_topic(topic)
        factor = len(topic.partitions[0].replicas)
        results[wanted.name] = TopicCreated(topic.name, topic.topic_id, len(topic.partitions), factor)
    return TopicsCreated(tuple(results.values()))


def _delete_topics(command: DeleteTopics, changes: ImageChanges) -> TopicsDeleted:
    results = [_delete_topic(reference, changes) for reference in command.topics]
    return TopicsDeleted(tuple(results))


def _delete_topic(reference: TopicReference, changes: ImageChanges) -> TopicDeleted:
    try:
        topic = find(changes.image, reference)
    except Refused as refused:
        return TopicDeleted(reference.name, reference.topic_id, refused.code, refused.message)
    changes.delete_topic(topic)
    return TopicDeleted(topic.name, topic.topic_id)


def _create_partitions(command: CreatePartitions, changes: ImageChanges) -> PartitionsCreated:
    twice = find_repeated(topic.name for topic in command.topics)
    room = PARTITIONS_PER_COMMAND_MAX
    results: dict[str, TopicGrown] = {}
    for place, wanted in enumerate(command.topics):
        try:
            if wanted.name in twice:
                raise Refused(KafkaErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            states = more_partitions(changes.image, command, place, room)
        except Refused as refused:
            results[wanted.name] = TopicGrown(wanted.name, refused.code, refused.message)
            continue
        room -= len(states)
        results[wanted.name] = TopicGrown(wanted.name)
        if not command.validate_only:
            first = len(changes.image.topics[wanted.name].partitions)
            for partition, state in enumerate(states, start=first):
                changes.put_partition(TopicPartition(wanted.name, partition), state)
    return PartitionsCreated(tuple(results.values()))


# -------------------------------------------------------------------- configs


def _alter_configs(command: AlterConfigs, changes: ImageChanges) -> ConfigsAltered:
    results = []
    for change in command.changes:
        try:
            _check_resource(changes.image, change)
            values = _checked_values(change)
            if command.replaces:
                values = dict.fromkeys(changes.image.configs_of(change.resource)) | values
        except Refused as refused:
            results.append(ResourceAltered(change.resource, refused.code, refused.message))
            continue
        results.append(ResourceAltered(change.resource))
        if not command.validate_only:
            _set_configs(change.resource, values, changes, unclean_default=command.unclean_default)
    return ConfigsAltered(tuple(results))


def _check_resource(image: ClusterImage, change: ResourceChange) -> None:
    name = change.resource.name
    match change.resource.kind:
        case ResourceKind.TOPIC:
            if name not in image.topics:
                raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name[:300]}' does not exist.")
        case ResourceKind.BROKER:
            broker = broker_of(name)
            if name and broker is None:
                raise Refused(KafkaErrorCode.INVALID_REQUEST, f"'{name[:300]}' is not the id of a broker.")
            if broker is not None and broker not in image.brokers:
                raise Refused(KafkaErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker} found.")


def _checked_values(change: ResourceChange) -> dict[str, str | None]:
    """Returns the values to set by name, None to delete. Raises `Refused` for one that brokers could not honour."""
    return {
        setting.name: None if setting.value is None else check_setting(change.resource, setting.name, setting.value)
        for setting in change.settings
    }


def _set_configs(
    resource: ResourceName, values: Mapping[str, str | None], changes: ImageChanges, *, unclean_default: bool
) -> None:
    for name, value in values.items():
        changes.set_config(resource, name, value)
    if UNCLEAN_ELECTION in values:
        changes.elect_leaderless(unclean_default=unclean_default)
