"""Holds the operations that are under way at a moment of a history, and tells which is worth trying next; both searches share it.

A *configuration* is a state, the pending known operations that took effect already, and the unknown ones that did. It may go on
with any pending operation whose step is legal. What keeps the number of configurations small, without losing an answer:

- an operation that changes nothing is done as soon as it is legal (it can only become illegal again);
- an unknown operation is done only while a pending known operation asks for the value that it puts there, or another unknown one
  does that is asked for: done earlier, it would only wait for that;
- of unknown operations that do the same, the one that began first is done first: they are interchangeable;
- of pending known operations that do and answer the same, the one that ends first is done first: any other would have to wait
  until then, and could have changed places with it.
"""

import itertools
import sys
from bisect import insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import attrs

from jepsen_like.history.ops import NEVER, Op, Outcome

CONFIGURATION_BYTES: Final = 400
"""The bytes of one configuration: a tuple, two integers of many bits, and its share of a set. Measured."""
SMALL_STATE_BYTES: Final = 64
"""Of which a state's part is no more than this."""
STATE_PARTS_MAX: Final = 256
"""Of a larger state so many parts are weighed."""

State = Hashable
Configuration = tuple[State, int, int]
"""The state, a bit set of the pending known operations that took effect already, and one of the unknown that did."""


class Sequential(Protocol):
    """The behaviour of an object when operations come one after another; by default operations depend on no value of others."""

    initial: State
    """Before anything happened."""

    def step(self, state: State, op: Op) -> State | None:
        """Returns the state after `op` took effect and answered what it answered; None when it cannot have."""
        ...

    def value_seen(self, op: Op) -> int | None:
        """Returns the value that `op` depends on, if it does."""
        return None

    def put(self, op: Op) -> int | None:
        """Returns the value that `op` puts there, if it does."""
        return None

    def is_denial(self, op: Op) -> bool:
        """Returns whether `op` depends on a value not being there, so that any other one explains it."""
        return False

    def changes(self, op: Op) -> bool:
        """Returns whether `op` may change the state; one that never does is done as soon as it is legal, or never if unknown."""
        return True

    def effect(self, op: Op) -> Hashable:
        """Returns what `op` of unknown outcome does: those of which this is equal are interchangeable."""
        return op.f, op.a


def is_unknown(op: Op) -> bool:
    """Returns whether nothing is known of the outcome of an operation."""
    return op.type is Outcome.INFO


@attrs.frozen
class Walked:
    """A history as both searches walk it: its operations, and where each begins and ends."""

    model: Sequential
    ops: Sequence[Op]
    events: Sequence[tuple[bool, int]]
    """True if an operation ends, and its number, in the order of time. Unknown operations never end."""
    bits: Sequence[int]
    """Of each operation: known ones share bits with those that they do not overlap."""

    @classmethod
    def of(cls, model: Sequential, ops: Sequence[Op]) -> "Walked":
        """Returns the walk over these operations."""
        moments = sorted(
            [(op.t_inv, 0, number) for number, op in enumerate(ops)]
            + [(op.t_ret, 1, number) for number, op in enumerate(ops) if op.t_ret < NEVER and not is_unknown(op)]
        )
        events = [(bool(ends), number) for _, ends, number in moments]
        bits, free, unknown, made = [0] * len(ops), list[int](), 0, 0
        for ends, number in events:
            if ends:
                free.append(bits[number])
            elif is_unknown(ops[number]):
                bits[number] = 1 << unknown
                unknown += 1
            else:
                if not free:
                    free.append(1 << made)
                    made += 1
                bits[number] = free.pop()
        return cls(model, ops, events, bits)


