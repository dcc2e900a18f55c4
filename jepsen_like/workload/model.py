"""The interface of a workload: it draws requests, and turns answers into rows of the history."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from jepsen_like.history.ops import NONE, Action


@attrs.define
class Nonsense(Exception):
    """An answer that does not answer what was asked: a failure of the server, whatever the outcome of the operation."""

    what: str

    def __str__(self) -> str:
        return self.what


@attrs.frozen
class Request:
    """One operation before it is sent. Fields up to `offset` are those of its history row.

    `values` are the ids it carries (an append may carry several). `anywhere`: any node may answer it, so it is spread
    over the nodes; the others are for the leader.
    """

    f: Action
    ask: Callable[[Any], Awaitable[Any]]
    """Sends it on a connection of the system's client and returns the answer."""
    object: int = 0
    a: int = NONE
    b: int = NONE
    offset: int = NONE
    values: Sequence[int] = ()
    anywhere: bool = False
    group: int = 0
    """Of several groups of nodes, each with a leader: the one that it is for."""

    @property
    def is_write(self) -> bool:
        """True if it changes anything; what does not may go unrecorded when it has no outcome."""
        return self.f in (Action.APPEND, Action.WRITE, Action.CAS, Action.SEND, Action.ENQUEUE)


@attrs.frozen
class Seen:
    """The content of an answer, as the fields of a history row; `values` from `offset` on for a log.

    An answer to a probe without `values` shows that a node leads, and nothing else.
    """

    values: Sequence[int]
    offset: int = NONE
    seen: int = NONE
    epoch: int = NONE
    is_whole: bool = True


class Workload(Protocol):
    """Draws requests for all clients of a run; sees every answer, so that reads follow what was written."""

    name: str

    def request(self, rng: random.Random) -> Request:
        """The next operation of the mix."""

    def write(self, rng: random.Random) -> Request:
        """A small operation that needs a commit: the first sign of recovery."""

    def probe(self, rng: random.Random) -> Request:
        """A small operation that changes nothing and that only a leader with a majority can answer."""

    def final_reads(self) -> Sequence[Request]:
        """Returns the requests for the end, when all is healed and a last write was acknowledged."""

    def claimed_ends(self) -> Mapping[int, int]:
        """By object: the greatest end of a log that an answer claimed since `final_reads` was called."""

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """A read's records had left a log that began at `start_offset`. Raises `Nonsense` if that cannot be."""

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Returns the content of the answer to `request`. Raises `Nonsense` if it is not an answer to it."""
