"""The search that follows one order of the operations as far as it goes, and tries another from where it failed.

Wing and Gong's search with Lowe's memory (Testing for linearizability, 2017), as Porcupine has it: what was tried is never tried
again. Operations are put in order only when one of them ends, so that unknown ones cost nothing until something needs them. Of two
configurations at one event that differ only in the unknown operations they used up, the one that used more can do no more than the
other, and is not followed. A valid history is mostly decided in a time that grows with its length alone.
"""

from collections.abc import Iterator
from typing import Final

from jepsen_like.checker.pending import Configuration, State, UnderWay, Walked, weight_of

LOOK_STEPS: Final = 64
"""So many steps are done between two pauses."""
COMPARED_MAX: Final = 256
"""A configuration is held against so many others: more would cost more than it saves."""


class DepthFirst:
    """One history being searched; `furthest` is the event that nothing has passed yet."""

    def __init__(self, walked: Walked) -> None:
        self.furthest = 0
        self._walked = walked
        self._pending = UnderWay(walked)
        self._at = 0
        self._tried: dict[tuple[int, State, int], list[int]] = {}
        """The states of the unknown operations at an event with this state and these operations done."""
        self._stack: list[tuple[int, Iterator[Configuration]]] = []
        self._held = self._weight = self._since = 0

    @property
    def bytes_held(self) -> int:
        """Returns about how much memory this search holds."""
        return self._held

    def run(self) -> Iterator[bool | None]:
        """Yields None between pieces of work, and at last whether the history is linearizable."""
        one: Configuration | None = (self._walked.model.initial, 0, 0)
        steps = 0
        while one is not None:
            one = self._advance(one)
            if self._at == len(self._walked.events):
                yield True
                return
            if self._is_new(one):
                self._stack.append((self._at, self._alternatives(one)))
            one = self._next()
            steps += 1
            if steps % LOOK_STEPS == 0:
                if one is not None:
                    self._weigh(one[0])
                yield None
        yield False

    def _advance(self, one: Configuration) -> Configuration:
        """Pass all events up to the first end of an operation that is not done."""
        walked, pending = self._walked, self._pending
        state, done, used = one
        while self._at < len(walked.events):
            ends, number = walked.events[self._at]
            if ends and not done & walked.bits[number]:
                break
            pending.go(self._at)
            self._at += 1
            if ends:
                done &= ~walked.bits[number]
            elif not walked.model.changes(walked.ops[number]):
                state, done, used = pending.observe(state, done, used)
        self.furthest = max(self.furthest, self._at)
        return state, done, used

    def _is_new(self, one: Configuration) -> bool:
        state, done, used = one
        tried = self._tried.setdefault((self._at, state, done), [])
        if any(not other & ~used for other in tried[:COMPARED_MAX]):
            return False
        tried.append(used)
        self._since += 1
        return True

    def _alternatives(self, one: Configuration) -> Iterator[Configuration]:
        """Yields what may come next: first of all the operation that has to be done now."""
        _, number = self._walked.events[self._at]
        model, op = self._walked.model, self._walked.ops[number]
        if model.changes(op) and (direct := self._pending.done_now(number, one)) is not None:
            yield direct
        yield from self._pending.following(one, model.value_seen(op))

    def _next(self) -> Configuration | None:
        """The next alternative of the last choice that has one."""
        while self._stack:
            at, alternatives = self._stack[-1]
            while self._at > at:
                self._at -= 1
                self._pending.go_back(self._at)
            one = next(alternatives, None)
            if one is not None:
                return one
            self._stack.pop()
        return None

    def _weigh(self, state: State) -> None:
        """Let what was added since the last time count as what there is now; a choice takes about as much."""
        self._weight = 2 * weight_of(state)
        self._held += self._since * self._weight
        self._since = 0
