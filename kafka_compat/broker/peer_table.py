"""The connections of a broker to the others: those with which its cluster began, and those that joined since.

Each has four, since an answer that is late on one must not hold up, or end, what another one is for. The addresses of
the beginning come from the settings; those of later members from the configuration of the controllers' group, of which
every broker is a member (KIP-853: a voter, or an observer).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import trio

from kafka_compat.broker.peers import Address, PeerClient
from raft.addresses import address_of
from raft.model import NodeId

FETCH: Final = "fetch"
CONTROLLER: Final = "controller"
HEARTBEAT: Final = "heartbeat"
TRANSACTIONS: Final = "transactions"
PURPOSES: Final = (FETCH, CONTROLLER, HEARTBEAT, TRANSACTIONS)


class PeerTable:
    """All connections by purpose and broker. The mappings change in place."""

    def __init__(
        self, broker_id: int, known: Mapping[int, Address], make: Callable[[int, str, Address], PeerClient]
    ) -> None:
        """`make` returns a connection to a broker, for a purpose, at an address."""
        self._broker_id = broker_id
        self._known = known
        self._make = make
        self._clients: dict[str, dict[int, PeerClient]] = {purpose: {} for purpose in PURPOSES}
        self._scopes: dict[PeerClient, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        for broker, address in known.items():
            self._open(broker, address)

    def of(self, purpose: str) -> Mapping[int, PeerClient]:
        """Returns the connections for a purpose, by broker."""
        return self._clients[purpose]

    def start(self, nursery: trio.Nursery) -> None:
        """Keep all connections in tasks of `nursery`, those that are added later, too."""
        self._nursery = nursery
        for clients in self._clients.values():
            for client in clients.values():
                self._keep(client)

    def close(self) -> None:
        """End all connections; waiting calls fail."""
        for clients in self._clients.values():
            for client in clients.values():
                client.close()

    def take(self, addresses: Mapping[NodeId, str], settled: Collection[int] | None = None) -> None:
        """Take the members of the controllers' group; `settled` has all of them once they are committed.

        Others get no heartbeats then. An address in this broker's settings comes before that of the group.
        """
        for broker, text in addresses.items():
            if broker != self._broker_id:
                self._open(broker, self._known.get(broker) or address_of(text))
        if settled is not None:
            heartbeats = self._clients[HEARTBEAT]
            for left in [broker for broker in heartbeats if broker not in settled]:
                client = heartbeats.pop(left)
                client.close()
                self._scopes.pop(client, trio.CancelScope()).cancel()

    def _open(self, broker: int, address: Address) -> None:
        for purpose, clients in self._clients.items():
            if broker in clients:
                clients[broker].address = address  # dialled next time
            else:
                clients[broker] = client = self._make(broker, purpose, address)
                self._keep(client)

    def _keep(self, client: PeerClient) -> None:
        if self._nursery is not None:
            self._scopes[client] = trio.CancelScope()
            self._nursery.start_soon(self._run, client, self._scopes[client])

    @staticmethod
    async def _run(client: PeerClient, scope: trio.CancelScope) -> None:
        with scope:
            await client.run()
