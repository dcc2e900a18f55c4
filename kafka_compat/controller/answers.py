"""States which results a correct controller may give to a command. A broker takes no others."""

from collections.abc import Iterable
from typing import assert_never

from kafka_compat.controller.commands import (
    NONE,
    PRODUCER_IDS_PER_BLOCK,
    Acknowledged,
    AclsCreated,
    AclsDeleted,
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
    CredentialsAltered,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    FenceBroker,
    IsrChange,
    LeadersElected,
    PartitionAltered,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    RegisterBroker,
    Registered,
    ReportLogs,
    TopicCreated,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
    UnfenceBroker,
    UnregisterBroker,
)
from kafka_compat.controller.invariants import problem_of


def fits(command: Command, result: CommandResult) -> bool:
    """Returns True if a correct controller may have answered `command` with `result`."""
    match command:
        case RegisterBroker():
            return isinstance(result, Registered) and (result.error is not NONE or result.epoch >= 0)
        case UnfenceBroker() | FenceBroker() | BeginShutdown() | ReportLogs() | UnregisterBroker():
            return isinstance(result, Acknowledged)
        case AllocateProducerIds():
            return isinstance(result, ProducerIdsAllocated) and (
                result.error is not NONE or (result.first >= 0 and result.count == PRODUCER_IDS_PER_BLOCK)
            )
        case AlterPartition():
            return isinstance(result, PartitionsAltered) and _follow(command, result)
        case ElectLeaders(partitions=asked):
            return isinstance(result, LeadersElected) and (asked is None or len(asked) == len(result.partitions))
        case CreateTopics(topics=wanted):
            return isinstance(result, TopicsCreated) and _are_same((each.name for each in wanted), result.topics)
        case DeleteTopics(topics=references):
            return isinstance(result, TopicsDeleted) and len(references) == len(result.topics)
        case CreatePartitions(topics=more):
            return isinstance(result, PartitionsCreated) and _are_same((each.name for each in more), result.topics)
        case AlterConfigs(changes=settings):
            resources = {each.resource for each in settings}
            return isinstance(result, ConfigsAltered) and resources == {each.resource for each in result.resources}
        case AlterCredentials(changes=credentials):
            users = {each.user for each in credentials}
            return isinstance(result, CredentialsAltered) and users == {each.user for each in result.users}
        case CreateAcls(acls=acls):
            return isinstance(result, AclsCreated) and len(acls) == len(result.results)
        case DeleteAcls(filters=filters):
            return isinstance(result, AclsDeleted) and len(filters) == len(result.results)
        case AlterReassignments(partitions=moves):
            moved = {(each.topic, each.partition) for each in moves}
            return isinstance(result, ReassignmentsAltered) and moved == {
                (each.topic, each.partition) for each in result.partitions
            }
        case _:
            assert_never(command)


def _are_same(names: Iterable[str], topics: Iterable[TopicCreated | TopicGrown]) -> bool:
    return set(names) == {each.name for each in topics}


def _follow(command: AlterPartition, result: PartitionsAltered) -> bool:
    changes, altered = command.changes, result.partitions
    if result.error is not NONE and not altered:
        return True
    return len(altered) == len(changes) and all(
        _follows(command.broker, change, each) for change, each in zip(changes, altered, strict=True)
    )


def _follows(broker: int, change: IsrChange, altered: PartitionAltered) -> bool:
    """Returns True if this may be the outcome of a change that its leader has asked for.

    That is the ISR that it wanted, in its epoch. A reassignment that this completes begins another epoch: then the
    replicas that are left are all in sync.
    """
    if (altered.topic_id, altered.partition) != (change.topic_id, change.partition):
        return False
    state = altered.state
    if altered.error is not NONE or state is None:
        return altered.error is not NONE
    wanted, isr = {member.broker for member in change.isr}, set(state.isr)
    if state.leader_epoch == change.leader_epoch:
        follows = state.leader == broker and isr == wanted
    else:
        follows = state.leader_epoch == change.leader_epoch + 1 and isr == set(state.replicas) and isr <= wanted
    return (
        follows
        and state.topic_id == change.topic_id
        and state.partition_epoch - change.partition_epoch in (0, 1)
        and problem_of(state) is None
    )
