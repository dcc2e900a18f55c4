"""Linearizability by search: exact for repeated values too, with a bound on time and memory instead of on the history's length.

Lowe's just-in-time frontier. Events are walked in time; the frontier is the set of (state, which pending operations have
already taken effect). When an operation ends, every configuration must have it done; those that have not are extended by
pending operations until it is. An empty frontier means: no order exists. What keeps it small:

- an operation that changes nothing is done as soon as it is legal (it can only become illegal again);
- an unknown operation whose effect no operation saw is never done at all; unknown reads are dropped;
- any other unknown operation is done only while a pending operation asks for the value that it puts there: done earlier, it
  would only wait for that;
- of unknown operations that do the same, the one that began first is done first: they are interchangeable;
- of two configurations that differ only in the unknown operations they used up, the one that used more is dropped.

`None` as an answer means that a bound was reached, and the reason states which and where.
"""

import itertools
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Protocol

import attrs

from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

SECONDS_MAX: Final = 60.0
MEMORY_MIB_MAX: Final = 1024
CONFIGURATION_BYTES: Final = 400
"""What one configuration takes: a tuple, two integers of many bits, and its share of a set. Measured."""
OPERATION_BYTES: Final = 1000
"""What one operation takes, with the values that a user's class gets. Measured."""
SMALL_STATE_BYTES: Final = 64
"""Of which a state's part is no more than this."""
STEPS_BETWEEN_LOOKS: Final = 2048
"""So many configurations are extended between two looks at the clock."""
COMPARED_MAX: Final = 256
"""To find those that another one makes superfluous, each is held against so many: more would cost more than it saves."""

State = Hashable
Clock = Callable[[], float]
"""Seconds of processor time that were spent."""


def untimed() -> float:
    """A clock that stands still: time is no bound then."""
    return 0.0


class Sequential(Protocol):
    """What an object does when operations come one after another."""

    @property
    def initial(self) -> State:
        """Before anything happened."""
        ...

    def step(self, state: State, op: Op) -> State | None:
        """Returns the state after `op` took effect and answered what it answered; None when it cannot have."""
        ...

    def seen(self, op: Op) -> int | None:
        """Returns the value that `op` depends on, if it does."""
        ...

    def put(self, op: Op) -> int | None:
        """Returns the value that `op` puts there, if it does."""
        ...

    def is_denial(self, op: Op) -> bool:
        """Returns whether `op` depends on a value not being there, so that any other one explains it."""
        ...

    def changes(self, op: Op) -> bool:
        """Returns whether `op` may change the state; one that never does is done as soon as it is legal, or never if unknown."""
        ...

    def effect(self, op: Op) -> Hashable:
        """Returns what `op` of unknown outcome does: those of which this is equal are interchangeable."""
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
                if op.type is Outcome.FAIL:
                    return state if state != op.a else None
                if op.type is Outcome.INFO or op.seen == op.a:
                    return op.b if state == op.a else None
                return state if state == op.seen else None
            case _:
                raise ValueError(f"{op.f.name} is no operation of a register")

    def seen(self, op: Op) -> int | None:
        """See `Sequential`."""
        if op.type is Outcome.FAIL:
            return None
        if op.f is Action.CAS:
            return op.a if op.type is Outcome.INFO else op.seen
        return op.a if op.f is Action.READ else None

    def put(self, op: Op) -> int | None:
        """See `Sequential`."""
        if op.f is Action.WRITE:
            return op.a
        swaps = op.f is Action.CAS and op.a != op.b and (op.type is Outcome.INFO or op.seen == op.a)
        return op.b if swaps and op.type is not Outcome.FAIL else None

    def is_denial(self, op: Op) -> bool:
        """See `Sequential`. A compare-and-set that failed for no other reason saw another value than it expected."""
        return op.f is Action.CAS and op.type is Outcome.FAIL and op.err is ErrorCode.NONE

    def changes(self, op: Op) -> bool:
        """See `Sequential`."""
        return self.put(op) is not None

    def effect(self, op: Op) -> Hashable:
        """See `Sequential`."""
        return op.f, op.a, op.b


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
            case _:
                raise ValueError(f"{op.f.name} is no operation of a log")

    def seen(self, op: Op) -> int | None:
        """See `Sequential`. A length can depend on any append, so appends never count as unseen."""
        return op.a if op.f is Action.READ and op.a != NONE else None

    def put(self, op: Op) -> int | None:
        """None: see `seen`."""
        return None

    def is_denial(self, op: Op) -> bool:
        """See `Sequential`."""
        return False

    def changes(self, op: Op) -> bool:
        """See `Sequential`."""
        return op.f is Action.APPEND

    def effect(self, op: Op) -> Hashable:
        """See `Sequential`."""
        return op.a


