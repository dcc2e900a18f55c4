"""Replication as a raft group (DLedger mode): the members elect the master, and a majority stores each message."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from log.disk import Disk
from log.policy import FlushPolicy
from raft.client_codec import HELLO, TRUST
from raft.config import MIB, RaftConfig
from raft.directory import IDENTITY_NAME
from raft.effects import MembersChanged
from raft.group import RaftGroup
from raft.metrics import Figure
from raft.net.certificates import Certificates
from raft.net.connection import SocketConnection
from raft.net.decoder import Decoder
from raft.net.errors import WireError
from raft.net.listener import Listener
from raft.net.reactor import Reactor
from raft.notices import LogTrimmed, Notice
from raft.settings import NodeSettings
from raft.trust import SecretSource
from rocketmq_compat.broker.catch_up import CatchUp
from rocketmq_compat.broker.context import Context, DiskWork, handlers_of
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.dledger import GroupMembers
from rocketmq_compat.broker.raft_copy import ForeignCommitLog, RaftCopy
from rocketmq_compat.broker.raft_tables import RaftTables
from rocketmq_compat.broker.replication_port import Replication
from rocketmq_compat.config_keys import DURABLE
from rocketmq_compat.membership import BrokerCredentials
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX
from rocketmq_compat.remoting.server import PortSharer
from rocketmq_compat.remoting.session import Handler
from rocketmq_compat.storage.dispatch import QueueRun

logger = logging.getLogger(__name__)

RAFT_LOG_BYTES: Final = 256 * MIB
RAFT_DIRECTORY: Final = "raft"


class RaftGroupReplication(Replication):
    """One member. See `Replication`."""

    def __init__(
        self,
        context: Context,
        reactor: Reactor,
        disk: DiskWork,
        on_dispatched: Callable[[list[QueueRun]], None],
        *,
        members: GroupMembers,
        directory: str,
        boot: str,
        settings: NodeSettings,
        listener: Callable[[], Listener[Any]],
        secret: SecretSource | None,
        trust: BrokerCredentials | None,
        tls: Certificates | None,
    ) -> None:
        """`on_dispatched` is called once a round with the runs that have become visible to consumers.

        The group uses the port of clients, whose `listener` exists once the broker does. `directory` is the broker's.
        """
        self._context = context
        self._reactor = reactor
        self._members = members
        self._directory = directory
        self._boot = boot
        self._settings = settings
        self._listener = listener
        self._secret = secret
        self._tls = tls
        self._group: RaftGroup | None = None
        self.delays = DelayedMessages(context, {})
        self.log: RaftCopy = RaftCopy(context, members.node_id, disk, self.delays, on_dispatched)
        self.tables: RaftTables = self.log.tables
        self.synced = trio.Event()
        peers = {node: at for node, at in members.addresses.items() if node != members.node_id}
        self._catch_up = CatchUp(context, reactor, self.log, peers, trust, tls)

    @property
    def guests(self) -> Mapping[int, PortSharer]:
        """See `Replication`: the other members."""
        return {HELLO: self._take_over, TRUST: self._take_over}

    def _take_over(self, connection: SocketConnection[Any], listener: Listener[Any]) -> Decoder[Any]:
        if self._group is None or listener is not self._listener():
            raise WireError("the raft group is not there")
        return self._group.take_over(connection)

    def figures(self) -> list[Figure]:
        """See `Replication`."""
        return [] if self._group is None else self._group.figures()

    def handlers(self) -> dict[int, Handler]:
        """See `Replication`."""
        return handlers_of(self._catch_up)

    @contextlib.asynccontextmanager
    async def run(self, disk: Disk, nursery: trio.Nursery) -> AsyncIterator[None]:
        """See `Replication`."""
        store, members = self._context.store, self._members
        if store.log.end_offset and not disk.exists(f"{self._directory}/{RAFT_DIRECTORY}/{IDENTITY_NAME}"):
            self._begin_again()
        store.copy.change(lambda notes: attrs.evolve(notes, boot=self._boot, is_running=True, group=members.group))
        async with RaftGroup.open(
            node_id=members.node_id,
            members=members.addresses,
            directory=f"{self._directory}/{RAFT_DIRECTORY}",
            cluster_id=members.group,
            joins=members.joins,
            state_machine=self.log,
            settings=self._settings,
            disk=disk,
            notify=self._notice,
            reactor=self._reactor,
            listener=self._listener(),
            secret=self._secret,
            tls=self._tls,
        ) as group:
            self.log.open_on(group)
            self._group = group
            self._catch_up.take(group.members)
            group.campaign()
            nursery.start_soon(self._catch_up.run)
            try:
                yield
            finally:
                self._group = None
                self.log.close()

    def _begin_again(self) -> None:
        """Begin again after the loss of this member's raft log: keep the commit log aside, and copy the group's.

        Raises `ForeignCommitLog` unless the disk proves that these are messages of this group.
        """
        store = self._context.store
        if store.copy.notes.group != self._members.group:
            raise ForeignCommitLog(store.log.directory)
        kept = store.keep_aside(store.log.start_offset)
        store.reset(0)
        self._context.tell("raft_log_lost", kept=kept)

    def _notice(self, notice: Notice) -> None:
        logger.info("%s", notice)
        if isinstance(notice, MembersChanged):
            configuration = notice.configuration
            self._catch_up.take(configuration.addresses, configuration.nodes if notice.is_settled else None)
        elif isinstance(notice, LogTrimmed):
            self._context.tell("raft_log_trimmed", start=notice.start_index)

    def close(self, reason: str) -> None:
        """See `Replication`."""
        self._catch_up.close()

    def save(self) -> None:
        """See `Replication`."""
        self.tables.save()


def raft_settings(raft: RaftConfig, log_bytes: int, *, ack: str | None) -> NodeSettings:
    """Returns the settings of the group: a command may be a client's whole batch, as large as a frame of RocketMQ's.

    `ack` is the property: `durable`, or acknowledgements from page caches.
    """
    return NodeSettings(
        raft=raft,
        flush=FlushPolicy.BEFORE_ACK if ack == DURABLE else FlushPolicy.INTERVAL,
        frame_bytes_max=FRAME_BYTES_MAX + MIB,
        batch_bytes_max=3 * MIB,
        retention_bytes=log_bytes,
        segment_bytes_max=max(log_bytes // 4, 64 * 1024),
    )
