"""Linearizability straight from its definition, by trying every order. Shares no code with the checker, on purpose.

A history is linearizable when there is a set of operations, all known ones and any of the unknown ones, and an order of
this set in which no operation stands before one that had ended when it began, such that an object that executes them one
by one in this order answers exactly what was answered. Operations here are plain tuples:

    (what, known, started, ended, arguments...)   times are numbers; `known` is whether the outcome is known, or None for
                                                  an operation that certainly did not happen, which is no operation

    ("write", value) ("read", value) ("swap", old, new) ("noswap", seen) ("refused", unseen)             registers
    ("append", values, place or None, epoch or None) ("get", place, value or None, epoch or None) ("end", length)   logs

The values of one append enter a log at once. Epochs are a matter of places alone, whatever the order of the operations: each
place has one, and none is lower than one before it.
"""

from typing import Any

Tuple = tuple[Any, ...]


def linearizable(operations: list[Tuple], execute: Any, start: Any) -> bool:
    """`execute(state, what, *arguments)` gives the next state, or raises `Impossible`."""
    operations = [operation for operation in operations if operation[1] is not None]
    count = len(operations)
    must = sum(1 << number for number, operation in enumerate(operations) if operation[1])
    # before[i]: the known operations that had ended when i began; only these have to stand before it.
    before = [
        sum(1 << other for other in range(count) if operations[other][1] and operations[other][3] < operations[one][2])
        for one in range(count)
    ]
    dead_ends = set()

    def possible(done: int, state: Any) -> bool:
        if done & must == must:
            return True
        if (done, state) in dead_ends:
            return False
        for number, operation in enumerate(operations):
            if done >> number & 1 or before[number] & ~done:
                continue
            try:
                following = execute(state, operation[0], *operation[4:])
            except Impossible:
                continue
            if possible(done | 1 << number, following):
                return True
        dead_ends.add((done, state))
        return False

    return possible(0, start)


class Impossible(Exception):
    """The object cannot have given this answer in this state."""


def register(state: Any, what: str, *arguments: Any) -> Any:
    """A register that starts as None."""
    if what == "write":
        return arguments[0]
    if what == "swap":
        if state == arguments[0]:
            return arguments[1]
    elif what == "refused":
        if state != arguments[0]:
            return state
    elif state == arguments[0]:
        return state
    raise Impossible


def log(state: tuple[int, ...], what: str, *arguments: Any) -> tuple[int, ...]:
    """A log that starts empty."""
    if what == "append":
        values, place, *_ = arguments
        if place is None or place == len(state):
            return (*state, *values)
    elif what == "get":
        place, value, *_ = arguments
        if (state[place] if place < len(state) else None) == value:
            return state
    elif arguments[0] == len(state):
        return state
    raise Impossible


def epochs_rise(operations: list[Tuple]) -> bool:
    """Returns True if there is a log with all the epochs that were named in it."""
    named = []
    for what, known, _, _, *arguments in operations:
        if what == "append" and known and len(arguments) > 2 and arguments[2] is not None:
            values, place, epoch = arguments
            named += [(place + position, epoch) for position in range(len(values))]
        elif what == "get" and len(arguments) > 2 and arguments[2] is not None and arguments[1] is not None:
            named.append((arguments[0], arguments[2]))
    return all(epoch == other for place, epoch in named for there, other in named if place == there) and all(
        epoch <= other for place, epoch in named for there, other in named if place < there
    )
