"""Random small histories: made by a correct object under concurrency, then about half of them damaged.

Times are small integers, so that many are equal; up to a third of the operations are unknown; in some histories values
are written more than once; a few operations were refused. Each history is a list of the tuples that `oracle` defines;
`as_ops` converts it for the checker.
"""

import random
from collections.abc import Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import NONE, Action, Op, Outcome

Tuple = tuple[Any, ...]
FAR = 10**6
"""Operations of unknown outcome end then, in the oracle's eyes."""
FINAL = 10**5
"""The final logs are read then, in the oracle's eyes."""
NODE = 1_000
"""The log of the next node is read so much later."""
ENDS = 2 * FINAL
"""Each log is found to end then."""


def _intervals(rng: random.Random, count: int) -> list[tuple[int, int, int]]:
    """(start, moment of effect, end), in order of effect."""
    crowd = rng.choice((3, 6, 10))
    found = []
    for _ in range(count):
        start = rng.randrange(2 * count)
        end = start + rng.randrange(crowd)
        found.append((start, rng.randint(start, end), end))
    found.sort(key=lambda one: one[1])
    return found


def register_history(rng: random.Random) -> list[Tuple]:
    """Writes (also of None, as if it had never been written), reads, swaps and failed swaps of one register."""
    count = rng.randint(3, 8)
    repeats = rng.random() < 0.35
    fresh = iter(range(1, 100))
    unknown_share = rng.choice((0.0, 0.15, 0.35))
    refusals = rng.random() < 0.15
    state: int | None = None
    written: list[int | None] = []
    history: list[Tuple] = []
    for start, _, end in _intervals(rng, count):
        value = rng.choice((None, 1, 1, 2, 2, 3, 3)) if repeats else next(fresh)
        kind = rng.choice(("write", "write", "read", "read", "read", "swap", "swap"))
        if kind == "swap" and (state is None or rng.random() < 0.3):
            operation: Tuple = ("noswap", state)
            if refusals and rng.random() < 0.5:
                operation = ("refused", rng.choice([one for one in (None, *written, 50) if one != state]))
        elif kind == "swap":
            operation = ("swap", state, value)
        else:
            operation = (kind, state if kind == "read" else value)
        known = rng.random() >= unknown_share
        applied = known or rng.random() < 0.5
        if applied and operation[0] in ("write", "swap"):
            state = operation[-1]
            written.append(state)
        if not known and operation[0] in ("noswap", "refused"):
            operation = ("swap", rng.randint(1, 3), value)
        history.append((operation[0], known, start, end if known else FAR, *operation[1:]))
        if operation[0] == "write" and rng.random() < 0.1:
            history.append(("write", None, start, end, value if rng.random() < 0.3 else next(fresh)))
    if rng.random() < 0.08:
        _split(rng, history)
    return _damage_history(rng, history, _damage_register)


def _split(rng: random.Random, history: list[Tuple]) -> None:
    """A second primary that has not seen a swap: it takes another one of the same value, later on."""
    swaps = [one for one in history if one[0] == "swap" and one[1]]
    if swaps:
        _, _, _, end, old, _ = rng.choice(swaps)
        start = end + rng.randint(-1, 4)
        history.append(("swap", True, start, start + rng.randint(0, 3), old, rng.randint(101, 104)))
        if rng.random() < 0.5:
            history.append(("read", True, start + 2, start + 5, history[-1][-1]))


def log_history(rng: random.Random) -> list[Tuple]:
    """Appends (some of them batches), reads and tails of one log, and in half of the histories what nodes hold in the end."""
    count = rng.randint(3, 7)
    repeats = rng.random() < 0.25
    fresh = iter(range(1, 100))
    unknown_share = rng.choice((0.0, 0.2, 0.4))
    is_dumped, names_epochs = rng.random() < 0.5, rng.random() < 0.7
    epoch = 1
    state: list[int] = []
    epochs: list[int | None] = []
    history: list[Tuple] = []
    for start, _, end in _intervals(rng, count):
        kind = rng.choice(("append", "append", "append", "get", "get", "end"))
        known = rng.random() >= unknown_share
        if kind == "append":
            # Where a value may be of two appends, or its place is not known in the end, the matching is not exact.
            together = rng.choice((1, 1, 1, 2, 3)) if known or (is_dumped and not repeats) else 1
            values = tuple(rng.randint(1, 2) if repeats else next(fresh) for _ in range(together))
            at = (len(state), epoch) if known else (None, None)
            history.append(("append", known, start, end if known else FAR, values, *at))
            if known or rng.random() < 0.5:
                state += values
                epochs += [epoch] * len(values)
            epoch += rng.random() < 0.15
            if rng.random() < 0.1:
                history.append(("append", None, start, end, (next(fresh),), None, None))
        elif known:
            place = rng.randint(0, len(state))
            there = (state[place], epochs[place]) if place < len(state) else (None, None)
            asked = ("get", True, start, end, place, *there) if kind == "get" else ("end", True, start, end, len(state))
            history.append(asked)
    history = _damage_history(rng, history, _damage_log)
    if not names_epochs:
        history = [(*one[:6], None) if one[0] in ("append", "get") else one for one in history]
    if not is_dumped:
        return history
    logs = {node: (list(state), list(epochs)) for node in range(1, rng.choice((1, 1, 2, 3)) + 1)}
    if rng.random() < 0.2:
        _damage_dump(rng, *logs[rng.choice(list(logs))])
    return history + [one for node, of_node in logs.items() for one in final_reads(node, *of_node)]


