"""The network of a run that needs no rights: a fault proxy for every way between processes, on loopback."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import attrs
import trio

from jepsen_like.cluster.fault_proxy import Link, Way
from jepsen_like.cluster.line import Line
from jepsen_like.cluster.poller import Poller
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port.wires import CLEAR, CLIENTS, Address, Condition, Evidence, Pair, Route


@attrs.define(eq=False)
class _Struck:
    """A way of the cluster on which something was imposed, as the links that carry it, and its tallies from before."""

    name: str
    parts: tuple[tuple[Link, Way], ...]
    since_ns: int
    before: "Counter[str]"
    condition: Condition = CLEAR
    changes: int = 0
    resets: int = 0

    def evidence(self, now_ns: int) -> Evidence:
        since = _tally(self.parts) - self.before
        details = {
            "bytes waiting": sum(link.waiting_bytes(way) for link, way in self.parts) if self.condition.is_cut else 0,
            "bytes delayed": since["delayed"],
            "bytes held at most": max(way.most_held_bytes for _, way in self.parts) if since["delayed"] else 0,
            "bytes swallowed": since["swallowed"],
            "connections refused": since["refused"],
            "connections": sum(link.connections for link in _links_of([self])),
        }
        return Evidence(
            self.name,
            self.condition,
            (now_ns - self.since_ns) / 1e9,
            since["passed"],
            self.changes,
            self.resets,
            details,
        )


def anywhere(pair: Pair, address: Address) -> Address:
    """Returns any free port of loopback as the place where a way to an address begins."""
    return LOOPBACK, 0


def beside(pair: Pair, address: Address) -> Address:
    """Returns the port of the address itself, on a host of loopback that only this pair has.

    So a program that learns one name and port for each other process can still be led over its own ways: the name
    stands for another host in each process.
    """
    dialer, node = pair
    return f"127.77.{dialer}.{node}", address[1]


class FaultNetwork:
    """All links of a cluster. Ways are named by the nodes; what they mean for each link is worked out here."""

    def __init__(
        self,
        addresses: Mapping[int, Address],
        doors: Mapping[int, Address] | None = None,
        further: Mapping[str, Mapping[int, Address]] | None = None,
        place: Callable[[Pair, Address], Address] = anywhere,
    ) -> None:
        """Clients enter at `doors`, by default at free ports of loopback. `further`: more ports of the nodes, by name.

        `place` tells where the way of a pair to an address begins.

        Raises `CannotListen`.
        """
        self._poller = Poller()
        self._place = place
        self.between: dict[Pair, Link] = self._connect(addresses, "")
        self.further: dict[str, dict[Pair, Link]] = {
            name: self._connect(its, f" {name}") for name, its in (further or {}).items()
        }
        self.clients: dict[int, Link] = {
            node: Link(self._poller, f"client>{node}", address, at=(doors or {}).get(node, (LOOPBACK, 0)))
            for node, address in addresses.items()
        }
        self._struck: dict[str, _Struck] = {}

    def _connect(self, addresses: Mapping[int, Address], suffix: str) -> dict[Pair, Link]:
        return {
            (dialer, node): Link(
                self._poller, f"{dialer}>{node}{suffix}", address, at=self._place((dialer, node), address)
            )
            for node, address in addresses.items()
            for dialer in addresses
            if dialer != node
        }

    @property
    def links(self) -> list[Link]:
        """Every link, nodes first."""
        of_nodes = [link for links in (self.between, *self.further.values()) for link in links.values()]
        return [*of_nodes, *self.clients.values()]

    async def serve(self) -> None:
        """Carry everything until cancelled; then every port and connection is closed."""
        try:
            async with trio.open_nursery() as nursery:
                for link in self.links:
                    nursery.start_soon(link.release_late)
                await self._poller.run()
        finally:
            for link in self.links:
                link.close()
            self._poller.close()

    def lay(self, routes: Iterable[Route]) -> None:
        """Let these ways lead over lines, for good."""
        for route in routes:
            line = Line(route.delay_s, route.bytes_per_s, route.requests_per_s)
            for pair in route.ways:
                for way in self._carriers(pair):
                    way.lay(line)
        for link in self.links:
            link.refresh()

    def _carriers(self, pair: Pair) -> tuple[Way, ...]:
        """The ways of links that carry what one sends to another."""
        sender, receiver = pair
        if sender == CLIENTS:
            return (self.clients[receiver].forward,)
        if receiver == CLIENTS:
            return (self.clients[sender].backward,)
        return tuple(way for _, way in self._parts(pair))

    def _parts(self, pair: Pair) -> tuple[tuple[Link, Way], ...]:
        """All that carries what one node sends to another: on connections that it dialed, and that the other dialed."""
        sender, receiver = pair
        return tuple(
            part
            for links in (self.between, *self.further.values())
            for part in (
                (links[sender, receiver], links[sender, receiver].forward),
                (links[receiver, sender], links[receiver, sender].backward),
            )
        )

    def impose(self, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> None:
        """Set the condition of these links from now on. The opposite directions stay as they are.

        A way between nodes concerns two links: what the first sends on connections it dialed, and what it answers on
        those that the second dialed. Raises `ValueError` for a condition of packets, not of a stream.
        """
        if condition.is_of_packets:
            raise ValueError(f"a network of proxies carries streams, not packets: {condition}")
        struck = self._strike(pairs, clients)
        for each in struck:
            each.changes += 1
            if condition != CLEAR:
                each.condition = condition
            for _, way in each.parts:
                way.impose(condition)
        for link in _links_of(struck):
            link.refresh()

    def reset(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> int:
        """End every connection that uses one of these ways, with RST at both ends. Returns how many there were."""
        struck = self._strike(pairs, clients)
        ended = {link.name: link.reset() for link in _links_of(struck)}
        for each in struck:
            each.resets += sum(ended[link.name] for link in _links_of([each]))
        return sum(ended.values())

    def lead_clients_to(self, addresses: Mapping[int, Address]) -> None:
        """From now on the ways of clients end here, instead of at the nodes. Connections that end elsewhere are reset."""
        for node, address in addresses.items():
            link = self.clients[node]
            if link.destination != address:
                link.destination = address
                link.reset()

    def heal(self) -> None:
        """Make every way clear."""
        for link in self.links:
            for way in (link.forward, link.backward):
                way.impose(CLEAR)
                way.most_held_bytes = way.held_bytes
            link.refresh()
        self._struck.clear()

    def evidence(self) -> list[Evidence]:
        """Returns the effects seen on every way on which something was imposed since the last `heal`."""
        now = time.monotonic_ns()
        return [each.evidence(now) for each in self._struck.values()]

    def _strike(self, pairs: Iterable[Pair], clients: Iterable[int]) -> list[_Struck]:
        found: dict[str, tuple[tuple[Link, Way], ...]] = {}
        for sender, receiver in pairs:
            found[f"{sender}>{receiver}"] = self._parts((sender, receiver))
        for node in clients:
            link = self.clients[node]
            found[link.name] = ((link, link.forward), (link, link.backward))
        now = time.monotonic_ns()
        for name, parts in found.items():
            if name not in self._struck:
                self._struck[name] = _Struck(name, parts, now, _tally(parts))
        return [self._struck[name] for name in found]


def _tally(parts: Iterable[tuple[Link, Way]]) -> "Counter[str]":
    """Returns what these ways have counted so far; none of it ever falls."""
    found = Counter[str]()
    for _, way in parts:
        found.update(passed=way.passed_bytes, delayed=way.delayed_bytes)
        found.update(swallowed=way.swallowed_bytes, refused=way.refused)
    return found


def _links_of(struck: "Iterable[_Struck]") -> list[Link]:
    return list({link.name: link for each in struck for link, _ in each.parts}.values())
