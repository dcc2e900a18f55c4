"""The links that a node dials to its peers."""

import random
import socket
from pathlib import Path

import pytest
import trio

from raft.client_codec import HelloReply, encode_hello_reply
from raft.codec import encode_message
from raft.links import Links
from raft.messages import InstallSnapshot, RequestPreVote
from raft.model import LogIndex, LogStart, NodeId, Offset, Position, Term
from raft.net import dialing
from raft.net.certificates import Certificates
from raft.net.dialing import dial
from raft.net.reactor import Reactor
from raft.net.tls_socket import StreamSocket
from raft.notices import Notice, event_of
from tests.raft.shell.nodes import local_cluster, until


async def test_a_link_whose_bytes_nobody_confirms_is_given_up_long_before_tcp_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[StreamSocket] = []

    async def record_dial(host: str, port: int, tls: Certificates | None) -> StreamSocket:
        dialled.append(await dial(host, port, tls))
        return dialled[-1]

    monkeypatch.setattr(dialing, "dial", record_dial)
    async with local_cluster(tmp_path, 2) as cluster:
        await until(lambda: len(cluster.notices("link_up")) == 2)
        bounds = [
            link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for link in dialled if link.fileno() >= 0
        ]
        assert set(bounds) == {5000}


async def test_what_is_pushed_has_left_before_the_round_ends() -> None:
    peer, reactor, up = NodeId(2), Reactor(), trio.Event()
    message = RequestPreVote(Term(1), LogIndex(0), Term(0))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        dialling = Links(
            reactor=reactor,
            cluster_id="quorumlog",
            node_id=NodeId(1),
            addresses={peer: listening.getsockname()},
            own_address=lambda: "",
            outbound_bytes_max=1 << 20,
            rng=random.Random(1),
            notify=lambda notice: up.set(),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            nursery.start_soon(dialling.run, lambda peer: None)
            accepted, _ = await trio.to_thread.run_sync(listening.accept)
            with accepted:
                await trio.to_thread.run_sync(accepted.recv, 4096)
                accepted.send(encode_hello_reply(HelloReply(peer, 1 << 20)))
                await up.wait()
                accepted.setblocking(False)
                dialling.send(peer, message)
                with pytest.raises(BlockingIOError):
                    accepted.recv(4096)
                dialling.push()
                assert accepted.recv(4096) == b"".join(encode_message(message))
                nursery.cancel_scope.cancel()
    reactor.close()


async def test_what_the_peer_would_refuse_is_not_sent_and_the_link_stays() -> None:
    peer, reactor, up, told = NodeId(2), Reactor(), trio.Event(), list[str]()

    def notify(notice: Notice) -> None:
        told.append(event_of(notice)[0])
        up.set()

    start = LogStart(Position(LogIndex(1), Term(1)), Offset(0), Position(LogIndex(1), Term(1)), b"s" * 200)
    message = RequestPreVote(Term(1), LogIndex(0), Term(0))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        dialling = Links(
            reactor=reactor,
            cluster_id="quorumlog",
            node_id=NodeId(1),
            addresses={peer: listening.getsockname()},
            own_address=lambda: "",
            outbound_bytes_max=1 << 20,
            rng=random.Random(1),
            notify=notify,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            nursery.start_soon(dialling.run, lambda peer: told.append("down"))
            accepted, _ = await trio.to_thread.run_sync(listening.accept)
            with accepted:
                await trio.to_thread.run_sync(accepted.recv, 4096)
                accepted.send(encode_hello_reply(HelloReply(peer, 200)))
                await up.wait()
                accepted.setblocking(False)
                dialling.send(peer, InstallSnapshot(Term(1), start, 1))
                dialling.send(peer, message)
                dialling.push()
                assert accepted.recv(4096) == b"".join(encode_message(message))
                assert told == ["link_up", "frame_too_large"]
                nursery.cancel_scope.cancel()
    reactor.close()
