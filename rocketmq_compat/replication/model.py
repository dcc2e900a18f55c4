"""The nouns of replication: settings, and the state of a disk at a restart.

Offsets are physical offsets, bytes of the commit log from 0. An `end` is exclusive. Sizes are bytes, times seconds of a
monotonic clock.
"""

from typing import Literal

import attrs

from log.values import frozen

NO_EPOCH = 0
MASTER_ID = 0
INCARNATION_MAX = 2**32 - 1
EPOCHS_MAX = 4096
"""The number of newest epochs that a slave sends to its master; older ones are not compared."""

Flavor = Literal["4.x", "5.x"]
"""The RocketMQ version whose rule decides how many copies an answer of a SYNC_MASTER waits for."""

DivergenceRule = Literal["refuse", "rocketmq"]
"""The reaction to a slave with bytes that its master lacks: see `master`."""

RoleName = Literal["master", "slave"]


class ReplicationError(Exception):
    """The shell gave an event that contradicts its orders, such as `Pushed` of a push that was not ordered.

    This is a mistake in the shell. The replica's state is unchanged, but the shell's view of it is wrong.
    """


@frozen
class MasterEpoch:
    """`epoch` begins at `start`: one line of the epoch table."""

    epoch: int
    start: int


@frozen(order=True)
class LogReach:
    """The reach of a log, ordered as it compares: the epoch of its last byte first, then its end."""

    epoch: int
    end: int


@attrs.frozen
class CopyDoubt:
    """This copy may lack records that it had: its disk was damaged, replaced, or without power.

    `floor` is its greatest known reach, None if unknown. `lacks_tables` is true if topics, groups or offsets are lost.
    With `is_flushed` all acknowledged records are here, because they had been flushed. Other copies may only have more,
    and the wait for them is short.
    """

    floor: LogReach | None = None
    lacks_tables: bool = False
    is_flushed: bool = False


@attrs.frozen
class RecoveredCopy:
    """The state of a disk at a restart; the defaults are an empty log.

    `durable_end` is the end of the part that survives a loss of power; `epochs` cover the whole log. `slaves` are all
    that this broker has ever taken as a master.
    """

    log_start: int = 0
    log_end: int = 0
    durable_end: int = 0
    epochs: tuple[MasterEpoch, ...] = ()
    doubt: CopyDoubt | None = None
    slaves: frozenset[int] = frozenset()


def _positive(default: float) -> float:
    value: float = attrs.field(default=default, validator=attrs.validators.gt(0))
    return value


def _at_least_one(default: int) -> int:
    value: int = attrs.field(default=default, validator=attrs.validators.ge(1))
    return value


@attrs.frozen
class ReplicationConfig:
    """The settings of one broker; the names in brackets are RocketMQ's.

    Raises `ValueError` for a setting that is out of range.
    """

    broker_name: str = "broker-a"
    """[brokerName] A master takes no slave of another name."""
    broker_id: int = attrs.field(default=MASTER_ID, validator=attrs.validators.ge(0))
    """[brokerId] 0 for the master; slaves differ."""
    sync_master: bool = False
    """[brokerRole] SYNC_MASTER; else ASYNC_MASTER. Of no meaning to a slave."""
    sync_flush: bool = False
    """[flushDiskType] SYNC_FLUSH: this broker's copy counts once flushed; ASYNC_FLUSH: once in the page cache."""
    flavor: Flavor = attrs.field(default="4.x", validator=attrs.validators.in_(("4.x", "5.x")))
    divergence: DivergenceRule = attrs.field(default="refuse", validator=attrs.validators.in_(("refuse", "rocketmq")))
    """[haDivergence] Both ends of a connection must agree."""
    sync_flush_timeout_s: float = _positive(5.0)
    """[syncFlushTimeout]"""
    slave_timeout_s: float = _positive(3.0)
    """[slaveTimeout]"""
    total_replicas: int = _at_least_one(1)
    """[totalReplicas] The number of brokers with this name.

    A master with a replaced disk learns from it that it has slaves.
    """
    in_sync_replicas: int = _at_least_one(1)
    """[inSyncReplicas] 5.x: the copies that an answer waits for, the master's own included."""
    min_in_sync_replicas: int = _at_least_one(1)
    """[minInSyncReplicas] 5.x, with `auto_in_sync_replicas`: no fewer copies than these."""
    auto_in_sync_replicas: bool = False
    """[enableAutoInSyncReplicas] 5.x: wait for no more copies than are in sync, but for the minimum."""
    slave_fallbehind_bytes_max: int = _at_least_one(256 << 20)
    """[haSlaveFallbehindMax] 4.x: a slave that is so far behind is not available."""
    in_sync_gap_bytes_max: int = _at_least_one(256 << 20)
    """[haMaxGapNotInSync] 5.x: a slave that is so far behind is not in sync."""
    heartbeat_s: float = _positive(5.0)
    """[haSendHeartbeatInterval]"""
    silence_s_max: float = _positive(20.0)
    """[haHousekeepingInterval] After so long without a message, a connection is closed."""
    reconnect_s: float = _positive(5.0)
    """The pause before a slave dials again."""
    push_bytes_max: int = _at_least_one(32 << 10)
    """[haTransferBatchSize] The size of a push, unless a single append was larger."""
    push_window_bytes: int = _at_least_one(4 << 20)
    """The limit of unreported bytes on their way to one slave. RocketMQ leaves that to TCP."""

    @property
    def slaves_expected(self) -> int:
        """The least number of slaves, according to the settings."""
        copies = 1
        if self.sync_master:
            copies = 2 if self.flavor == "4.x" else self.in_sync_replicas
        return max(self.total_replicas, copies) - 1
