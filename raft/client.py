"""A client of the native protocol. It knows the wire and nothing of the node behind it.

    async with Connection.open("127.0.0.1", 4001, "demo") as connection:
        appended = await connection.append([b"one", b"two"])

Every call is one attempt, and what it returns or raises is its outcome: a value (committed), a *definite* error
(certainly not done), or `OutcomeUnknown` (it may be done, now or later). A connection that breaks, or an invalid
answer, leaves what was under way unknown; reads, which change nothing, may simply be repeated.

`Client` follows leader hints over a list of addresses and repeats an attempt only after a definite error; that a read
was not answered is one, since it changes nothing. It never repeats an append whose outcome is unknown, because only the
caller knows whether a duplicate matters.

No background task: of the calls that wait on one connection, one reads the socket for all.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

from raft import client_codec
from raft.addresses import is_address
from raft.admission import Greeting
from raft.client_codec import CLIENT, Hello, HelloReply, Reply, check_change, check_command, check_read
from raft.errors import (
    InvalidRequest,
    NotAdmitted,
    NotAllowed,
    NotLeader,
    OutcomeUnknown,
    ProtocolError,
    RaftError,
    RecordsTrimmed,
)
from raft.membership import Change
from raft.model import NodeId
from raft.net.certificates import Certificates
from raft.net.dialing import dial
from raft.net.framing import Frame, FrameDecoder
from raft.net.tls_socket import StreamSocket, TlsSocket
from raft.record_batch import pack_batch
from raft.results import Appended, Applied, Records, Tail
from raft.secret_file import credentials_of
from raft.trust import ADMIN, ANY, SecretSource

FRAME_OVERHEAD_BYTES = 1024
RECEIVE_BYTES = 64 * 1024
REPLY_BYTES_MAX = 512 * 1024 * 1024
"""The largest frame body of an answer: a server announces what it accepts, not what it sends."""
DEFAULT_READ_BYTES = 1024 * 1024

_FINAL = (InvalidRequest, NotAdmitted, NotAllowed, ProtocolError, RecordsTrimmed)
"""Definite errors that recur, wherever and however often one asks."""

T = TypeVar("T")
ReplyT = TypeVar("ReplyT", Appended, Records, Tail, Applied)


@attrs.define
class Unreachable(RaftError):
    """No connection could be made, or none that lasted until a read was answered: nothing was done."""

    address: str
    detail: str

    def __str__(self) -> str:
        return f"no connection to {self.address}: {self.detail}"


def client_is_closed(address: str = "the group") -> Unreachable:
    """Returns the error that calls of a closed client raise."""
    return Unreachable(address, "this client is closed")


class _Call:
    """One request under way."""

    __slots__ = ("reply", "woken")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.woken: trio.Event | None = None


class Connection:
    """One connection to one node; any number of tasks may call at once. Made by `open`."""

    def __init__(self, connected: StreamSocket, address: str) -> None:
        """Use `open`."""
        self.address = address
        self.node_id = 0
        """The id of the node that answered the handshake."""
        self._socket = connected
        self._decoder = FrameDecoder(REPLY_BYTES_MAX)
        self._calls: dict[int, _Call] = {}
        self._last_id = 0
        self._has_reader = False
        self._broken: str | None = None
        self._sending = trio.StrictFIFOLock()
        self._batch_bytes_max = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        host: str,
        port: int,
        cluster_id: str,
        *,
        timeout_s: float = 5.0,
        secret: SecretSource | None = None,
        tls: Certificates | None = None,
    ) -> AsyncIterator["Connection"]:
        """Connect and complete the handshake; the connection is closed at the end of the block.

        With `secret`, that of the cluster, both sides prove first that they know it. Raises `Unreachable` if all that
        does not succeed within `timeout_s`, `NotAdmitted` if the node wants the proof of another secret,
        `ProtocolError` if it refuses for any other reason or proves nothing itself.
        """
        connection = await cls.connect(host, port, cluster_id, timeout_s=timeout_s, secret=secret, tls=tls)
        try:
            yield connection
        finally:
            connection.close()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        cluster_id: str,
        *,
        timeout_s: float = 5.0,
        secret: SecretSource | None = None,
        tls: Certificates | None = None,
    ) -> "Connection":
        """Returns a connection, made as by `open`, that the caller must `close`. Raises the same errors."""
        address = f"{host}:{port}"
        try:
            with trio.fail_after(timeout_s):
                connection = cls(await dial(host, port, tls), address)
                try:
                    await connection._shake_hands(cluster_id, secret)
                except BaseException:
                    connection.close()
                    raise
                return connection
        except trio.TooSlowError:
            raise Unreachable(address, f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            raise Unreachable(address, error.strerror or str(error)) from None

    def close(self) -> None:
        """Close the connection; calls under way raise `OutcomeUnknown`."""
        if self._broken is None:
            self._break("this side closed it")

    @property
    def is_open(self) -> bool:
        """True while the connection can still be used."""
        return self._broken is None

    def is_alive(self) -> bool:
        """Returns True if the connection is open, after a look at the socket for a node that has closed its side."""
        if self._broken is None and not self._has_reader:
            try:
                chunk = self._socket.recv(RECEIVE_BYTES)
                if chunk:
                    self._take(self._decoder.feed(chunk))  # answers to calls that were cancelled
                else:
                    self._break("the node closed it")
            except BlockingIOError:
                pass
            except ProtocolError as error:
                self._break(str(error))
            except OSError as error:
                self._break(error.strerror or str(error))
        if self._decoder.failure is not None:
            self._break(str(self._decoder.failure))
        return self._broken is None

    async def _shake_hands(self, cluster_id: str, secret: SecretSource | None) -> None:
        credentials = None if secret is None else credentials_of(secret, cluster_id, secret.now().role or ADMIN)
        greeting = Greeting(lambda: Hello(cluster_id, CLIENT, 0), ANY, credentials)
        reply: bytes | HelloReply = greeting.begin()
        while isinstance(reply, bytes):
            reply = greeting.answer(await self._greet(reply))
        self.node_id = reply.node_id
        self._batch_bytes_max = reply.frame_bytes_max - FRAME_OVERHEAD_BYTES

    async def _greet(self, message: bytes) -> Frame:
        """Returns the answer to a message of the handshake."""
        await self._send(message)
        if self._broken is not None:
            raise Unreachable(self.address, self._broken)
        frames: list[Frame] = []
        while not frames:
            frames = await self._receive()
        return frames[0]

    # ---------------------------------------------------------------- requests

    async def append(self, records: Sequence[bytes]) -> Appended:
        """Append records, which get consecutive offsets. Returns once they are committed.

        Raises `NotLeader`, `Busy`, `StorageFull`, `InvalidRequest`, `ShuttingDown` or `Unreachable` if nothing was
        appended, and `OutcomeUnknown` if the records may have been appended.
        """
        return await self.append_batch(pack_batch(records))

    async def append_batch(self, batch: bytes) -> Appended:
        """Like `append`, for a batch made by `pack_batch`, for callers that send the same one often."""
        self._require_fit("a batch", batch)
        return await self._ask(lambda request_id: client_codec.encode_append(request_id, batch), Appended)

    async def read(self, offset: int, bytes_max: int = DEFAULT_READ_BYTES) -> Records:
        """Returns committed entries from the one that holds `offset` on; none from the committed end on.

        Raises `RecordsTrimmed`, which contains the start of the log, if its retention removed the records.
        """
        check_read(offset, bytes_max)
        return await self._ask(lambda request_id: client_codec.encode_read(request_id, offset, bytes_max), Records)

    async def tail(self) -> Tail:
        """Returns the committed end, linearizably."""
        return await self._ask(lambda request_id: client_codec.encode_bare(client_codec.TAIL, request_id), Tail)

    async def apply(self, command: bytes, *, read_only: bool = False) -> Applied:
        """Returns the result of a command of the state machine, or of a query if `read_only`.

        Raises as `append` does.
        """
        check_command(command)
        self._require_fit("a command", command)
        return await self._ask(
            lambda request_id: client_codec.encode_apply(request_id, command, read_only=read_only), Applied
        )

    async def change_members(self, change: Change) -> Applied:
        """Change the members of the group. Returns once that is committed, with its index.

        Raises `Busy` while another change is under way or a node does not keep up, `InvalidRequest` if the change does
        not fit the members, and else as `append` does.
        """
        return await self._change(change)

    async def transfer_leadership(self, node: int) -> Applied:
        """Have `node` lead. Returns once this node's leadership has ended after it has asked the other to take over.

        Raises as `change_members` does; `OutcomeUnknown` also if nothing has come of it within an election timeout.
        """
        return await self._change(NodeId(node))

    async def _change(self, change: Change | NodeId) -> Applied:
        check_change(change)
        return await self._ask(lambda request_id: client_codec.encode_change(request_id, change), Applied)

    async def status(self) -> dict[str, object]:
        """Returns the node's status: its role, term, log and group."""
        reply = await self._call(lambda request_id: client_codec.encode_bare(client_codec.STATUS, request_id))
        if not isinstance(reply, dict):
            raise self._nonsense(reply)
        return reply

    def _require_fit(self, what: str, data: bytes) -> None:
        """A frame that is too large would make the node close the connection, with all calls that share it."""
        if len(data) > self._batch_bytes_max:
            raise InvalidRequest(f"{what} of {len(data)} bytes is over the node's bound of {self._batch_bytes_max}")

    async def _ask(self, encode: Callable[[int], bytes], expected: type[ReplyT]) -> ReplyT:
        reply = await self._call(encode)
        if not isinstance(reply, expected):
            raise self._nonsense(reply)
        return reply

    def _nonsense(self, reply: object) -> OutcomeUnknown:
        self._break(f"it answered with {type(reply).__name__}, which was not asked for")
        return self._unknown()

    async def _call(self, encode: Callable[[int], bytes]) -> Reply:
        """Send a request and wait for its reply; raises the error that the reply may be."""
        if self._broken is not None:
            raise Unreachable(self.address, self._broken)
        self._last_id += 1
        request_id = self._last_id
        call = self._calls[request_id] = _Call()
        try:
            await self._send(encode(request_id))
            await self._wait_for(call)
        finally:
            self._calls.pop(request_id, None)
        if call.reply is None:
            raise self._unknown()
        if isinstance(call.reply, RaftError):
            raise call.reply
        return call.reply

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(f"the connection to {self.address} broke: {self._broken}")

    # ---------------------------------------------------------------- the socket

    async def _send(self, frame: bytes) -> None:
        """Frames leave whole and in order; most take one system call and no wait."""
        sent = 0
        if not self._sending.locked():
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                pass
            except OSError as error:
                self._break(error.strerror or str(error))
                return
        if sent < len(frame):
            await self._send_slowly(memoryview(frame), sent)

    async def _send_slowly(self, frame: memoryview, sent: int) -> None:
        try:
            async with self._sending:
                while sent < len(frame) and self._broken is None:
                    try:
                        await trio.lowlevel.wait_writable(self._socket)
                        sent += self._socket.send(frame[sent:])
                    except BlockingIOError:
                        continue
                    except OSError as error:
                        self._break(error.strerror or str(error))
                    except trio.ClosedResourceError:
                        break  # closed by another task, which recorded the reason
        finally:
            if sent < len(frame) and (sent or isinstance(self._socket, TlsSocket)):
                # Cancelled within the frame, which TLS has perhaps sealed: what follows would be taken for its rest.
                self._break("a request was cancelled while it was being sent")

    async def _wait_for(self, call: _Call) -> None:
        """Wait until `call` has its reply or the connection is broken. The first of the waiting calls reads for all."""
        while call.reply is None and self._broken is None:
            if self._has_reader:
                call.woken = trio.Event()
                try:
                    await call.woken.wait()
                except BaseException:
                    self._wake_another(call)  # perhaps it was this call that the last reader chose
                    raise
                continue
            self._has_reader = True
            goes_on = False
            try:
                self._take(await self._receive())
                goes_on = call.reply is None
            except ProtocolError as error:
                self._break(str(error))
            except OSError as error:
                self._break(error.strerror or str(error))
            except trio.ClosedResourceError:
                pass  # closed by another task, which recorded the reason
            finally:
                self._has_reader = False
                if not goes_on:
                    self._wake_another(call)

    def _wake_another(self, done: _Call) -> None:
        """Wake another waiting call to read the socket, unless one is reading."""
        if self._has_reader:
            return
        for call in self._calls.values():
            if call is not done and call.reply is None and call.woken is not None:
                call.woken.set()
                return

    async def _receive(self) -> list[Frame]:
        """Returns the frames in the next bytes to arrive. Raises `ProtocolError` or `OSError` if there will be none."""
        while True:
            if self._decoder.failure is not None:
                raise ProtocolError.of(self._decoder.failure)  # the frames before the fault have been given out
            await trio.lowlevel.wait_readable(self._socket)
            try:
                chunk = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            break
        if not chunk:
            raise ConnectionResetError(0, "the node closed it")
        return self._decoder.feed(chunk)

    def _take(self, frames: list[Frame]) -> None:
        for message_type, body, _ in frames:
            request_id, reply = client_codec.decode_reply(message_type, body)
            if request_id == 0 and isinstance(reply, RaftError):
                raise reply if isinstance(reply, ProtocolError) else ProtocolError(str(reply))
            if request_id > self._last_id:
                raise ProtocolError("it answered a request that was never made")
            call = self._calls.get(request_id)
            if call is None:
                continue  # the call was cancelled
            call.reply = reply
            if call.woken is not None:
                call.woken.set()

    def _break(self, reason: str) -> None:
        if self._broken is None:
            self._broken = reason
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            for call in self._calls.values():
                if call.woken is not None:
                    call.woken.set()


