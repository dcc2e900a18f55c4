"""Small servers of a test, at a port of the loopback interface."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio


@asynccontextmanager
async def listening(serve: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[tuple[str, int]]:
    """Yields the address at which `serve` has each connection until it returns.

    A client that gives up resets its connection: that ends it, and not the test.
    """

    async def serve_one(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await serve(stream)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve_one, [listener])
        yield ("127.0.0.1", listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()
