"""Finds the faults in a file of operation maps: what the process `nemesis` did, from its beginning to what ended it.

Jepsen's nemeses name a fault and its end in pairs: `start` and `stop`, `start-NAME` and `stop-NAME`, `kill` and `start`, `pause` and `resume`. Each is
two events, one when it was asked for and one when it was done. A fault without an end holds until the last event; one
whose name is in no pair holds from the one event to the other.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.check.map_files import Event, read_events
from jepsen_like.checker.edn_values import cut, name_of, text_of
from jepsen_like.history.ops import NONE
from jepsen_like.nemesis.nemesis import FaultRecord

ENDS: Final = {"kill": "start", "pause": "resume", "start": "stop"}
BEGINS: Final = "start-"
NEMESIS: Final = "nemesis"


@attrs.define
class _Open:
    kind: str
    target: str
    begun_ns: int
    done_ns: int
    """The moment when it was done; `NONE` while only asked for."""


def faults_in(path: Path) -> tuple[FaultRecord, ...]:
    """Returns the faults of a file of maps, in order. Raises `UnreadableHistory` if it is none."""
    return tuple(faults_of(read_events(path, ("type",))))


def faults_of(events: Iterable[Event]) -> Iterator[FaultRecord]:
    """Returns the faults among these events, in the order in which they ended."""
    running: dict[str, _Open] = {}
    ending = set[str]()
    """Ends that were asked for, and will be told once more when they are done."""
    number, now = 0, -1
    for event in events:
        fields = event.fields
        time = fields.get("time")
        is_fault = name_of(fields.get("process")) == NEMESIS
        # As the history itself is read: events of clients in one nanosecond still happened one after the other.
        now = max(now + (not is_fault), time if isinstance(time, int) else 0)
        if not is_fault:
            continue
        f = str(name_of(fields.get("f")))
        if f in ending:
            ending.discard(f)
            continue
        ended = next((kind for kind in running if end_of(kind) == f), None)
        if ended is not None and running[ended].done_ns != NONE:
            number += 1
            ending.add(f)
            yield _record(running.pop(ended), number, now)
            continue
        if f in running:
            one = running[f]
            if one.done_ns != NONE:
                continue
            one.done_ns = now
            one.target = one.target or _target(fields.get("value"))
            if end_of(f) is None:
                number += 1
                yield _record(running.pop(f), number, now)
        elif not _is_end(f):
            running[f] = _Open(f, _target(fields.get("value")), now, NONE)
    for one in running.values():
        number += 1
        yield _record(one, number, now)


def end_of(kind: str) -> str | None:
    """Returns what ends a fault of this name; None where nothing does."""
    return f"stop-{kind.removeprefix(BEGINS)}" if kind.startswith(BEGINS) else ENDS.get(kind)


def _is_end(f: str) -> bool:
    return f.startswith("stop") or f == "resume"


def _target(value: Any) -> str:
    return "" if value is None else cut(text_of(value))


def _record(one: _Open, number: int, ended_ns: int) -> FaultRecord:
    return FaultRecord(
        id=number,
        kind=one.kind.removeprefix(BEGINS) if one.kind != BEGINS else one.kind,
        target=one.target,
        nodes=(),
        links=(),
        leader=NONE,
        term=NONE,
        intended_ns=one.begun_ns,
        begun_ns=one.begun_ns,
        injected_ns=one.done_ns if one.done_ns != NONE else one.begun_ns,
        ended_ns=ended_ns,
        observed={},
        healed={},
    )
