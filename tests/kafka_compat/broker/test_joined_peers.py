"""Brokers that join are dialled at the address that the group names, and followed as soon as they are known."""

from types import SimpleNamespace
from typing import Any, cast

import attrs

from kafka_compat.broker.fetcher import FetchPosition
from kafka_compat.broker.following import Following
from kafka_compat.broker.peer_table import CONTROLLER, FETCH, HEARTBEAT, PeerTable
from kafka_compat.broker.peers import Address, PeerClient
from kafka_compat.config import Settings
from kafka_compat.model import TopicPartition
from raft.model import NodeId

PARTITION = TopicPartition("t", 0)


@attrs.define(eq=False)
class Peer:
    """A connection that only remembers its calls."""

    broker: int
    purpose: str
    address: Address
    calls: list[object] = attrs.field(factory=list)
    is_closed: bool = False

    def call(self, api: object, version: int, request: object, done: object, *, timeout_s: float) -> None:
        self.calls.append(request)

    def close(self) -> None:
        self.is_closed = True


def table(**known: Address) -> PeerTable:
    settings = {int(name[1:]): address for name, address in known.items()}
    return PeerTable(1, settings, lambda *given: cast(PeerClient, Peer(*given)))


def addresses(**given: str) -> dict[NodeId, str]:
    return {NodeId(int(name[1:])): text for name, text in given.items()}


def test_a_member_is_dialled_where_the_settings_say_and_else_where_the_group_does() -> None:
    peers = table(b2=("proxy", 2))
    peers.take(addresses(b1="own:1", b2="direct:2", b4="host:4"))
    assert {broker: client.address for broker, client in peers.of(FETCH).items()} == {2: ("proxy", 2), 4: ("host", 4)}
    peers.take(addresses(b4="other:5"))
    assert all(peers.of(purpose)[4].address == ("other", 5) for purpose in (FETCH, CONTROLLER, HEARTBEAT))


def test_a_broker_that_has_left_gets_no_heartbeat_once_that_is_settled() -> None:
    peers = table(b2=("h", 2), b3=("h", 3))
    left = cast(Any, peers.of(HEARTBEAT)[3])
    peers.take(addresses(b1="h:1", b2="h:2"))
    assert set(peers.of(HEARTBEAT)) == {2, 3}
    peers.take(addresses(b1="h:1", b2="h:2"), {1, 2})
    assert (set(peers.of(HEARTBEAT)), left.is_closed) == ({2}, True)
    assert set(peers.of(FETCH)) == {2, 3}  # it may still lead partitions
    peers.take(addresses(b1="h:1", b2="h:2", b3="h:3"))
    assert set(peers.of(HEARTBEAT)) == {2, 3}


def test_a_replica_follows_a_leader_as_soon_as_that_is_known() -> None:
    peers: dict[int, Any] = {}
    values = {"settings": Settings(), "broker_id": 1, "broker_epoch": 1, "silence_s": 3.0}
    context: Any = SimpleNamespace(**values, clock=lambda: 0.0, held_up=lambda: 0.0)
    following = Following(context, peers, lambda: None)  # type: ignore[arg-type, return-value]
    following.fetch(4, PARTITION, FetchPosition(bytes(16), 0, 0, -1, 0))
    following.pump(0.0)
    peers[4] = leader = Peer(4, FETCH, ("h", 4))
    following.pump(0.0)
    assert len(leader.calls) == 1
    following.fetch(5, PARTITION, FetchPosition(bytes(16), 0, 1, -1, 0))
    following.stop(PARTITION)
    peers[5] = unwanted = Peer(5, FETCH, ("h", 5))
    following.pump(0.0)
    assert not unwanted.calls
