"""Linearizability by search: exact for repeated values too, with a bound on the work instead of on the history's length.

Lowe's just-in-time frontier. Events are walked in time; the frontier is the set of (state, which pending operations have
already taken effect). When an operation ends, every configuration must have it done; those that have not are extended by
pending operations until it is. An empty frontier means: no order exists. What keeps it small:

- an operation that changes nothing is done as soon as it is legal (it can only become illegal again);
- of two configurations that differ only in the unknown operations they used up, the one that used more is dropped;
- an unknown operation whose effect nobody saw is never done at all; unknown reads are dropped.

`None` as an answer means that a bound was reached, and the reason says which and where.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Protocol, assert_never

import attrs

from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

CONFIGURATIONS_MAX: Final = 20_000
STEPS_MAX: Final = 2_000_000

State = Hashable


class Sequential(Protocol):
    """What an object does when operations come one after another."""

    @property
    def initial(self) -> State:
        """Before anything happened."""
        ...

    def step(self, state: State, op: Op) -> State | None:
        """The state after `op` took effect and answered what it answered; None when it cannot have."""
        ...

    def seen(self, op: Op) -> int | None:
        """The value that `op` depends on, if it does."""
        ...

    def put(self, op: Op) -> int | None:
        """The value that `op` puts there, if it does."""
        ...


@attrs.frozen
class Register:
    """One value; read, write, compare-and-set."""

    initial: State = NONE

    def step(self, state: State, op: Op) -> State | None:
        """See `Sequential`."""
        match op.f:
            case Action.WRITE:
                return op.a
            case Action.READ:
                return state if state == op.a else None
            case Action.CAS:
                if op.type is Outcome.INFO or op.seen == op.a:
                    return op.b if state == op.a else None
                return state if state == op.seen else None
            case Action.APPEND | Action.TAIL:
                raise ValueError(f"{op.f.name} is no operation of a register")
            case _:
                assert_never(op.f)

    def seen(self, op: Op) -> int | None:
        """See `Sequential`."""
        if op.f is Action.CAS:
            return op.a if op.type is Outcome.INFO else op.seen
        return op.a if op.f is Action.READ else None

    def put(self, op: Op) -> int | None:
        """See `Sequential`."""
        if op.f is Action.WRITE:
            return op.a
        swaps = op.f is Action.CAS and op.a != op.b and (op.type is Outcome.INFO or op.seen == op.a)
        return op.b if swaps else None


@attrs.frozen
class SequentialLog:
    """A tuple of values; append, read at an offset, tail. For histories of a few dozen operations."""

    initial: State = ()

    def step(self, state: State, op: Op) -> State | None:
        """See `Sequential`."""
        assert isinstance(state, tuple)
        match op.f:
            case Action.APPEND:
                lands = op.type is Outcome.INFO or op.offset == len(state)
                return (*state, op.a) if lands else None
            case Action.READ:
                there = state[op.offset] if op.offset < len(state) else NONE
                return state if there == op.a else None
            case Action.TAIL:
                return state if op.offset == len(state) else None
            case Action.WRITE | Action.CAS:
                raise ValueError(f"{op.f.name} is no operation of a log")
            case _:
                assert_never(op.f)

    def seen(self, op: Op) -> int | None:
        """See `Sequential`. A length can depend on any append, so appends never count as unseen."""
        return op.a if op.f is Action.READ and op.a != NONE else None

    def put(self, op: Op) -> int | None:
        """None: see `seen`."""
        return None


@attrs.frozen
class SearchResult:
    """What the search found out."""

    linearizable: bool | None
    reason: str = ""
    """Why there is no answer."""
    failed: Op | None = None
    """The operation whose end emptied the frontier: no order of what began before then can contain it."""


@attrs.frozen
class _Configuration:
    state: State
    done: int
    """Bit set of the pending known operations that took effect already."""
    used: int
    """Bit set of the unknown operations that took effect."""


def search(
    ops: Sequence[Op],
    model: Sequential,
    *,
    configurations_max: int = CONFIGURATIONS_MAX,
    steps_max: int = STEPS_MAX,
) -> SearchResult:
    """Decide one object's operations (any order; `FAIL` ones are ignored)."""
    relevant = _relevant(ops, model)
    walk = _Walk(model, configurations_max, steps_max)
    events = sorted(
        [(op.t_inv, 0, number) for number, op in enumerate(relevant)]
        + [(op.t_ret, 1, number) for number, op in enumerate(relevant) if op.type is Outcome.OK and op.t_ret < NEVER]
    )
    for at, (_, ends, number) in enumerate(events):
        op = relevant[number]
        if not ends:
            walk.begin(number, op)
        elif not walk.end(number):
            if walk.exhausted:
                return SearchResult(None, f"{walk.exhausted} after {at} of {len(events)} events")
            return SearchResult(False, failed=op)
    return SearchResult(True)


def _relevant(ops: Sequence[Op], model: Sequential) -> list[Op]:
    """Without failed operations, unknown reads, and unknown effects that nobody saw (transitively)."""
    known = [op for op in ops if op.type is Outcome.OK]
    unknown = [op for op in ops if op.type is Outcome.INFO and op.f not in (Action.READ, Action.TAIL)]
    kept = [op for op in unknown if model.put(op) is None and op.f is not Action.CAS]
    rest = [op for op in unknown if model.put(op) is not None]
    values = {model.seen(op) for op in known}
    while True:
        newly = [op for op in rest if model.put(op) in values]
        if not newly:
            return known + kept
        kept += newly
        rest = [op for op in rest if model.put(op) not in values]
        values |= {model.seen(op) for op in newly}


