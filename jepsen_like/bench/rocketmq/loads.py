"""The loads of the brokers, and the promises under which they run: the modes, and the loads of each."""

import enum
from collections.abc import Mapping

import attrs


class BrokerLayout(enum.Enum):
    """Which brokers there are."""

    PAIR = "a master and a slave"
    TWO_PAIRS = "two masters with a slave each"
    GROUP = "a raft group of three"


@attrs.frozen
class RocketBenchMode:
    """One way to replicate. Both systems have ASYNC_FLUSH, their default."""

    key: str
    title: str
    promise: str
    """The meaning of SEND_OK."""
    layout: BrokerLayout
    own: Mapping[str, str]
    """Properties of our masters, or of the members of our group."""
    apache: Mapping[str, str] | None
    """Of Apache's; None if it has no such mode."""


ASYNC = RocketBenchMode(
    "async",
    "asynchronous",
    "in the master's page cache",
    BrokerLayout.PAIR,
    {"brokerRole": "ASYNC_MASTER"},
    {"brokerRole": "ASYNC_MASTER"},
)
SYNC = RocketBenchMode(
    "sync",
    "sync dual write",
    "in the page caches of master and slave",
    BrokerLayout.PAIR,
    {"brokerRole": "SYNC_MASTER", "replicationFlavor": "5.x", "inSyncReplicas": "2"},
    {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
)
PAGE_CACHE = RocketBenchMode(
    "page-cache",
    "DLedger, page cache",
    "in the page caches of a majority",
    BrokerLayout.GROUP,
    {"ack": "page-cache"},
    {},
)
DURABLE = RocketBenchMode(
    "durable", "DLedger, durable", "flushed by a majority", BrokerLayout.GROUP, {"ack": "durable"}, None
)
TWO_MASTERS = attrs.evolve(ASYNC, key="two-masters", title="two masters", layout=BrokerLayout.TWO_PAIRS)
"""Not for loads: producers move on to the other master."""
MODES = (ASYNC, SYNC, PAGE_CACHE, DURABLE)
NO_DURABLE_DLEDGER = "Apache's DLedger acknowledges from page caches and has no mode that flushes first"


@attrs.frozen
class RocketLoad:
    """One load in every mode: `connections` to the master, each with `window` requests of `batch` messages open."""

    key: str
    title: str
    record_bytes: int
    connections: int = 1
    window: int = 1
    batch: int = 1
    reads: bool = False

    @property
    def is_single(self) -> bool:
        """True if its latency is what it is for."""
        return self.connections * self.window == 1


PIPELINED = (4, 16)
"""Connections, and requests under way on each: as 64 threads of four producers send."""
LOADS = (
    *(RocketLoad(f"{size}-one", f"{words}, one in flight", size) for size, words in ((128, "128 B"), (1024, "1 KiB"))),
    *(
        RocketLoad(f"{size}-many", f"{words}, 64 in flight", size, *PIPELINED)
        for size, words in ((128, "128 B"), (1024, "1 KiB"))
    ),
    RocketLoad("1024-batch", "1 KiB, batches of 32, 8 in flight", 1024, 4, 2, batch=32),
    RocketLoad("1024-read", "1 KiB, pulled by four consumers", 1024, 4, reads=True),
)
FILL = RocketLoad("fill", "what is read", 1024, *PIPELINED)


def key_of(mode: RocketBenchMode, load: RocketLoad) -> str:
    """The name of a load's figures."""
    return f"{mode.key}/{load.key}"
