"""Tells the results that a correct controller may answer a command with. A broker takes no others."""

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
    TopicsCreated,
    TopicsDeleted,
    UnfenceBroker,
)
from kafka_compat.controller.invariants import problem_of


def fits(command: Command, result: CommandResult) -> bool:
    """Returns True if a correct controller may have answered `command` with `result`."""
    match command, result:
        case RegisterBroker(), Registered(epoch=epoch, error=error):
            return error is not NONE or epoch >= 0
        case ((UnfenceBroker() | FenceBroker() | BeginShutdown() | ReportLogs()), Acknowledged()):
            return True
        case AllocateProducerIds(), ProducerIdsAllocated(first=first, count=count, error=error):
            return error is not NONE or (first >= 0 and count == PRODUCER_IDS_PER_BLOCK)
        case AlterPartition(broker=broker, changes=changes), PartitionsAltered(partitions=altered, error=error):
            if error is not NONE and not altered:
                return True
            return len(altered) == len(changes) and all(
                _follows(broker, change, each) for change, each in zip(changes, altered, strict=True)
            )
        case ElectLeaders(partitions=asked), LeadersElected(partitions=elected):
            return asked is None or len(asked) == len(elected)
        case CreateTopics(topics=wanted), TopicsCreated(topics=created):
            return {each.name for each in wanted} == {each.name for each in created}
        case DeleteTopics(topics=references), TopicsDeleted(topics=deleted):
            return len(references) == len(deleted)
        case CreatePartitions(topics=more), PartitionsCreated(topics=grown):
            return {each.name for each in more} == {each.name for each in grown}
        case AlterConfigs(changes=settings), ConfigsAltered(resources=resources):
            return {each.resource for each in settings} == {each.resource for each in resources}
        case AlterReassignments(partitions=moves), ReassignmentsAltered(partitions=moved):
            return {(each.topic, each.partition) for each in moves} == {(each.topic, each.partition) for each in moved}
        case AlterCredentials(changes=credentials), CredentialsAltered(users=users):
            return {each.user for each in credentials} == {each.user for each in users}
        case CreateAcls(acls=acls), AclsCreated(results=results):
            return len(acls) == len(results)
        case DeleteAcls(filters=filters), AclsDeleted(results=matched):
            return len(filters) == len(matched)
        case _:
            return False


def _follows(broker: int, change: IsrChange, altered: PartitionAltered) -> bool:
    """Returns True if this may be the outcome of a change that its leader has asked for: the ISR that it wanted."""
    if (altered.topic_id, altered.partition) != (change.topic_id, change.partition):
        return False
    state = altered.state
    if altered.error is not NONE or state is None:
        return altered.error is not NONE
    wanted = {member.broker for member in change.isr}
    same_leadership = (state.leader, state.leader_epoch) == (broker, change.leader_epoch)
    # The change may complete a reassignment: replicas have left, all others are in sync, and another epoch begins.
    is_moved = state.leader_epoch == change.leader_epoch + 1 and set(state.isr) == set(state.replicas) <= wanted
    return (
        state.topic_id == change.topic_id
        and ((same_leadership and set(state.isr) == wanted) or is_moved)
        and state.partition_epoch - change.partition_epoch in (0, 1)
        and problem_of(state) is None
    )
