"""The acts of an experiment on a cluster, as they happened: the rows of `nemesis.jsonl`."""

import time
from collections.abc import Iterable

import attrs

from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.wires import Pair


@attrs.define(kw_only=True, eq=False)
class Act:
    """A fault, from its begin on. Times are on the monotonic clock; it holds while `ended_ns` is 0."""

    kind: str
    nodes: tuple[int, ...] = ()
    pairs: tuple[Pair, ...] = ()
    """Ways between brokers that it hits."""
    clients: tuple[int, ...] = ()
    """Brokers whose ways from clients it hits."""
    begun_ns: int = attrs.field(factory=time.monotonic_ns)
    injected_ns: int = 0
    undone_ns: int = 0
    """The moment when its end began: from then on what it held back may go on."""
    ended_ns: int = 0

    def complete(self) -> "Act":
        """Note that it holds from now on."""
        self.injected_ns = time.monotonic_ns()
        return self

    def finish(self) -> None:
        """Note that it is undone."""
        self.ended_ns = time.monotonic_ns()

    def record(self, number: int) -> FaultRecord:
        """As a run has it; an act that holds still ends now."""
        links = [f"{one}>{two}" for one, two in self.pairs] + [f"client>{node}" for node in self.clients]
        return FaultRecord(
            id=number,
            kind=self.kind,
            target="chosen",
            nodes=self.nodes,
            links=tuple(links),
            leader=self.nodes[0] if self.nodes else 0,
            term=0,
            intended_ns=self.begun_ns,
            begun_ns=self.begun_ns,
            injected_ns=self.injected_ns or self.begun_ns,
            ended_ns=self.ended_ns or time.monotonic_ns(),
            observed={},
            healed={},
            harmed=self.nodes if self.kind == "wipe" else (),
        )


def between(ones: Iterable[int], others: Iterable[int]) -> tuple[Pair, ...]:
    """The ways from each of these to each of those, and back."""
    far = tuple(others)
    return tuple(pair for one in ones for two in far if one != two for pair in ((one, two), (two, one)))
