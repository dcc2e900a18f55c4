"""The register workload on the register machine of a raft group."""

import zlib
from typing import Any

import attrs
import msgpack

from jepsen_like.history.ops import NONE, Action
from jepsen_like.workload.model import Nonsense, Request
from jepsen_like.workload.payload import DAMAGED
from jepsen_like.workload.registers import Ask, RegisterWorkload
from raft.register import COMPARE_AND_SET, READ, WRITE
from raft.results import Applied


@attrs.define
class RaftRegisterWorkload(RegisterWorkload):
    """Commands of the register machine."""

    def reading(self, key: int) -> Ask:
        """A command that changes nothing."""
        return _apply([READ, key], read_only=True)

    def writing(self, key: int, value: int) -> Ask:
        """A command."""
        return _apply([WRITE, key, value])

    def swapping(self, key: int, expected: int, new: int) -> Ask:
        """A command."""
        return _apply([COMPARE_AND_SET, key, expected, new])

    def value_in(self, request: Request, answer: Any) -> int:
        """Of the machine's result."""
        if not isinstance(answer, Applied):
            raise Nonsense(f"{type(answer).__name__} does not answer {request.f.name}")
        result = _result(answer.result)
        if request.f is not Action.CAS:
            return _value(result) if request.f is Action.READ else NONE
        if type(result) is not list or len(result) != 2:
            raise Nonsense("a compare-and-set is answered by [swapped, seen]")
        return _value(result[1])


def _apply(command: list[object], *, read_only: bool = False) -> Ask:
    packed: bytes = msgpack.packb(command)
    return lambda connection: connection.apply(packed, read_only=read_only)


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
