"""A scenario: one simulated world written down, so that it can be played without the seed that it came from.

A text of lines, `name value`; what is not named is as in the model's fair weather. `#` begins a comment. Apart from the
knobs:

    system raft                  the model; a text without this line is of whichever model reads it
    oracle A1                    what this world was kept for (who plays it knows whether it must still be seen)
    chance 17                    the seed of the streams of chance that are left: delays, fsyncs, timeouts
    raft.heartbeat_s 0.05        a setting of the group of settings `raft`
    retention_bytes 4096         a number that is absent in fair weather
    vanishes_s 1.25 3.5          times at which a thing of its own happens, in seconds
    fault 0.512 power_cut fault/3    when, what, and the stream that it draws its victims from
    lost 1>2 4 7-9               the fourth and the seventh to ninth message from node 1 to node 2 are lost
    unasked 2 1 5                client 2 leaves out its first and its fifth request
"""

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import attrs

from jepsen_like.simulation.kernel.swarm import FaultKind, Knobs, PlannedFault

K = TypeVar("K", bound=Knobs)


@attrs.frozen
class Scenario(Generic[K]):
    """A world, and the oracle that it was kept for."""

    oracle: str
    knobs: K


@attrs.frozen
class ScenarioFormat(Generic[K]):
    """The text format for worlds of one system; `calm` has fair weather, the knobs that a scenario does not name."""

    system: str
    calm: K

    @property
    def numbers(self) -> tuple[str, ...]:
        """The knobs that are plain numbers or yes and no."""
        return tuple(name for name in _fields(self.calm) if isinstance(getattr(self.calm, name), bool | int | float))

    @property
    def optional(self) -> tuple[str, ...]:
        """The knobs that are whole numbers, and absent in fair weather."""
        return tuple(name for name in _fields(self.calm) if getattr(self.calm, name) is None)

    @property
    def times(self) -> tuple[str, ...]:
        """The knobs that are lists of times, and empty in fair weather."""
        return tuple(name for name in _fields(self.calm) if name != "faults" and getattr(self.calm, name) == ())

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """(group, name) of the numbers in those knobs that are groups of settings."""
        groups = [name for name in _fields(self.calm) if attrs.has(type(getattr(self.calm, name)))]
        return tuple((group, name) for group in groups for name in _fields(getattr(self.calm, group)))

    def write(self, scenario: Scenario[K]) -> str:
        """The scenario as text; `read` gives it back."""
        return "".join(f"{line}\n" for line in self._lines(scenario))

    def _lines(self, scenario: Scenario[K]) -> Iterator[str]:
        knobs, calm = scenario.knobs, self.calm
        yield f"system {self.system}"
        yield f"oracle {scenario.oracle}"
        yield f"chance {knobs.seed}"
        for name in (*self.numbers, *self.optional):
            value = getattr(knobs, name)
            if name != "seed" and value != getattr(calm, name):
                yield f"{name} {value!r}"
        for group, name in self.settings:
            value = getattr(getattr(knobs, group), name)
            if value != getattr(getattr(calm, group), name):
                yield f"{group}.{name} {value!r}"
        for name in self.times:
            if times := getattr(knobs, name):
                yield f"{name} {' '.join(map(repr, times))}"
        for fault in knobs.faults:
            yield f"fault {fault.at_s!r} {fault.kind.value} {fault.name}"
        for sender, to in sorted({(a, b) for a, b, _ in knobs.lost}):
            numbers = sorted(number for a, b, number in knobs.lost if (a, b) == (sender, to))
            yield f"lost {sender}>{to} {_runs(numbers)}"
        for client in sorted({client for client, _ in knobs.unasked}):
            numbers = sorted(number for asker, number in knobs.unasked if asker == client)
            yield f"unasked {client} {_runs(numbers)}"

    def read(self, text: str) -> Scenario[K]:
        """The scenario that `text` describes; raises `ValueError`, with the line, for one that makes no sense."""
        oracle, knobs = "", self.calm
        changed: dict[str, dict[str, Any]] = {}  # each group at once, at the end: its settings must fit each other
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            group, dot, name = words[0].partition(".")
            try:
                if words[0] == "oracle":
                    (oracle,) = words[1:]
                elif words[0] == "system":
                    self._check_system(*words[1:])
                elif dot and (group, name) in self.settings:
                    example = getattr(getattr(self.calm, group), name)
                    changed.setdefault(group, {})[name] = _number(example, *words[1:])
                else:
                    knobs = self._with(knobs, *words)
            except (ValueError, TypeError, LookupError) as error:
                raise ValueError(f"line {number} of the scenario, {line!r}: {error}") from error
        if not oracle:
            raise ValueError("a scenario names the oracle that it was kept for, in its first line")
        groups: dict[str, Any] = {
            group: attrs.evolve(getattr(self.calm, group), **settings) for group, settings in changed.items()
        }
        return Scenario(oracle, attrs.evolve(knobs, **groups))

    def _check_system(self, system: str) -> None:
        if system != self.system:
            raise ValueError(f"it is a scenario of {system}, not of {self.system}; choose with --system")

    def _with(self, knobs: K, name: str, *values: str) -> K:
        changed: dict[str, Any]
        match name:
            case "chance":
                changed = {"seed": int(*values)}
            case "fault":
                at_s, kind, stream = values
                changed = {"faults": (*knobs.faults, PlannedFault(float(at_s), FaultKind(kind), stream))}
            case "lost":
                sender, _, to = values[0].partition(">")
                lost = {(int(sender), int(to), number) for number in _numbers(values[1:])}
                changed = {"lost": knobs.lost | lost}
            case "unasked":
                unasked = {(int(values[0]), number) for number in _numbers(values[1:])}
                changed = {"unasked": knobs.unasked | unasked}
            case _ if name in self.numbers:
                changed = {name: _number(getattr(self.calm, name), *values)}
            case _ if name in self.times:
                changed = {name: tuple(map(float, values))}
            case _ if name in self.optional:
                changed = {name: int(*values)}
            case _:
                raise ValueError(f"there is no {name}")
        return attrs.evolve(knobs, **changed)


def _fields(values: Any) -> list[str]:
    return [field.name for field in attrs.fields(type(values))]


def _runs(numbers: Sequence[int]) -> str:
    """Ascending numbers, as `1-4 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _numbers(runs: Sequence[str]) -> Iterator[int]:
    for run in runs:
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _number(example: bool | int | float, text: str) -> bool | int | float:
    """A value of the example's type."""
    if isinstance(example, bool):
        return {"True": True, "False": False}[text]
    return int(text) if isinstance(example, int) else float(text)
