"""One line for one replica, the same in logs, golden scripts and dumps."""

from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.slave import Slave


def render(replica: CommitLogReplica) -> str:
    """Returns, for example, `master e3 log=[0,90) flushed=60 confirm=60 epochs=1@0,3@60 {1:60/90}`.

    In braces is each slave with its reported end and its pushed end; `!` marks one that goes on for so many bytes.
    """
    log = replica.log
    epochs = ",".join(f"{entry.epoch}@{entry.start}" for entry in log.epochs.entries()) or "-"
    flushed = f" flushed={log.flushed_end}" if log.sync_flush else ""
    return (
        f"{_role(replica.role)} log=[{log.log_start},{log.log_end}){flushed} confirm={log.confirm_offset}"
        f" epochs={epochs}{_slaves(replica.role)}"
    )


def _role(role: Master | Slave) -> str:
    if isinstance(role, Master):
        return f"master e{role.epoch}"
    if role.is_welcome:
        return "slave following"
    diverges = f" diverges at {role.diverges_at}" if role.diverges_at is not None else ""
    return f"slave {'connecting' if role.connection is not None else 'waiting'}{diverges}"


def _slaves(role: Master | Slave) -> str:
    if not isinstance(role, Master):
        return ""
    known = [f"{each.slave_id}:{each.reported_end}/{each.pushed_end}" for each in role.slaves]
    known += [f"{slave_id}!{found.lost_bytes}" for slave_id, found in role.divergences.items()]
    return " {" + " ".join(known) + "}" if known else ""