@attrs.frozen
class SearchResult:
    """What the search found out."""

    linearizable: bool | None
    reason: str = ""
    """Why there is no answer."""
    failed: Op | None = None
    """The operation whose end emptied the frontier: no order of what began before then can contain it."""


_Configuration = tuple[State, int, int]
"""The state, a bit set of the pending known operations that took effect already, and one of the unknown that did."""


def search(
    ops: Sequence[Op],
    model: Sequential,
    *,
    seconds_max: float = SECONDS_MAX,
    memory_mib_max: float = MEMORY_MIB_MAX,
    clock: Clock = untimed,
) -> SearchResult:
    """Decide one object's operations, in any order; `FAIL` ones are ignored, but for denials.

    Returns an answer of None when it took more than `seconds_max` by `clock` or about `memory_mib_max`.
    """
    relevant = _relevant(ops, model)
    walk = _Walk(model, clock, seconds_max, memory_mib_max, len(ops))
    events = sorted(
        [(op.t_inv, 0, number) for number, op in enumerate(relevant)]
        + [(op.t_ret, 1, number) for number, op in enumerate(relevant) if op.t_ret < NEVER and not _is_unknown(op)]
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


def _is_unknown(op: Op) -> bool:
    return op.type is Outcome.INFO


def _relevant(ops: Sequence[Op], model: Sequential) -> list[Op]:
    """Without failed operations, unknown reads, and unknown effects that no operation saw (transitively)."""
    known = [op for op in ops if op.type is Outcome.OK or model.is_denial(op)]
    unknown = [op for op in ops if op.type is Outcome.INFO and model.changes(op)]
    kept = [op for op in unknown if model.put(op) is None]
    rest = [op for op in unknown if model.put(op) is not None]
    if any(model.is_denial(op) for op in known):
        return known + kept + rest
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

    def __init__(
        self, model: Sequential, clock: Clock, seconds_max: float, memory_mib_max: float, operations: int
    ) -> None:
        self.exhausted = ""
        self._model = model
        self._clock, self._seconds_max = clock, seconds_max
        self._deadline_s = clock() + seconds_max
        self._memory_mib_max = memory_mib_max
        self._bytes_max = memory_mib_max * 2**20 - operations * OPERATION_BYTES
        self._configurations_max = max(1, int(self._bytes_max / CONFIGURATION_BYTES))
        self._until_look = STEPS_BETWEEN_LOOKS
        self._frontier: set[_Configuration] = {(model.initial, 0, 0)}
        self._bits: dict[int, int] = {}
        self._bits_made = 0
        self._free: list[int] = []
        self._changing: dict[int, Op] = {}
        """By bit: pending known operations that may change the state."""
        self._observing: dict[int, Op] = {}
        """By bit: pending known operations that never do."""
        self._unknown: dict[Hashable, list[int]] = {}
        """Bits of the unknown operations that have begun, those that do the same together, in the order they began."""
        self._unknown_op: dict[Hashable, Op] = {}
        self._unknown_made = 0

    def begin(self, number: int, op: Op) -> None:
        if _is_unknown(op):
            same = self._model.effect(op)
            self._unknown.setdefault(same, []).append(1 << self._unknown_made)
            self._unknown_op.setdefault(same, op)
            self._unknown_made += 1
            return
        if not self._free:
            self._free.append(1 << self._bits_made)
            self._bits_made += 1
        bit = self._bits[number] = self._free.pop()
        if self._model.changes(op):
            self._changing[bit] = op
        else:
            self._observing[bit] = op
            self._frontier = {self._observed(*one) for one in self._frontier}

    def end(self, number: int) -> bool:
        """Keep what can have the operation done; False when nothing can, or when a bound is reached (`exhausted`)."""
        bit = self._bits.pop(number)
        frontier = self._extended(bit)
        if self.exhausted:
            return False
        self._changing.pop(bit, None)
        self._observing.pop(bit, None)
        self._free.append(bit)
        self._frontier = _undominated((state, done & ~bit, used) for state, done, used in frontier)
        return bool(self._frontier)

    def _extended(self, bit: int) -> set[_Configuration]:
        known = set(self._frontier)
        todo = list(self._frontier)
        complete: set[_Configuration] = set()
        while todo:
            one = todo.pop()
            if one[1] & bit:
                complete.add(one)
                continue
            for following in self._following(*one):
                if following not in known:
                    known.add(following)
                    todo.append(following)
            if self._is_exhausted(len(known)):
                return complete
        return complete

    def _is_exhausted(self, configurations: int) -> bool:
        self._until_look -= 1
        if configurations > self._configurations_max:
            self.exhausted = f"more than {self._memory_mib_max:g} MiB of configurations and operations"
        elif self._until_look <= 0:
            self._until_look = STEPS_BETWEEN_LOOKS
            self._weigh()
            if self._clock() > self._deadline_s:
                self.exhausted = f"more than {self._seconds_max:g} s"
        return bool(self.exhausted)

    def _weigh(self) -> None:
        """Let larger states count for more: of one configuration that there is."""
        weight = CONFIGURATION_BYTES + max(0, _bytes_of(next(iter(self._frontier))[0]) - SMALL_STATE_BYTES)
        self._configurations_max = max(1, int(self._bytes_max / weight))

    def _following(self, state: State, done: int, used: int) -> list[_Configuration]:
        found = []
        step = self._model.step
        for bit, op in self._changing.items():
            if not done & bit and (after := step(state, op)) is not None:
                found.append(self._observed(after, done | bit, used))
        for same, bits in self._unknown.items():
            op = self._unknown_op[same]
            bit = next((one for one in bits if not used & one), 0)
            if bit and self._is_asked_for(op, done, used) and (after := step(state, op)) is not None:
                found.append(self._observed(after, done, used | bit))
        return found

    def _is_asked_for(self, op: Op, done: int, used: int) -> bool:
        """Whether a pending operation may be waiting for what an unknown one puts there."""
        put = self._model.put(op)
        if put is None:
            return True
        for pending in (self._observing, self._changing):
            for bit, other in pending.items():
                if not done & bit and (self._model.seen(other) == put or self._model.is_denial(other)):
                    return True
        return any(
            self._model.seen(self._unknown_op[same]) == put and any(not used & bit for bit in bits)
            for same, bits in self._unknown.items()
        )

    def _observed(self, state: State, done: int, used: int) -> _Configuration:
        """With every pending observation done that is legal in this state."""
        for bit, op in self._observing.items():
            if not done & bit and self._model.step(state, op) is not None:
                done |= bit
        return state, done, used


def _bytes_of(state: Any) -> int:
    """About what a state takes, of a collection with what is in it."""
    inside: Iterable[Any] = ()
    if isinstance(state, tuple | frozenset):
        inside = itertools.islice(state, COMPARED_MAX)
    scale = max(1.0, len(state) / COMPARED_MAX) if inside else 1.0
    return sys.getsizeof(state) + int(scale * sum(map(_bytes_of, inside)))


def _undominated(configurations: Iterable[_Configuration]) -> set[_Configuration]:
    """Without those that used up more unknown operations than another of the same state and the same `done`."""
    by_rest: dict[tuple[State, int], list[int]] = {}
    for state, done, used in configurations:
        by_rest.setdefault((state, done), []).append(used)
    kept: set[_Configuration] = set()
    for (state, done), group in by_rest.items():
        if len(group) == 1:
            kept.add((state, done, group[0]))
            continue
        group.sort(key=int.bit_count)
        minimal: list[int] = []
        for used in group:
            if all(other & ~used for other in minimal[:COMPARED_MAX]):
                minimal.append(used)
        kept.update((state, done, used) for used in minimal)
    return kept


def smallest_contradiction(
    ops: Sequence[Op], model: Sequential, failed: Op, *, seconds_max: float = SECONDS_MAX, clock: Clock = untimed
) -> tuple[Op, ...]:
    """Returns fewer operations that alone cannot be ordered either, by leaving out what can be left out honestly.

    Leaving out an observation, or an effect that nothing left observes, never makes a linearizable history
    non-linearizable; so what remains proves as much as the whole. Operations that had not ended when `failed` did are kept
    as unknown. It is as small as it became within `seconds_max` by `clock`.
    """
    left = [
        attrs.evolve(op, type=Outcome.INFO, t_ret=NEVER) if op.t_ret > failed.t_ret else op
        for op in ops
        if op.t_inv <= failed.t_ret
        and (op.type is not Outcome.FAIL or model.is_denial(op))
        # What only observed and had not ended by then shows nothing; as unknown, a compare-and-set would seem to swap.
        and (op.t_ret <= failed.t_ret or model.changes(op))
    ]
    chunk = len(left)
    deadline_s = clock() + seconds_max
    while chunk >= 1:
        at = 0
        while at < len(left) and (seconds_left := deadline_s - clock()) > 0:
            shorter = left[:at] + left[at + chunk :]
            if (
                _honest(left[at : at + chunk], shorter, model)
                and search(shorter, model, seconds_max=seconds_left, clock=clock).linearizable is False
            ):
                left = shorter
            else:
                at += chunk
        chunk //= 2
    return tuple(left)


def _honest(left_out: Sequence[Op], kept: Sequence[Op], model: Sequential) -> bool:
    seen = {model.seen(op) for op in kept}
    if any(model.is_denial(op) for op in kept) and any(model.put(op) is not None for op in left_out):
        return False
    return all((put := model.put(op)) is None or put not in seen for op in left_out) and not any(
        op.f is Action.APPEND for op in left_out
    )
