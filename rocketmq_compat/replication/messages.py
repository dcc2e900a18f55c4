"""The messages between a master and its slaves: the HA stream.

A slave dials, and sends a `Handshake`; the master answers with `Welcome` or `HandshakeRefused`. Then the master sends
`Push` and `Heartbeat`, the slave `Report`. A master that has lost the end of its log asks for it with `FetchBack`,
before it welcomes; the slave answers each with a `Push`. One that has lost its tables asks with `TablesWanted`.
RocketMQ's stream (DefaultHAConnection) has neither handshake, epochs nor checksums.
"""

from log.values import frozen
from rocketmq_compat.replication.model import MasterEpoch

Payload = bytes | memoryview


@frozen
class Handshake:
    """A slave's first message: its identity and the history of its log.

    `checks_divergence` is true if it runs with `haDivergence=refuse`. `epochs` cover [`log_start`, `log_end`), or its
    newest part if there are too many for one message.
    """

    broker_name: str
    slave_id: int
    checks_divergence: bool
    log_start: int
    log_end: int
    epochs: tuple[MasterEpoch, ...]


@frozen
class Welcome:
    """The slave is taken; pushes begin at `push_from`. If its log does not end there, it is reset to begin there.

    `is_sure` is true if the master has all records that it ever had.
    """

    push_from: int
    confirm_offset: int
    is_sure: bool = True


@frozen
class HandshakeRefused:
    """The slave is not taken. `agreed_end` is where its history leaves the master's, -1 if that is not the reason."""

    reason: str
    agreed_end: int = -1


@frozen
class Push:
    """Bytes of the commit log from `offset`, all of one epoch.

    `crc` is the CRC-32C of the payload, which stays opaque.
    """

    offset: int
    epoch: int
    confirm_offset: int
    crc: int
    payload: Payload


@frozen
class Report:
    """The slave holds everything below `end`: on its disk with SYNC_FLUSH, else in its page cache.

    Repeated as a heartbeat.
    """

    end: int


@frozen
class Heartbeat:
    """The master is alive, and has nothing to push. For `is_sure` see `Welcome`."""

    confirm_offset: int
    is_sure: bool = True


@frozen
class FetchBack:
    """The master asks for the slave's records from `offset` to `end`: one `Push` that begins there is to follow."""

    offset: int
    end: int


@frozen
class TablesWanted:
    """The master has lost topics, groups or offsets: `Tables` are to follow."""


@frozen
class Tables:
    """The tables of the slave, as its shell writes them; opaque here."""

    payload: Payload


FromSlave = Handshake | Report | Push | Tables
FromMaster = Welcome | HandshakeRefused | Push | Heartbeat | FetchBack | TablesWanted
HaMessage = FromSlave | FromMaster
