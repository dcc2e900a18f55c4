"""Shrinks a failing world to one that fails alike: fewer faults, messages, requests, clients, nodes, calmer knobs.

A change is kept when the same oracle still speaks and no more steps are needed until it does. Every concern draws from
a stream of its own, so that what is taken away leaves the rest as it was, until the difference itself makes another.

The order is from what removes most to what removes least; the whole is repeated until a round changes nothing or the
re-runs are used up. Lists are halved and halved again (delta debugging, Zeller and Hildebrandt 2002).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import attrs

from jepsen_like.simulation.kernel.findings import OracleViolation
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.scenario import Scenario, ScenarioFormat
from jepsen_like.simulation.kernel.swarm import Knobs
from jepsen_like.simulation.kernel.tracing import Observer

RERUNS_MAX = 4000
Item = TypeVar("Item")
K = TypeVar("K", bound=Knobs)


@attrs.frozen
class ShrinkOutcome(Generic[K]):
    """A world that was played until its oracle spoke."""

    knobs: K
    violation: OracleViolation
    steps: int
    """Of all nodes together, until then."""
    messages: tuple[tuple[int, int, int], ...]
    """(from, to, number) of all that were put on the wire."""
    requests: tuple[tuple[int, int], ...]
    """(client, number) of all that were made."""


@attrs.define
class Shrunk(Generic[K]):
    """The smallest world found that still fails."""

    oracle: str
    before: ShrinkOutcome[K]
    after: ShrinkOutcome[K]
    reruns: int

    @property
    def scenario(self) -> Scenario[K]:
        """The small world."""
        return Scenario(self.oracle, self.after.knobs)


def play_scenario(
    model: SystemModel[K], scenario: Scenario[K], *, steps_max: int | None = None, observer: Observer | None = None
) -> ShrinkOutcome[K] | None:
    """Play it; None if its oracle had nothing to report."""
    knobs = scenario.knobs
    world = model.world(knobs, stop_at_first=False, stop_at=scenario.oracle, steps_max=steps_max, observer=observer)
    result = world.run()
    spoke = [violation for violation in result.violations if violation.oracle == scenario.oracle]
    if not spoke:
        return None
    messages = [(*link, number) for link, state in world.network.links.items() for number in range(1, state.sent + 1)]
    return ShrinkOutcome(
        knobs,
        spoke[0],
        result.steps,
        tuple(sent for sent in messages if sent not in knobs.lost),
        tuple(made for made in world.all_requests() if made not in knobs.unasked),
    )


def shrink(
    model: SystemModel[K],
    scenario: Scenario[K],
    *,
    on_progress: Callable[[ShrinkOutcome[K], int], None] = lambda _outcome, _reruns: None,
) -> Shrunk[K]:
    """Make it small; `on_progress` gets each smaller world and the re-runs so far. Raises `ValueError` if it holds."""
    before = play_scenario(model, scenario)
    if before is None:
        raise ValueError(f"{scenario.oracle} has nothing to say about this world")
    search = _Search(model, scenario.oracle, before, on_progress)
    search.run()
    return Shrunk(scenario.oracle, before, search.best, search.reruns)


def _size(outcome: ShrinkOutcome[K], form: ScenarioFormat[K]) -> tuple[int, int, int, int]:
    """Returns the measures that must not grow, weightiest first: steps, faults, distance from calm, exceptions."""
    knobs = outcome.knobs
    return outcome.steps, len(knobs.faults), _unrest(knobs, form), len(knobs.lost) + len(knobs.unasked)


def _unrest(knobs: K, form: ScenarioFormat[K]) -> int:
    """In how many knobs and settings it differs from fair weather."""
    calm = form.calm
    plain = [name for name in (*form.numbers, *form.optional) if getattr(knobs, name) != getattr(calm, name)]
    grouped = [
        name
        for group, name in form.settings
        if getattr(getattr(knobs, group), name) != getattr(getattr(calm, group), name)
    ]
    return len(plain) + len(grouped)


@attrs.define
class _Search(Generic[K]):
    model: SystemModel[K]
    oracle: str
    best: ShrinkOutcome[K]
    on_progress: Callable[[ShrinkOutcome[K], int], None]
    reruns: int = 0
    _refused: set[K] = attrs.field(factory=set)

    def run(self) -> None:
        """Round after round, until one changes nothing."""
        self._end_after_the_violation()
        while self.reruns < RERUNS_MAX:
            size = self._size_of(self.best)
            self._fewer_faults()
            self._fewer_nodes_and_clients()
            for knobs in _calmer(self.best.knobs, self.model.scenarios):
                self._try(knobs)
            self._fewer_requests()
            self._fewer_messages()
            self._fewer_exceptions()
            self._end_after_the_violation()
            if self._size_of(self.best) == size:
                return

    def _size_of(self, outcome: ShrinkOutcome[K]) -> tuple[int, int, int, int]:
        return _size(outcome, self.model.scenarios)

    def _try(self, knobs: K, *, steps_may_grow: bool = False) -> bool:
        """Returns True if this world fails alike and is smaller; it is then the best."""
        if knobs in self._refused or knobs == self.best.knobs or self.reruns >= RERUNS_MAX:
            return False
        self.reruns += 1
        steps_max = None if steps_may_grow else self.best.steps
        outcome = play_scenario(self.model, Scenario(self.oracle, knobs), steps_max=steps_max)
        if outcome is None or not (steps_may_grow or self._size_of(outcome) <= self._size_of(self.best)):
            self._refused.add(knobs)
            return False
        self.best = outcome
        self.on_progress(outcome, self.reruns)
        return True

    # ---------------------------------------------------------------- what is taken away

    def _end_after_the_violation(self) -> None:
        """Faults that strike later explain nothing, and the horizon may come nearer."""
        knobs, at_s = self.best.knobs, self.best.violation.time_s
        faults = tuple(fault for fault in knobs.faults if fault.at_s <= at_s)
        horizon_s = round(at_s + 0.01, 2)
        if horizon_s < knobs.safety_s:
            self._try(attrs.evolve(knobs, faults=faults, safety_s=horizon_s))
        self._try(attrs.evolve(self.best.knobs, faults=faults))

    def _fewer_faults(self) -> None:
        self._without(lambda: self.best.knobs.faults, self._leave_out_faults)

    def _leave_out_faults(self, left_out: Sequence[Any]) -> bool:
        faults = tuple(fault for fault in self.best.knobs.faults if fault not in left_out)
        return self._try(attrs.evolve(self.best.knobs, faults=faults))

    def _fewer_nodes_and_clients(self) -> None:
        while (nodes := self.best.knobs.nodes) > 1 and self._try(attrs.evolve(self.best.knobs, nodes=nodes - 1)):
            pass
        while (clients := self.best.knobs.clients) and self._try(attrs.evolve(self.best.knobs, clients=clients - 1)):
            pass

    def _fewer_requests(self) -> None:
        def leave_out(requests: Sequence[tuple[int, int]]) -> bool:
            knobs = self.best.knobs
            return self._try(attrs.evolve(knobs, unasked=knobs.unasked | set(requests)))

        self._without(lambda: self.best.requests, leave_out)

    def _fewer_messages(self) -> None:
        def lose(messages: Sequence[tuple[int, int, int]]) -> bool:
            knobs = self.best.knobs
            return self._try(attrs.evolve(knobs, lost=knobs.lost | set(messages)))

        self._without(lambda: self.best.messages, lose)

    def _fewer_exceptions(self) -> None:
        """Deliver messages and ask requests that were left out without need."""

        def deliver(messages: Sequence[tuple[int, int, int]]) -> bool:
            knobs = self.best.knobs
            return self._try(attrs.evolve(knobs, lost=knobs.lost - set(messages)))

        def ask(requests: Sequence[tuple[int, int]]) -> bool:
            knobs = self.best.knobs
            return self._try(attrs.evolve(knobs, unasked=knobs.unasked - set(requests)))

        self._without(lambda: sorted(self.best.knobs.lost), deliver)
        self._without(lambda: sorted(self.best.knobs.unasked), ask)

    def _without(self, present: Callable[[], Sequence[Item]], leave_out: Callable[[Sequence[Item]], bool]) -> None:
        """Leave out pieces of the list, from halves down to single items; the list may change whenever one goes."""
        size = len(present())
        while size >= 1:
            at = 0
            while at < len(items := present()) and self.reruns < RERUNS_MAX:
                if not leave_out(items[at : at + size]):
                    at += size
            size //= 2


def _calmer(knobs: K, form: ScenarioFormat[K]) -> Iterator[K]:
    """Each knob and each setting as in fair weather, or as a round number, each on its own."""
    calm = form.calm
    changed: dict[str, Any]
    for name in form.optional:
        changed = {name: None}
        yield attrs.evolve(knobs, **changed)
    for name in form.numbers:
        if name not in ("seed", "nodes", "clients", "safety_s"):
            for value in _plainer(getattr(knobs, name), getattr(calm, name)):
                changed = {name: value}
                yield attrs.evolve(knobs, **changed)
    for group, name in form.settings:
        settings = getattr(knobs, group)
        for value in _plainer(getattr(settings, name), getattr(getattr(calm, group), name)):
            try:
                changed = {group: attrs.evolve(settings, **{name: value})}
            except ValueError:
                continue  # does not fit the other settings
            yield attrs.evolve(knobs, **changed)


def _plainer(value: int | float, calm: int | float) -> tuple[int | float, ...]:
    """Returns the values plainer than `value`, the plainest first."""
    if value == calm:
        return ()
    return (calm, float(f"{value:.1g}"), float(f"{value:.2g}")) if isinstance(value, float) else (calm,)
