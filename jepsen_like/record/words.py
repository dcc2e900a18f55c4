"""Words about a run that its terminal and its page have in common."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jepsen_like.checker.verdict import Model
from jepsen_like.record.results import RunResults, count


def things(results: RunResults) -> str:
    """Returns the name of what is acknowledged and lost in this run."""
    return "writes and swaps" if results.model == Model.REGISTER.value else "records"


def allowed_loss(results: RunResults) -> str | None:
    """Returns the loss that the mode allows in words that can follow a verdict; None if there is none."""
    allowed = count(results.lost_allowed)
    if not allowed:
        return None
    promises = [str(row["promise"]) for row in results.lost_allowed if isinstance(row, Mapping) and row.get("promise")]
    # A promise names its mode first: "raft, flush=none: ...", "acks=1, ...: ...".
    mode = promises[0].partition(":")[0] if promises else "this mode"
    setting = mode.partition(", ")[0] if mode.startswith("acks=") else mode.rpartition(", ")[2]
    return f"{allowed:,} of {results.acked:,} acknowledged {things(results)} were lost, as {setting} allows"


def available(availability: Mapping[str, float | None]) -> tuple[str, str] | None:
    """Returns the share of the load's time in which writes were acknowledged, and the rest of it; None if it was not measured."""
    share, down_s = availability.get("share"), availability.get("down_s")
    return None if share is None or down_s is None else (f"{100 * float(share):.2f} %", f"{float(down_s):.2f} s")


MODE_SETTINGS: Final = ("flush", "acks", "min.insync.replicas", "flushDiskType", "ack")
"""Settings that decide what an acknowledgement is worth, of all systems."""


def mode_words(test: Mapping[str, Any]) -> str:
    """Returns the mode of a run in a few words: its replication, and what an acknowledgement waits for."""
    replication, settings = str(test.get("replication") or ""), test.get("settings") or {}
    named = [f"{name}={settings[name]}" for name in MODE_SETTINGS if name in settings]
    return ", ".join([*([replication] if replication and replication != test.get("system") else []), *named])


def faults_words(faults: Iterable[Mapping[str, Any]]) -> str:
    """Returns the kinds of faults that were injected, each with how often."""
    counts = Counter(str(fault["kind"]) for fault in faults)
    return ", ".join(kind if times == 1 else f"{times} {kind}" for kind, times in counts.items()) or "none"
