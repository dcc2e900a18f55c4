"""Queues of elements, sets and keys straight from their definitions, by trying every order. Shares no code with the checker.

Operations are tuples, as in `oracle`: (what, known, started, ended, arguments...).

    ("enqueue", value) ("dequeue", value or None) ("drain", values)     queues; an unknown one has None
    ("add", value) ("read", values)                                      sets
    ("append", value) ("put", values) ("get", values)                    keys
    ("write", value) ("read", value) ("swap", old, new) ("refused", unseen)   registers, from `oracle`
"""

from collections.abc import Callable, Iterator
from typing import Any

Tuple = tuple[Any, ...]
Step = Callable[[Any, Tuple], Iterator[Any]]
ANY = object()


def possible(operations: list[Tuple], step: Step, start: Any) -> bool:
    """Returns True if some order of all known operations and any of the unknown ones can be executed; `step` gives all next states."""
    operations = [one for one in operations if one[1] is not None]
    must = sum(1 << number for number, one in enumerate(operations) if one[1])
    before = [
        sum(1 << at for at, other in enumerate(operations) if other[1] and other[3] < one[2]) for one in operations
    ]
    # A piece of an operation may need another piece to have been executed.
    dead_ends = set()

    def reach(done: int, state: Any) -> bool:
        if done & must == must:
            return True
        if (done, state) in dead_ends:
            return False
        tried = set()
        for number, one in enumerate(operations):
            if not one[1]:  # of those that are the same, any will do
                if one in tried:
                    continue
                if not done >> number & 1:
                    tried.add(one)
            if done >> number & 1 or before[number] & ~done:
                continue
            if any(reach(done | 1 << number, after) for after in step(state, one)):
                return True
        dead_ends.add((done, state))
        return False

    return reach(0, start)


def taken_apart(history: list[Tuple]) -> list[Tuple]:
    """A drain is one dequeue for each of its elements, in any order, and after these one that finds nothing.

    One of unknown outcome is as many dequeues of unknown outcome as there can be elements.
    """
    found: list[Tuple] = []
    puts = sum(one[0] == "enqueue" for one in history)
    for number, (what, known, start, end, *arguments) in enumerate(history):
        if what == "drain" and known:
            found += [("dequeue", True, start, end, value, number) for value in arguments[0]]
            found.append(("finish", True, start, end, number, len(arguments[0])))
        elif what == "drain" and known is False:
            found += [("dequeue", False, start, end, None)] * puts
        else:
            found.append((what, known, start, end, *arguments))
    return found


def without(elements: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    at = elements.index(value)
    return elements[:at] + elements[at + 1 :]


def _queue_step(take: Callable[[tuple[Any, ...], Any], Iterator[tuple[Any, ...]]], *, sort: bool) -> Step:
    def step(state: Any, one: Tuple) -> Iterator[Any]:
        elements, drains = state
        what, known, _, _, *arguments = one
        if what == "enqueue":
            after = (*elements, arguments[0])
            yield (tuple(sorted(after)) if sort else after), drains
        elif not known:
            yield elements, drains
            for after in take(elements, ANY):
                yield after, drains
        elif what == "finish":
            if not elements and sum(1 for each in drains if each == arguments[0]) == arguments[1]:
                yield elements, tuple(each for each in drains if each != arguments[0])
        elif arguments[0] is None:
            if not elements:
                yield state
        else:
            more = tuple(sorted((*drains, *arguments[1:])))
            for after in take(elements, arguments[0]):
                yield after, more

    return step


def _take_any(elements: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    if value is ANY:
        for each in set(elements):
            yield without(elements, each)
    elif value in elements:
        yield without(elements, value)


def _take_first(elements: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    if elements and value in (ANY, elements[0]):
        yield elements[1:]


def unordered_queue(history: list[Tuple]) -> bool:
    return possible(taken_apart(history), _queue_step(_take_any, sort=True), ((), ()))


def fifo_queue(history: list[Tuple]) -> bool:
    return possible(taken_apart(history), _queue_step(_take_first, sort=False), ((), ()))


def total_queue(history: list[Tuple]) -> bool:
    """Each acknowledged enqueue has a delivery of its own somewhere, or stays until an operation of unknown outcome takes it."""
    history = taken_apart(history)
    delivered: dict[Any, int] = {}
    for what, known, _, _, *arguments in history:
        if what == "dequeue" and known and arguments[0] is not None:
            delivered[arguments[0]] = delivered.get(arguments[0], 0) + 1

    def step(state: Any, one: Tuple) -> Iterator[Any]:
        ever, stuck, matched, drains = state
        what, known, _, _, *arguments = one
        if what == "enqueue":
            value = arguments[0]
            if not known:
                yield ever | {value}, stuck, matched, drains
                return
            yield ever | {value}, tuple(sorted((*stuck, value))), matched, drains
            if matched.count(value) < delivered.get(value, 0):
                yield ever | {value}, stuck, tuple(sorted((*matched, value))), drains
        elif not known:
            yield state
            for each in set(stuck):
                yield ever, without(stuck, each), matched, drains
        elif what == "finish":
            if not stuck and drains.count(arguments[0]) == arguments[1]:
                yield ever, stuck, matched, tuple(each for each in drains if each != arguments[0])
        elif arguments[0] is None:
            if not stuck:
                yield state
        elif arguments[0] in ever:
            yield ever, stuck, matched, tuple(sorted((*drains, *arguments[1:])))

    return possible(history, step, (frozenset(), (), (), ()))


def _set_step(state: Any, one: Tuple) -> Iterator[Any]:
    what, known, _, _, value = one
    if what == "add":
        yield state | {value}
    elif not known or set(value) == state:
        yield state


def linearizable_set(history: list[Tuple]) -> bool:
    reads = [one[4] for one in history if one[0] == "read" and one[1]]
    return all(len(set(read)) == len(read) for read in reads) and possible(history, _set_step, frozenset())


def eventual_set(history: list[Tuple]) -> bool:
    reads = [one for one in history if one[0] == "read" and one[1]]
    adds = [one for one in history if one[0] == "add" and one[1] is not None]
    if any(len(set(read[4])) != len(read[4]) for read in reads):
        return False
    for value in {each for read in reads for each in read[4]} | {add[4] for add in adds}:
        having = [read for read in reads if value in read[4]]
        mine = [add for add in adds if add[4] == value]
        if any(not any(add[2] <= read[3] for add in mine) for read in having):
            return False
        ends = [add[3] for add in mine if add[1]]
        for read in reads:
            if value in read[4]:
                continue
            if having and all(other[3] < read[2] for other in having):
                return False
            if not having and ends and min(ends) < read[2]:
                return False
    return True


def _key_step(state: Any, one: Tuple) -> Iterator[Any]:
    what, known, _, _, value = one
    if what == "append":
        yield (*state, value)
    elif what == "put":
        yield tuple(value)
    elif not known or tuple(value) == state:
        yield state


def key_value(history: list[Tuple]) -> bool:
    return possible(history, _key_step, ())
