"""The machine of a simulated broker: its process, its disk, the thread of the disk, and a context.

A flush covers what was written before it began and takes virtual time.
"""

import abc
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.process import ProcessHost, SimulatedProcess
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from log.memory_disk import MemoryDisk
from raft.errors import RaftError
from rocketmq_compat.broker.context import Context
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.consumers.delays import DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.records import encode_host
from rocketmq_compat.replication.model import ReplicationError
from rocketmq_compat.storage.broker_store import MessageStore

BEGIN_MS = 1_600_000_000_000
"""The wall clock when a world begins."""
QUEUES = 2
"""Of each topic."""
LEVELS = "1s 2s"
IDLE_ROUNDS_MAX = 10
DELAYED_IDLE_ROUNDS_MAX = 1000
"""A raft group delays messages, and may look a hundred times at what is due within one millisecond of the wall clock."""


class BrokerProcess(SimulatedProcess):
    """One broker's machine. It is the thread of the disk (`DiskWork`) to what runs in it."""

    ERRORS: ClassVar[tuple[type[Exception], ...]] = (*NODE_ERRORS, RaftError, ReplicationError)

    def __init__(self, host: ProcessHost, knobs: RocketmqKnobs, node: int) -> None:
        super().__init__(host, node)
        self.disk = MemoryDisk(stream(knobs.seed, f"disk/{node}"))
        self.rng: random.Random = stream(knobs.seed, f"broker/{node}")
        self.knobs = knobs
        self.idle_rounds = 0
        """Rounds in a row, each as soon as possible after the last, in which nothing came and nothing was done."""
        self._has_worked = False
        self._disk_free_at = 0.0

    @property
    @abc.abstractmethod
    def store(self) -> MessageStore:
        """The store of this process, or of its last one."""

    @property
    @abc.abstractmethod
    def role(self) -> str:
        """Its role, in at most six characters."""

    @abc.abstractmethod
    def start(self) -> None:
        """A process begins, with what is on the disk. What recovery raises is for the world to judge."""

    @abc.abstractmethod
    def receive(self, sender: int, message: Any) -> None:
        """Something arrives from another broker."""

    @abc.abstractmethod
    def on_told(self, event: str, fields: dict[str, object]) -> None:
        """The broker has an event for operators."""

    def take(self, action: Callable[..., None], *arguments: object) -> None:
        """See `SimulatedProcess`."""
        self._has_worked = True
        super().take(action, *arguments)

    def serve_deadline(self) -> None:
        """See `SimulatedProcess`: a round does what is due."""
        self._has_worked = False

    def count_idle(self) -> None:
        """Count the round that has just ended, if it was idle."""
        self.idle_rounds = self.idle_rounds + 1 if not self._has_worked and self.deadline <= self.reading() else 0
        self._has_worked = False

    # ---------------------------------------------------------------- life and death

    def begin_life(self) -> None:
        """See `SimulatedProcess`."""
        super().begin_life()
        self._disk_free_at = 0.0

    def kill(self) -> None:
        """The process is gone; what it wrote stays in the page cache."""
        self.end_life()
        self.disk = self.disk.after_kill(stream(self.knobs.seed, f"kill/{self.node}/{self.lives}"))

    def cut_power(self) -> None:
        """Everything volatile is gone, and so may be whatever was not synced."""
        self.end_life()
        self.disk = self.disk.after_crash(stream(self.knobs.seed, f"cut/{self.node}/{self.lives}"))

    def describe(self) -> str:
        """Returns its columns of a trace."""
        if not self.up:
            return f"{'down':<7} {'-':<6} {'':<14} {'':>7}"
        state, log = "paused" if self.paused else "up", self.store.log
        return f"{state:<7} {self.role:<6} {f'[{log.start_offset},{log.end_offset})':<14} {log.durable_offset:>7}"

    def wall_ms(self) -> int:
        """Returns the time of day."""
        return BEGIN_MS + int(self._timer.now * 1000)

    def context_of(self, store: MessageStore, properties: Sequence[str], *, node_id: int | None = None) -> Context:
        """Returns the state that the parts of a broker share, with these properties."""
        read, levels = Properties.read(BROKER_PROPERTIES, properties), DelayLevels.parse(LEVELS)
        topics = TopicTable.with_system_topics(
            auto_create=True,
            default_queues=QUEUES,
            cluster=read.words("brokerClusterName"),
            broker_name=read.words("brokerName"),
            delay_levels=levels.highest,
        )
        return Context(
            properties=read,
            store=store,
            topics=topics,
            groups=GroupTable(auto_create=True),
            levels=levels,
            store_host=encode_host("127.0.0.1", self.node),
            address=f"127.0.0.1:{self.node}",
            memory_bytes=1 << 30,
            clock=self.reading,
            wall_ms=self.wall_ms,
            rng=stream(self.knobs.seed, f"context/{self.process}"),
            tell=lambda event, **fields: self.on_told(event, fields),
            node_id=node_id,
        )

    # ---------------------------------------------------------------- the disk

    def draw_flush_s(self) -> float:
        """Returns how long a flush takes."""
        return self.knobs.flush_s * self.slowness * (0.5 + self.rng.expovariate(1.0))

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """See `DiskWork`: one piece of work after the other."""
        begins = max(self._disk_free_at, self._timer.now)
        self._disk_free_at = begins + self.draw_flush_s()
        self.later(self._disk_free_at - self._timer.now, self._on_work_done, work, done, self.disk.mark())

    def _on_work_done(self, work: Callable[[], None], done: Callable[[BaseException | None], None], mark: int) -> None:
        with self.disk.issued_before(mark):
            work()
        done(None)
