"""Damaged files, an absent cluster and a full disk end a check before its verdict, with one line and the right status."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jepsen_like.cli import ExitStatus
from tests.jepsen_like.check.test_command import check, run_directory
from tests.jepsen_like.checker.engine.spark_cluster import require_namespaces

Damage = Callable[[Path], Any]


def rewrite_part(change: Callable[[Any], Any]) -> Damage:
    """Returns a damage that changes the table of a part file."""
    return lambda part: pq.write_table(change(pq.read_table(part, partitioning=None)), part)


def in_capitals(table: Any) -> Any:
    """The same table with other names for its columns."""
    renamed = table.rename_columns([name.upper() for name in table.schema.names])
    return renamed.replace_schema_metadata(table.schema.metadata)


def break_link(part: Path) -> None:
    """Makes a part file a link to nowhere: it is listed and cannot be opened."""
    part.unlink()
    part.symlink_to("nowhere")


def without_a_value(table: Any) -> Any:
    """The same table, but for its first offset."""
    at = table.column_names.index("offset")
    values = pa.array([None, *table.column(at).to_pylist()[1:]], pa.int64())
    return table.set_column(at, pa.field("offset", pa.int64()), values)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "missing": (break_link, "not a readable Parquet file"),
    "torn": (lambda part: part.write_bytes(part.read_bytes()[:-20]), "not a readable Parquet file"),
    "another version": (
        rewrite_part(lambda table: table.replace_schema_metadata({"quorumlog.format": "99"})),
        "format version 99",
    ),
    "foreign columns": (rewrite_part(in_capitals), "its columns are"),
    "a value less": (rewrite_part(without_a_value), "has rows without a value in column offset"),
    "a column less": (rewrite_part(lambda table: table.drop_columns(["offset"])), "its columns are"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", ["history.parquet/bucket=0", "dump.parquet"])
def test_a_damaged_part_file_is_named_in_one_line(
    place: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_directory(tmp_path)
    part = sorted((run / place).glob("*.parquet"))[-1]
    apply, complaint = DAMAGES[damage]
    apply(part)
    status, out, err = check(capsys, run, "--model", "log", "--engine", "local")
    assert (status, out, err.count("\n")) == (ExitStatus.USAGE, [], 1)
    assert part.name in err
    assert complaint in err


@pytest.mark.parametrize(
    ("option", "url", "complaint"),
    [
        ("--master", "spark://127.0.0.1:1", "no answer from the Spark master spark://127.0.0.1:1"),
        ("--master", "spark://127.0.0.1", "no answer from the Spark master spark://127.0.0.1"),
        ("--connect", "sc://127.0.0.1:1", "no answer from the Spark Connect server sc://127.0.0.1:1"),
    ],
)
def test_a_cluster_that_is_not_there_is_named_at_once(
    option: str, url: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = check(capsys, run_directory(tmp_path), "--model", "log", option, url)
    assert (status, out, err.count("\n")) == (ExitStatus.ENVIRONMENT, [], 1)
    assert complaint in err


@pytest.mark.campaign
@pytest.mark.spark
def test_no_room_next_to_the_history_is_named(tmp_path: Path) -> None:
    require_namespaces()
    run = run_directory(tmp_path / "run", 2000, final=2000)
    small = tmp_path / "small"
    small.mkdir()
    words = [
        sys.executable,
        "-m",
        "jepsen_like.cli",
        "check",
        str(small / "run"),
        "--model",
        "log",
        "--engine",
        "spark",
    ]
    script = [
        f"mount -t tmpfs -o size=1m none {shlex.quote(str(small))}",
        f"cp -r {shlex.quote(str(run))} {shlex.quote(str(small))}",
        f"cat /dev/zero > {shlex.quote(str(small / 'rest'))} 2> /dev/null",
        shlex.join(words),
    ]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == ExitStatus.ENVIRONMENT, done.stderr
    assert done.stdout == ""
    (complaint,) = [
        line for line in done.stderr.splitlines() if " rows in " not in line
    ]  # a stage that took long is told
    assert "No space left on device" in complaint


@pytest.mark.parametrize(
    ("column", "code"), [("f", 99), ("f", -1), ("type", 3), ("type", -1), ("err", 60), ("err", -3)]
)
def test_a_code_that_stands_for_nothing_is_no_history(
    column: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_directory(tmp_path)
    part = next((run / "history.parquet").rglob("*.parquet"))
    rows = pq.read_table(part, partitioning=None)
    at = rows.column_names.index(column)
    codes = [code, *rows.column(column).to_pylist()[1:]]
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(codes, rows.schema.field(at).type)), part)
    for model in ("log", "register"):
        status, lines, err = check(capsys, run, "--model", model, "--engine", "local")
        assert (status, lines) == (ExitStatus.USAGE, [])
        assert f"has {code} in its column {column}" in err
