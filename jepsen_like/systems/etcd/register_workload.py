"""The register workload on etcd's keys, by its gateway for JSON: range, put, and a transaction as compare-and-set."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any, Final

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.workload.model import Nonsense, Request
from jepsen_like.workload.payload import DAMAGED
from jepsen_like.workload.registers import Ask, RegisterWorkload

GUARDS: Final = 50
"""Each change of a guarded register compares all registers so often: etcd takes 128 operations in a transaction."""


@attrs.define
class EtcdRegisterWorkload(RegisterWorkload):
    """Every member is asked, for each passes on what the leader has to answer. Reads are linearizable, etcd's default."""

    anywhere: bool = True
    guards: int = 0
    """Each change first compares all registers so often, which takes a member some milliseconds."""
    prefix: str = ""
    """The name of each key begins with it."""

    def reading(self, key: int) -> Ask:
        """A range of one key."""
        return _post("range", {"key": self._name(key)})

    def writing(self, key: int, value: int) -> Ask:
        """A put; guarded, a transaction that always succeeds."""
        put = {"key": self._name(key), "value": encode(str(value))}
        if not self.guards:
            return _post("put", put)
        return _post("txn", {"compare": self._guards(), "success": [{"request_put": put}]})

    def swapping(self, key: int, expected: int, new: int) -> Ask:
        """A transaction: a put if the value is the expected one, and else a range."""
        name = self._name(key)
        return _post(
            "txn",
            {
                "compare": [
                    *self._guards(),
                    {"target": "VALUE", "result": "EQUAL", "key": name, "value": encode(str(expected))},
                ],
                "success": [{"request_put": {"key": name, "value": encode(str(new))}}],
                "failure": [{"request_range": {"key": name}}],
            },
        )

    def value_in(self, request: Request, answer: Any) -> int:
        """Of a range, or of the branch that a transaction took."""
        match request.f, answer:
            case Action.READ, {"header": dict()}:
                return value_of(answer)
            case Action.WRITE, {"header": dict()} if not self.guards or answer.get("succeeded"):
                return NONE
            case Action.CAS, {"succeeded": True}:
                return request.a
            case Action.CAS, {"responses": [{"response_range": dict(found)}]}:
                return value_of(found)
            case _:
                raise Nonsense(f"{answer} does not answer {request.f.name}")

    def _guards(self) -> list[dict[str, Any]]:
        """Returns so many comparisons of the versions of all registers, each of which holds."""
        first, end = encode(f"{self.prefix}r"), encode(f"{self.prefix}s")
        return [
            {"target": "VERSION", "result": "GREATER", "key": first, "range_end": end, "version": "-1"}
        ] * self.guards

    def _name(self, key: int) -> str:
        return encode(f"{self.prefix}r{key}")


def value_of(found: Mapping[str, Any]) -> int:
    """Returns the value that a range has found; `NONE` where the key was never written."""
    match found.get("kvs", []):
        case []:
            return NONE
        case [{"value": str(text)}] if (raw := base64.b64decode(text)).isdigit() and 0 < int(raw) < DAMAGED:
            return int(raw)
        case other:
            return DAMAGED + zlib.crc32(repr(other).encode())  # no client wrote this, so the checker reports it


def encode(text: str) -> str:
    """Returns a key or a value as the gateway takes it."""
    return base64.b64encode(text.encode()).decode()


def _post(what: str, body: Mapping[str, Any]) -> Ask:
    return lambda connection: connection.ask(f"/v3/kv/{what}", body)
