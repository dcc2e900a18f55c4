"""A scenario: one simulated world written down, so that it can be played without the seed that it came from.

A text of lines, `name value`; what is not named is as in fair weather (`CALM`). `#` begins a comment. Beside the knobs:

    oracle A1                    what this world was kept for (whoever plays it says whether it must still be seen)
    chance 17                    the seed of the streams of chance that are left: delays, fsyncs, timeouts
    raft.heartbeat_s 0.05        a setting of the core
    retention_bytes 4096         logs are trimmed
    fault 0.512 power_cut fault/3    when, what, and the stream that it draws its victims from
    lost 1>2 4 7-9               the fourth and the seventh to ninth message from node 1 to node 2 are lost
    unasked 2 1 5                client 2 leaves out its first and its fifth request
"""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from jepsen_like.simulation.raft.swarm import FaultKind, Knobs, PlannedFault
from raft.config import RaftConfig

CALM = Knobs(
    seed=0,
    nodes=3,
    raft=RaftConfig(),
    segment_bytes_max=20_000,
    safety_s=6.0,
    delay_s=0.002,
    delay_s_spread=0.2,
    loss=0.0,
    duplicate=0.0,
    fifo=True,
    flush_s=0.001,
    flush_s_spread=0.2,
    handoff_s=0.0,
    load_s=0.0,
    rot=0.0,
    drift=0.0,
    clients=0,
    think_s=0.05,
    retry_s=0.1,
    client_timeout_s=1.0,
    burst=1,
    reads=0.3,
    records_max=1,
    filler_bytes_max=0,
    recovery_crash=0.0,
    faults=(),
)
"""A good network, fast disks, no clients, no faults."""

NUMBERS = tuple(
    field.name for field in attrs.fields(Knobs) if isinstance(getattr(CALM, field.name), bool | int | float)
)
"""The knobs that are plain numbers or yes and no."""


@attrs.frozen
class Scenario:
    """A world, and the oracle that it was kept for."""

    oracle: str
    knobs: Knobs


def write(scenario: Scenario) -> str:
    """The scenario as text; `read` gives it back."""
    return "".join(f"{line}\n" for line in _lines(scenario))


def _lines(scenario: Scenario) -> Iterator[str]:
    knobs = scenario.knobs
    yield f"oracle {scenario.oracle}"
    yield f"chance {knobs.seed}"
    for name in NUMBERS:
        value = getattr(knobs, name)
        if name != "seed" and value != getattr(CALM, name):
            yield f"{name} {value!r}"
    if knobs.retention_bytes is not None:
        yield f"retention_bytes {knobs.retention_bytes}"
    for field in attrs.fields(RaftConfig):
        value = getattr(knobs.raft, field.name)
        if value != getattr(CALM.raft, field.name):
            yield f"raft.{field.name} {value!r}"
    for fault in knobs.faults:
        yield f"fault {fault.at_s!r} {fault.kind.value} {fault.name}"
    for sender, to in sorted({(a, b) for a, b, _ in knobs.lost}):
        numbers = sorted(number for a, b, number in knobs.lost if (a, b) == (sender, to))
        yield f"lost {sender}>{to} {_runs(numbers)}"
    for client in sorted({client for client, _ in knobs.unasked}):
        numbers = sorted(number for who, number in knobs.unasked if who == client)
        yield f"unasked {client} {_runs(numbers)}"


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


def read(text: str) -> Scenario:
    """The scenario that `text` describes; `ValueError`, with the line, for one that makes no sense."""
    oracle, knobs = "", CALM
    settings: dict[str, Any] = {}  # together at the end: they must fit each other
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "oracle":
                (oracle,) = words[1:]
            elif words[0].startswith("raft."):
                name = words[0].removeprefix("raft.")
                settings[name] = _number(getattr(CALM.raft, name), *words[1:])
            else:
                knobs = _with(knobs, *words)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"line {number} of the scenario, {line!r}: {error}") from error
    if not oracle:
        raise ValueError("a scenario says which oracle it was kept for")
    return Scenario(oracle, attrs.evolve(knobs, raft=attrs.evolve(knobs.raft, **settings)))


def _number(example: bool | int | float, text: str) -> bool | int | float:
    """A value of the example's type."""
    if isinstance(example, bool):
        return {"True": True, "False": False}[text]
    return int(text) if isinstance(example, int) else float(text)


def _with(knobs: Knobs, name: str, *values: str) -> Knobs:
    match name:
        case "chance":
            return attrs.evolve(knobs, seed=int(*values))
        case "retention_bytes":
            return attrs.evolve(knobs, retention_bytes=int(*values))
        case "fault":
            at_s, kind, stream = values
            fault = PlannedFault(float(at_s), FaultKind(kind), stream)
            return attrs.evolve(knobs, faults=(*knobs.faults, fault))
        case "lost":
            sender, _, to = values[0].partition(">")
            lost = {(int(sender), int(to), number) for number in _numbers(values[1:])}
            return attrs.evolve(knobs, lost=knobs.lost | lost)
        case "unasked":
            unasked = {(int(values[0]), number) for number in _numbers(values[1:])}
            return attrs.evolve(knobs, unasked=knobs.unasked | unasked)
        case _ if name in NUMBERS:
            changed: dict[str, Any] = {name: _number(getattr(CALM, name), *values)}
            return attrs.evolve(knobs, **changed)
        case _:
            raise ValueError(f"there is no {name}")
