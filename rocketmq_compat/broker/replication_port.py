"""The port between a broker and whatever keeps the copies of its commit log alike: fixed roles, or a raft group.

A broker serves clients and owns the order of a round. It never asks which kind of replication it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from log.disk import Disk
from raft.metrics import Figure
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.puts import MessagePort
from rocketmq_compat.broker.reporter import CopyFacts
from rocketmq_compat.broker.tables import TablesPort
from rocketmq_compat.remoting.server import PortSharer
from rocketmq_compat.remoting.session import Handler
from rocketmq_compat.storage.dispatch import QueueRun

Address = tuple[str, int]


class ReplicatedMessages(MessagePort, CopyFacts, Protocol):
    """Stores messages, and has its turns in each round."""

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""

    def tick(self, now: float) -> None:
        """Once a round: end waits whose time is over, and dispatch to consumers."""

    def flush_if_due(self, now: float) -> None:
        """Once a round, after urgent bytes have left: begin a flush if it is due."""


class Replication(ABC):
    """One broker's part of it, with the tables and the delayed messages that belong to this copy.

    What a kind of replication has no use for stays as it is here.
    """

    log: ReplicatedMessages
    """Its copy of the commit log."""
    tables: TablesPort
    """Topics, groups and offsets."""
    delays: DelayedMessages
    """The messages that wait for their time."""
    synced: trio.Event
    """Set when a slave has copied the tables of its master once."""

    @property
    def ha_address(self) -> Address | None:
        """The address to which slaves connect at this master; None if it takes none."""
        return None

    @property
    def ha_registered(self) -> str:
        """The address at which name servers say that slaves reach this broker; empty if it takes none."""
        return ""

    @property
    def objection(self) -> str | None:
        """The reason why clients are refused at present; None if they are served."""
        return None

    def figures(self) -> list[Figure]:
        """Returns the figures of its own parts, such as a raft group."""
        return []

    @property
    def slaves(self) -> Mapping[int, int]:
        """The reported ends of each slave that this master has taken, by broker id."""
        return {}

    @property
    @abstractmethod
    def guests(self) -> Mapping[int, PortSharer]:
        """The other protocols on the clients' port, by the first bytes of a connection."""

    @abstractmethod
    def handlers(self) -> dict[int, Handler]:
        """Returns handlers of its own requests, by request code."""

    def when_sure(self, code: int, handler: Handler) -> Handler:
        """Returns a handler of this request that refuses clients as long as this copy must not serve them."""
        return handler

    def on_dispatched(self, runs: list[QueueRun]) -> None:
        """These messages have become visible to consumers."""
        return

    def on_log_trimmed(self, start: int) -> None:
        """Retention let the log begin at `start`."""
        return

    def on_master_found(self, master: str | None, ha: str | None) -> None:
        """Name servers know these addresses of the master: for clients, and for slaves."""
        return

    def on_serving(self) -> None:
        """Clients are served from now on."""
        return

    @abstractmethod
    def run(self, disk: Disk, nursery: trio.Nursery) -> AbstractAsyncContextManager[None]:
        """Returns a context that takes part from its begin to its end."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """Close all connections. Closing twice is harmless."""

    @abstractmethod
    def save(self) -> None:
        """Write the tables as they are, before the broker stops in order."""
