"""Elects the leader of a partition after a change.

The rules are those of KRaft's PartitionChangeBuilder with eligible leader replicas (KIP-966), and one more. A leader
epoch grows exactly when the leader changes or is lost, or a replica is removed. A partition epoch grows with every
change.

- A member that the controller removes from an ISR becomes eligible, at any size of the ISR: it holds all acknowledged
  records until the leader goes on without it. So an ISR may become empty, and sessions that end together leave all of
  their copies eligible.
- A clean election takes an active member of the ISR, or else an eligible replica, which then forms the ISR.
- A member that comes back unsure of its log is a suspect, and a clean election passes over it. Once only suspects
  remain, all replicas report their logs, and the one with the greatest last epoch and end leads. Every acknowledged
  record that survives in any of them is in that log.
- Without the feature, the last member of an ISR stays in it, even dead, and only this replica may lead.
"""

import enum
from collections.abc import Iterable, Mapping

from kafka_compat.controller.commands import LogReport
from kafka_compat.controller.image import ClusterImage, TopicImage
from kafka_compat.controller.reassignment import complete
from kafka_compat.model import NO_LEADER, LogEnd, PartitionState
from log.values import evolve

UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ElectionRule(enum.Enum):
    """The preference of an election, and its limits."""

    ONLINE = enum.auto()
    """The present leader if it may lead, else the first in assignment order that may."""
    PREFERRED = enum.auto()
    """The first of the assignment if it may lead, else as ONLINE."""
    UNCLEAN = enum.auto()
    """As ONLINE, but prefers any active replica to no leader.

    Of the replicas that reported, it takes the one with the longest log.
    """


def rule_for(image: ClusterImage, topic: TopicImage, *, unclean_default: bool) -> ElectionRule:
    """Returns UNCLEAN where topic or else cluster or else `unclean_default` allows it, ONLINE otherwise."""
    return ElectionRule.UNCLEAN if _unclean_allowed(image, topic.configs, unclean_default) else ElectionRule.ONLINE


def _unclean_allowed(image: ClusterImage, configs: Mapping[str, str], unclean_default: bool) -> bool:
    value = configs.get(UNCLEAN_ELECTION, image.cluster_configs.get(UNCLEAN_ELECTION))
    return unclean_default if value is None else value.strip().lower() == "true"


# -------------------------------------------------------------------- changes


def elect(state: PartitionState, rule: ElectionRule, image: ClusterImage) -> PartitionState:
    """Returns the state after an election by `rule`, or `state` itself without a change."""
    return settle(state, state, rule, image)


def without(
    state: PartitionState, broker: int, rule: ElectionRule, image: ClusterImage, *, eligible: bool
) -> PartitionState:
    """Returns the state after `broker`, which is not active, has left the ISR, and an election by `rule`.

    With `eligible` it becomes an eligible leader replica. Otherwise it stays where it is the last member.
    """
    rest = tuple([member for member in state.isr if member != broker])
    if broker not in state.isr:
        left = state
    elif eligible:
        left = evolve(state, isr=rest, elr=in_order(state, (*state.elr, broker)))
    else:
        left = evolve(state, isr=rest or state.isr)
    return settle(state, left, rule, image)


def take_report(
    state: PartitionState, broker: int, report: LogReport, rule: ElectionRule, image: ClusterImage
) -> PartitionState:
    """Returns the state after a replica has reported its log, and after an election by `rule`.

    A doubtful member of ISR or ELR becomes a suspect. The log end is kept if the election compares logs, and the
    replica had seen the last leader go. The log of a late report may have changed since.
    """
    if broker not in state.replicas:
        return state
    after = state
    if report.doubtful and broker in (*state.isr, *state.elr):
        after = evolve(
            state,
            isr=tuple([member for member in state.isr if member != broker]),
            elr=tuple([member for member in state.elr if member != broker]),
            suspects=in_order(state, (*state.suspects, broker)),
            leader=NO_LEADER if state.leader == broker else state.leader,
        )
    is_present = state.leader == NO_LEADER and report.leader_epoch == state.leader_epoch
    # No log has batches of an epoch to come; one that claims them would win the comparison.
    if after.awaits_comparison and is_present and report.last_epoch <= state.leader_epoch:
        ends = {each.broker: each for each in after.log_ends}
        ends[broker] = LogEnd(broker, image.brokers[broker].epoch, report.last_epoch, report.end_offset)
        after = evolve(after, log_ends=tuple([ends[each] for each in state.replicas if each in ends]))
    return settle(state, after, rule, image)