class _Walk:
    """The frontier between two events."""

    def __init__(self, model: Sequential, configurations_max: int, steps_max: int) -> None:
        self.exhausted = ""
        self._model = model
        self._configurations_max = configurations_max
        self._steps_left = steps_max
        self._frontier = {_Configuration(model.initial, 0, 0)}
        self._bits: dict[int, int] = {}
        self._bits_made = 0
        self._free: list[int] = []
        self._changing: dict[int, Op] = {}
        """By bit: pending known operations that may change the state."""
        self._observing: dict[int, Op] = {}
        """By bit: pending known operations that never do."""
        self._unknown: dict[int, Op] = {}
        """By bit of `used`: they stay for ever."""

    def begin(self, number: int, op: Op) -> None:
        if op.type is Outcome.INFO:
            self._unknown[1 << len(self._unknown)] = op
            return
        if not self._free:
            self._free.append(1 << self._bits_made)
            self._bits_made += 1
        bit = self._bits[number] = self._free.pop()
        if op.f is Action.APPEND or self._model.put(op) is not None:
            self._changing[bit] = op
        else:
            self._observing[bit] = op
            self._frontier = {self._observed(one) for one in self._frontier}

    def end(self, number: int) -> bool:
        """Keep what can have the operation done; False when nothing can, or when a bound is reached (`exhausted`)."""
        bit = self._bits.pop(number)
        frontier = self._extended(bit)
        if self.exhausted:
            return False
        self._changing.pop(bit, None)
        self._observing.pop(bit, None)
        self._free.append(bit)
        self._frontier = _undominated(_Configuration(one.state, one.done & ~bit, one.used) for one in frontier)
        return bool(self._frontier)

    def _extended(self, bit: int) -> set[_Configuration]:
        known = set(self._frontier)
        todo = list(self._frontier)
        complete: set[_Configuration] = set()
        while todo:
            one = todo.pop()
            if one.done & bit:
                complete.add(one)
                continue
            for following in self._following(one):
                if following not in known:
                    known.add(following)
                    todo.append(following)
            if len(known) > self._configurations_max:
                self.exhausted = f"more than {self._configurations_max} configurations"
            elif self._steps_left <= 0:
                self.exhausted = "too many steps"
            if self.exhausted:
                return complete
        return complete

    def _following(self, one: _Configuration) -> list[_Configuration]:
        found = []
        for bit, op in self._changing.items():
            if not one.done & bit and (state := self._step(one.state, op)) is not None:
                found.append(self._observed(_Configuration(state, one.done | bit, one.used)))
        for bit, op in self._unknown.items():
            if not one.used & bit and (state := self._step(one.state, op)) is not None:
                found.append(self._observed(_Configuration(state, one.done, one.used | bit)))
        return found

    def _observed(self, one: _Configuration) -> _Configuration:
        """With every pending observation done that is legal in this state."""
        done = one.done
        for bit, op in self._observing.items():
            if not done & bit and self._step(one.state, op) is not None:
                done |= bit
        return one if done == one.done else _Configuration(one.state, done, one.used)

    def _step(self, state: State, op: Op) -> State | None:
        self._steps_left -= 1
        return self._model.step(state, op)


def _undominated(configurations: Iterable[_Configuration]) -> set[_Configuration]:
    """Without those that used up more unknown operations than another of the same state and the same `done`."""
    by_rest: dict[tuple[State, int], list[_Configuration]] = {}
    for one in configurations:
        by_rest.setdefault((one.state, one.done), []).append(one)
    kept: set[_Configuration] = set()
    for group in by_rest.values():
        group.sort(key=lambda one: one.used.bit_count())
        minimal: list[_Configuration] = []
        for one in group:
            if all(other.used & ~one.used for other in minimal):
                minimal.append(one)
        kept.update(minimal)
    return kept


def smallest_contradiction(ops: Sequence[Op], model: Sequential, failed: Op) -> tuple[Op, ...]:
    """Fewer operations that alone cannot be ordered either, by leaving out what can be left out honestly.

    Leaving out an observation, or an effect that nothing left observes, never makes a linearizable history
    non-linearizable; so what remains proves as much as the whole. Operations that had not ended when `failed` did are kept
    as unknown.
    """
    left = [
        attrs.evolve(op, type=Outcome.INFO, t_ret=NEVER) if op.t_ret > failed.t_ret else op
        for op in ops
        if op.t_inv <= failed.t_ret and op.type is not Outcome.FAIL
    ]
    chunk = len(left)
    while chunk >= 1:
        at = 0
        while at < len(left):
            shorter = left[:at] + left[at + chunk :]
            if _honest(left[at : at + chunk], shorter, model) and search(shorter, model).linearizable is False:
                left = shorter
            else:
                at += chunk
        chunk //= 2
    return tuple(left)


def _honest(left_out: Sequence[Op], kept: Sequence[Op], model: Sequential) -> bool:
    seen = {model.seen(op) for op in kept}
    return all((put := model.put(op)) is None or put not in seen for op in left_out) and not any(
        op.f is Action.APPEND for op in left_out
    )
