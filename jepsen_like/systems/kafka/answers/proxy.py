"""Sockets and time around `AnswerDesk`: a port for each broker, and a conversation for each connection to it."""

import contextlib
import logging
import math
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port.answers import Answers
from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.answers.conversation import (
    AnswerDesk,
    Close,
    Effect,
    Event,
    FromBroker,
    FromClient,
    TimePassed,
    ToBroker,
    ToClient,
)
from jepsen_like.systems.kafka.answers.rules import AnswerRule, Rules
from raft.net.decoder import Buffer

logger = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 256 * 1024
WAITING_BYTES_MAX: Final = 1024 * 1024
"""With more on its way to one side, the other is not read."""
JOINED_BYTES: Final = 64 * 1024
BACKLOG: Final = 256
CONNECTIONS_MAX: Final = 2000
BROKERS_MAX: Final = 1000
DIAL_WITHIN_S: Final = 30.0
LINGER_RESET: Final = struct.pack("ii", 1, 0)


class AnswerProxy(Answers):
    """A port of its own for each broker that it knows. Runs in `serve`, until cancelled."""

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        advertised: str | None = None,
        rewrites: bool = False,
        on_trouble: Callable[[str], None] = lambda line: None,
        names: Callable[[], Awaitable[Mapping[bytes, str]]] | None = None,
    ) -> None:
        """Listens on `host`. With `rewrites` answers carry its own ports, at `advertised`, instead of the brokers'.

        `on_trouble` gets a line for each connection that it had to end; `names` finds the topics of ids that no answer
        has told yet.
        """
        self._names = names
        self.rules = Rules()
        self.topic_names: dict[bytes, str] = {}
        self.ports: dict[Address, int] = {}
        self._host = host
        self._advertised = advertised or host
        self._rewrites = rewrites
        self._on_trouble = on_trouble
        self._fresh, self._opened = trio.open_memory_channel[tuple[Address, socket.socket]](math.inf)
        self._links = set[_Link]()

    def listen(self, broker: Address, port: int = 0) -> int:
        """Returns the port that leads to this broker, opened now if it is new. Raises `OSError` if it cannot be."""
        if broker not in self.ports:
            if len(self.ports) >= BROKERS_MAX:
                raise OSError(f"over {BROKERS_MAX} brokers")
            listener = socket.create_server((self._host, port), backlog=BACKLOG)
            self.ports[broker] = int(listener.getsockname()[1])
            self._fresh.send_nowait((broker, listener))
        return self.ports[broker]

    def translate(self, host: str, port: int) -> Address:
        """Returns the address at which clients reach this broker through the proxy."""
        return self._advertised, self.listen((host, port))

    async def serve(self) -> None:
        """See `Answers.serve`: carry everything until cancelled; then every port and connection is closed."""
        async with trio.open_nursery() as nursery:
            async for broker, listener in self._opened:
                nursery.start_soon(self._accept, broker, listener)

    async def add(self, rule: AnswerRule) -> None:
        """Follow this wish from now on. Raises `WrongAnswer` if there are too many."""
        if rule.topic is not None and self._names is not None:
            self.topic_names.update(await self._names())
        self.rules.add(rule)

    async def ask(self, words: Mapping[str, Any]) -> str:
        """See `Answers.ask`."""
        rule = AnswerRule.from_words(words)
        await self.add(rule)
        return f"answer {rule}"

    def lines(self) -> list[str]:
        """See `Answers.lines`."""
        return [f"answer {rule}" for rule in self.rules.rules]

    def list_all(self) -> list[dict[str, Any]]:
        """See `Answers.list_all`."""
        return [rule.as_json() for rule in self.rules.rules]

    def undo(self, rule: AnswerRule) -> None:
        """End this wish: what it held back leaves at once."""
        rule.is_undone = True
        self._look_again()

    def undo_all(self) -> int:
        """See `Answers.undo_all`; what was held back leaves at once."""
        ended = [
            rule for rule in self.rules.rules if not rule.is_undone and (rule.delay_s is not None or not rule.is_spent)
        ]
        for rule in ended:
            rule.is_undone = True
        self._look_again()
        return len(ended)

    def _look_again(self) -> None:
        for link in tuple(self._links):
            link.on_event(TimePassed())

    async def _accept(self, broker: Address, listener: socket.socket) -> None:
        async with trio.open_nursery() as nursery:
            with trio.socket.from_stdlib_socket(listener) as accepting:
                while True:
                    try:
                        accepted, _ = await accepting.accept()
                    except OSError as error:  # out of descriptors, or a client that left at once
                        logger.debug("cannot accept: %s", error)
                        await trio.sleep(0.05)
                        continue
                    if len(self._links) >= CONNECTIONS_MAX:
                        _reset(accepted)
                        self._on_trouble(f"a connection was refused: {CONNECTIONS_MAX} are open")
                        continue
                    nursery.start_soon(self._carry, broker, accepted)

    async def _carry(self, broker: Address, near: trio.socket.SocketType) -> None:
        far: trio.socket.SocketType | None = None
        link: _Link | None = None
        try:
            with trio.move_on_after(DIAL_WITHIN_S):
                far = await _dial(broker)
            if far is None:
                return
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            translate = self.translate if self._rewrites else None
            link = _Link(AnswerDesk(self.rules, self.topic_names, translate), near, far)
            self._links.add(link)
            await link.run()
            if link.trouble:
                self._on_trouble(f"the connection to {broker[0]}:{broker[1]} was ended: {link.trouble}")
        except OSError as error:
            logger.debug("a connection to %s ended: %s", broker, error)
        finally:
            self._links.discard(link) if link is not None else None
            for end in (near, far):
                if end is not None and (link is None or link.is_broken):
                    _reset(end)
                elif end is not None:
                    end.close()


