"""Reads from a run directory what is known before anything is judged: the model of its workload, its faults, when its load ended.

From `test.json`, which is written before the run, and `nemesis.jsonl`, written while it goes on; `results.json` is not asked.
"""

import json
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.nemesis.nemesis import HEAL, FaultRecord
from jepsen_like.port.registry import system_named
from jepsen_like.record.allowed import OLDEST_SYSTEM

TEST: Final = "test.json"
NEMESIS: Final = "nemesis.jsonl"


@attrs.frozen
class Recorded:
    """A run as it was written down. `faults` are in the order of their begin."""

    test: dict[str, Any]
    faults: tuple[FaultRecord, ...] = ()
    load_ended_ns: int | None = None
    """The moment when the clients were told to stop; None where the run does not tell."""

    @property
    def model(self) -> Model | None:
        """Returns what checks its workload; None where it does not say what that was."""
        if "mirror" in self.test:
            return Model.MIRRORED
        try:
            return system_named(self.test.get("system", OLDEST_SYSTEM)).workloads[self.test["workload"]]
        except (KeyError, TypeError):
            return None


def read_recorded(directory: Path) -> Recorded:
    """Returns a directory's records, none of one that is no run's. Raises `UnreadableHistory` for a damaged record."""
    if not (directory / TEST).is_file():
        return Recorded({})
    try:
        test = json.loads((directory / TEST).read_text())
        lines = (directory / NEMESIS).read_text().splitlines() if (directory / NEMESIS).exists() else []
        rows = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise UnreadableHistory(directory, f"its {TEST} or {NEMESIS} is damaged ({error})") from error
    try:
        found = [FaultRecord.of_row(row) for row in rows if not row.get("withheld")]
    except (KeyError, TypeError, AttributeError):
        found = []  # of a version that wrote less: without times, nothing can be measured of its faults
    if not isinstance(test, dict):
        raise UnreadableHistory(directory / TEST, "not a JSON object")
    ends = [one.intended_ns for one in found if one.kind == HEAL and one.intended_ns < one.begun_ns]
    faults = sorted((one for one in found if one.kind != HEAL), key=lambda one: one.begun_ns)
    return Recorded(test, tuple(faults), ends[-1] if ends else None)
