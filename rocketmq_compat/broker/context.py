"""The state that the parts of a broker share."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from raft.disk_thread import Done, Work
from raft.net.handlers import marked_handlers
from rocketmq_compat.config import Properties
from rocketmq_compat.consumers.delays import DelayedPlace, DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.locks import QueueLocks
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.offsets import ConsumerOffsets
from rocketmq_compat.consumers.registry import ClientRegistry
from rocketmq_compat.consumers.timers import TimerRule, waiting_place
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.records import IllegalMessage, MalformedRecord
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.server import Tell
from rocketmq_compat.remoting.session import Handler, RemotingCall
from rocketmq_compat.storage.broker_store import MessageStore
from rocketmq_compat.storage.checkpoints import CheckpointName
from rocketmq_compat.storage.dispatch import BadRecord


class DiskWork(Protocol):
    """Carries out slow work: a `DiskThread`."""

    def submit(self, work: Work, done: Done) -> None:
        """See `DiskThread`."""


@attrs.define(kw_only=True)
class Context:
    """One broker's settings, state and clocks."""

    properties: Properties
    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    levels: DelayLevels
    store_host: bytes
    """The address at which clients reach it, in the format of records."""
    address: str
    """The same as HOST:PORT."""
    memory_bytes: int
    """The physical memory of the machine."""
    clock: Callable[[], float]
    """Monotonic, in seconds."""
    wall_ms: Callable[[], int]
    rng: random.Random
    tell: Tell
    offsets: ConsumerOffsets = attrs.field(factory=ConsumerOffsets)
    registry: ClientRegistry = attrs.field(factory=ClientRegistry)
    locks: QueueLocks = attrs.field(factory=QueueLocks)
    copy_facts: Callable[[], Mapping[str, object]] = dict
    """Returns the facts about this copy of the commit log and the others that operators see, by name."""
    timers_waiting: Callable[[], int] = lambda: 0
    """Returns the number of waiting timer messages."""
    delays_from: Callable[[], int | None] = lambda: None
    """Returns the physical offset of the first waiting delayed message, or None. The log is not trimmed beyond it."""
    when_known: Callable[[str, Callable[[], None]], None] = lambda topic, done: done()
    """Calls back when the name servers know a topic's present state or the wait ends; at once for an unchanged one."""
    lost_tables: set[CheckpointName] = attrs.field(factory=set)
    """Files that were there once, and could not be read at the start."""
    node_id: int | None = None
    """In a raft group, the number of this broker, from 1 on; None if its role is fixed."""
    leads: bool = False
    """True while it is master of its raft group."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.properties.words("brokerClusterName")

    @property
    def broker_name(self) -> str:
        """The name that a master and its slaves share."""
        return self.properties.words("brokerName")

    @property
    def broker_id(self) -> int:
        """0 for the master."""
        if self.node_id is not None:
            return 0 if self.leads else self.node_id
        return self.properties.number("brokerId")

    @property
    def is_raft(self) -> bool:
        """True if the brokers of this name are a raft group (DLedger mode)."""
        return self.node_id is not None

    @property
    def role(self) -> str:
        """As RocketMQ names it; the master of a raft group is a SYNC_MASTER (DLedgerRoleChangeHandler)."""
        if self.node_id is not None:
            return "SYNC_MASTER" if self.leads else "SLAVE"
        return self.properties.words("brokerRole")

    @property
    def is_slave(self) -> bool:
        """True if it copies a master, and takes no messages from clients."""
        if self.node_id is not None:
            return not self.leads
        return self.properties.words("brokerRole") == "SLAVE"

    def when_all_known(self, topics: Sequence[str], done: Callable[[], None]) -> None:
        """Calls back when name servers know all of these topics, as `when_known` does."""
        left = len(topics) + 1

        def on_known() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for topic in topics:
            self.when_known(topic, on_known)
        on_known()

    def require_master(self) -> None:
        """Raises `RequestRefused` with SERVICE_NOT_AVAILABLE on a slave."""
        if self.is_slave:
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"this broker is no master of {self.broker_name}: ask that"
            )

    def waiting_place(self, topic: str, queue_id: int, properties: Mapping[str, str]) -> DelayedPlace | None:
        """Returns the place where a message of this queue waits until it is due, or None if it is due at once.

        Raises `RequestRefused` for an illegal time.
        """
        timers = TimerRule(
            self.properties.flag("timerWheelEnable"), round(self.properties.number("timerMaxDelaySec") * 1000)
        )
        return waiting_place(
            self.levels, timers, self.wall_ms(), topic, queue_id, properties, waiting=self.timers_waiting()
        )

    def require_perm(self, perm: int, what: str) -> None:
        """Raises `RequestRefused` with NO_PERMISSION if `brokerPermission` lacks this bit."""
        if not self.properties.number("brokerPermission") & perm:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the broker[{self.address}] {what} is forbidden")


def handlers_of(*served: object) -> dict[int, Handler]:
    """Returns the handlers of these objects, by request code.

    They answer refusals of the rules, and malformed messages, with their errors.
    """
    return {code: _guard(handler) for code, handler in marked_handlers(*served)}


def _guard(handler: Handler) -> Handler:

    def serve(call: RemotingCall) -> None:
        try:
            handler(call)
        except RequestRefused as refusal:
            call.refuse(refusal.code, refusal.remark)
        except (IllegalMessage, MalformedRecord, BadRecord) as error:
            call.refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}")

    return serve
