"""Asks a broker of Apache RocketMQ about itself, and reads its answers.

Fixed roles stand in its configuration. A group by DLedger elects, and a broker is asked twice on DLedger's own port: whom it
follows, and which term it is in. No request asks for the term; a heartbeat of an old leader is refused with it.
"""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

import attrs

from jepsen_like.port.wires import Address
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, MalformedFrame
from rocketmq_compat.remoting.frame import ANSWER_HEADER_BYTES_MAX, FRAME_BYTES_MAX, Command, decode, encode

CONFIG: Final = Command(RequestCode.GET_BROKER_CONFIG)
RUNTIME: Final = Command(RequestCode.GET_BROKER_RUNTIME_INFO)
HA_STATUS: Final = Command(RequestCode.GET_BROKER_HA_STATUS)
CLUSTER: Final = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
ROLE: Final = "brokerRole"
LEDGER_METADATA, LEDGER_HEARTBEAT = 50000, 51002
"""Codes of DLedger's own protocol, whose bodies are JSON."""
LEDGER_SUCCESS: Final = 200
BEFORE_ALL_TERMS: Final = -1
FIXED_EPOCH: Final = 1
"""Given roles have no epochs."""
NOT_ANSWERED: Final = (OSError, MalformedFrame, BadBody, KeyError, ValueError)
"""The errors of a question that has no answer, or not the one that was asked for."""
_LENGTH: Final = struct.Struct(">i")


@attrs.frozen(kw_only=True)
class LedgerMember:
    """One broker of a DLedger group."""

    group: str
    member: str
    other: str
    """Any other member of the group."""

    def metadata(self) -> Command:
        """Asks whom it follows."""
        return Command(LEDGER_METADATA, body=json.dumps({"group": self.group, "remoteId": self.member}).encode())

    def outdated_heartbeat(self) -> Command:
        """Asks for its term: a heartbeat that every member refuses, as it is of a leader before all terms."""
        beat = {
            "group": self.group,
            "remoteId": self.member,
            "localId": self.other,
            "leaderId": self.other,
            "term": BEFORE_ALL_TERMS,
        }
        return Command(LEDGER_HEARTBEAT, body=json.dumps(beat).encode())

    def role(self, metadata: Command, heartbeat: Command) -> tuple[bool, int]:
        """Returns whether it leads, and its term. Raises one of `NOT_ANSWERED`."""
        return _json(metadata).get("leaderId") == self.member, int(_json(heartbeat)["term"])


def address_in(config: Mapping[str, str]) -> str:
    """Returns the address that a broker tells others. Raises `KeyError`."""
    return f"{config['brokerIP1']}:{config['listenPort']}"


def config_of(answer: Command) -> Mapping[str, str]:
    """Returns the configuration as it is now, of the answer to `CONFIG`. Raises `ValueError` for a refusal."""
    return dict(line.partition("=")[::2] for line in body_of(answer).decode().splitlines())


def runtime_of(answer: Command) -> Mapping[str, str]:
    """Returns the table of the answer to `RUNTIME`. Raises one of `NOT_ANSWERED`."""
    return KVTable.decode(body_of(answer)).table


def slaves_of(answer: Command) -> int:
    """Returns how many slaves a master has taken, of its answer to `HA_STATUS`. Raises one of `NOT_ANSWERED`."""
    return len(_json(answer)["haConnectionInfo"])


def _json(answer: Command) -> Any:
    return json.loads(body_of(answer))


def body_of(answer: Command) -> bytes:
    """Returns the body of an answer. Raises `ValueError` for a refusal."""
    if answer.code not in (ResponseCode.SUCCESS, LEDGER_SUCCESS):
        raise ValueError(f"code {answer.code}: {answer.remark}")
    return bytes(answer.body)


def ask_now(address: Address, request: Command, *, within_s: float) -> Command:
    """One question on a connection of its own, without Trio, for a watcher. Raises one of `NOT_ANSWERED`."""
    with socket.create_connection(address, timeout=within_s) as stream:
        stream.sendall(b"".join(encode(request)))
        size = _LENGTH.unpack(_receive(stream, _LENGTH.size))[0]
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise MalformedFrame(f"a frame of {size} bytes")
        return decode(_receive(stream, size), ANSWER_HEADER_BYTES_MAX)


def _receive(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = stream.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return bytes(data)
