"""The conditions of the ways between processes, and the port of every network of a run that imposes them.

A way is directed: "3>1" is what node 3 sends to node 1, on whichever connection; "client>1" is everything between all
clients and node 1, both directions. A network imposes one condition on some ways, tells what they have shown since, and
makes all of them clear again.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import attrs

Address = tuple[str, int]


def text_of(address: Address) -> str:
    """Returns HOST:PORT."""
    return f"{address[0]}:{address[1]}"


Pair = tuple[int, int]
"""From this node to that one."""
CLIENTS: Final = 0
"""Stands for all clients where a `Pair` may concern them; no node has this number."""


class Network(enum.StrEnum):
    """The networks between the processes of a run, as `--network` names them."""

    PROXIES = "proxies"
    """TCP forwarders of the harness, on loopback. Needs no rights."""
    NAMESPACES = "namespaces"
    """A network namespace for each node and one switch between them, which handles packets. Needs root."""


@attrs.frozen(kw_only=True)
class Condition:
    """The condition of a way. Times are in seconds, chances from 0 to 1; the default is a clear way.

    The chances are about packets: only a network that handles packets takes them.
    """

    is_cut: bool = False
    """Nothing passes and nothing is lost: what waits goes through after the end, late."""
    is_swallowing: bool = False
    """Bytes are taken and forgotten, connections stay: the other side is gone and did not say so."""
    refuses: bool = False
    """New connections are refused; otherwise, on a way that is cut or swallowing, they hang."""
    delay_s: float = 0.0
    jitter_s: float = 0.0
    """Up to so much more delay, drawn for each chunk or packet."""
    bytes_per_s: float = 0.0
    """At most so much passes; 0 for no bound."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """The chance to be held up for `delay_s` and overtaken meanwhile; all others pass at once."""
    corrupt: float = 0.0
    """The chance that one bit is turned over."""

    @property
    def is_of_packets(self) -> bool:
        """Returns True if it means anything only below TCP."""
        return bool(self.loss or self.duplicate or self.reorder or self.corrupt)

    @property
    def is_late(self) -> bool:
        """Returns True if bytes take longer than they must."""
        return bool(self.delay_s or self.jitter_s or self.bytes_per_s)

    def __str__(self) -> str:
        of_packets = {"loses": self.loss, "doubles": self.duplicate, "holds up": self.reorder, "damages": self.corrupt}
        words = [f"{word} {chance:.0%}" for word, chance in of_packets.items() if chance]
        if self.is_cut:
            words.append("cut")
        if self.is_swallowing:
            words.append("half-open, refusing" if self.refuses else "half-open, hanging")
        if self.delay_s or self.jitter_s:
            words.append(f"slow by {self.delay_s * 1e3:.0f} to {(self.delay_s + self.jitter_s) * 1e3:.0f} ms")
        if self.bytes_per_s:
            words.append(f"throttled to {self.bytes_per_s / 1024:.0f} KiB/s")
        return ", ".join(words) or "clear"


@attrs.frozen(kw_only=True)
class Route:
    """A line in one direction that some ways share, whatever is imposed on them: how long it is, and how broad."""

    ways: tuple[Pair, ...]
    """`CLIENTS` stands for the clients."""
    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    """All of them together; 0 for no bound."""
    requests_per_s: float = 0.0
    """Frames that begin with their length, as Kafka's and RocketMQ's; only a network of streams counts them. 0 for no bound."""


CLEAR = Condition()
CUT = Condition(is_cut=True)


@attrs.frozen
class Evidence:
    """The evidence of one way since something is wrong with it."""

    way: str
    condition: Condition
    """The last one that was not clear."""
    for_s: float
    passed_bytes: int
    changes: int = 1
    """The number of times that a condition was imposed."""
    resets: int = 0
    """Connections ended by force, at both ends."""
    details: Mapping[str, int] = {}
    """The other counts, by what they are of: "bytes waiting", "packets lost"."""

    def __str__(self) -> str:
        what = "reset" if self.condition == CLEAR else str(self.condition)
        parts = [f"{what} {self.way}: {self.passed_bytes} bytes passed in {self.for_s:.1f} s"]
        if self.changes > 2:
            parts.append(f"broken {(self.changes + 1) // 2} times")
        if self.resets:
            parts.append(f"{self.resets} connections reset")
        parts += [f"{count} {name}" for name, count in self.details.items() if count]
        return ", ".join(parts)


class Wires(Protocol):
    """The network of a run."""

    def lay(self, routes: Iterable[Route]) -> None:
        """Let these ways lead over lines, for good: `heal` leaves them, and what is imposed comes on top."""

    def impose(self, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> None:
        """Let these ways be so from now on. The opposite ways stay as they are."""

    def reset(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> int:
        """End every connection that uses one of these ways, with RST at both ends. Returns how many there were."""

    def heal(self) -> None:
        """Make every way clear."""

    def evidence(self) -> list[Evidence]:
        """Returns what every way has shown on which something was imposed since the last `heal`."""