def in_order(state: PartitionState, members: Iterable[int]) -> tuple[int, ...]:
    """Returns members in the order of the assignment."""
    wanted = set(members)
    return tuple([replica for replica in state.replicas if replica in wanted])


# -------------------------------------------------------------------- the election


def settle(before: PartitionState, state: PartitionState, rule: ElectionRule, image: ClusterImage) -> PartitionState:
    """Returns `state` with the leader that `rule` elects, and with epochs that follow the epochs of `before`.

    A reassignment whose target is in sync is completed by it.
    """
    after = complete(_choose_leader(complete(state), rule, image))
    if after is before or after == before:
        return before
    is_new = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    return evolve(
        after,
        leader_epoch=before.leader_epoch + is_new,
        partition_epoch=before.partition_epoch + 1,
        log_ends=after.log_ends if after.awaits_comparison else (),
    )


def _choose_leader(state: PartitionState, rule: ElectionRule, image: ClusterImage) -> PartitionState:
    leader = _in_sync(state, rule, image)
    if leader != NO_LEADER:
        return state if leader == state.leader else evolve(state, leader=leader)
    for replica in state.replicas:
        if replica in state.elr and image.active(replica):
            others = in_order(state, {*state.elr, *state.isr} - {replica})
            return evolve(state, leader=replica, isr=(replica,), elr=others)
    leader = _by_comparison(state, image)
    if leader != NO_LEADER:
        return evolve(state, leader=leader, isr=(leader,), suspects=(), recovering=False)
    if rule is ElectionRule.UNCLEAN:
        leader = _unclean(state, image)
        if leader != NO_LEADER:
            return evolve(state, leader=leader, isr=(leader,), elr=(), suspects=(), recovering=True)
    return state if state.leader == NO_LEADER else evolve(state, leader=NO_LEADER)


def _in_sync(state: PartitionState, rule: ElectionRule, image: ClusterImage) -> int:
    preferred = state.replicas[0]
    if rule is ElectionRule.PREFERRED and preferred in state.isr and image.active(preferred):
        return preferred
    if state.leader in state.isr and image.active(state.leader):
        return state.leader
    for replica in state.replicas:
        if replica in state.isr and image.active(replica):
            return replica
    return NO_LEADER


def _by_comparison(state: PartitionState, image: ClusterImage) -> int:
    """Returns the active replica with the greatest log, once every replica has reported.

    Returns NO_LEADER while a replica with a greater log is away. Log ends exist only if ISR and ELR have no member.
    """
    ends = [each for each in state.log_ends if image.brokers[each.broker].epoch == each.broker_epoch]
    if len(ends) < len(state.replicas):
        return NO_LEADER
    greatest = max([_reach(each) for each in ends])
    return next((each.broker for each in ends if _reach(each) == greatest and image.active(each.broker)), NO_LEADER)


def _unclean(state: PartitionState, image: ClusterImage) -> int:
    """Returns the active replica with the longest log that is known; of equal ones the first, and one being added last."""
    reach = {each.broker: _reach(each) for each in state.log_ends}
    active = [replica for replica in (*state.original, *in_order(state, state.adding)) if image.active(replica)]
    return max(active, key=lambda replica: reach.get(replica, (-2, -1)), default=NO_LEADER)


def _reach(end: LogEnd) -> tuple[int, int]:
    return end.last_epoch, end.end_offset
