"""One client's connections to the brokers of a cluster, through the fault network: one to each, with one request at a time on it."""

from collections.abc import Mapping
from typing import Any, Final

import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.wire import CLIENT_ID, CORRELATION, NoAnswer, NotAsked, converse
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.errors import MalformedMessage

BROKEN: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Conversations:
    """Opens a connection with its first request, and again after an error."""

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self._addresses = addresses
        self._streams: dict[int, trio.SocketStream] = {}

    async def ask(self, node: int, api: Api[Any, Any], version: int, body: Any, *, within_s: float) -> Any:
        """Returns the response. Raises `NotAsked` if nothing was sent, `NoAnswer` if it may have been carried out."""
        is_asked = False
        try:
            with trio.fail_after(within_s):
                stream = await self._to(node)
                is_asked = True
                return await converse(stream, api, version, body)
        except (trio.TooSlowError, *BROKEN, MalformedMessage, NoAnswer) as error:
            self.drop(node)
            kind = NoAnswer if is_asked else NotAsked
            raise kind(f"{api.name}: {str(error) or type(error).__name__}") from error
        except BaseException:
            self.drop(node)
            raise

    async def say(self, node: int, api: Api[Any, Any], version: int, body: Any, *, within_s: float) -> None:
        """Send a request and wait for no response. Raises `NotAsked` if nothing was sent, `NoAnswer` if a part may have been."""
        is_asked = False
        try:
            with trio.fail_after(within_s):
                stream = await self._to(node)
                is_asked = True
                frame = api.encode_request(RequestHeader(api.key, version, CORRELATION, CLIENT_ID), body)
                await stream.send_all(b"".join(frame))
        except (trio.TooSlowError, *BROKEN) as error:
            self.drop(node)
            kind = NoAnswer if is_asked else NotAsked
            raise kind(f"{api.name}: {str(error) or type(error).__name__}") from error
        except BaseException:
            self.drop(node)
            raise

    async def _to(self, node: int) -> trio.SocketStream:
        if node not in self._streams:
            self._streams[node] = await trio.open_tcp_stream(*self._addresses[node])
        return self._streams[node]

    def drop(self, node: int) -> None:
        """End the connection to a broker, if there is one."""
        stream = self._streams.pop(node, None)
        if stream is not None:
            stream.socket.close()

    def close(self) -> None:
        """End all connections."""
        for node in tuple(self._streams):
            self.drop(node)
