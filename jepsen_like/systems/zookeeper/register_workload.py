"""The register workload on ZooKeeper's nodes: get, set, and a set that names the version as compare-and-set."""

import zlib
from typing import Any

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.zookeeper.wire import NodeData
from jepsen_like.workload.model import Nonsense, Request
from jepsen_like.workload.payload import DAMAGED
from jepsen_like.workload.registers import Ask, RegisterWorkload


@attrs.define
class ZooRegisterWorkload(RegisterWorkload):
    """Any server is asked: each passes on what the leader has to answer."""

    anywhere: bool = True

    def reading(self, key: int) -> Ask:
        """A get behind a write of the same session."""
        return lambda connection: connection.read(path_of(key))

    def writing(self, key: int, value: int) -> Ask:
        """A set of any version."""
        return lambda connection: connection.write(path_of(key), str(value).encode())

    def swapping(self, key: int, expected: int, new: int) -> Ask:
        """A set of the version that has the expected value."""
        return lambda connection: connection.swap(path_of(key), str(expected).encode(), str(new).encode())

    def value_in(self, request: Request, answer: Any) -> int:
        """Of what was read or found."""
        match request.f, answer:
            case Action.READ, NodeData(data):
                return value_of(data)
            case Action.WRITE, None:
                return NONE
            case Action.CAS, bytes(data):
                return value_of(data)
            case _:
                raise Nonsense(f"{answer} does not answer {request.f.name}")


def path_of(key: int) -> str:
    """Returns the node of a register."""
    return f"/r{key}"


def value_of(data: bytes) -> int:
    """Returns the value that a node holds; `NONE` where it was never written."""
    if not data:
        return NONE
    if data.isdigit() and 0 < int(data) < DAMAGED:
        return int(data)
    return DAMAGED + zlib.crc32(data)  # no client wrote this, so the checker reports it
