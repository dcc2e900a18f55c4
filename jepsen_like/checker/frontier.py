"""The search that holds all configurations that there may be at a moment: Lowe's just-in-time frontier.

Events are walked in time. When an operation ends, every configuration must have it done; those that have not are extended by pending
operations until it is. An empty frontier means: no order exists. Of two configurations that differ only in the unknown operations
they used up, the one that used more is dropped. What was before an event is forgotten, so that memory depends on what happens at
once and not on the length of the history.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from jepsen_like.checker.pending import Configuration, State, UnderWay, Walked, weight_of

LOOK_STEPS: Final = 64
LOOK_CONFIGURATIONS: Final = 2048
"""After so many steps, or so many new configurations, there is a pause."""
COMPARED_MAX: Final = 256
"""To find those that another one makes superfluous, each is held against so many: more would cost more than it saves."""


class Frontier:
    """One history being searched; `furthest` is the event that is being passed."""

    def __init__(self, walked: Walked) -> None:
        self.furthest = 0
        self._walked = walked
        self._pending = UnderWay(walked)
        self._configurations: set[Configuration] = {(walked.model.initial, 0, 0)}
        self._extending = 0
        self._weight = weight_of(walked.model.initial)

    @property
    def bytes_held(self) -> int:
        """Returns about how much memory this search holds."""
        return self._weight * (len(self._configurations) + self._extending)

    def run(self) -> Iterator[bool | None]:
        """Yields None between pieces of work, and at last whether the history is linearizable."""
        walked, pending = self._walked, self._pending
        for at, (ends, number) in enumerate(walked.events):
            self.furthest = at
            if ends:
                bit, complete = walked.bits[number], set[Configuration]()
                yield from self._extend(bit, complete)
                pending.go(at)
                yield from self._keep((state, done & ~bit, used) for state, done, used in complete)
                if not self._configurations:
                    yield False
                    return
            else:
                pending.go(at)
                if not walked.model.changes(walked.ops[number]):
                    yield from self._observe()
        yield True

    def _observe(self) -> Iterator[None]:
        """Do what observes as soon as it is legal."""
        observed = set[Configuration]()
        for steps, configuration in enumerate(self._configurations, start=1):
            observed.add(self._pending.observe(*configuration))
            if steps % LOOK_STEPS == 0:
                self._extending = len(observed)
                yield None
        self._configurations, self._extending = observed, 0

    def _extend(self, bit: int, complete: set[Configuration]) -> Iterator[None]:
        """Add to `complete` every configuration with this operation done that there may be."""
        known = set(self._configurations)
        todo = list(self._configurations)
        looked = len(known)
        for steps in _count_taken(todo):
            one = todo.pop()
            if one[1] & bit:
                complete.add(one)
                continue
            for following in self._pending.following(one):
                if following not in known:
                    known.add(following)
                    todo.append(following)
            if steps % LOOK_STEPS == 0 or len(known) - looked > LOOK_CONFIGURATIONS:
                looked = self._extending = len(known)
                self._weight = weight_of(todo[-1][0] if todo else one[0])
                yield None
        self._extending = 0

    def _keep(self, configurations: Iterable[Configuration]) -> Iterator[None]:
        """Go on with these, but for those that used up more unknown operations than another of the same state and operations."""
        by_rest: dict[tuple[State, int], list[int]] = {}
        for state, done, used in configurations:
            by_rest.setdefault((state, done), []).append(used)
        kept: set[Configuration] = set()
        for steps, ((state, done), group) in enumerate(by_rest.items(), start=1):
            group.sort(key=int.bit_count)
            minimal: list[int] = []
            for count, used in enumerate(group, start=1):
                if all(other & ~used for other in minimal[:COMPARED_MAX]):
                    minimal.append(used)
                if count % LOOK_CONFIGURATIONS == 0:
                    yield None
            kept.update((state, done, used) for used in minimal)
            if steps % LOOK_CONFIGURATIONS == 0:
                yield None
        self._configurations = kept


def _count_taken(todo: list[Configuration]) -> Iterator[int]:
    """Counts from 1 as long as there is something to do."""
    count = 0
    while todo:
        count += 1
        yield count
