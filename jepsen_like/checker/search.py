"""Linearizability by search: exact for repeated values too, with a bound on time and memory instead of on the history's length.

Two searches take turns until one has the answer. The first follows one order as far as it goes (`depth_first.py`), the second
holds all configurations of a moment (`frontier.py`): a valid history is mostly decided by the former, one that is not by the latter
where orders are many. What need not be tried is in `pending.py`. Before that, unknown reads are dropped, and so is an unknown
operation whose effect no operation saw.

`None` as an answer means that a bound was reached, and the reason states which and where.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final

import attrs

from jepsen_like.checker.depth_first import DepthFirst
from jepsen_like.checker.frontier import Frontier
from jepsen_like.checker.pending import Sequential, State, Walked
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

SEARCHED_OPS_MAX: Final = 1 << 19
"""A search holds each operation as an object: a register with more of them is undecided if it has to be searched."""
SECONDS_MAX: Final = 60.0
MEMORY_MIB_MAX: Final = 1024
OPERATION_BYTES: Final = 1000
"""The bytes of one operation, with the values that a user's class gets. Measured."""
ALONE_LOOKS: Final = 32
"""The first search has so many turns before the second begins: small histories need no more."""

Clock = Callable[[], float]
"""Seconds of processor time that were spent."""


def no_clock() -> float:
    """A clock that stands still: time is no bound then."""
    return 0.0


@attrs.frozen
class SearchBounds:
    """The bounds of the searches among the registers of one bucket."""

    seconds: float = SECONDS_MAX
    """Of processor time, for all of them; the smallest come first."""
    memory_mib: float = MEMORY_MIB_MAX
    """For each of them, one after the other."""
    clock: Clock = no_clock


class Register(Sequential):
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

    def value_seen(self, op: Op) -> int | None:
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
class SearchResult:
    """The answer of a search."""

    linearizable: bool | None
    reason: str = ""
    """Why there is no answer."""
    failed: Op | None = None
    """The operation whose end emptied the frontier: no order of what began before then can contain it."""


def search(
    ops: Sequence[Op],
    model: Sequential,
    *,
    seconds_max: float = SECONDS_MAX,
    memory_mib_max: float = MEMORY_MIB_MAX,
    clock: Clock = no_clock,
) -> SearchResult:
    """Decide one object's operations, in any order; `FAIL` ones are ignored, but for denials.

    Returns an answer of None when it took more than `seconds_max` by `clock` or about `memory_mib_max`.
    """
    deadline_s = clock() + seconds_max
    bytes_max = memory_mib_max * 2**20 - len(ops) * OPERATION_BYTES
    too_large = f"more than {memory_mib_max:g} MiB of configurations and operations"
    if bytes_max <= 0:
        return SearchResult(None, f"{too_large} before the first event")
    walked = Walked.of(model, _relevant(ops, model))
    racers = [_Racer.of(DepthFirst(walked))]
    looks = furthest = 0
    while True:
        for racer in racers:
            answer = next(racer.work)
            furthest = max(furthest, racer.search.furthest)
            if answer is not None:
                return SearchResult(answer, failed=None if answer else walked.ops[walked.events[furthest][1]])
        looks += 1
        if looks == ALONE_LOOKS:
            racers.append(_Racer.of(Frontier(walked)))
        if sum(racer.search.bytes_held for racer in racers) > bytes_max:
            if looks < ALONE_LOOKS:
                racers.append(_Racer.of(Frontier(walked)))
                looks = ALONE_LOOKS
            racers.remove(max(racers, key=lambda racer: racer.search.bytes_held))
        exhausted = too_large if not racers else f"more than {seconds_max:g} s" if clock() > deadline_s else ""
        if exhausted:
            return SearchResult(None, f"{exhausted} after {furthest} of {len(walked.events)} events")


@attrs.frozen(eq=False)
class _Racer:
    """One of the searches, and what is left of its work."""

    search: DepthFirst | Frontier
    work: Iterator[bool | None]

    @classmethod
    def of(cls, search: DepthFirst | Frontier) -> "_Racer":
        return cls(search, search.run())


def _relevant(ops: Sequence[Op], model: Sequential) -> list[Op]:
    """Without failed operations, unknown reads, and unknown effects that no operation saw (transitively)."""
    known = [op for op in ops if op.type is Outcome.OK or model.is_denial(op)]
    unknown = [op for op in ops if op.type is Outcome.INFO and model.changes(op)]
    kept = [op for op in unknown if model.put(op) is None]
    rest = [op for op in unknown if model.put(op) is not None]
    if any(model.is_denial(op) for op in known):
        return known + kept + rest
    by_value: dict[int | None, list[Op]] = {}
    for op in rest:
        by_value.setdefault(model.put(op), []).append(op)
    values = [model.value_seen(op) for op in known]
    while values:
        newly = by_value.pop(values.pop(), [])
        kept += newly
        values += [model.value_seen(op) for op in newly]
    return known + kept


def smallest_contradiction(
    ops: Sequence[Op], model: Sequential, failed: Op, *, seconds_max: float = SECONDS_MAX, clock: Clock = no_clock
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
    seen = {model.value_seen(op) for op in kept}
    if any(model.is_denial(op) for op in kept) and any(model.put(op) is not None for op in left_out):
        return False
    return all((put := model.put(op)) is None or put not in seen for op in left_out) and not any(
        op.f is Action.APPEND for op in left_out
    )
