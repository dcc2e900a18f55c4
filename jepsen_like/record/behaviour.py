"""The behaviour of a system in one run, as figures that a run of another system has, too.

A figure belongs to an aspect: how operations ended, offsets, epochs, redelivery, recovery. Figures of two runs can be compared.
Offsets are those that acknowledgements name and final logs hold. A leadership begins an epoch in a partition, or in a group of brokers.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.history.files import HistoryReader, read_dump
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.history.partition_states import StateKind, read_states
from jepsen_like.port.observations import LEADER
from jepsen_like.record.attempts import DUMP, WRITES
from jepsen_like.record.results import RecoveryTimes, RunResults

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Value = float | str | None

VERDICT, RECORDS, ENDS, OFFSETS = "verdict", "records", "ends", "offsets"
EPOCHS, REDELIVERY, RECOVERY, SPEED = "epochs", "redelivery", "recovery", "speed"
VERDICTS: Final = {True: "valid", False: "INVALID", None: "undecided"}
ENDED: Final = {Outcome.OK: "ok", Outcome.FAIL: "failed", Outcome.INFO: "unknown"}
MASTER: Final = 1
"""The value of a row of the kind ROLE that begins a leadership."""
FEW: Final = 100
"""The shares of an action with fewer operations say little."""
COLUMNS: Final = ("object", "process", "f", "type", "err", "a", "b", "offset", "t_inv", "t_ret")


@attrs.frozen
class Trait:
    """One figure of a run; None: it was not measured, or does not exist there."""

    aspect: str
    name: str
    value: Value


def read_behaviour(directory: Path, results: RunResults) -> list[Trait]:
    """Returns all figures of a run. Raises `UnreadableHistory`."""
    history = HistoryReader.open(directory / "history.parquet").columns(COLUMNS)
    rows = dict(zip(COLUMNS, history, strict=True))
    table = read_dump(directory / DUMP) if (directory / DUMP).is_dir() else None
    logs = None if table is None else {name: table.column(name).to_numpy() for name in ("object", "offset")}
    return [
        *of_results(results),
        *of_ends(rows),
        *of_offsets(rows, logs),
        *of_epochs(read_states(directory), results),
        *of_redelivery(rows),
        *of_recovery(results),
    ]


def of_results(results: RunResults) -> Iterator[Trait]:
    """Yields the verdict, what became of records, and the speed."""
    yield Trait(VERDICT, "of the check", VERDICTS[results.valid])
    yield Trait(RECORDS, "lost", float(results.lost_acked))
    yield Trait(RECORDS, "duplicated", float(results.duplicated or 0))
    yield Trait(SPEED, "acknowledged", float(results.acked))
    yield Trait(SPEED, "operations per second", results.throughput_ops_s)
    for name in ("p50", "p99"):
        yield Trait(SPEED, f"{name}, ms", results.latency_ms.get(name))
    yield Trait(SPEED, "available", results.availability.get("share"))


def of_ends(rows: Mapping[str, Ints]) -> Iterator[Trait]:
    """Yields of each action the share of each outcome, with the name of its error."""
    action = np.where(np.isin(rows["f"], WRITES), Action.SEND, rows["f"])
    for f in np.unique(action).tolist():
        done = action == f
        if done.sum() < FEW:
            continue
        pairs, counts = np.unique(np.stack([rows["type"][done], rows["err"][done]]), axis=1, return_counts=True)
        for outcome, error, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            yield Trait(ENDS, _name_end(Action(f), Outcome(outcome), ErrorCode(error)), count / int(done.sum()))


def _name_end(action: Action, outcome: Outcome, error: ErrorCode) -> str:
    what = "write" if action is Action.SEND else action.name.lower()
    why = "" if error is ErrorCode.NONE else f", {error.name.lower().replace('_', ' ')}"
    return f"{what} {ENDED[outcome]}{why}"


def of_offsets(rows: Mapping[str, Ints], logs: Mapping[str, Ints] | None) -> Iterator[Trait]:
    """Yields the places where final logs begin and have gaps, and the acknowledged offsets that are not unique, or fall."""
    if logs is not None and len(logs["offset"]):
        held = [logs["offset"][logs["object"] == obj] for obj in np.unique(logs["object"]).tolist()]
        yield Trait(OFFSETS, "the last log begins at", float(max(int(each.min()) for each in held)))
        holes = (int(each.max() - each.min()) + 1 - len(np.unique(each)) for each in held)
        yield Trait(OFFSETS, "without a record", float(sum(holes)))
    placed = (rows["type"] == Outcome.OK) & np.isin(rows["f"], WRITES) & (rows["offset"] >= 0)
    objects, offsets = rows["object"][placed], rows["offset"][placed]
    places = np.unique(np.stack([objects, offsets]), axis=1).shape[1]
    yield Trait(OFFSETS, "given to two records", float(len(offsets) - places))
    t_inv, t_ret = rows["t_inv"][placed], rows["t_ret"][placed]
    of_objects = (objects == obj for obj in np.unique(objects).tolist())
    inverted = sum(count_inverted(t_inv[those], t_ret[those], offsets[those]) for those in of_objects)
    yield Trait(OFFSETS, "lower than one that was acknowledged before", float(inverted))


def count_inverted(t_inv: Ints, t_ret: Ints, offset: Ints) -> int:
    """Returns how many writes got an offset below one whose acknowledgement came before they began."""
    order = np.argsort(t_ret, kind="stable")
    highest = np.concatenate([[NONE], np.maximum.accumulate(offset[order])])
    return int(np.count_nonzero(highest[np.searchsorted(t_ret[order], t_inv, side="left")] > offset))


def of_epochs(states: Mapping[str, Any] | None, results: RunResults) -> Iterator[Trait]:
    """Yields the epochs after the first one, for each partition or group; without states by the terms of all leaders."""
    if states is None or not len(leading := _leading(states)):
        terms = {int(role["term"]) for role in results.roles if role["role"] == LEADER}
        yield Trait(EPOCHS, "begun in each partition", float(max(0, len(terms) - 1)) if terms else None)
        return
    led = np.unique(np.stack([states[name][leading] for name in ("object", "epoch", "node")]), axis=1)
    epochs = np.unique(led[:2], axis=1)
    objects = len(np.unique(epochs[0]))
    yield Trait(EPOCHS, "begun in each partition", round(epochs.shape[1] / objects - 1, 2))
    yield Trait(EPOCHS, "with two leaders", float(led.shape[1] - epochs.shape[1]))


def _leading(states: Mapping[str, Any]) -> Ints:
    leads = (states["kind"] == StateKind.LEADER) & (states["value"] != NONE)
    return np.flatnonzero(leads | ((states["kind"] == StateKind.ROLE) & (states["value"] == MASTER)))


def of_redelivery(rows: Mapping[str, Ints]) -> Iterator[Trait]:
    """Yields the share of records that a group had been given before; nothing without groups."""
    assigned = rows["f"] == Action.ASSIGN
    group_of = dict(zip(rows["process"][assigned].tolist(), rows["a"][assigned].tolist(), strict=True))
    polled = (rows["f"] == Action.POLL) & (rows["offset"] >= 0)
    pushed_to = rows["b"][polled]
    of_process = np.array([group_of.get(process, NONE) for process in rows["process"][polled].tolist()], np.int64)
    group = np.where(pushed_to == NONE, of_process, pushed_to)
    given = np.stack([group, rows["object"][polled], rows["offset"][polled]])[:, group != NONE]
    if given.shape[1]:
        again = given.shape[1] - np.unique(given, axis=1).shape[1]
        yield Trait(REDELIVERY, "given again", again / given.shape[1])


def of_recovery(results: RunResults) -> Iterator[Trait]:
    """Yields for each fault the time until a write that began after it was acknowledged; None: none ever was."""
    for fault in (results.rto or RecoveryTimes()).faults or ():
        name = f"{fault['id']} {fault['kind']} {fault['target']}"
        yield Trait(RECOVERY, name, fault["s"] if fault["recovered"] else None)
