"""The systems that are measured side by side, and what is asked of each: lead, take load, say what was written."""

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

import attrs

from jepsen_like.bench.conversation import FULL, LOADS, Conversation, LoadShape
from jepsen_like.bench.generator import Generator
from jepsen_like.bench.guard import OPEN, Guard
from jepsen_like.bench.processes import BenchProcess, DidNotAnswer, running, until
from jepsen_like.cluster.ports import ReservedPorts

NODES = 3
COUNTED_WITHIN_S = 10.0


class RecordsMissing(Exception):
    """A system holds fewer records than it acknowledged."""


class BenchCluster(ABC):
    """Three processes of one system; clients reach each by its own port, at the same place in `members` and `ports`."""

    def __init__(self, ports: Sequence[int], members: Sequence[BenchProcess], guard: Guard = OPEN) -> None:
        self.ports = ports
        self.members = members
        self.guard = guard
        self.tls = guard.context()
        """Of clients; None where they speak plain text."""

    @abstractmethod
    def converse(self, load: LoadShape, lane: int) -> Conversation:
        """A new connection's conversation."""

    @abstractmethod
    def leader(self) -> int | None:
        """Returns the leader, as its place among the members; None while there is none."""

    @abstractmethod
    def count_written(self) -> int:
        """Returns the number of records that the system reports to hold."""

    @abstractmethod
    def ready(self) -> bool:
        """Returns True if every member takes part and lacks nothing."""

    def prepare(self, load: LoadShape) -> None:
        """Make what the load writes to; most have nothing to make."""
        return

    def led_by(self) -> int:
        """The leader, waited for."""
        until(lambda: self.leader() is not None, "leader", members=self.members)
        leader = self.leader()
        return leader if leader is not None else self.led_by()

    def check_holds(self, acknowledged: int) -> None:
        """Raises `RecordsMissing` if fewer are there, after a wait: a new leader learns its commit index later."""
        require_held(acknowledged, self.count_written)

    def cpu_s(self) -> float:
        """CPU seconds that all processes have used."""
        return sum(member.cpu_s() for member in self.members)

    @contextlib.contextmanager
    def driving(self, load: LoadShape) -> Iterator[Generator]:
        """Connections for a load, to the leader."""
        self.prepare(load)
        conversations = [self.converse(load, lane) for lane in range(load.connections)]
        with Generator(self.ports[self.led_by()], conversations, self.tls) as generator:
            yield generator


def require_held(acknowledged: int, written: Callable[[], int]) -> None:
    """Raises `RecordsMissing` if fewer records are there, after a wait."""
    held = 0

    def is_complete() -> bool:
        nonlocal held
        held = written()
        return held >= acknowledged

    try:
        until(is_complete, "complete count", within_s=COUNTED_WITHIN_S, every_s=0.1)
    except DidNotAnswer:
        raise RecordsMissing(f"{acknowledged:,} records were acknowledged, {held:,} are there") from None


@contextlib.contextmanager
def lend_directory(directory: Path) -> Iterator[None]:
    """Make a directory, which is gone afterwards."""
    directory.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def own_version() -> str:
    """Returns the version of the installed distribution."""
    return metadata.version("quorumlog")


@attrs.frozen(kw_only=True)
class Contender:
    """A system that is measured, and the notes that its figures need. The defaults are those of ours."""

    key: str
    title: str
    promise: str
    """The meaning of an acknowledgement, as it is run here."""
    missing: Callable[[], str] = str
    """The command that brings what this machine lacks; empty if nothing."""
    version: Callable[[], str] = own_version
    warm_up_s: float = 1.0
    """Load before the first measurement: a JVM is slow until it has compiled what it does."""


@attrs.frozen(kw_only=True)
class BenchSystem(Contender):
    """A system of three processes, written to by raw connections."""

    start: Callable[[Path, Sequence[int]], BenchCluster]
    """Members that are not started yet, in a directory and on as many ports as `ports`."""
    ports: int = NODES
    warm_up: LoadShape = FULL
    """The shape of that load."""
    loads: Sequence[LoadShape] = LOADS
    fails_over: bool = False
    """True if it takes part in that section."""

    @contextlib.contextmanager
    def cluster(self, directory: Path) -> Iterator[BenchCluster]:
        """Three processes with a leader; afterwards they and their data are gone."""
        with lend_directory(directory), ReservedPorts(self.ports) as reserved:
            cluster = self.start(directory, reserved.ports)
            with running(cluster.members):
                cluster.led_by()
                until(cluster.ready, "whole cluster", members=cluster.members)
                yield cluster
