"""What the terminal and the page say alike of a run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jepsen_like.checker.verdict import Model


def count(value: Any) -> int:
    """How many: of a number, of a list's members, of a list's counted members."""
    if isinstance(value, list):
        return sum(int(row.get("records") or row.get("count") or 1) if isinstance(row, Mapping) else 1 for row in value)
    return int(value or 0)


def things(results: Mapping[str, Any]) -> str:
    """What is acknowledged and lost in this run."""
    return "writes and swaps" if results.get("model") == Model.REGISTER.value else "records"


def allowed_loss(results: Mapping[str, Any]) -> str | None:
    """What was lost as the mode allows, in words that can follow a verdict; None if nothing was."""
    lost = results.get("lost_allowed")
    allowed = count(lost)
    if not allowed:
        return None
    promises = [str(row["promise"]) for row in lost if isinstance(row, Mapping) and row.get("promise")] if lost else []
    # A promise names its mode first: "raft, flush=none: ...", "acks=1, ...: ...".
    mode = promises[0].partition(":")[0] if promises else "this mode"
    setting = mode.partition(", ")[0] if mode.startswith("acks=") else mode.rpartition(", ")[2]
    acked = count(results.get("acked"))
    return f"{allowed:,} of {acked:,} acknowledged {things(results)} were lost, as {setting} allows"


def available(results: Mapping[str, Any]) -> tuple[str, str] | None:
    """The share of the load's time in which writes were acknowledged, and the rest of it; None if it was not measured."""
    found = results.get("availability") or {}
    if found.get("share") is None:
        return None
    return f"{100 * float(found['share']):.2f} %", f"{float(found['down_s']):.2f} s"


MODE_SETTINGS: Final = ("flush", "acks", "min.insync.replicas", "flushDiskType", "ack")
"""Settings that decide what an acknowledgement is worth, of all systems."""


def mode_words(test: Mapping[str, Any]) -> str:
    """The mode of a run in a few words: its replication, and what an acknowledgement waits for."""
    replication, settings = str(test.get("replication") or ""), test.get("settings") or {}
    named = [f"{name}={settings[name]}" for name in MODE_SETTINGS if name in settings]
    return ", ".join([*([replication] if replication and replication != test.get("system") else []), *named])


def faults_words(faults: Iterable[Mapping[str, Any]]) -> str:
    """What was broken, each kind with how often."""
    counts = Counter(str(fault["kind"]) for fault in faults)
    return ", ".join(kind if times == 1 else f"{times} {kind}" for kind, times in counts.items()) or "none"
