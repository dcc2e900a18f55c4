"""One request on a connection of its own, whose answer ends with the connection."""

import contextlib
import socket
from typing import Final

import trio

from jepsen_like.port.wires import Address

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 64 * 1024


class NotAnswered(Exception):
    """The program did not answer, or not with what was asked for; the text tells how."""


async def exchange(address: Address, request: bytes, *, within_s: float) -> bytes:
    """Returns the answer. Raises `NotAnswered`."""
    answer = bytearray()
    try:
        with trio.fail_after(within_s):
            stream = await trio.open_tcp_stream(*address)
            async with stream:
                await stream.send_all(request)
                async for chunk in stream:
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise NotAnswered("the answer does not end")
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        raise NotAnswered(str(error) or f"no answer within {within_s:g} s") from error
    return bytes(answer)


def exchange_now(address: Address, request: bytes, *, within_s: float) -> bytes:
    """The same without Trio, for a watcher. Raises `NotAnswered`."""
    answer = bytearray()
    try:
        with contextlib.closing(socket.create_connection(address, timeout=within_s)) as connected:
            connected.sendall(request)
            while chunk := connected.recv(READ_BYTES):
                answer += chunk
    except OSError as error:
        raise NotAnswered(str(error)) from error
    return bytes(answer)
