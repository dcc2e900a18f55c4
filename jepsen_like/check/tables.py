"""Results as Parquet tables, for questions about many runs at once: `verdict`, `violations` and `figures`.

`quorumlog run` writes them into its run directory, `quorumlog check --out DIR` into DIR. A row of each begins with `run` and `path`, so that tables of
many runs can be read as one (`spark.read.parquet("runs/*/figures.parquet")`). A value that is not known is null.

`verdict` has a row for each run, `violations` one for each violation that is kept (`verdict.violations` counts all of them), and `figures`
one for each figure: of the run as a whole, or of one of its faults (`fault` is its id, `kind` what it was).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jepsen_like.checker.verdict import Check
from jepsen_like.history.files import appearing
from jepsen_like.record.results import count

FORMAT: Final = "1"
VERDICT: Final = "verdict"
VIOLATIONS: Final = "violations"
FIGURES: Final = "figures"
NAMES: Final = (VERDICT, VIOLATIONS, FIGURES)
OPS: Final = ("f", "type", "a", "b", "seen", "offset", "epoch", "process", "node", "t_inv_s", "t_ret_s")


def write_tables(directory: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `NAME.parquet` of each table. A row is what `Judged.as_json` returns, or a run's name, path, test.json and results.json together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    makers = {VERDICT: _verdicts, VIOLATIONS: _violations, FIGURES: _figures}
    for name, schema in schemas().items():
        found = [{"run": row["run"], "path": row["path"], **each} for row in rows for each in makers[name](row)]
        with appearing(directory / f"{name}.parquet") as unfinished:
            pq.write_table(pa.Table.from_pylist(_in_unicode(found), schema=schema), unfinished, compression="zstd")


def schemas() -> dict[str, Any]:
    """The pyarrow schema of each table."""
    import pyarrow as pa

    text, texts, whole, real = pa.string(), pa.list_(pa.string()), pa.int64(), pa.float64()
    numbers = ("offset", "epoch", "process", "node")
    types = {name: real if name.endswith("_s") else whole if name in numbers else text for name in OPS}
    columns: dict[str, dict[str, Any]] = {
        VERDICT: {
            **dict.fromkeys(("system", "replication", "workload", "model", "engine"), text),
            "seed": whole,
            "nemesis": texts,
            "valid": pa.bool_(),
            "unreadable": text,
            **dict.fromkeys(("ok", "fail", "info", "attempted", "acked", "lost_acked", "lost_allowed"), whole),
            **dict.fromkeys(("lost_unexplained", "expired", "duplicated", "violations"), whole),
            **dict.fromkeys(("unknown", "not_tested", "differs"), texts),
        },
        VIOLATIONS: {
            **dict.fromkeys(("check", "object", "sentence"), text),
            "ops": pa.list_(pa.struct([pa.field(name, of) for name, of in types.items()])),
        },
        FIGURES: {"figure": text, "unit": text, "fault": pa.int32(), "kind": text, "value": real},
    }
    return {
        name: pa.schema({"run": text, "path": text, **of}, metadata={"quorumlog.tables": FORMAT})
        for name, of in columns.items()
    }


def _verdicts(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    test, ops = row["test"], row.get("ops") or {}
    names = (
        "model",
        "engine",
        "valid",
        "unreadable",
        "attempted",
        "acked",
        "lost_acked",
        "lost_unexplained",
        "expired",
    )
    yield {
        **{name: test.get(name) for name in ("system", "replication", "workload", "seed", "nemesis")},
        **{name: ops.get(name) for name in ("ok", "fail", "info")},
        **{name: row.get(name) for name in (*names, "duplicated", "unknown", "not_tested", "differs")},
        "lost_allowed": count(row["lost_allowed"]) if "lost_allowed" in row else None,
        "violations": _count_violations(row["checks"]) if "checks" in row else None,
    }


def _count_violations(checks: Mapping[str, Mapping[str, Any]]) -> int:
    if (whole := checks.get(Check.LINEARIZABLE)) is not None:
        return int(whole["count"])
    return sum(int(check["count"]) for name, check in checks.items() if name in set(Check) and check["valid"] is False)


def _violations(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for violation in row.get("violations") or ():
        ops = [{name: _of_type(name, op[name]) for name in OPS} for op in violation["ops"]]
        yield {
            "check": violation["check"],
            "object": str(violation["object"]),
            "sentence": violation["sentence"],
            "ops": ops,
        }


def _of_type(name: str, value: Any) -> Any:
    # Objects and values of operation maps are what their authors wrote, not only numbers.
    return str(value) if name in ("a", "b", "seen") and value is not None else value


def _in_unicode(value: Any) -> Any:
    """The same with halves of characters spelled out: JSON and the names of files can have them, Parquet cannot."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case list():
            return [_in_unicode(each) for each in value]
        case dict():
            return {key: _in_unicode(each) for key, each in value.items()}
        case _:
            return value


def _figures(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "rto_s" not in row:
        return
    rto, up = row["rto_s"], row["availability"]
    of_clients = row.get("rto_client_s") or {}
    for figure, unit, value in (
        ("rto_max", "s", rto["max"]),
        ("gap_max", "s", rto["gap_max"]),
        ("unrecovered", "faults", rto["unrecovered"]),
        *((("rto_client_max", "s", of_clients["max"]),) if of_clients else ()),
        ("rpo", "s", row["rpo"]["s"]),
        ("rpo_records", "records", row["rpo"]["records"]),
        ("available", "share", up.get("share")),
        ("down", "s", up.get("down_s")),
        ("down_longest", "s", up.get("longest_s")),
        ("p50", "ms", row["latency_ms"]["p50"]),
        ("p99", "ms", row["latency_ms"]["p99"]),
        ("throughput", "operations/s", row["throughput_ops_s"]),
    ):
        yield {"figure": figure, "unit": unit, "value": _real(value)}
    for fault in rto["faults"]:
        for figure, unit, value in (
            ("rto", "s", fault["s"]),
            ("gap", "s", fault["gap_s"]),
            ("hold", "s", fault["hold_s"]),
            ("acked_before", "operations", fault["acked_before"]),
        ):
            whose = {"fault": fault["id"], "kind": fault["kind"]}
            yield {"figure": figure, "unit": unit, **whose, "value": _real(value)}


def _real(value: Any) -> float | None:
    return None if value is None else float(value)
