"""Decides if a leader may change the ISR of a partition: the checks of KRaft's alterPartition, in its order.

The partition epoch makes the change a compare-and-set: a leader with an older state cannot overwrite the newest. The
epochs of brokers keep a replaced process, which may have lost its disk, out of the ISR (KIP-903).

Only the leader knows if it has acknowledged anything without the members that left. With `keeps_eligible` it has not,
and they stay eligible. Without it the leader goes on alone, and all others lose their eligibility (KIP-966).

The change may complete a reassignment: then the leader learns from the metadata which replicas are left.
"""

from kafka_compat.controller.commands import IsrChange, ProposedMember
from kafka_compat.controller.elections import ElectionRule, in_order, settle
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.refusal import Refused
from kafka_compat.model import NO_EPOCH, PartitionState
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve


def alter(image: ClusterImage, sender: int, change: IsrChange) -> PartitionState:
    """Returns the state with the ISR that `sender` proposes, or the present state if it has that ISR already.

    Raises `Refused`:

    - UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION;
    - NOT_CONTROLLER if the leader knows newer epochs than this machine, which lags then;
    - FENCED_LEADER_EPOCH for an older leader epoch;
    - INVALID_REQUEST if the sender does not lead, or the ISR is impossible;
    - INVALID_UPDATE_VERSION for an older partition epoch;
    - INELIGIBLE_REPLICA if a member is not an active broker of the given epoch.
    """
    state = image.partition_by_id(change.topic_id, change.partition)
    if state is None:
        if change.topic_id not in image.topics_by_id:
            raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
        raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {change.partition}")
    _check_epochs(state, sender, change)
    _check_isr(state, change)
    for member in change.isr:
        _check_member(image, state, member)
    isr = tuple([member.broker for member in change.isr])
    eligible = {*state.elr, *state.isr}.difference(isr) if change.keeps_eligible else ()
    after = evolve(
        state,
        isr=isr,
        elr=in_order(state, eligible),
        suspects=tuple([replica for replica in state.suspects if replica not in isr]),
        recovering=change.recovering,
    )
    return settle(state, after, ElectionRule.ONLINE, image)


def _check_epochs(state: PartitionState, sender: int, change: IsrChange) -> None:
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise Refused(
            KafkaErrorCode.NOT_CONTROLLER,
            f"leader epoch {change.leader_epoch} or partition epoch {change.partition_epoch} is newer than "
            f"{state.leader_epoch} and {state.partition_epoch}, which are known here",
        )
    if change.leader_epoch < state.leader_epoch:
        raise Refused(
            KafkaErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {change.leader_epoch} is over; it is {state.leader_epoch} now",
        )
    if sender != state.leader:
        raise Refused(KafkaErrorCode.INVALID_REQUEST, f"broker {sender} does not lead; broker {state.leader} does")
    if change.partition_epoch < state.partition_epoch:
        raise Refused(
            KafkaErrorCode.INVALID_UPDATE_VERSION,
            f"partition epoch {change.partition_epoch} is over; it is {state.partition_epoch} now",
        )


def _check_isr(state: PartitionState, change: IsrChange) -> None:
    brokers = [member.broker for member in change.isr]
    if len(set(brokers)) != len(brokers) or not set(brokers) <= set(state.replicas):
        problem = f"the ISR {brokers} is not a set of the replicas {list(state.replicas)}"
    elif state.leader not in brokers:
        problem = f"the ISR {brokers} lacks the leader, broker {state.leader}"
    elif change.recovering and len(brokers) > 1:
        problem = f"the ISR of a leader that is recovering is the leader alone, not {brokers}"
    elif change.recovering and not state.recovering:
        problem = "a leader that has recovered cannot be recovering again"
    else:
        return
    raise Refused(KafkaErrorCode.INVALID_REQUEST, problem)


def _check_member(image: ClusterImage, state: PartitionState, member: ProposedMember) -> None:
    registration = image.brokers.get(member.broker)
    if registration is None:
        problem = "is not registered"
    elif registration.fenced:
        problem = "is fenced"
    elif registration.shutting_down:
        problem = "is shutting down"
    elif member.epoch == NO_EPOCH and member.broker not in state.isr:
        problem = "is to join with no epoch"
    elif member.epoch not in (NO_EPOCH, registration.epoch):
        problem = f"has epoch {registration.epoch}, not {member.epoch}"
    else:
        return
    raise Refused(KafkaErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker} {problem}")
