"""An oracle for small histories of lists: it tries all orders of the transactions, or of their beginnings and ends, one by one."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import attrs

Deed = tuple[str, str, tuple[int, ...]]
"""`a` and the one value, or `r` and all values that were read."""


@attrs.frozen
class Txn:
    process: int
    begin: int
    end: int
    deeds: tuple[Deed, ...]


def random_history(seed: int, count: int = 4, keys: str = "xy") -> list[Txn]:
    """Returns transactions that read beginnings of fixed lists, and at the end one that reads the whole lists."""
    chance = random.Random(seed)
    shapes = [[(chance.choice("ar"), chance.choice(keys)) for _ in range(chance.randint(1, 3))] for _ in range(count)]
    values = itertools.count(1)
    appended: dict[str, list[tuple[int, int]]] = {key: [] for key in keys}
    written = [[(f, key, next(values)) for f, key in shape] for shape in shapes]
    for txn, shape in enumerate(written):
        for f, key, value in shape:
            if f == "a":
                appended[key].append((txn, value))
    order = {key: _mix(chance, appended[key]) for key in keys}
    txns = list[Txn]()
    at = 0
    for shape in written:
        deeds: list[Deed] = []
        own: dict[str, int] = {}
        for f, key, value in shape:
            if f == "a":
                deeds.append(("a", key, (value,)))
                own[key] = value
            elif key in own:
                deeds.append(("r", key, tuple(order[key][: order[key].index(own[key]) + 1])))
            else:
                deeds.append(("r", key, tuple(order[key][: chance.randint(0, len(order[key]))])))
        at += chance.randint(0, 2)
        end = at + chance.randint(1, 5)
        txns.append(Txn(0, at, end, tuple(deeds)))
        at += 1
    free: list[int] = []
    placed = list[Txn]()
    for one in sorted(txns, key=lambda each: each.begin):
        process = next((number for number, end in enumerate(free) if end < one.begin), len(free))
        free[process : process + 1] = [one.end]
        placed.append(attrs.evolve(one, process=process))
    last = max(txn.end for txn in placed)
    whole: tuple[Deed, ...] = tuple(("r", key, tuple(order[key])) for key in keys)
    return [*placed, Txn(0, last + 1, last + 2, whole)]


def _mix(chance: random.Random, appended: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the values in any order that leaves those of one transaction as they are."""
    waiting = {txn: [value for other, value in appended if other == txn] for txn, _ in appended}
    found = list[int]()
    while waiting:
        txn = chance.choice(sorted(waiting))
        found.append(waiting[txn].pop(0))
        if not waiting[txn]:
            del waiting[txn]
    return found


def explains(txns: Sequence[Txn]) -> bool:
    """Returns whether these transactions, one after the other, saw what they saw."""
    state: dict[str, tuple[int, ...]] = {}
    for txn in txns:
        for f, key, values in txn.deeds:
            if f == "a":
                state[key] = (*state.get(key, ()), *values)
            elif state.get(key, ()) != values:
                return False
    return True


def orders(txns: Sequence[Txn], *, by_process: bool, by_time: bool) -> Iterator[Sequence[Txn]]:
    for order in itertools.permutations(txns):
        pairs = itertools.combinations(order, 2)
        if any(
            later.end < earlier.begin and (by_time or (by_process and later.process == earlier.process))
            for earlier, later in pairs
        ):
            continue
        yield order


def is_serializable(txns: Sequence[Txn], *, by_process: bool = False, by_time: bool = False) -> bool:
    return any(explains(order) for order in orders(txns, by_process=by_process, by_time=by_time))


def is_snapshot_isolated(txns: Sequence[Txn]) -> bool:
    """Returns whether there are snapshots and commits for all: a transaction reads its snapshot and what it appended itself, and of
    two that append to one key one commits before the other takes its snapshot."""
    *some, last = txns
    return _commit(some, last, {}, {}, {}, frozenset())


State = Mapping[str, tuple[int, ...]]


def _commit(
    waiting: Sequence[Txn],
    last: Txn,
    state: State,
    begun: Mapping[Txn, State],
    writers: Mapping[str, int],
    done: frozenset[Txn],
) -> bool:
    if len(done) == len(waiting):
        return explains_from(state, last)
    for txn in waiting:
        if txn in done:
            continue
        if txn not in begun:
            if explains_from(state, txn) and _commit(
                waiting, last, state, {**begun, txn: {**state, "#": (len(done),)}}, writers, done
            ):
                return True
            continue
        (since,) = begun[txn]["#"]
        keys = {key for f, key, _ in txn.deeds if f == "a"}
        if any(writers.get(key, -1) >= since for key in keys):
            continue
        after = dict(state)
        for f, key, values in txn.deeds:
            if f == "a":
                after[key] = (*after.get(key, ()), *values)
        changed = {**writers, **dict.fromkeys(keys, len(done))}
        if _commit(waiting, last, after, begun, changed, done | {txn}):
            return True
    return False


def explains_from(state: State, txn: Txn) -> bool:
    seen = dict(state)
    for f, key, values in txn.deeds:
        if f == "a":
            seen[key] = (*seen.get(key, ()), *values)
        elif seen.get(key, ()) != values:
            return False
    return True
