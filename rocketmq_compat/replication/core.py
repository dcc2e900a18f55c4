"""CommitLogReplica: one copy of a broker's commit log, master's or slave's, with RocketMQ's fixed roles.

The one decider of this package. `step(now, event)` takes a fact and returns orders (effects), which the shell carries
out at once and in order. It owns no socket, file or clock, so that a broker, the simulator and a test run the same
code. `master` has the rules of a master, `slave` the rules of a slave, and `acks` the times of answers.

The role is given at the start and never changes: there is no election. An operator promotes a slave by starting it as a
master, after which the old master may come back as a slave.

The shell calls `begin` once, then `step` at every event, and reports `DeadlineReached` when `deadline` is reached.
`incarnation` is a random number from 1 to `INCARNATION_MAX`: no two starts begin the same epoch, even if disks have
lost data or clocks are wrong.
"""

from collections.abc import Sequence
from typing import assert_never

from rocketmq_compat.replication import invariants
from rocketmq_compat.replication.acks import PutRefusal
from rocketmq_compat.replication.copy_log import CopyLog
from rocketmq_compat.replication.effects import CloseHaConnection, Effect, RefusePut
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    Connected,
    DeadlineReached,
    DivergenceDiscarded,
    Event,
    HaConnectionClosed,
    LogStartMoved,
    LossAccepted,
    Pushed,
    PutMessages,
    Received,
    TablesCopied,
)
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import (
    FetchBack,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    Tables,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import INCARNATION_MAX, MASTER_ID, RecoveredCopy, ReplicationConfig, RoleName
from rocketmq_compat.replication.slave import Slave


class CommitLogReplica:
    """One copy. If `checked` is true, every step checks the invariants; a broken one raises `AssertionError`.

    Raises `ValueError` for a role that contradicts the broker id (0: master), and for an incarnation out of range.
    """

    __slots__ = ("_checked", "config", "log", "role")

    def __init__(
        self,
        config: ReplicationConfig,
        role: RoleName,
        recovered: RecoveredCopy,
        incarnation: int,
        *,
        checked: bool = True,
    ) -> None:
        if (role == "master") != (config.broker_id == MASTER_ID):
            raise ValueError(f"broker id {config.broker_id} does not go with the role {role}")
        if not 1 <= incarnation <= INCARNATION_MAX:
            raise ValueError(f"{incarnation} is no incarnation")
        self.config = config
        self.log = CopyLog.of(recovered, config.sync_flush)
        self._checked = checked
        self.role: Master | Slave
        match role:
            case "master":
                self.role = Master(config, self.log, incarnation, recovered.slaves)
            case "slave":
                self.role = Slave(config, self.log)
            case _:
                assert_never(role)

    @property
    def is_master(self) -> bool:
        """True if this copy takes the records of clients."""
        return isinstance(self.role, Master)

    @property
    def deadline(self) -> float:
        """The time at which `DeadlineReached` is due next; infinity if nothing waits for time."""
        return self.role.deadline

    def begin(self, now: float) -> Sequence[Effect]:
        """Returns the first orders, before any step."""
        out: list[Effect] = []
        match self.role:
            case Master():
                self.role.begin(now, out)
            case Slave():
                self.role.dial(now, out)
            case _:
                assert_never(self.role)
        return out

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        """Take a fact and return the orders for the shell, in order. `now` never falls.

        Raises `ReplicationError` for an event that cannot follow the orders given so far.
        """
        out: list[Effect] = []
        before = invariants.ReplicaFacts.of(self) if self._checked else None
        self._handle(now, event, out)
        if before is not None:
            invariants.check(before, event, now, self)
        return out

    def _handle(self, now: float, event: Event, out: list[Effect]) -> None:
        role = self.role
        match event:
            case PutMessages():
                if isinstance(role, Master):
                    role.put(event, now, out)
                else:
                    refused = PutRefusal.SERVICE_NOT_AVAILABLE
                    out.append(RefusePut(event.token, refused, "this broker is a slave"))
            case Received():
                self._on_received(now, event, out)
            case Pushed():
                if isinstance(role, Master):
                    role.on_pushed(event.connection, event.end, now, out)
                else:
                    role.on_lent(event.connection, now)
            case CommitLogFlushed():
                self._on_flushed(now, event.end, out)
            case Connected():
                if isinstance(role, Master):
                    role.on_connected(event.connection, now)
                else:
                    role.on_connected(event.connection, now, out)
            case HaConnectionClosed():
                if isinstance(role, Master):
                    role.on_closed(event.connection)
                else:
                    role.on_closed(event.connection, now)
            case LogStartMoved():
                self.log.trim(event.log_start)
            case LossAccepted():
                if isinstance(role, Master):
                    role.loss_accepted(out)
            case TablesCopied():
                if isinstance(role, Slave):
                    role.tables_copied(out)
            case DivergenceDiscarded():
                if isinstance(role, Slave):
                    role.divergence_discarded(now, out)
            case DeadlineReached():
                role.time_passed(now, out)
            case _:
                assert_never(event)

    def _on_flushed(self, now: float, end: int, out: list[Effect]) -> None:
        log = self.log
        if end <= log.flushed_end:
            return
        log.flushed_end = min(end, log.log_end)
        if not log.sync_flush:
            return
        match self.role:
            case Master():
                self.role.on_flushed(out)
            case Slave():
                self.role.on_flushed(now, out)
            case _:
                assert_never(self.role)

    def _on_received(self, now: float, event: Received, out: list[Effect]) -> None:
        """Take a message. One of the wrong side closes the connection."""
        role, message = self.role, event.message
        match message:
            case Push():
                role.on_received(event.connection, message, now, out)
                return
            case Handshake() | Report() | Tables():
                if isinstance(role, Master):
                    role.on_received(event.connection, message, now, out)
                    return
            case Welcome() | HandshakeRefused() | Heartbeat() | FetchBack() | TablesWanted():
                if isinstance(role, Slave):
                    role.on_received(event.connection, message, now, out)
                    return
            case _:
                assert_never(message)
        out.append(CloseHaConnection(event.connection, f"a {type(message).__name__} does not come from the other side"))
        if isinstance(role, Master):
            role.on_closed(event.connection)
        else:
            role.on_closed(event.connection, now)
