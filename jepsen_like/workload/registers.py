"""The register workload of any system: read, write and compare-and-set on a few keys."""

import abc
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import DAMAGED, value_ids

READ_PART, WRITE_PART = 0.5, 0.25
"""The rest is compare-and-set."""
KEYS: Final = 24
Ask = Callable[[Any], Awaitable[Any]]
"""Sends a request on a connection of the system's client, and returns the answer."""


@attrs.define
class RegisterWorkload(abc.ABC):
    """Keys 1 to `keys`, each an object of the history. Values are ids, each written at most once."""

    keys: int = KEYS
    name: str = "register"
    anywhere: bool = False
    """True if any node may be asked, since each passes on what another has to answer."""
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _newest: dict[int, int] = attrs.field(factory=dict)
    """By key, a value that a client has seen: what a compare-and-set will expect."""

    # ---------------------------------------------------------------- by the system

    @abc.abstractmethod
    def reading(self, key: int) -> Ask:
        """Returns what reads a key."""

    @abc.abstractmethod
    def writing(self, key: int, value: int) -> Ask:
        """Returns what writes a key."""

    @abc.abstractmethod
    def swapping(self, key: int, expected: int, new: int) -> Ask:
        """Returns what writes a key that has the expected value, and tells the value that it has."""

    @abc.abstractmethod
    def value_in(self, request: Request, answer: Any) -> int:
        """Returns the value that a read, or a compare-and-set, has found; of a write any. Raises `Nonsense`."""

    # ---------------------------------------------------------------- of a workload

    def request(self, rng: random.Random) -> Request:
        """Read, write or compare-and-set."""
        key = rng.randint(1, self.keys)
        draw = rng.random()
        if draw < READ_PART:
            return self._read(key)
        expected = self._newest.get(key)
        if draw < READ_PART + WRITE_PART or expected is None:
            return self._write(key)
        new = next(self._ids)
        ask = self.swapping(key, expected, new)
        return Request(Action.CAS, ask, key, a=expected, b=new, values=(expected,), anywhere=self.anywhere)

    def write(self, rng: random.Random) -> Request:
        """Write a key."""
        return self._write(rng.randint(1, self.keys))

    def probe(self, rng: random.Random) -> Request:
        """Read a key."""
        return self._read(rng.randint(1, self.keys))

    def final_reads(self) -> Sequence[Request]:
        """Every key, twice."""
        return [self._read(key) for key in range(1, self.keys + 1)] * 2

    def claimed_ends(self) -> Mapping[int, int]:
        """Registers have no end."""
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """No register is ever out of reach."""
        raise Nonsense(f"{request.f.name} of a register was answered by a log that begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Returns the value that the register held."""
        value = self.value_in(request, answer)
        match request.f:
            case Action.READ:
                self._note(request.object, value)
                return Seen((value,))
            case Action.WRITE:
                self._note(request.object, request.a)
                return Seen((request.a,))
            case _:
                self._note(request.object, request.b if value == request.a else value)
                return Seen((request.a,), seen=value)

    def _note(self, key: int, value: int) -> None:
        if NONE < value < DAMAGED:
            self._newest[key] = value

    def _read(self, key: int) -> Request:
        return Request(Action.READ, self.reading(key), key, values=(NONE,), anywhere=self.anywhere)

    def _write(self, key: int) -> Request:
        value = next(self._ids)
        return Request(Action.WRITE, self.writing(key, value), key, a=value, values=(value,), anywhere=self.anywhere)
