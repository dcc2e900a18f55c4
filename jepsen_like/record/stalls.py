"""Measures how long clients stood still: each group of consumers without an acknowledged commit, consumers without a group without a record,
and producers without an acknowledgement of what each leader leads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, Action, Outcome

SCOPES: Final = "scopes"
"""In test.json: by the name of what has a leader of its own, the objects of the history that it leads."""


@attrs.frozen
class Stalls:
    """The longest times in seconds, from one sign of life to the next, or to the end of the load. None: there never was one."""

    groups: Mapping[str, float | None]
    """By the group's name."""
    reads: float | None

    def as_json(self) -> dict[str, Any]:
        """As results.json has them, in seconds."""
        return {"groups_s": dict(self.groups), "reads_s": self.reads}


def stalls_of(history: Path, test: Mapping[str, Any], load_ended_ns: int) -> Stalls | None:
    """Returns a run's stalls until its clients stop; None if no queue is in `test`. Raises `UnreadableHistory`."""
    if "queue" not in test or test["queue"].get("pushed"):
        return None  # where messages are pushed, clients commit unseen; see `under_faults`
    process, f, outcome, a, t_ret = HistoryReader.open(history).columns(("process", "f", "type", "a", "t_ret"))
    committed = (f == Action.COMMIT) & (outcome == Outcome.OK)
    alone = np.unique(process[(f == Action.ASSIGN) & (a == NONE)])
    names = {int(number): str(name) for number, name in test["queue"]["groups"].items()}
    return Stalls(
        {name: _longest_s(t_ret[committed & (a == number)], load_ended_ns) for number, name in sorted(names.items())},
        _longest_s(t_ret[(f == Action.POLL) & np.isin(process, alone)], load_ended_ns),
    )


@attrs.frozen
class Silences:
    """The longest times in seconds from one acknowledged write to the next, or to the end of the load. None: there never was one."""

    scopes: Mapping[str, float | None]
    all: float | None
    """Without a write of any scope."""

    def as_json(self) -> dict[str, Any]:
        """As results.json has them, in seconds."""
        return {"scopes_s": dict(self.scopes), "all_s": self.all}


def silences_of(history: Path, test: Mapping[str, Any], load_ended_ns: int) -> Silences | None:
    """Returns the silences of a run whose test.json tells its scopes, as `stalls_of`; else None. Raises `UnreadableHistory`."""
    if SCOPES not in test:
        return None
    obj, f, outcome, t_ret = HistoryReader.open(history).columns(("object", "f", "type", "t_ret"))
    written = np.isin(f, (Action.APPEND, Action.SEND)) & (outcome == Outcome.OK)
    return Silences(
        {
            name: _longest_s(t_ret[written & np.isin(obj, objects)], load_ended_ns)
            for name, objects in test[SCOPES].items()
        },
        _longest_s(t_ret[written], load_ended_ns),
    )


def _longest_s(signs_ns: Ints, load_ended_ns: int) -> float | None:
    signs = np.sort(signs_ns[signs_ns < load_ended_ns])
    if not len(signs):
        return None
    return round(float(np.diff(signs, append=load_ended_ns).max()) / 1e9, 3)
