"""Histories of transactions in a few letters: `ax1` appends 1 to x, `rx12` reads [1 2] of it, `wx1` writes 1, `rx_` reads nothing."""

import re
from pathlib import Path

from jepsen_like.check.runs import Judged, judge
from jepsen_like.checker.cycles.levels import HeldTo, Level
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine, Model

PART = re.compile(r"([arw])([a-z])([0-9_]*)")
LIST, REGISTER = Model.LIST_APPEND, Model.RW_REGISTER


def value_of(text: str, model: Model, *, is_invoked: bool) -> str:
    parts = []
    for f, key, digits in PART.findall(text):
        if f == "r" and is_invoked:
            parts.append(f"[:r :{key} nil]")
        elif f == "r" and model is LIST:
            parts.append(f"[:r :{key} [{' '.join(digits)}]]")
        elif f == "r":
            parts.append(f"[:r :{key} {'nil' if digits in ('_', '') else digits}]")
        else:
            parts.append(f"[{':append' if f == 'a' else ':w'} :{key} {digits}]")
    return f"[{' '.join(parts)}]"


def event(process: int, kind: str, text: str, model: Model = LIST) -> str:
    value = value_of(text, model, is_invoked=kind == "invoke")
    return f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}"


def at_once(*texts: str, model: Model = LIST) -> list[str]:
    """Returns transactions of a process each that all run at the same time; `!` at the end: it failed, `?`: it is unknown."""
    kinds = {"!": "fail", "?": "info"}
    ends = [(text.rstrip("!?"), kinds.get(text[-1], "ok")) for text in texts]
    return [
        *(event(process, "invoke", text, model) for process, (text, _) in enumerate(ends)),
        *(event(process, kind, text, model) for process, (text, kind) in enumerate(ends)),
    ]


def in_turn(*rows: tuple[int, str], model: Model = LIST) -> list[str]:
    """Returns transactions one after the other: process and text."""
    return [event(process, kind, text, model) for process, text in rows for kind in ("invoke", "ok")]


def judge_lines(
    path: Path,
    lines: list[str],
    level: Level = Level.SERIALIZABLE,
    model: Model = LIST,
    worker: TaskRunner | None = None,
) -> Judged:
    file = path / "history.edn"
    file.write_text("\n".join(lines))
    engine = Engine.LOCAL if worker is None else Engine.SPARK
    return judge(file, HeldTo(model, level), engine, worker or LocalEngine())


def count_found(path: Path, lines: list[str], level: Level = Level.SERIALIZABLE, model: Model = LIST) -> dict[str, int]:
    one = judge_lines(path, lines, level, model)
    assert one.unreadable is None
    return {name: check["count"] for name, check in one.verdict["checks"].items() if check["count"]}
