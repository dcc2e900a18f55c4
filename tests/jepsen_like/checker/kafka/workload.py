"""Histories of Jepsen's workload for Kafka in a line each, and what is found in them."""

from pathlib import Path

from jepsen_like.check.runs import Judged, judge
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine, Model

Line = tuple[int, str, str, str]
"""Process, type, f and value as EDN."""


def sends(process: int, outcome: str, value: str, asked: str | None = None) -> list[Line]:
    return [(process, "invoke", "send", asked or value), (process, outcome, "send", value)]


def polls(process: int, value: str, outcome: str = "ok", f: str = "poll") -> list[Line]:
    return [(process, "invoke", f, "[[:poll]]"), (process, outcome, f, value)]


def takes(process: int, f: str, keys: str, outcome: str = "ok") -> list[Line]:
    return [(process, "invoke", f, keys), (process, outcome, f, keys)]


def text(*operations: list[Line]) -> str:
    return "\n".join(
        f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}"
        for lines in operations
        for process, kind, f, value in lines
    )


def judge_history(path: Path, *operations: list[Line]) -> Judged:
    file = path / "history.edn"
    file.write_text(text(*operations))
    found = judge(file, Model.KAFKA, Engine.LOCAL, LocalEngine())
    assert found.unreadable is None
    return found


def count_found(path: Path, *operations: list[Line]) -> dict[str, int]:
    """Returns how often each check found something."""
    return counts(judge_history(path, *operations))


def counts(one: Judged) -> dict[str, int]:
    return {name: check["count"] for name, check in one.verdict["checks"].items() if check["count"]}


def count_allowed(one: Judged) -> dict[str, int]:
    return {row["check"]: row["count"] for row in one.verdict.get("tolerated", ())}
