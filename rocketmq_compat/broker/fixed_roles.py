"""Replication with fixed roles: a master, and slaves that copy its commit log and its tables.

The role is that of the settings: broker id 0 is the master, and every other id a slave. An operator changes it.
"""

import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping

import attrs
import trio

from log.disk import Disk
from raft.addresses import address_of, is_address
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import Context, DiskWork, handlers_of
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.ha_links import SocketLinks
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.broker.replication_port import Address, Replication
from rocketmq_compat.broker.requests.divergence import DivergenceRequests
from rocketmq_compat.broker.slave_sync import SlaveSync
from rocketmq_compat.broker.tables import BrokerTables, load_tables
from rocketmq_compat.broker.tables_of_pair import TablesOfPair
from rocketmq_compat.config import Properties
from rocketmq_compat.membership import BrokerCredentials, broker_named
from rocketmq_compat.remoting.server import PortSharer, Tell
from rocketmq_compat.remoting.session import Handler
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.events import LogStartMoved, TablesCopied
from rocketmq_compat.replication.model import (
    INCARNATION_MAX,
    MASTER_ID,
    LogReach,
    MasterEpoch,
    RecoveredCopy,
    ReplicationConfig,
    RoleName,
)
from rocketmq_compat.storage.broker_store import MessageStore
from rocketmq_compat.storage.copy_notes import CopyNotes, doubt_of
from rocketmq_compat.storage.dispatch import QueueRun
from rocketmq_compat.tls import Tls


def replication_config(properties: Properties) -> ReplicationConfig:
    """Returns the settings of the decider."""
    return ReplicationConfig(
        broker_name=properties.words("brokerName"),
        broker_id=properties.number("brokerId"),
        sync_master=properties.text("brokerRole") == "SYNC_MASTER",
        total_replicas=properties.number("totalReplicas"),
        sync_flush=properties.text("flushDiskType") == "SYNC_FLUSH",
        flavor="5.x" if properties.text("replicationFlavor") == "5.x" else "4.x",
        divergence="rocketmq" if properties.text("haDivergence") == "rocketmq" else "refuse",
        sync_flush_timeout_s=properties.seconds("syncFlushTimeout"),
        slave_timeout_s=properties.seconds("slaveTimeout"),
        in_sync_replicas=properties.number("inSyncReplicas"),
        min_in_sync_replicas=properties.number("minInSyncReplicas"),
        slave_fallbehind_bytes_max=max(1, properties.number("haSlaveFallbehindMax")),
        heartbeat_s=properties.seconds("haSendHeartbeatInterval"),
        silence_s_max=properties.seconds("haHousekeepingInterval"),
        push_bytes_max=properties.number("haTransferBatchSize"),
        reconnect_s=properties.seconds("haReconnectInterval"),
    )


def has_other_copies(config: ReplicationConfig, notes: CopyNotes | None) -> bool:
    """Returns True if other brokers hold the content of this one's commit log, so that a damaged one may be cut.

    `notes` comes from its disk.
    """
    is_expected = config.broker_id != MASTER_ID or config.slaves_expected > 0
    return is_expected or config.divergence == "rocketmq" or (notes is not None and bool(notes.slaves))


def recover_copy(
    store: MessageStore, config: ReplicationConfig, *, boot: str, lost_tables: Collection[str], tell: Tell
) -> RecoveredCopy:
    """Returns the state of the disk for the decider, and notes that the broker runs from now on.

    `boot` is the id of the machine's boot; `lost_tables` names the files of tables that could not be read.
    """
    log, copy = store.log, store.copy
    reach = LogReach(log.last_epoch, log.end_offset)
    doubt = doubt_of(copy, boot=boot, reach=reach, cut=store.cut, lacks_tables=bool(lost_tables))
    if doubt is not None:
        floor = doubt.floor
        tell(
            "copy_in_doubt",
            log_end=log.end_offset,
            floor=None if floor is None else floor.end,
            damage=None if store.cut is None else str(store.cut),
            lost_tables=sorted(lost_tables),
        )
    copy.change(lambda notes: attrs.evolve(notes, boot=boot, is_running=True, flushes=config.sync_flush, doubt=doubt))
    return RecoveredCopy(
        log.start_offset,
        log.end_offset,
        log.durable_offset,
        tuple(MasterEpoch(epoch, start) for epoch, start in log.epochs),
        doubt,
        copy.notes.slaves,
    )