@attrs.frozen
class Attempt:
    """One attempt of a call of `Client`: which address, and how it ended (`None`: well)."""

    number: int
    address: str
    error: RaftError | None


OnAttempt = Callable[[Attempt], None]


def ignore_attempt(attempt: Attempt) -> None:
    """The default for `on_attempt`: does nothing."""


class Client:
    """Finds the leader among `addresses` ("host:port") and keeps a connection to each node it has talked to.

    A call is repeated only after a definite error that need not recur at another node or a little later (`NotLeader`,
    `Busy`, `Unreachable`, ...), until `deadline_s` has passed: then the last error is raised, or `OutcomeUnknown` if a
    node has been asked to append or apply and does not answer; a read that is not answered raises `Unreachable`. Use as
    `async with`; any number of tasks may call at once. Where the cluster has a `secret`, its clients need the same one
    (`raft.read_secret`), else they get `NotAdmitted`; with that of a role `NotAllowed` for what is beyond it. Raises `ValueError` or `TypeError` if `addresses` are not addresses.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        cluster_id: str,
        *,
        deadline_s: float = 10.0,
        connect_timeout_s: float = 1.0,
        retry_pause_s: float = 0.05,
        secret: SecretSource | None = None,
        tls: Certificates | None = None,
    ) -> None:
        if isinstance(addresses, str):
            raise TypeError(f"addresses must be a list of HOST:PORT, not the string {addresses!r}")
        if not addresses:
            raise ValueError("a client needs at least one address")
        for address in addresses:
            if not is_address(address):
                raise ValueError(f"not HOST:PORT: {address!r}")
        self._addresses = list(addresses)
        self._cluster_id = cluster_id
        self._secret = secret
        self._deadline_s = deadline_s
        self._connect_timeout_s = connect_timeout_s
        self._retry_pause_s = retry_pause_s
        self._tls = tls
        self._connections: dict[str, Connection] = {}
        self._target = self._addresses[0]
        self._closed = False

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection: calls under way raise `OutcomeUnknown`, later ones `Unreachable`."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def append(self, records: Sequence[bytes], *, on_attempt: OnAttempt = ignore_attempt) -> Appended:
        """Append records, which get consecutive offsets; returns once they are committed."""
        batch = pack_batch(records)
        return await self._repeat(lambda connection: connection.append_batch(batch), on_attempt)

    async def read(
        self, offset: int, bytes_max: int = DEFAULT_READ_BYTES, *, on_attempt: OnAttempt = ignore_attempt
    ) -> Records:
        """Returns committed entries from the one that holds `offset` on; none from the committed end on.

        Raises `RecordsTrimmed`, which contains the start of the log of the node that was asked, if the records have
        left that log by its retention. The read is not repeated elsewhere: other logs will soon be trimmed as well.
        """
        check_read(offset, bytes_max)
        return await self._repeat(lambda connection: connection.read(offset, bytes_max), on_attempt, is_read=True)

    async def tail(self, *, on_attempt: OnAttempt = ignore_attempt) -> Tail:
        """Returns where the committed log ends: at or after the end of every append answered before this call."""
        return await self._repeat(lambda connection: connection.tail(), on_attempt, is_read=True)

    async def apply(self, command: bytes, *, on_attempt: OnAttempt = ignore_attempt) -> Applied:
        """Returns the result of a command that the replicated state machine has carried out."""
        check_command(command)
        return await self._repeat(lambda connection: connection.apply(command), on_attempt)

    async def query(self, command: bytes, *, on_attempt: OnAttempt = ignore_attempt) -> Applied:
        """Returns the state machine's answer to a query, linearizably."""
        check_command(command)
        return await self._repeat(
            lambda connection: connection.apply(command, read_only=True), on_attempt, is_read=True
        )

    async def change_members(self, change: Change, *, on_attempt: OnAttempt = ignore_attempt) -> Applied:
        """Change the members of the group: `AddLearner`, `Promote`, `Remove` or `ChangeVoters`.

        Returns once the change is committed. One that has been made already is, too.
        """
        return await self._repeat(lambda connection: connection.change_members(change), on_attempt)

    async def transfer_leadership(self, node: int, *, on_attempt: OnAttempt = ignore_attempt) -> Applied:
        """Have `node` lead, which must be a voter. Returns once the leader before it has handed over."""
        return await self._repeat(lambda connection: connection.transfer_leadership(node), on_attempt)

    async def status(self) -> dict[str, object]:
        """Returns the status of one node that can be reached: its role, term, log and group."""
        return await self._repeat(lambda connection: connection.status(), ignore_attempt, is_read=True)

    async def _repeat(
        self, call: Callable[[Connection], Awaitable[T]], on_attempt: OnAttempt, *, is_read: bool = False
    ) -> T:
        give_up_at = trio.current_time() + self._deadline_s
        number = 0
        while True:
            number += 1
            address = self._target
            try:
                result = await self._attempt(call, address, give_up_at, is_read=is_read)
            except RaftError as error:
                on_attempt(Attempt(number, address, error))
                if isinstance(error, _FINAL) or self._closed:
                    raise
                pause_s = 0.0 if self._follow(address, error) else self._retry_pause_s
                # No attempt is made without time for its answer, because it would turn a definite error into an unknown
                # outcome.
                if not error.definite or trio.current_time() + pause_s >= give_up_at:
                    raise
                await trio.sleep(pause_s)
                if trio.current_time() >= give_up_at:
                    raise  # a busy machine sleeps longer: there is no time left to find out more than this
            else:
                on_attempt(Attempt(number, address, None))
                return result

    async def _attempt(
        self, call: Callable[[Connection], Awaitable[T]], address: str, give_up_at: float, *, is_read: bool
    ) -> T:
        connection = await self._connection_to(address, give_up_at)
        if trio.current_time() >= give_up_at:
            raise Unreachable(address, f"not connected within {self._deadline_s:g} s")
        try:
            with trio.move_on_at(give_up_at):
                return await call(connection)
            raise OutcomeUnknown(f"{address} did not answer within {self._deadline_s:g} s")
        except OutcomeUnknown as error:
            if is_read:
                raise Unreachable(address, error.detail) from None
            raise

    def _follow(self, address: str, error: RaftError) -> bool:
        """Choose the address to try next. Returns whether it is that of a leader hint, so that no pause is needed."""
        if isinstance(error, NotLeader) and is_address(error.address) and error.address != address:
            self._target = error.address
            return True
        if self._target == address:  # else another task has chosen already
            at = self._addresses.index(address) if address in self._addresses else -1
            self._target = self._addresses[(at + 1) % len(self._addresses)]
        return False

    async def _connection_to(self, address: str, give_up_at: float) -> Connection:
        self._require_open(address)
        connection = self._connections.get(address)
        if connection is None or not connection.is_alive():
            host, _, port = address.rpartition(":")
            timeout_s = min(self._connect_timeout_s, max(0.0, give_up_at - trio.current_time()))
            made = await Connection.connect(
                host.strip("[]"), int(port), self._cluster_id, timeout_s=timeout_s, secret=self._secret, tls=self._tls
            )
            connection = self._connections.get(address)
            if self._closed or (connection is not None and connection.is_open):
                made.close()  # another task was quicker
                self._require_open(address)
            else:
                connection = self._connections[address] = made
        assert connection is not None
        return connection

    def _require_open(self, address: str) -> None:
        if self._closed:
            raise client_is_closed(address)
