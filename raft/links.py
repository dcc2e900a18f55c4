"""Outgoing links: for every peer one connection that this node dials and keeps alive, carrying its messages one way.

A link is up once the peer has answered the handshake with the expected node id; where the cluster has a secret, both
prove first that they know it (`raft.admission`). What is sent while it is down is dropped: Raft repeats what matters,
and old messages only delay new ones. While it is up, messages wait for the socket up to `outbound_bytes_max`; then the
*newest* is dropped, since what follows from the older ones is of use without it but not the other way round. (Each is
one frame, so the bound in bytes bounds their number too.)

A broken link is reported to the driver at once, as is a broken incoming connection: a dead process is found by its
closed sockets long before a timeout. Redials wait (`raft.net.redial`); a peer that dials us is evidently alive and is
dialled back without waiting. A peer may be one of whom this node has yet to learn, since its own knowledge of the
members is old or gone. Such a peer is dialled at the address that it gives, as long as it stays connected.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import attrs
import trio

from raft.addresses import address_of
from raft.admission import Greeting
from raft.client_codec import HELLO_BYTES_MAX, PEER, Hello
from raft.codec import encode_message
from raft.errors import ProtocolError, RaftError
from raft.membership import MEMBERS_MAX
from raft.messages import AppendEntries, Message
from raft.model import NodeId
from raft.net.certificates import Certificates
from raft.net.connection import Session, SocketConnection
from raft.net.decoder import Buffer
from raft.net.dialing import dial_within
from raft.net.framing import HEADER, Frame, FrameDecoder
from raft.net.reactor import Reactor
from raft.net.redial import Redial
from raft.net.tls import TlsFailed
from raft.net.tls_socket import StreamSocket
from raft.notices import FrameTooLarge, LinkDown, LinkRefused, LinkUp, Notify
from raft.trust import Credentials

HANDSHAKE_TIMEOUT_S = 2.0
LINGER_S = 2.0
"""Links to nodes that have left the group are ended this often: the last message to them has left by then."""


class Links:
    """The `Transport` of a node: encodes once what goes to several peers."""

    def __init__(
        self,
        *,
        reactor: Reactor,
        cluster_id: str,
        node_id: NodeId,
        addresses: Mapping[NodeId, tuple[str, int]],
        own_address: Callable[[], str],
        outbound_bytes_max: int,
        rng: random.Random,
        notify: Notify,
        credentials: Credentials | None = None,
        tls: Certificates | None = None,
    ) -> None:
        """`own_address` returns the address at which others dial this node, empty if it knows none."""

        def link_to(peer: NodeId, address: tuple[str, int]) -> PeerLink:
            return PeerLink(
                reactor=reactor,
                greeting=Greeting(lambda: Hello(cluster_id, PEER, node_id, own_address()), str(peer), credentials),
                peer=peer,
                dial=partial(dial_within, address, HANDSHAKE_TIMEOUT_S, tls=tls),
                outbound_bytes_max=outbound_bytes_max,
                rng=rng,
                notify=notify,
            )

        self._known = addresses
        self._dialled = dict(addresses)
        self._link_to = link_to
        self._links = {peer: link_to(peer, address) for peer, address in sorted(addresses.items())}
        self._wanted = set(self._links)
        self._met: set[NodeId] = set()
        self._scopes: dict[NodeId, trio.CancelScope] = {}
        self._start: Callable[[PeerLink], None] = lambda link: None
        self._reactor = reactor
        self._last_append: AppendEntries | None = None
        self._last_append_frame: Sequence[Buffer] = ()

    def send(self, to: NodeId, message: Message) -> None:
        """Send at the end of the round; drop if the link is down or full."""
        link = self._links.get(to)
        if link is not None and link.is_up:
            link.send(self._encode(message))

    def connect(self, peers: Sequence[NodeId], addresses: Mapping[NodeId, str], *, alone: bool) -> None:
        """See `Transport`. An address in the settings of this node comes before that of the configuration."""
        self._wanted = set(peers) if alone else self._wanted | set(peers)
        for peer in peers:
            if peer not in self._known and peer not in addresses:
                continue
            address = self._known.get(peer) or address_of(addresses[peer])
            if peer not in self._links or self._dialled.get(peer) != address:
                self._stop(peer)
                self._dial(peer, address)

    def _dial(self, peer: NodeId, address: tuple[str, int]) -> None:
        self._dialled[peer] = address
        link = self._links[peer] = self._link_to(peer, address)
        self._start(link)

    def push(self) -> None:
        """See `Transport`."""
        self._reactor.flush_urgent()

    def _encode(self, message: Message) -> Sequence[Buffer]:
        if type(message) is not AppendEntries:
            return encode_message(message)
        # Followers that keep up get one message, others often equal ones; entries compare by identity first.
        if message is not self._last_append and message != self._last_append:
            self._last_append_frame = encode_message(message)
            self._last_append = message
        return self._last_append_frame

    def meet(self, peer: NodeId, address: str) -> None:
        """The peer is alive: dial it now if it is not connected; an unknown one at the `address` that it has told."""
        if address and peer not in self._wanted and len(self._met) < MEMBERS_MAX:
            self._met.add(peer)
        if peer in self._links:
            self._links[peer].nudge()
        elif address and peer in self._met:
            self._dial(peer, address_of(address))

    def part(self, peer: NodeId) -> None:
        """The last connection of a peer has closed: it is dialled no more, unless it is a member."""
        self._met.discard(peer)

    async def run(self, on_disconnected: Callable[[NodeId], None]) -> None:
        """Keep all links, until cancelled. `on_disconnected` is called with the peer of each link that breaks."""
        async with trio.open_nursery() as nursery:

            def start(link: PeerLink) -> None:
                scope = self._scopes[link.peer] = trio.CancelScope()
                nursery.start_soon(self._keep, link, scope, on_disconnected)

            self._start = start
            for link in self._links.values():
                self._start(link)
            while True:
                await trio.sleep(LINGER_S)
                for peer in self._links.keys() - self._wanted - self._met:
                    self._stop(peer)

    @staticmethod
    async def _keep(link: "PeerLink", scope: trio.CancelScope, on_disconnected: Callable[[NodeId], None]) -> None:
        with scope:
            await link.run(on_disconnected)

    def _stop(self, peer: NodeId) -> None:
        """End the link, and dial no more."""
        self._links.pop(peer, None)
        self._dialled.pop(peer, None)
        self._scopes.pop(peer, trio.CancelScope()).cancel()


@attrs.define(eq=False, kw_only=True)
class PeerLink(Session[Frame]):
    """The connection to one peer, and the session on it."""

    reactor: Reactor
    greeting: Greeting
    peer: NodeId
    dial: Callable[[], Awaitable[StreamSocket | None]]
    """Returns a connection to the peer, or None if there is none. Raises `TlsFailed`."""
    outbound_bytes_max: int
    rng: random.Random
    notify: Notify
    is_up: bool = False
    frame_bytes_max: int = 0
    """The largest frame that the peer takes."""
    _on_disconnected: Callable[[NodeId], None] | None = None
    _connection: SocketConnection[Frame] | None = None
    _settled: trio.Event = attrs.field(factory=trio.Event)
    """The handshake has succeeded or failed."""
    _ended: trio.Event = attrs.field(factory=trio.Event)
    _redial: Redial = attrs.field(init=False)
    _why: str = ""

    def __attrs_post_init__(self) -> None:
        self._redial = Redial(self._session, self.rng)

    def send(self, frame: Sequence[Buffer]) -> None:
        """Queue a frame, given in pieces; only while the link is up."""
        assert self._connection is not None
        size = sum(map(len, frame))
        if size - HEADER.size > self.frame_bytes_max:
            # It would close the link, and come again with the next.
            self.notify(FrameTooLarge(self.peer, size, self.frame_bytes_max))
            return
        self._connection.write_pieces(frame)

    def nudge(self) -> None:
        """End the wait before the next dial."""
        self._redial.hurry()

    async def run(self, on_disconnected: Callable[[NodeId], None]) -> None:
        """Dial, stay, redial."""
        self._on_disconnected = on_disconnected
        await self._redial.run()

    async def _session(self) -> bool:
        """Hold one connection from dial to end. Returns True if it ever was up."""
        try:
            connected = await self.dial()
        except TlsFailed as error:
            self._note_refusal(str(error))
            return False
        if connected is None:
            return False
        self._open(connected)
        try:
            with trio.move_on_after(HANDSHAKE_TIMEOUT_S):
                await self._settled.wait()
            if not self.is_up:
                self._close("no answer to the handshake")
                return False
            await self._ended.wait()
            return True
        finally:
            self._close("the node stops")

    def _open(self, connected: StreamSocket) -> None:
        self._settled = trio.Event()
        self._ended = trio.Event()
        self._connection = SocketConnection(
            self.reactor,
            connected,
            FrameDecoder(HELLO_BYTES_MAX),
            self,
            outbound_bytes_max=self.outbound_bytes_max,
            lossy=True,
            urgent=True,
            name=f"to peer {self.peer}",
        )
        self._connection.write(self.greeting.begin())

    def _close(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.close(reason)

    # ---------------------------------------------------------------- the session

    def on_frames(self, frames: list[Frame]) -> None:
        """The answer to the handshake; but for an error before it closes the connection, a peer sends no more here."""
        for frame in frames:
            try:
                reply = self.greeting.answer(frame)
            except RaftError as error:
                raise ProtocolError(f"node {self.peer} refused the link: {error}") from None
            if isinstance(reply, bytes):
                assert self._connection is not None, "a frame came by it"
                self._connection.write(reply)
                continue
            if self.is_up or reply.node_id != self.peer:
                raise ProtocolError(f"node {reply.node_id} answered where node {self.peer} was expected")
            self.is_up = True
            self.frame_bytes_max = reply.frame_bytes_max
            self._settled.set()
            self.notify(LinkUp(self.peer))

    def on_closed(self, reason: str) -> None:
        """Tell the driver, and let `run` dial again."""
        if self.is_up:
            self.is_up = False
            assert self._on_disconnected is not None, "it was dialled by `run`"
            self._on_disconnected(self.peer)
            self.notify(LinkDown(self.peer, reason))
            self._why = reason
        else:
            self._note_refusal(reason)
        self._connection = None
        self._settled.set()
        self._ended.set()
        self.reactor.request_round()

    def _note_refusal(self, reason: str) -> None:
        """Note that the peer does not take the connection: it does so at every dial, and once is enough."""
        if reason != self._why:
            self.notify(LinkRefused(self.peer, reason))
        self._why = reason
