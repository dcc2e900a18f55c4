"""Single requests to a broker, and answers as flat rows that can be compared with another broker's."""

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.schema import NO_UUID, rows

WITHIN_S = 20.0
CLOSED = {"connection": "closed"}
KEYS = [
    "key",
    "name",
    "topic",
    "group_id",
    "partition_index",
    "partition",
    "partition_id",
    "index",
    "node_id",
    "broker_id",
    "api_key",
]
"""The fields that identify elements of an array; the first one that they have counts."""


class Wire:
    """One connection to one broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WITHIN_S)
        self._number = 0

    def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        """Returns the response, or None if the broker closes the connection.

        Raises `MalformedMessage` for a malformed response.
        """
        self._number += 1
        header = RequestHeader(api.key, version, self._number, "compare")
        self._socket.sendall(b"".join(api.encode_request(header, request)))
        try:
            (length,) = struct.unpack(">i", self._exactly(4))
            body = self._exactly(length)
        except EOFError:
            return None
        number, response = api.decode_response(body, version)
        if number != self._number:
            raise MalformedMessage(f"an answer to request {number}, not {self._number}")
        return response

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def flat(response: Any) -> dict[str, Any]:
    """Returns each field of a response by its path; elements of arrays are named by their key, whatever their order."""
    return dict(_flat(response, "")) if response is not None else dict(CLOSED)


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if attrs.has(type(value)):
        for row in rows(type(value)):
            yield from _flat(getattr(value, row.name), f"{path}.{row.name}" if path else row.name)
    elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
        for number, element in enumerate(value):
            yield from _flat(element, f"{path}[{_key(element, number)}]")
    elif isinstance(value, bytes) and len(value) == len(NO_UUID):
        yield path, "no id" if value == NO_UUID else "an id"
    else:
        yield path, bytes(value) if isinstance(value, memoryview) else value


def _key(element: Any, number: int) -> Any:
    return next(
        (
            getattr(element, name)
            for name in KEYS
            if getattr(element, name, None) not in (None, "") or (name == "key" and hasattr(element, name))
        ),
        number,
    )


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the fields that differ: ours and theirs, with `Ellipsis` for a field that one of them lacks."""
    return {
        path: (ours.get(path, ...), theirs.get(path, ...))
        for path in [*ours, *(each for each in theirs if each not in ours)]
        if ours.get(path, ...) != theirs.get(path, ...)
    }