class FixedRoles(Replication):
    """A master or a slave, as its settings say. See `Replication`."""

    def __init__(
        self,
        context: Context,
        reactor: Reactor,
        disk: DiskWork,
        rng: random.Random,
        on_dispatched: Callable[[list[QueueRun]], None],
        *,
        boot: str,
        ha_listening: socket.socket | None,
        is_advertised: bool,
        detours: Mapping[Address, Address],
        trust: BrokerCredentials | None,
        tls: Tls,
    ) -> None:
        """`on_dispatched` is called once a round with the runs that have become visible to consumers.

        A master accepts slaves on `ha_listening`. If the broker `is_advertised`, slaves reach it at the port of clients
        through a proxy. A slave dials `detours` instead of the addresses that name servers know.
        """
        self._context = context
        self._detours = detours
        self._is_advertised = is_advertised
        self._links = SocketLinks(reactor, context.tell, tls, context.broker_name, trust)
        if ha_listening is not None:
            self._links.listen(ha_listening)
        self.delays = DelayedMessages(context, load_tables(context))
        self.tables: BrokerTables = BrokerTables(context, disk, lambda: self.delays.offsets)
        config = replication_config(context.properties)
        lost_tables = set(map(str, context.lost_tables))
        recovered = recover_copy(context.store, config, boot=boot, lost_tables=lost_tables, tell=context.tell)
        role: RoleName = "slave" if context.is_slave else "master"
        decider = CommitLogReplica(config, role, recovered, rng.randint(1, INCARNATION_MAX))
        tables = TablesOfPair(context, self.tables, self.delays)
        self.log: ReplicatedLog = ReplicatedLog(context, decider, disk, self._links, on_dispatched, tables)
        self._links.report = self.log.step
        context.copy_facts = self.log.facts
        master = broker_named(context.broker_name, MASTER_ID, None)
        proof = None if trust is None else trust.to_broker(master)
        self._sync = SlaveSync(context, reactor, self.delays, proof, tls.client)
        self.synced = self._sync.synced

    @property
    def ha_address(self) -> Address | None:
        """See `Replication`."""
        return None if self._context.is_slave else self._links.address

    @property
    def ha_registered(self) -> str:
        """See `Replication`."""
        context = self._context
        if context.is_slave:
            return ""
        if self._is_advertised:
            return context.address  # slaves are taken at the port of clients, too
        host = context.properties.text("brokerIP2") or context.address.rpartition(":")[0]
        return f"{host}:{self._links.address[1]}"

    @property
    def objection(self) -> str | None:
        """See `Replication`."""
        return self.log.objection

    @property
    def slaves(self) -> Mapping[int, int]:
        """See `Replication`."""
        return self.log.slaves

    @property
    def guests(self) -> Mapping[int, PortSharer]:
        """See `Replication`: slaves that were given the port of clients."""
        return {} if self._context.is_slave else {self._links.first_type: self._links.take_over}

    def handlers(self) -> dict[int, Handler]:
        """See `Replication`."""
        return handlers_of(DivergenceRequests(self._context, self.log))

    def when_sure(self, code: int, handler: Handler) -> Handler:
        """See `Replication`."""
        return self.log.when_sure(code, handler)

    def on_dispatched(self, runs: list[QueueRun]) -> None:
        """See `Replication`."""
        if self._context.is_slave:
            self._sync.on_arrived(run.key[0] for run in runs)

    def on_log_trimmed(self, start: int) -> None:
        """See `Replication`."""
        self.log.step(LogStartMoved(start))

    def on_master_found(self, master: str | None, ha: str | None) -> None:
        """See `Replication`."""
        if not self._context.is_slave:
            return
        self._sync.set_master(self._address_to_dial(master))
        if self._context.properties.text("haMasterAddress") is None:
            self._links.set_master(self._address_to_dial(ha))

    def _address_to_dial(self, told: str | None) -> Address | None:
        """Returns the address to dial for an address from a name server, or None if `told` is not an address."""
        if told is None or not is_address(told):
            return None
        address = address_of(told)
        return self._detours.get(address, address)

    def on_serving(self) -> None:
        """See `Replication`."""
        if self.log.objection is None:
            role = "slave" if self._context.is_slave else "master"
            self._context.tell("role", role=role, epoch=self.log.epoch, broker=self._context.broker_name)

    @contextlib.asynccontextmanager
    async def run(self, disk: Disk, nursery: trio.Nursery) -> AsyncIterator[None]:
        """See `Replication`."""
        self.log.begin()
        if self._context.is_slave:
            self._sync.on_synced = lambda: self.log.step(TablesCopied())
            configured = self._context.properties.text("haMasterAddress")
            if configured is not None:
                self._links.set_master(address_of(configured))
            nursery.start_soon(self._links.run_dials)
            nursery.start_soon(self._sync.run)
        else:
            nursery.start_soon(self._links.run_listener)
        yield

    def close(self, reason: str) -> None:
        """See `Replication`."""
        self._links.stop(reason)
        self._sync.close()

    def save(self) -> None:
        """See `Replication`."""
        self._context.store.flush()
        self.tables.save_all()
