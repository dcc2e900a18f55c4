"""Clients of ZooKeeper in Trio: a session with one server, with one request under way at a time.

Plain reads of ZooKeeper come from the server that is asked, which may lag behind. So a read here first writes a node of its
own: the write is committed, and a server carries out what one session asks in order, so what is read then is current.
"""

import contextlib
import itertools
from typing import Final

import attrs
import trio

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.connection import BROKEN, ForeignConnection
from jepsen_like.systems.zookeeper import wire
from jepsen_like.systems.zookeeper.wire import Answer, Code, NodeData, WrongFrame
from jepsen_like.workload.load import Ending, TryLater

SESSION_MS: Final = 40_000
BARRIER: Final = "/barrier"
"""The node that is written before each read."""
SWAPS_MAX: Final = 4


@attrs.define
class ErrorCoded(Exception):
    """The server answered with an error, by the protocol's number."""

    code: int


@attrs.define
class Overtaken(Exception):
    """Each time that a value was about to be replaced, another client was first: nothing was changed."""


@attrs.define
class SessionRefused(Exception):
    """The server gave no session."""


class ZooConnection(ForeignConnection):
    """One session, which ends by its timeout once the connection is closed."""

    def __init__(self, stream: trio.SocketStream, address: Address) -> None:
        super().__init__(stream, address)
        self._received = bytearray()
        self._xids = itertools.count(1)

    async def _begin(self) -> None:
        """Raises `SessionRefused`."""
        await self._stream.send_all(wire.begin_session(SESSION_MS))
        if not wire.session_of(await self._receive()):
            raise SessionRefused

    async def create(self, path: str) -> None:
        """Make a node, unless it is there. Raises `ErrorCoded`, or one of `UNREACHABLE`; so do all below."""
        xid = next(self._xids)
        with contextlib.suppress(_Exists):
            await self._ask(xid, wire.create(xid, path))

    async def write(self, path: str, data: bytes, version: int = wire.LATEST) -> None:
        """Replace a node's data."""
        xid = next(self._xids)
        await self._ask(xid, wire.set_data(xid, path, data, version))

    async def read(self, path: str) -> NodeData:
        """Returns the current data of a node."""
        await self.write(BARRIER, b"")
        xid = next(self._xids)
        return wire.node_data_of((await self._ask(xid, wire.get_data(xid, path))).body)

    async def swap(self, path: str, expected: bytes, new: bytes) -> bytes:
        """Replace data that is the expected one; returns what was found. Raises `Overtaken`, too."""
        for _ in range(SWAPS_MAX):
            found = await self.read(path)
            if found.data != expected:
                return found.data
            try:
                await self.write(path, new, found.version)
            except ErrorCoded as error:
                if error.code != Code.BAD_VERSION:
                    raise
            else:
                return expected
        raise Overtaken

    async def _ask(self, xid: int, request: bytes) -> Answer:
        is_answered = False
        try:
            await self._stream.send_all(request)
            answer = wire.answer_of(await self._receive())
            if answer.xid != xid:
                raise WrongFrame(f"an answer to {answer.xid}, not to {xid}")
            is_answered = True
        finally:
            if not is_answered:
                self.close()
        if answer.error == Code.NODE_EXISTS:
            raise _Exists(answer.error)
        if answer.error != Code.OK:
            raise ErrorCoded(answer.error)
        return answer

    async def _receive(self) -> bytes:
        while (frame := wire.take_frame(self._received)) is None:
            self._received += await self._read()
        return frame


class _Exists(ErrorCoded):
    """The node is there."""


UNREACHABLE: Final = (*BROKEN, WrongFrame)
"""The errors of a connection that does not work."""
ERRORS: Final = (*UNREACHABLE, ErrorCoded, Overtaken, SessionRefused)


def ending_of(error: Exception, *, connection_lost: bool) -> Ending:
    """Returns the meaning of an operation's error. `FAIL` only where nothing can have been changed."""
    match error:
        case Overtaken():
            return Ending(Outcome.FAIL, ErrorCode.BUSY, TryLater())
        case ErrorCoded(Code.NO_NODE):
            return Ending(Outcome.FAIL, ErrorCode.INVALID_REQUEST)
        case WrongFrame():
            return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
        case _:
            return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST if connection_lost else ErrorCode.UNKNOWN_OUTCOME)