class _Outbox:
    """Bytes on their way to one side, in order."""

    def __init__(self, end: trio.socket.SocketType) -> None:
        self.end = end
        self.waiting_bytes = 0
        self.is_finished = False
        self._pieces = deque[Buffer]()
        self._news = trio.Event()

    def put(self, pieces: tuple[Buffer, ...]) -> None:
        self._pieces.extend(pieces)
        self.waiting_bytes += sum(map(len, pieces))
        self._news.set()

    def finish(self) -> None:
        """Nothing comes after what is in it."""
        self.is_finished = True
        self._news.set()

    async def send(self, on_sent: Callable[[], None]) -> None:
        """Send until it is finished."""
        while self._pieces or not self.is_finished:
            if not self._pieces:
                self._news = trio.Event()
                await self._news.wait()
                continue
            chunk = self._join()
            view = memoryview(chunk)
            while view:
                view = view[await self.end.send(view) :]
            self.waiting_bytes -= len(chunk)
            on_sent()

    def _join(self) -> Buffer:
        """Short pieces leave together."""
        first = self._pieces.popleft()
        if len(first) >= JOINED_BYTES:
            return first
        pieces, size = [first], len(first)
        while self._pieces and size + len(self._pieces[0]) <= JOINED_BYTES:
            pieces.append(self._pieces.popleft())
            size += len(pieces[-1])
        return b"".join(pieces)


class _Link:
    """One connection: two sockets and what is decided between them."""

    def __init__(self, conversation: AnswerDesk, near: trio.socket.SocketType, far: trio.socket.SocketType) -> None:
        self.trouble = ""
        self.is_broken = False
        self._conversation = conversation
        self._near, self._far = near, far
        self._to_client, self._to_broker = _Outbox(near), _Outbox(far)
        self._changed = trio.Event()

    async def run(self) -> None:
        """Carry until one side ends, or the conversation is over."""
        async with trio.open_nursery() as nursery:

            async def receive(
                end: trio.socket.SocketType, may_read: Callable[[], bool], event: Callable[..., Event]
            ) -> None:
                while True:
                    while not may_read():
                        await self._changed.wait()
                    chunk = await end.recv(RECEIVE_BYTES)
                    if not chunk:
                        break
                    self.on_event(event(chunk))
                self._to_client.finish()

            async def send_to_client() -> None:
                await self._to_client.send(self._on_change)
                with trio.move_on_after(1):  # what was decided before the end is the broker's, too
                    while self._to_broker.waiting_bytes:
                        await self._changed.wait()
                nursery.cancel_scope.cancel()

            async def guard(task: Callable[..., object], *arguments: object) -> None:
                try:
                    await task(*arguments)  # type: ignore[misc]
                except OSError:
                    self.is_broken = True
                    nursery.cancel_scope.cancel()

            nursery.start_soon(guard, receive, self._near, self._may_read_client, FromClient)
            nursery.start_soon(guard, receive, self._far, self._may_read_broker, FromBroker)
            nursery.start_soon(guard, send_to_client)
            nursery.start_soon(guard, self._to_broker.send, self._on_change)
            nursery.start_soon(self._wake)

    def on_event(self, event: Event) -> None:
        """Something happened, or may be due."""
        self._carry_out(self._conversation.step(trio.current_time(), event))
        self._on_change()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToClient(pieces):
                    self._to_client.put(pieces)
                case ToBroker(pieces):
                    self._to_broker.put(pieces)
                case Close(reason):
                    self.trouble = reason
                    self._to_client.finish()

    def _may_read_client(self) -> bool:
        return self._conversation.reads_client and self._to_broker.waiting_bytes < WAITING_BYTES_MAX

    def _may_read_broker(self) -> bool:
        return self._conversation.reads_broker and self._to_client.waiting_bytes < WAITING_BYTES_MAX

    def _on_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wake(self) -> None:
        while True:
            changed = self._changed
            with trio.move_on_at(self._conversation.wakes_at) as scope:
                await changed.wait()
            if scope.cancelled_caught:
                self.on_event(TimePassed())


async def _dial(broker: Address) -> trio.socket.SocketType | None:
    """Returns a connection; None if the broker refuses it."""
    with contextlib.suppress(OSError):
        stream = await trio.open_tcp_stream(*broker)
        return stream.socket
    return None


def _reset(end: trio.socket.SocketType) -> None:
    """Close it as a refusal or an end without warning does."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    end.close()