class UnderWay:
    """The operations that are under way between two events; `go` and `go_back` move it over one event."""

    def __init__(self, walked: Walked) -> None:
        self._walked, self._model = walked, walked.model
        self._observing: dict[int, Op] = {}
        """By bit: known operations that never change the state."""
        self._changing: dict[Hashable, list[tuple[int, int]]] = {}
        """The ends and bits of known operations that may change it, those that do and answer the same together."""
        self._unknown: dict[Hashable, list[int]] = {}
        """Bits of the unknown operations that have begun, those that do the same together, in the order they began."""
        self._like: dict[Hashable, Op] = {}
        """Of each group of the same operations one."""

    def go(self, at: int) -> None:
        """Pass an event."""
        ends, number = self._walked.events[at]
        self._leave(number) if ends else self._enter(number)

    def go_back(self, at: int) -> None:
        """Take back that an event was passed."""
        ends, number = self._walked.events[at]
        self._enter(number) if ends else self._leave(number)

    def _enter(self, number: int) -> None:
        op, bit, model = self._walked.ops[number], self._walked.bits[number], self._model
        if is_unknown(op):
            same = self._same(op)
            self._unknown.setdefault(same, []).append(bit)
            self._like.setdefault(same, op)
        elif model.changes(op):
            same = self._same(op)
            insort(self._changing.setdefault(same, []), (op.t_ret, bit))
            self._like.setdefault(same, op)
        else:
            self._observing[bit] = op

    def _leave(self, number: int) -> None:
        op, bit = self._walked.ops[number], self._walked.bits[number]
        if is_unknown(op):
            same = self._same(op)
            self._unknown[same].remove(bit)
            if not self._unknown[same]:
                del self._unknown[same]
        elif self._model.changes(op):
            same = self._same(op)
            self._changing[same].remove((op.t_ret, bit))
            if not self._changing[same]:
                del self._changing[same]
        else:
            del self._observing[bit]

    def _same(self, op: Op) -> Hashable:
        effect = self._model.effect(op)
        return effect if is_unknown(op) else (effect, op.type, op.a, op.b, op.seen, op.offset, op.count, op.parent_op)

    def observe(self, state: State, done: int, used: int) -> Configuration:
        """Returns a configuration with every pending observation done that is legal in this state."""
        for bit, op in self._observing.items():
            if not done & bit and self._model.step(state, op) is not None:
                done |= bit
        return state, done, used

    def done_now(self, number: int, one: Configuration) -> Configuration | None:
        """Returns a configuration after this pending operation took effect; None if that is not legal."""
        state, done, used = one
        after = self._model.step(state, self._walked.ops[number])
        return None if after is None else self.observe(after, done | self._walked.bits[number], used)

    def following(self, one: Configuration, wanted: int | None = None) -> Iterator[Configuration]:
        """Returns the configurations that may come next, those first that put what is `wanted`."""
        state, done, used = one
        step, like = self._model.step, self._like
        known = [
            (self._model.put(like[same]) != wanted, end, bit, like[same])
            for same, ends in self._changing.items()
            for end, bit in [next((each for each in ends if not done & each[1]), (0, 0))]
            if bit
        ]
        known.sort(key=lambda each: each[:3])
        for _, _, bit, op in known:
            after = step(state, op)
            if after is not None:
                yield self.observe(after, done | bit, used)
        if self._unknown:
            asked, is_denied = self._ask(done, used)
            # Between two of these the walk may have gone on and back, with other operations in the tables.
            for same, bits in list(self._unknown.items()):
                op = like[same]
                put = self._model.put(op)
                if put is not None and not is_denied and put not in asked:
                    continue
                bit = next((each for each in bits if not used & each), 0)
                if bit and (after := step(state, op)) is not None:
                    yield self.observe(after, done, used | bit)

    def _ask(self, done: int, used: int) -> tuple[set[int | None], bool]:
        """The values that pending operations wait for, and whether one waits for any other value than there is."""
        model, like = self._model, self._like
        waiting = [op for bit, op in self._observing.items() if not done & bit]
        waiting += [like[same] for same, ends in self._changing.items() if any(not done & bit for _, bit in ends)]
        asked = {model.value_seen(op) for op in waiting}
        if any(map(model.is_denial, waiting)):
            return asked, True
        left = [like[same] for same, bits in self._unknown.items() if any(not used & bit for bit in bits)]
        while helping := [op for op in left if model.put(op) in asked and model.value_seen(op) not in asked]:
            asked |= {model.value_seen(op) for op in helping}
        return asked, False


def weight_of(state: State) -> int:
    """Returns about how many bytes a configuration of this state takes."""
    return CONFIGURATION_BYTES + max(0, _bytes_of(state) - SMALL_STATE_BYTES)


def _bytes_of(state: Any) -> int:
    """About what a state takes, of a collection with what is in it."""
    inside: Iterable[Any] = ()
    if isinstance(state, tuple | frozenset):
        inside = itertools.islice(state, STATE_PARTS_MAX)
    scale = max(1.0, len(state) / STATE_PARTS_MAX) if inside else 1.0
    return sys.getsizeof(state) + int(scale * sum(map(_bytes_of, inside)))