def final_reads(node: int, values: Sequence[int], epochs: Sequence[int | None]) -> list[Tuple]:
    """The final log of a node as reads for the oracle: every place is read once all is over, and then one behind the end.

    They all end before any is found to go on no further, since the logs are to be the same.
    """
    at = FINAL + NODE * node
    reads = [
        ("get", True, at + place, at + place, place, *one) for place, one in enumerate(zip(values, epochs, strict=True))
    ]
    return [*reads, ("get", True, ENDS + node, ENDS + node, len(values), None, None)]


def final_logs_of(history: Sequence[Tuple]) -> dict[int, list[tuple[int, int]]]:
    """The same as values and epochs by node."""
    found: dict[int, list[tuple[int, int]]] = {}
    for one in history:
        if one[2] >= ENDS:
            found.setdefault(one[2] - ENDS, [])
        elif one[2] >= FINAL:
            found.setdefault((one[2] - FINAL) // NODE, []).append((one[5], NONE if one[6] is None else one[6]))
    return found


def _damage_dump(rng: random.Random, values: list[int], epochs: list[int | None]) -> None:
    """One node lacks its end, holds another value or another epoch, or its records in another order."""
    if not values:
        return
    at = rng.randrange(len(values))
    match rng.randrange(4):
        case 0:
            del values[at:], epochs[at:]
        case 1:
            values[at] = rng.choice((97, *values))
        case 2:
            epochs[at] = rng.randint(1, 4)
        case _:
            values[at], values[0] = values[0], values[at]


def _damage_history(rng: random.Random, history: list[Tuple], damage: Any) -> list[Tuple]:
    for _ in range(rng.choice((0, 0, 1, 2, 3, 4)) if history else 0):
        at = rng.randrange(len(history))
        if rng.random() < 0.25:
            what, known, start, end, *arguments = history[at]
            later = rng.randint(1, 8)
            history[at] = (what, known, start + later, end + later if known else FAR, *arguments)
        else:
            history[at] = damage(rng, history, history[at])
    return history


def _damage_register(rng: random.Random, history: list[Tuple], one: Tuple) -> Tuple:
    what, known, start, end, *arguments = one
    values = [None, 99, *(other[-1] for other in history if other[0] in ("write", "swap"))]
    arguments[rng.randrange(len(arguments)) if what == "swap" else 0] = rng.choice(values)
    return (what, known, start, end, *arguments)


def _damage_log(rng: random.Random, history: list[Tuple], one: Tuple) -> Tuple:
    what, known, start, end, *arguments = one
    values = [97, *(value for other in history if other[0] == "append" for value in other[4])]
    if what == "append":
        draw = rng.random()
        if known and draw < 0.5:
            arguments[1] = max(0, arguments[1] + rng.choice((-1, 1)))
        elif known and draw < 0.65:
            arguments[2] = rng.randint(1, 4)
        elif len(arguments[0]) > 1:
            arguments[0] = tuple(rng.sample(arguments[0], len(arguments[0])))
        else:
            arguments[0] = (rng.choice(values),)
    elif what == "get":
        draw = rng.random()
        if draw < 0.1 and arguments[2] is not None:
            arguments[2] = rng.randint(1, 4)
        elif draw < 0.5:
            arguments[0] = max(0, arguments[0] + rng.choice((-1, 1)))
        else:
            arguments[1] = rng.choice([None, *values])
    else:
        arguments[0] = max(0, arguments[0] + rng.choice((-1, 1)))
    return (what, known, start, end, *arguments)


def as_ops(history: Sequence[Tuple], obj: int = 0) -> list[Op]:
    """The same history in the checker's terms; final reads are left out (they travel as a dump)."""
    return [op for process, one in enumerate(history) for op in _as_ops(one, obj, process)]


def _as_ops(one: Tuple, obj: int, process: int) -> list[Op]:
    if one[0] != "append" or len(one[4]) == 1:
        return [_as_op(one, obj, process)]
    values, place, epoch = one[4:]
    alone = [_as_op((*one[:4], (value,), place, epoch), obj, process) for value in values]
    return [
        attrs.evolve(op, count=len(values), offset=NONE if place is None else place + position)
        for position, op in enumerate(alone)
    ]


def _as_op(one: Tuple, obj: int, process: int) -> Op:
    what, known, start, end, *arguments = one
    given = [NONE if argument is None else argument for argument in arguments]
    outcome = Outcome.FAIL if known is None else Outcome.OK if known else Outcome.INFO
    common: dict[str, Any] = {"type": outcome, "t_inv": start, "t_ret": end, "object": obj, "process": process}
    match what:
        case "write":
            return Op(f=Action.WRITE, a=given[0], **common)
        case "read":
            return Op(f=Action.READ, a=given[0], **common)
        case "swap":
            return Op(f=Action.CAS, a=given[0], b=given[1], seen=given[0] if known else NONE, **common)
        case "noswap":
            # Whatever it expected was something else, and it reports what it saw instead.
            return Op(f=Action.CAS, a=77, b=78, seen=given[0], **common)
        case "refused":
            return Op(f=Action.CAS, a=given[0], b=79, **{**common, "type": Outcome.FAIL})
        case "append":
            ((value,), *_) = arguments
            return Op(f=Action.APPEND, a=value, offset=given[1], epoch=given[2], **common)
        case "get":
            return Op(f=Action.READ, offset=given[0], a=given[1], epoch=given[2], **common)
        case "end":
            return Op(f=Action.TAIL, offset=given[0], **common)
        case _:
            raise ValueError(what)


def overlap(history: Sequence[Tuple]) -> int:
    """The largest number of operations under way at one moment."""
    return max((sum(one[2] <= at <= one[3] for one in history) for at in {one[2] for one in history}), default=0)
