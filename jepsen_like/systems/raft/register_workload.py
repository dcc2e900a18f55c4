"""The register workload: read, write and compare-and-set on a few keys of the register machine."""

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import msgpack

from jepsen_like.history.ops import NONE, Action
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import DAMAGED, value_ids
from raft.register import COMPARE_AND_SET, READ, WRITE
from raft.results import Applied

READ_PART, WRITE_PART = 0.5, 0.25
"""The rest is compare-and-set."""
KEYS = 24


@attrs.define
class RegisterWorkload:
    """Keys 1 to `keys`, each an object of the history. Values are ids, each written at most once."""

    keys: int = KEYS
    name: str = "register"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _newest: dict[int, int] = attrs.field(factory=dict)
    """By key, a value that a client has seen: what a compare-and-set will expect."""

    def request(self, rng: random.Random) -> Request:
        """Read, write or compare-and-set."""
        key = rng.randint(1, self.keys)
        draw = rng.random()
        if draw < READ_PART:
            return _read(key)
        expected = self._newest.get(key)
        if draw < READ_PART + WRITE_PART or expected is None:
            return self._write(key)
        new = next(self._ids)
        return _request(Action.CAS, [COMPARE_AND_SET, key, expected, new], key, a=expected, b=new)

    def write(self, rng: random.Random) -> Request:
        """Write a key."""
        return self._write(rng.randint(1, self.keys))

    def probe(self, rng: random.Random) -> Request:
        """Read a key."""
        return _read(rng.randint(1, self.keys))

    def final_reads(self) -> Sequence[Request]:
        """Every key, twice."""
        return [_read(key) for key in range(1, self.keys + 1)] * 2

    def claimed_ends(self) -> Mapping[int, int]:
        """Registers have no end."""
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """No register is ever out of reach."""
        raise Nonsense(f"{request.f.name} of a register was answered by a log that begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Returns the value that the register held."""
        if not isinstance(answer, Applied):
            raise Nonsense(f"{type(answer).__name__} does not answer {request.f.name}")
        result = _result(answer.result)
        if request.f is Action.READ:
            value = _value(result)
            if NONE < value < DAMAGED:
                self._newest[request.object] = value
            return Seen((value,))
        if request.f is Action.WRITE:
            self._newest[request.object] = request.a
            return Seen((request.a,))
        if type(result) is not list or len(result) != 2:
            raise Nonsense("a compare-and-set is answered by [swapped, seen]")
        seen = _value(result[1])
        if NONE < seen < DAMAGED:
            self._newest[request.object] = request.b if seen == request.a else seen
        return Seen((request.a,), seen=seen)

    def _write(self, key: int) -> Request:
        value = next(self._ids)
        return _request(Action.WRITE, [WRITE, key, value], key, a=value)


def _read(key: int) -> Request:
    return _request(Action.READ, [READ, key], key)


def _request(f: Action, command: list[object], key: int, *, a: int = NONE, b: int = NONE) -> Request:
    packed: bytes = msgpack.packb(command)
    read_only = f is Action.READ
    return Request(
        f, lambda connection: connection.apply(packed, read_only=read_only), object=key, a=a, b=b, values=(a,)
    )


def _result(packed: bytes) -> Any:
    try:
        return msgpack.unpackb(packed)
    except (ValueError, msgpack.UnpackException) as error:
        raise Nonsense(f"not a result: {error}") from None


def _value(value: object) -> int:
    if value is None:
        return NONE
    if type(value) is int and 0 < value < DAMAGED:
        return value
    return DAMAGED + zlib.crc32(repr(value).encode())  # no client wrote this, so the checker reports it
