"""A common face of all clients for the tests; one adapter for each library keeps the library's behaviour."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import attrs

PATIENCE_S = 30.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Acks = Literal["0", "1", "all"]


@attrs.frozen
class Message:
    """A record as it is given to a producer."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


@attrs.frozen
class Received:
    """A record as a consumer returns it."""

    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


class Sender(ABC):
    """A producer that stays open."""

    @abstractmethod
    def send(self, value: bytes) -> int:
        """Send to partition 0 and wait. Returns the offset; the library repeats what it may, as by its defaults."""


class Member(ABC):
    """A consumer in a group that commits only on demand."""

    @abstractmethod
    def poll(self) -> list[Received]:
        """A short wait for records; also where a client takes part in a rebalance."""

    @abstractmethod
    def assignment(self) -> set[int]:
        """The partitions of its one topic that it has now."""

    @abstractmethod
    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        """Commit, and wait for the answer."""

    @abstractmethod
    def fetch_committed(self, partition: int) -> int | None:
        """As the coordinator has it."""


class Client(ABC):
    """One client library against one cluster."""

    name: str
    codecs: tuple[str, ...]
    """The codecs of the library."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        acks: Acks = "all",
        codec: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        """Send everything, in as few batches as the library makes.

        Returns the offsets; with acks=0 they mean nothing.
        """

    @abstractmethod
    def consume(self, topic: str, count: int, *, start: int = 0, partition: int = 0) -> list[Received]:
        """Read so many records from an offset on; fewer if they do not come within `PATIENCE_S`."""

    @abstractmethod
    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset and the end."""

    @abstractmethod
    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """Returns the first offset whose record has this timestamp or a later one, or None."""

    @abstractmethod
    @contextmanager
    def sending(self, topic: str, *, idempotent: bool = True) -> Iterator[Sender]:
        """An open producer, acks=all."""

    @abstractmethod
    @contextmanager
    def joining(self, group: str, topic: str, *, instance: str | None = None) -> Iterator[Member]:
        """A member of a group that reads from the beginning where nothing is committed; it leaves at the end."""


def until(holds: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Ask again until it holds; each question waits by itself."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"no {what} within {within_s:g} s"


def values(received: Sequence[Received]) -> list[bytes | None]:
    return [one.value for one in received]


def number_messages(count: int, prefix: str = "record") -> list[Message]:
    return [Message(f"{prefix} {number}".encode()) for number in range(count)]


def read_until(member: Member, enough: Callable[[list[Received]], bool], what: str) -> list[Received]:
    """Everything that a member is given until it is enough."""
    got: list[Received] = []

    def more() -> bool:
        got.extend(member.poll())
        return enough(got)

    until(more, what)
    return got


def read_some(member: Member, count: int = 1) -> list[Received]:
    """At least so many records."""
    return read_until(member, lambda got: len(got) >= count, f"{count} records")
