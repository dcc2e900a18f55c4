"""Asks the administration port of a program of others by HTTP/1.0: one request a connection, an answer in JSON."""

import json
from typing import Any, Final

from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.foreign.exchange import NotAnswered, exchange, exchange_now

OK: Final = 200


def encode(address: Address, path: str, body: Any = None) -> bytes:
    """Returns the request: a GET, or with a body a POST of it as JSON."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0", f"Host: {text_of(address)}", "Connection: close"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def decode(answer: bytes) -> Any:
    """Returns the JSON of a whole answer. Raises `NotAnswered` for another status, or for no JSON."""
    head, _, content = answer.partition(b"\r\n\r\n")
    try:
        status = int(head.split(b" ", 2)[1])
        found = json.loads(content)
    except (IndexError, ValueError) as error:
        raise NotAnswered(f"no answer in JSON: {answer[:80]!r}") from error
    if status != OK:
        raise NotAnswered(f"status {status}: {found}")
    return found


async def ask(address: Address, path: str, body: Any = None, *, within_s: float) -> Any:
    """Raises `NotAnswered`."""
    return decode(await exchange(address, encode(address, path, body), within_s=within_s))


def ask_now(address: Address, path: str, body: Any = None, *, within_s: float) -> Any:
    """The same without Trio, for a watcher. Raises `NotAnswered`."""
    return decode(exchange_now(address, encode(address, path, body), within_s=within_s))
