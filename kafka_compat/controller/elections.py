"""Who leads a partition after a change: the rules of KRaft's PartitionChangeBuilder, without eligible leader replicas.

A leader epoch grows exactly when the leader changes, losing it included; a partition epoch grows with every change. An ISR never
becomes empty: its last member stays, even dead, since it alone is known to have everything that was acknowledged.
"""

import enum
from collections.abc import Callable, Mapping

from kafka_compat.controller.image import ClusterImage, TopicImage
from kafka_compat.model import NO_LEADER, PartitionState

UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ElectionRule(enum.Enum):
    """Whom an election prefers, and how far it may go."""

    ONLINE = enum.auto()
    """The present leader if it may lead, else the first in assignment order that may."""
    PREFERRED = enum.auto()
    """The first of the assignment if it may lead, else as ONLINE."""
    UNCLEAN = enum.auto()
    """As ONLINE, but rather than no leader the first active replica, whatever it lacks."""


def rule_for(image: ClusterImage, topic: TopicImage, *, unclean_default: bool) -> ElectionRule:
    """Returns UNCLEAN where topic or else cluster or else `unclean_default` allows it, ONLINE otherwise."""
    return ElectionRule.UNCLEAN if _unclean_allowed(image, topic.configs, unclean_default) else ElectionRule.ONLINE


def _unclean_allowed(image: ClusterImage, configs: Mapping[str, str], unclean_default: bool) -> bool:
    value = configs.get(UNCLEAN_ELECTION, image.cluster_configs.get(UNCLEAN_ELECTION))
    return unclean_default if value is None else value.strip().lower() == "true"


def changed(
    state: PartitionState,
    rule: ElectionRule,
    active: Callable[[int], bool],
    *,
    without: int = NO_LEADER,
) -> PartitionState:
    """Returns the state after an election by `rule`, with broker `without` taken out of the ISR first unless it is the last member.

    `active` tells of a broker whether it may lead; of `without` it must be false. Returns `state` itself if nothing changes.
    """
    candidates = tuple([member for member in state.isr if member != without]) if without in state.isr else state.isr
    isr = candidates or state.isr
    leader, clean = _elect(state, candidates, rule, active)
    if not clean:
        isr = (leader,)
    if leader == state.leader and isr == state.isr:
        return state
    return PartitionState(
        state.topic_id,
        state.replicas,
        isr,
        leader,
        state.leader_epoch + (leader != state.leader),
        state.partition_epoch + 1,
        state.recovering or not clean,
    )


def _elect(
    state: PartitionState, candidates: tuple[int, ...], rule: ElectionRule, active: Callable[[int], bool]
) -> tuple[int, bool]:
    """Returns the leader, and whether it is a member of the ISR or none; otherwise the election is unclean."""
    if rule is ElectionRule.PREFERRED and state.replicas[0] in candidates and active(state.replicas[0]):
        return state.replicas[0], True
    if state.leader in candidates and active(state.leader):
        return state.leader, True
    for replica in state.replicas:
        if replica in candidates and active(replica):
            return replica, True
    if rule is ElectionRule.UNCLEAN:
        for replica in state.replicas:
            if active(replica):
                return replica, False
    return NO_LEADER, True
