"""The wire between simulated nodes: every ordered pair is one link with its own stream of chance.

A link delays, loses, duplicates and reorders messages; it can be cut in one direction (what is sent meanwhile is lost,
or held back and delivered after the cut, as a TCP connection may do) and reset (what is in flight is lost).
Only `transmit` and `heal` put anything on its way; the world delivers it when its time comes.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import Knobs
from log.values import frozen

N = TypeVar("N", bound=int)
"""The name of a node."""
M = TypeVar("M")
"""A message between nodes."""
Link = tuple[N, N]
"""From, to."""


@attrs.define
class LinkState(Generic[M]):
    """One direction between two nodes."""

    rng: random.Random
    sent: int = 0
    """The number of messages that have been put on it."""
    epoch: int = 0
    """Counts resets; a message of an older epoch never arrives."""
    cuts: int = 0
    """The number of partitions that cut this direction at the moment: they may overlap."""
    holds: bool = False
    """True if a cut keeps messages for later instead of losing them."""
    last_arrival: float = 0.0
    held: list[M] = attrs.field(factory=list)


@frozen
class Parcel(Generic[N, M]):
    """A message on its way."""

    link: Link[N]
    epoch: int
    message: M


LATE_TIMEOUTS = 6.0
"""A late copy is late by up to this many timeouts of the model (`Knobs.patience_s`)."""
HELD_MAX = 64
"""A cut link keeps up to this many messages for later; a socket buffer is not endless either."""


class SimulatedNetwork(Generic[N, M]):
    """All links; `schedule(time, parcel)` is the world's promise to deliver."""

    def __init__(self, knobs: Knobs, nodes: Sequence[N], schedule: Callable[[float, Parcel[N, M]], None]) -> None:
        self._knobs = knobs
        self._schedule = schedule
        self.counts: Counter[str] = Counter()
        self.loss = knobs.loss
        self.duplicate = knobs.duplicate
        self.delay_s = knobs.delay_s
        self.links: dict[Link[N], LinkState[M]] = {
            (a, b): LinkState(stream(knobs.seed, f"link/{a}>{b}")) for a in nodes for b in nodes if a != b
        }

    def transmit(self, now: float, link: Link[N], message: M) -> None:
        """Put one message on the wire."""
        state = self.links[link]
        self.counts["messages"] += 1
        state.sent += 1
        if (*link, state.sent) in self._knobs.lost:
            self._lose(state)
            return
        if state.cuts:
            self.counts["messages_stopped"] += 1
            if state.holds and len(state.held) < HELD_MAX:
                state.held.append(message)
            else:
                self.counts["messages_lost"] += 1
            return
        if self.loss and state.rng.random() < self.loss:
            self.counts["messages_lost"] += 1
            self.counts["messages_lost_by_chance"] += 1
            return
        self._send(now, link, state, message)
        if self.duplicate and state.rng.random() < self.duplicate:
            self.counts["messages_duplicated"] += 1
            if state.rng.random() < 0.5:
                self._send(now, link, state, message)
            else:
                self._send_late(now, link, state, message)

    def _lose(self, state: LinkState[M]) -> None:
        """The link draws for it all the same: what comes after it shall not fare differently."""
        self.counts["messages_lost"] += 1
        if not state.cuts and not (self.loss and state.rng.random() < self.loss):
            state.rng.expovariate(1.0)
            if self.duplicate and state.rng.random() < self.duplicate:
                state.rng.random()
                state.rng.random()

    def _send(self, now: float, link: Link[N], state: LinkState[M], message: M) -> None:
        knobs = self._knobs
        arrival = now + self.delay_s * (0.5 - math.log(1.0 - state.rng.random()) * knobs.delay_s_spread)
        if arrival < state.last_arrival:
            if knobs.fifo:
                arrival = state.last_arrival
            else:
                self.counts["messages_reordered"] += 1
        else:
            state.last_arrival = arrival
        self._schedule(arrival, Parcel(link, state.epoch, message))

    def _send_late(self, now: float, link: Link[N], state: LinkState[M], message: M) -> None:
        """A copy from another age: it arrives after leaders have come and gone."""
        late_s = state.rng.random() * LATE_TIMEOUTS * self._knobs.patience_s
        self._schedule(now + late_s, Parcel(link, state.epoch, message))

    def arrives(self, parcel: Parcel[N, M]) -> bool:
        """Returns True if this parcel gets through: its connection still stands and its direction is not cut."""
        state = self.links[parcel.link]
        if parcel.epoch != state.epoch:
            self.counts["messages_lost"] += 1
            return False
        if state.cuts:
            if state.holds and len(state.held) < HELD_MAX:
                state.held.append(parcel.message)
            else:
                self.counts["messages_lost"] += 1
            return False
        return True

    def cut(self, links: Sequence[Link[N]], *, holds: bool) -> None:
        """Cut these directions; each `cut` is undone by one `heal` of the same links."""
        for link in links:
            self.links[link].cuts += 1
            self.links[link].holds = holds

    def heal(self, now: float, links: Sequence[Link[N]]) -> None:
        """Undo one cut of each of these directions; held messages then go out at last."""
        for link in links:
            state = self.links[link]
            if state.cuts == 0:
                continue
            state.cuts -= 1
            if state.cuts == 0:
                held, state.held = state.held, []
                for message in held:
                    self._send(now, link, state, message)

    def reset(self, link: Link[N]) -> None:
        """Break the connection of this direction: what is in flight or held never arrives."""
        state = self.links[link]
        state.epoch += 1
        state.held.clear()
        state.last_arrival = 0.0

    def calm(self, now: float) -> None:
        """End every cut, loss and duplication."""
        self.loss = 0.0
        self.duplicate = 0.0
        for link, state in self.links.items():
            state.cuts = min(state.cuts, 1)
            self.heal(now, [link])
