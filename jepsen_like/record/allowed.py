"""Reads the losses that the faults of a recorded run were allowed to cause, from what the run has written down."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.queue.check import expectations_of
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.partition_states import read_states
from jepsen_like.nemesis.nemesis import copies_seen
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.registry import system_named
from jepsen_like.systems.isr_losses import by_partition

OLDEST_SYSTEM = "raft"
"""The system of a run whose test.json names none."""


@attrs.frozen
class _FaultRead:
    """A row of `nemesis.jsonl`, as far as it matters here."""

    id: int
    kind: str
    nodes: tuple[int, ...]
    copies: int
    harmed: tuple[int, ...]
    begun_ns: int
    injected_ns: int
    ended_ns: int


def allowances_of_run(directory: Path, began_ns: int | None = None) -> tuple[Allowance, ...]:
    """Returns what each fault of a recorded run was allowed to lose; nothing for a directory without `nemesis.jsonl`.

    `began_ns` is when its load began; None: its history lies in the directory and tells. Raises `ValueError` if the record of its faults is damaged, or that of its mode is missing or damaged.
    """
    plan, happened = directory / "test.json", directory / "nemesis.jsonl"
    if not happened.exists():
        return ()
    try:
        test = json.loads(plan.read_text())
        rows = [json.loads(line) for line in happened.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{plan.name} or {happened.name} is missing or damaged ({error}), so it is not known which losses the mode of the run "
            "allows; to check against a mode that allows none, pass the history inside this directory instead"
        ) from error
    try:
        faults = [
            _FaultRead(
                row["id"],
                row["kind"],
                tuple(row["nodes"]),
                copies_seen(row.get("observed") or {}),
                tuple(row.get("harmed", ())),
                row["begun_ns"],
                row["injected_ns"],
                row.get("ended_ns", row["injected_ns"]),
            )
            for row in rows
            if row["kind"] in KINDS and not row.get("withheld")
        ]
        allowances = system_named(test.get("system", OLDEST_SYSTEM)).mode_of(test).allowances(faults)
    except (KeyError, TypeError):
        return ()
    return of_partitions(allowances, directory, test, began_ns)


def of_partitions(
    allowances: tuple[Allowance, ...], directory: Path, test: Mapping[str, Any], began_ns: int | None = None
) -> tuple[Allowance, ...]:
    """Returns the same allowances as what a run recorded of its partitions narrows them; see `systems.isr_losses`.

    Without a queue in test.json they stay. Raises `ValueError` for one that makes no sense, and `UnreadableHistory`.
    """
    if "queue" not in test:
        return allowances
    expectations = expectations_of(test)
    return by_partition(
        allowances,
        read_states(directory),
        acks=expectations.acks,
        names=expectations.partitions,
        origin_ns=HistoryReader.open(directory / HISTORY).began_ns() if began_ns is None else began_ns,
    )
