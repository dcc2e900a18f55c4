"""The face for asyncio: `Client` and `RaftGroup` of Trio, by the same names.

    async with Client(["127.0.0.1:4001", "127.0.0.1:4002"], "demo") as client:
        appended = await client.append([b"one", b"two"])

Arguments, results, errors and what they mean are those of `raft.client` and `raft.group`, whose code runs in a thread
that the `async with` block starts and ends; a busy event loop holds no heartbeat up. A call that is cancelled, by
`asyncio.timeout` for example, is cancelled there, too: like one that ends with `OutcomeUnknown`, it may have taken
effect. Callbacks (`on_attempt`, `notify`, subscribers, the state machine) run in that thread and must not block.

A node that ends by itself, because its disk failed, cancels the task that opened it; the block raises its error.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from log.recovery import RecoveryReport
from raft import client, group
from raft.addresses import Address
from raft.client import client_is_closed
from raft.errors import RaftError, ShuttingDown
from raft.loop_thread import LoopThread, Opener, constructing, in_loop, opening, own
from raft.model import NodeId

__all__ = ["Client", "RaftGroup"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Face(Generic[R_co]):
    """An `async with` block around an object in a Trio loop; calls after its end raise what `refusal` returns."""

    def __init__(self, opener: Opener[R_co], refusal: Callable[[], RaftError]) -> None:
        self._loop = LoopThread(opener, refusal, block="an `async with`")
        self._owner: asyncio.Task[Any] | None = None
        self._is_closing = False
        self._owner_was_cancelled = False

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        opened = self._loop.open()
        try:
            await asyncio.wrap_future(opened)
        except BaseException:
            opened.cancel()
            self._loop.close()  # if it was open already
            await _to_the_end(self._loop)
            raise
        running = asyncio.get_running_loop()
        self._loop.ended.add_done_callback(lambda ended: self._call_home(running))
        return self

    def _call_home(self, running: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # that loop is closed, so no task waits any more
            running.call_soon_threadsafe(self._on_ended)

    def _on_ended(self) -> None:
        if not self._is_closing and self._owner is not None:
            self._owner_was_cancelled = self._owner.cancel()

    async def __aexit__(self, *exception: object) -> None:
        self._is_closing = True
        ended = self._loop.close()
        cancelled = await _to_the_end(self._loop)
        if self._owner_was_cancelled and self._owner is not None and self._owner.uncancel() == 0:
            cancelled = None  # it was our own doing
        if cancelled is not None:
            raise cancelled
        ended.result()


async def _to_the_end(loop: LoopThread[Any]) -> asyncio.CancelledError | None:
    """Wait even if cancelled meanwhile, for nothing may be left behind; the caller raises that afterwards."""
    waiting = asyncio.wrap_future(loop.ended)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is looked at elsewhere
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError as error:
            cancelled = error
    loop.join()
    return cancelled


def awaiting(
    method: Callable[Concatenate[R, P], Awaitable[T]],
) -> Callable[Concatenate[Face[R], P], Coroutine[Any, Any, T]]:
    """Returns `method` of the object as a coroutine of its face."""

    @functools.wraps(method)
    async def call(self: Face[R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._loop.submit(lambda living: own(living, method)(*args, **kwargs)))

    return call


class Client(Face[client.Client]):
    """See `raft.client.Client`; use as `async with`. Any number of tasks may call at once."""

    @constructing(client.Client)
    def __init__(self, opener: Opener[client.Client]) -> None:
        super().__init__(opener, client_is_closed)

    append = awaiting(client.Client.append)
    read = awaiting(client.Client.read)
    tail = awaiting(client.Client.tail)
    apply = awaiting(client.Client.apply)
    query = awaiting(client.Client.query)
    change_members = awaiting(client.Client.change_members)
    transfer_leadership = awaiting(client.Client.transfer_leadership)
    status = awaiting(client.Client.status)


class RaftGroup(Face[group.RaftGroup]):
    """See `raft.group.RaftGroup`; any number of tasks may call at once."""

    @staticmethod
    @opening(group.RaftGroup.open)
    def open(opener: Opener[group.RaftGroup]) -> "RaftGroup":
        """See `raft.group.RaftGroup.open`; use as `async with`."""
        return RaftGroup(opener, ShuttingDown)

    @property
    def address(self) -> Address:
        """The address on which this node listens."""
        return self._loop.living.address

    @property
    def members(self) -> Mapping[NodeId, str]:
        """The address at which others dial each member, as far as this node knows."""
        return self._loop.living.members

    @property
    def recovery(self) -> RecoveryReport:
        """The findings and repairs of the recovery when the log was opened."""
        return self._loop.living.recovery

    append = awaiting(group.RaftGroup.append)
    read = awaiting(group.RaftGroup.read)
    tail = awaiting(group.RaftGroup.tail)
    apply = awaiting(group.RaftGroup.apply)
    query = awaiting(group.RaftGroup.query)
    change_members = awaiting(group.RaftGroup.change_members)
    transfer_leadership = awaiting(group.RaftGroup.transfer_leadership)
    wait_for_leader = awaiting(group.RaftGroup.wait_for_leader)
    status = awaiting(in_loop(group.RaftGroup.status))
    figures = awaiting(in_loop(group.RaftGroup.figures))
    obstacle = awaiting(in_loop(group.RaftGroup.obstacle))
    submit = awaiting(in_loop(group.RaftGroup.submit))
    subscribe = awaiting(in_loop(group.RaftGroup.subscribe))
