"""Run directories that no cluster wrote: every shape the report must draw, in the form that `run` writes."""

import json
import random
from pathlib import Path
from typing import Any

KINDS = ("kill", "pause", "partition")


def write(directory: Path, results: dict[str, Any], test: dict[str, Any], nemesis: list[dict[str, Any]]) -> Path:
    """Write the three files of a run directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps(results))
    (directory / "test.json").write_text(json.dumps(test))
    (directory / "nemesis.jsonl").write_text("".join(json.dumps(row) + "\n" for row in nemesis))
    return directory


def made_up_run(
    directory: Path, *, seed: int = 7, nodes: int = 5, duration_s: float = 60.0, fault_every_s: float = 6.0
) -> Path:
    """A valid run with a fault on the then leader every few seconds."""
    rng = random.Random(seed)
    drawn, nemesis, outages = reigns(rng, nodes, duration_s, fault_every_s)
    checks = ("lost", "duplicated", "stale", "divergent_offset")
    results = {
        "valid": True,
        "checks": {name: {"valid": True, "count": 0, "examples": []} for name in checks},
        "ops": {"ok": 91_204, "fail": 1_311, "info": 412},
        "acked": 60_803,
        "attempted": 61_790,
        "lost_acked": 0,
        "lost_allowed": [],
        "lost_unexplained": 0,
        "duplicated": 0,
        "rpo": {"records": 0, "s": 0.0},
        "latency_ms": {"p50": 7.1, "p99": 31.4},
        "throughput_ops_s": 1523.0,
        "series": load(rng, duration_s, outages),
        "violations": [],
        "lost": [],
        **drawn,
    }
    test = {
        "system": "raft",
        "nodes": nodes,
        "seed": seed,
        "duration_s": duration_s,
        "nemesis": list(KINDS),
        "settings": {"heartbeat_s": 0.1, "flush": "before-ack"},
        "versions": {"quorumlog": "0.1.0", "python": "3.11.7"},
    }
    return write(directory, results, test, nemesis)


def reigns(
    rng: random.Random, nodes: int, duration_s: float, fault_every_s: float
) -> tuple[dict[str, Any], list[dict[str, Any]], list[tuple[float, float]]]:
    """Leaders that fall one after the other: that part of the results, the rows of the nemesis, and when no node served."""
    leader, term, at = 1, 1, 4.0
    roles = [{"node": node, "at_s": 0.2, "role": "follower", "term": 0} for node in range(1, nodes + 1)]
    roles.append({"node": 1, "at_s": 0.9, "role": "leader", "term": 1})
    elections: list[dict[str, Any]] = [{"at_s": 0.9, "term": 1, "leader": 1, "took_s": 0.7}]
    faults: list[dict[str, Any]] = []
    rto: list[dict[str, Any]] = []
    nemesis: list[dict[str, Any]] = []
    outages = [(0.0, 0.9)]
    for number in range(1, max(int((duration_s - 8) / fault_every_s), 0) + 1):
        kind = KINDS[number % len(KINDS)]
        end_s, took_s = at + rng.uniform(1.5, 3.0), rng.uniform(0.6, 1.6)
        elected_s = at + took_s * 0.95
        old, leader, term = leader, rng.choice([n for n in range(1, nodes + 1) if n != leader]), term + 1
        roles.append({"node": leader, "at_s": at + took_s * 0.8, "role": "candidate", "term": term})
        roles.append({"node": leader, "at_s": elected_s, "role": "leader", "term": term})
        roles.append({"node": old, "at_s": end_s + 0.05, "role": "follower", "term": term})
        elections.append({"at_s": elected_s, "term": term, "leader": leader, "took_s": took_s * 0.95})
        fault = {"id": number, "kind": kind, "target": "leader"}
        faults.append({**fault, "nodes": [old], "begin_s": at, "end_s": end_s})
        rto.append({**fault, "s": took_s, "gap_s": took_s + 0.02, "acked_before": 1790})
        seen = {"kill": "pid 4711 dead", "pause": "state T", "partition": "cut off"}[kind]
        nemesis.append({**fault, "nodes": [old], "leader": old, "observed": {str(old): seen}})
        outages.append((at, at + took_s))
        at += fault_every_s + rng.uniform(-1.0, 1.0)
    worst = max((float(row["s"]) for row in rto), default=None)
    drawn = {"roles": roles, "elections": elections, "faults": faults, "rto_s": {"max": worst, "faults": rto}}
    return drawn, nemesis, outages


def load(rng: random.Random, duration_s: float, outages: list[tuple[float, float]]) -> dict[str, list[float | None]]:
    """A steady load, refused or slow while no node serves."""
    names = ("t_s", "ok_s", "fail_s", "info_s", "p50_ms", "p99_ms")
    series: dict[str, list[float | None]] = {name: [] for name in names}
    for bucket in range(int(duration_s * 4)):
        t = bucket / 4
        out = any(begin <= t and t + 0.25 <= end for begin, end in outages)
        partly = any(begin < t + 0.25 and t < end for begin, end in outages) and not out
        series["t_s"].append(t)
        series["ok_s"].append(0.0 if out else rng.gauss(1800, 90) * (0.5 if partly else 1.0))
        series["fail_s"].append(rng.uniform(20, 160) if out else 0.0)
        series["info_s"].append(64.0 if partly else 0.0)
        series["p50_ms"].append(None if out else rng.gauss(7, 0.5))
        series["p99_ms"].append(None if out else rng.gauss(19, 3) * (8 if partly else 1))
    return series


def change_results(directory: Path, **results: Any) -> Path:
    """Changes the results of the run."""
    path = directory / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **results}))
    return directory


def op(f: str, kind: str, begin_s: float, end_s: float | None, **columns: Any) -> dict[str, Any]:
    """One operation of a witness."""
    return {"f": f, "type": kind, "t_inv_s": begin_s, "t_ret_s": end_s, "process": 3, "node": 2, **columns}


VIOLATIONS = [
    {
        "check": "lost",
        "object": "log",
        "sentence": "Value 4711 was acknowledged at offset 42 and is on no node at the end.",
        "ops": [op("append", "ok", 3.214, 3.223, a=4711, offset=42, epoch=3), op("read", "ok", 58.1, 58.102, offset=42, a=4802, epoch=5)],
    },
    {
        "check": "stale",
        "object": "register 7",
        "sentence": "A read saw 12 after a later write of 13 had been acknowledged.",
        "ops": [
            op("write", "ok", 10.0, 10.004, a=12),
            op("write", "ok", 10.01, 10.016, a=13, process=4),
            op("cas", "ok", 10.012, 10.019, a=12, b=14, seen=13, process=6),
            op("write", "info", 10.015, None, a=15, process=5),
            op("write", "fail", 10.016, 10.0162, a=16, process=5),
            op("read", "ok", 10.020, 10.022, a=12, process=8),
        ],
    },
]  # fmt: skip


def violated_run(directory: Path) -> Path:
    """A run in which promises were broken."""
    checks = {
        "lost": {"valid": False, "count": 3, "examples": []},
        "stale": {"valid": False, "count": 1, "examples": []},
        "duplicated": {"valid": True, "count": 0, "examples": []},
        "divergent_offset": {"valid": None, "count": 0, "examples": [], "reason": "a dump is missing: n3"},
    }
    lost = [{"value": 4711, "offset": 42, "acked_s": 3.223}, {"value": 4712, "offset": 43, "acked_s": 3.223}]
    return change_results(
        made_up_run(directory),
        valid=False,
        checks=checks,
        lost_acked=3,
        lost_unexplained=3,
        rpo={"records": 3, "s": 0.41},
        violations=VIOLATIONS,
        lost=lost,
    )
