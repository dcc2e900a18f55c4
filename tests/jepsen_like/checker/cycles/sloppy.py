"""Histories of stores that sometimes forget their lock, as rows: they read what is old, and write over each other."""

import random
from collections.abc import Iterator

import attrs

from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import NONE, Action, Op, Outcome

CLIENTS = 4
KEYS = 12
LONGEST = 16
"""Values of a list, before a new key takes its place."""


def sloppy_transactions(seed: int, model: Model, count: int = 600, forgets: float = 0.02) -> Iterator[Op]:
    """Returns transactions of one to four operations, by clients that overlap; each takes effect at a moment between its ends.

    One that forgets its lock reads a state of some time ago.
    """
    chance = random.Random(seed)
    state: dict[int, tuple[int, ...]] = {}
    past: list[dict[int, tuple[int, ...]]] = [{}]
    free = dict.fromkeys(range(CLIENTS), 0)
    values, first_key = 0, 0
    done: list[tuple[int, list[Op]]] = []
    for number in range(count):
        process = min(free, key=lambda each: (free[each], each))
        # Effects come in the order of the numbers, each in the middle of its own operation.
        effect = max(10 * number + 5, free[process] + 2)
        begin, end = effect - chance.randint(1, min(12, effect - free[process])), effect + chance.randint(1, 12)
        free[process] = end + 1
        seen = state if chance.random() >= forgets else chance.choice(past[-20:])
        mine, rows = dict(seen), list[Op]()
        for place in range(chance.randint(1, 4)):
            key = first_key + chance.randrange(KEYS)
            one = Op(
                f=Action.READ,
                type=Outcome.OK,
                object=key,
                process=process,
                epoch=number,
                seen=place,
                t_inv=begin,
                t_ret=end,
            )
            if chance.random() < 0.5:
                there = mine.get(key, ()) or (NONE,)
                rows += [attrs.evolve(one, a=value) for value in (there if model is Model.LIST_APPEND else there[-1:])]
            else:
                values += 1
                write = Action.APPEND if model is Model.LIST_APPEND else Action.WRITE
                rows.append(attrs.evolve(one, f=write, a=values))
                mine[key] = (*mine.get(key, ()), values)
                state = {**state, key: (*state.get(key, ()), values)}
        first_key += KEYS if any(len(some) > LONGEST for some in state.values()) else 0
        state = {key: some for key, some in state.items() if key >= first_key}
        past = [*past[-20:], state]
        done.append((end, rows))
    for _, rows in sorted(done, key=lambda item: item[0]):
        yield from rows


def sloppy_partitions(seed: int, count: int = 400) -> Iterator[Op]:
    """Returns transactions, two at a time, that send to partitions and poll them: they may see what the other has not committed."""
    chance = random.Random(seed)
    logs: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    positions: dict[tuple[int, int], int] = {}
    values = 0
    for number in range(0, count, 2):
        begin = 100 * number
        pair = [
            Op(
                f=Action.SEND,
                type=Outcome.OK,
                process=(number + one) % CLIENTS,
                epoch=number + one,
                t_inv=begin,
                t_ret=begin + 150 + one,
            )
            for one in range(2)
        ]
        sent = list[list[Op]]()
        for one in pair:
            rows = list[Op]()
            for _ in range(chance.randint(1, 3)):
                values, key = values + 1, chance.randrange(KEYS)
                logs[key].append(values)
                rows.append(attrs.evolve(one, object=key, a=values, offset=len(logs[key]) - 1))
            sent.append(rows)
        for one, rows in zip(pair, sent, strict=True):
            yield from rows
            for key in chance.sample(range(KEYS), 2):
                at = positions.get((one.process, key), 0) + (chance.random() < 0.03)
                for offset in range(at, len(logs[key])):
                    yield attrs.evolve(one, f=Action.POLL, object=key, a=logs[key][offset], offset=offset)
                positions[one.process, key] = max(at, len(logs[key]))
