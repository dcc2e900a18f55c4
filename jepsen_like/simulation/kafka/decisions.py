"""Rules of single decisions, which hold at once: what they guard against may take a chain of faults to be seen in a log."""

import math
from collections.abc import Sequence

from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.controller.commands import IsrChange, LogReport, ReportLogs
from kafka_compat.controller.image import ClusterImage
from kafka_compat.model import NO_LEADER, BrokerRegistration, LogEnd, PartitionState
from kafka_compat.partition.effects import AppendBatches, Effect, HighWatermarkMoved
from kafka_compat.partition.events import Event, FetchAnswered, PartitionStateChanged, Produce
from kafka_compat.partition.follower import FollowerReplica
from kafka_compat.partition.leader import LeaderReplica

Broken = tuple[str, str]
"""The audit that speaks, and its sentence."""


def judge_decision(replica: LocalReplica, event: Event, effects: Sequence[Effect], min_isr: int) -> Broken | None:
    """Returns the rule that a decider breaks by its answer to an event, or None."""
    decider = replica.decider
    role = decider.role
    match event:
        case FetchAnswered() if effects and event.leader_epoch != role.epoch:
            return "K6", f"it takes an answer of epoch {event.leader_epoch} in epoch {role.epoch}"
        case PartitionStateChanged() if decider.state is not None and isinstance(role, LeaderReplica | FollowerReplica):
            if decider.state.leader_epoch != role.epoch:
                return "K4", f"it acts in epoch {role.epoch}, and knows of epoch {decider.state.leader_epoch}"
        case Produce(acks=-1) if isinstance(role, LeaderReplica) and len(role.isr.committed) < min_isr:
            if any(isinstance(effect, AppendBatches) for effect in effects):
                return "K2", f"acks=all is taken with the ISR {role.isr.committed}, of {min_isr} at least"
        case _:
            pass
    if isinstance(role, FollowerReplica) and not _waits(role):
        return "K6", f"it follows broker {role.leader}, and waits neither for a fetch nor for its log"
    moves = [effect.high_watermark for effect in effects if isinstance(effect, HighWatermarkMoved)]
    if isinstance(role, LeaderReplica) and max(moves, default=0) > replica.high_watermark:
        return _judge_high_watermark(role, decider.high_watermark, min_isr)
    return None


def _waits(role: FollowerReplica) -> bool:
    """Returns True if something will let a follower fetch again."""
    return (
        role.leader == NO_LEADER
        or role.fetching_from is not None
        or role.truncating_to is not None
        or role.retry_at < math.inf
        or not role.context.log.is_flushed
    )


def _judge_high_watermark(role: LeaderReplica, high_watermark: int, min_isr: int) -> Broken | None:
    """A leader calls more committed: enough members that count have it."""
    if len(role.isr.committed) < min_isr:
        return "K2", f"the high watermark moves with the ISR {role.isr.committed}, of {min_isr} at least"
    behind = [each for each in role.isr.maximal if each in role.followers]
    behind = [each for each in behind if role.followers[each].log_end < high_watermark]
    return ("K1", f"the high watermark moves to {high_watermark}, where {behind} are not") if behind else None


def judge_change(image: ClusterImage, before: PartitionState, change: IsrChange) -> Broken | None:
    """Returns the rule that the controller breaks by taking a leader's change of a partition's ISR, or None."""
    known, meant = (before.leader_epoch, before.partition_epoch), (change.leader_epoch, change.partition_epoch)
    if known != meant:
        return "K1", f"a change of the ISR of epochs {meant} is taken in epochs {known}"
    for member in change.isr:
        epoch = image.brokers[member.broker].epoch
        if member.broker not in before.isr and member.epoch != epoch:
            return "K1", f"broker {member.broker} joins the ISR with epoch {epoch} for its process of {member.epoch}"
    return None


def judge_report(
    image: ClusterImage, before: PartitionState, after: PartitionState, command: ReportLogs, report: LogReport
) -> Broken | None:
    """Returns the rule that the controller breaks by taking a report of a log, or None."""
    if command.epoch != image.brokers[command.broker].epoch:
        return "K11", f"a report of broker {command.broker} counts, whose process of {command.epoch} is gone"
    is_kept = not set(after.log_ends) <= set(before.log_ends)
    if is_kept and report.leader_epoch != before.leader_epoch:
        return "K11", f"the log end of epoch {report.leader_epoch} is kept in epoch {before.leader_epoch}"
    return None


def judge_comparison(image: ClusterImage, before: PartitionState, leader: int, news: LogEnd | None) -> Broken | None:
    """Returns the rule that an election breaks that compares logs, or None. `news` is the end that was reported last."""
    ends = {each.broker: each for each in (*before.log_ends, *([] if news is None else [news]))}
    if ends.keys() != set(before.replicas):
        return "K11", f"broker {leader} leads by comparison of {sorted(ends)} alone"
    gone = [each.broker for each in ends.values() if each.broker_epoch != image.brokers[each.broker].epoch]
    if gone:
        return "K11", f"broker {leader} leads by comparison with {gone}, whose processes are gone"
    greatest = max((each.last_epoch, each.end_offset) for each in ends.values())
    if (ends[leader].last_epoch, ends[leader].end_offset) != greatest:
        return "K11", f"broker {leader} leads by comparison, and {greatest} is greater than {ends[leader]}"
    return None


def judge_registration(before: BrokerRegistration | None, after: BrokerRegistration) -> Broken | None:
    """Returns the rule that the controller breaks by a registration, or None."""
    if before is None or before.fenced or before.incarnation == after.incarnation:
        return None
    return "K9", f"a process is taken for that of epoch {before.epoch}, which is not fenced"
