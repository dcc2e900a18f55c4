"""Asks the administration port of a program of others by HTTP/1.0: one request a connection, an answer in JSON."""

import contextlib
import json
import socket
from typing import Any, Final

import trio

from jepsen_like.port.wires import Address, text_of

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 64 * 1024
OK: Final = 200


class NotAnswered(Exception):
    """The program did not answer, or not with what was asked for; the text tells how."""


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
    answer = bytearray()
    try:
        with trio.fail_after(within_s):
            stream = await trio.open_tcp_stream(*address)
            async with stream:
                await stream.send_all(encode(address, path, body))
                async for chunk in stream:
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise NotAnswered("the answer does not end")
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        raise NotAnswered(str(error) or f"no answer within {within_s:g} s") from error
    return decode(bytes(answer))


def ask_now(address: Address, path: str, body: Any = None, *, within_s: float) -> Any:
    """The same without Trio, for a watcher. Raises `NotAnswered`."""
    answer = bytearray()
    try:
        with contextlib.closing(socket.create_connection(address, timeout=within_s)) as connected:
            connected.sendall(encode(address, path, body))
            while chunk := connected.recv(READ_BYTES):
                answer += chunk
    except OSError as error:
        raise NotAnswered(str(error)) from error
    return decode(bytes(answer))
