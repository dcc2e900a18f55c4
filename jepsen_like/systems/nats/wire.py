"""The text protocol of NATS, as far as a client with one request at a time needs it. Pure: bytes in, messages out."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

LINE_BYTES_MAX: Final = 64 * 1024
CONNECT: Final = {
    "verbose": False,
    "pedantic": False,
    "headers": True,
    "no_responders": True,
    "protocol": 1,
    "lang": "quorumlog",
    "version": "1",
}
"""With `no_responders` a request without any subscriber is answered at once, by the server that it was sent to."""
NO_RESPONDERS: Final = 503
NOT_FOUND: Final = 404
END_OF_BATCH: Final = 204


class WrongBytes(ValueError):
    """Bytes that are not this protocol."""


@attrs.frozen
class Message:
    """A message of a subscription. `status` is that of its headers, 0 without one."""

    subject: str
    payload: bytes
    status: int = 0
    headers: Mapping[str, str] = {}


@attrs.frozen
class Ping:
    """The server asks for a sign of life."""


@attrs.frozen
class NatsError:
    """The server is about to close the connection, for this reason."""

    reason: str


@attrs.frozen
class Pong:
    """The server's answer to a ping."""


Heard = Message | Ping | Pong | NatsError


def greet(inbox: str) -> bytes:
    """Returns what a client sends first: itself, and a subscription to all subjects below its inbox."""
    return f"CONNECT {json.dumps(CONNECT)}\r\nSUB {inbox}.* 1\r\n".encode()


def publish(subject: str, reply: str, payload: bytes) -> bytes:
    """Returns a request."""
    return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"


@attrs.define
class Decoder:
    """Takes what the server sends, in pieces of any size."""

    _rest: bytearray = attrs.field(factory=bytearray)

    def feed(self, chunk: bytes) -> Iterator[Heard]:
        """Yields what is whole now. Raises `WrongBytes`."""
        self._rest += chunk
        while (end := self._rest.find(b"\r\n")) >= 0:
            words = self._rest[:end].decode(errors="replace").split(" ")
            size = _size_of(words)
            whole = end + 2 + (size + 2 if size is not None else 0)
            if len(self._rest) < whole:
                return
            content = bytes(self._rest[end + 2 : whole - 2])
            del self._rest[:whole]
            if (heard := _parse(words, content)) is not None:
                yield heard
        if len(self._rest) > LINE_BYTES_MAX:
            raise WrongBytes("a line does not end")


def _size_of(words: list[str]) -> int | None:
    """Returns the size of the content that follows a line; None if nothing does."""
    if words[0] not in ("MSG", "HMSG"):
        return None
    if not words[-1].isdecimal():
        raise WrongBytes(f"no size in {words}")
    return int(words[-1])


def _parse(words: list[str], content: bytes) -> Heard | None:
    match words:
        case ["MSG", subject, *_]:
            return Message(subject, content)
        case ["HMSG", subject, *_, head_size, _] if head_size.isdecimal():
            head, payload = content[: int(head_size)], content[int(head_size) :]
            status, headers = _headers(head)
            return Message(subject, payload, status, headers)
        case ["PING"]:
            return Ping()
        case ["-ERR", *reason]:
            return NatsError(" ".join(reason))
        case ["PONG"]:
            return Pong()
        case ["INFO", *_] | ["+OK"]:
            return None
        case _:
            raise WrongBytes(f"no message of a server: {words}")


def _headers(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode(errors="replace").split("\r\n")
    _, _, status = first.partition(" ")
    found = dict(line.split(": ", 1) for line in lines if ": " in line)
    return int(status[:3]) if status[:3].isdecimal() else 0, found


def answer_of(payload: bytes) -> dict[str, Any]:
    """Returns the JSON object of an answer of JetStream. Raises `WrongBytes`."""
    try:
        found = json.loads(payload)
    except ValueError as error:
        raise WrongBytes(f"no JSON: {payload[:80]!r}") from error
    if not isinstance(found, dict):
        raise WrongBytes(f"no object: {payload[:80]!r}")
    return found
