"""One line for one replica, the same in logs, golden scripts and dumps."""

from typing import assert_never

from kafka_compat.model import NO_LEADER
from kafka_compat.partition.core import OfflineReplica, PartitionReplica
from kafka_compat.partition.follower import FollowerReplica
from kafka_compat.partition.leader import LeaderReplica


def render(replica: PartitionReplica) -> str:
    """Returns, for example, `b1 t-0 leader e3 p7 isr=1,2(+3) log=[0,10) hw=8 epochs=1@0,3@6 {2:10 3:8}`.

    `e` is the leader epoch, `p` the partition epoch. In brackets are members that a pending change adds or takes.
    """
    log = replica.log
    epochs = ",".join(f"{entry.epoch}@{entry.start_offset}" for entry in log.epochs.entries()) or "-"
    flushed = f" flushed={log.flushed_end}" if log.before_ack else ""
    return (
        f"b{replica.broker_id} {replica.partition} {_role(replica)} log=[{log.log_start},{log.log_end}){flushed}"
        f" hw={log.high_watermark} epochs={epochs}{_peers(replica)}"
    )


def _role(replica: PartitionReplica) -> str:
    role = replica.role
    match role:
        case LeaderReplica():
            return f"leader e{role.epoch} p{role.isr.partition_epoch} isr={_isr(role)}"
        case FollowerReplica():
            leader = f"b{role.leader}" if role.leader != NO_LEADER else "none"
            doing = f" truncating to {role.truncating_to}" if role.truncating_to is not None else ""
            return f"follower({leader}) e{role.epoch}{doing}"
        case OfflineReplica():
            return "removed" if role.removed else "offline"
        case _:
            assert_never(role)


def _isr(role: LeaderReplica) -> str:
    committed = role.isr.committed
    text = ",".join(map(str, committed))
    if role.isr.pending is not None:
        proposed = [member for member, _ in role.isr.pending.request.isr]
        changes = [f"+{each}" for each in proposed if each not in committed]
        changes += [f"-{each}" for each in committed if each not in proposed]
        text += f"({' '.join(changes)})"
    return text


def _peers(replica: PartitionReplica) -> str:
    if not isinstance(replica.role, LeaderReplica) or not replica.role.followers:
        return ""
    ends = (f"{each.replica}:{each.log_end if each.log_end >= 0 else '?'}" for each in replica.role.followers.values())
    return " {" + " ".join(ends) + "}"
