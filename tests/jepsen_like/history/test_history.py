"""A history keeps what was recorded, in bounded memory, and a crash costs its newest seconds at most."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.history import files as history
from jepsen_like.history.files import (
    KEPT,
    DumpWriter,
    HistoryReader,
    HistoryWriter,
    KeepRule,
    UnreadableHistory,
    bucket_of,
    ops_of,
    read_dump,
    read_kept,
    read_part,
    table_of,
    write_part,
)
from jepsen_like.history.ops import COLUMNS, DUMP_COLUMNS, NEVER, NONE, Action, ErrorCode, Op, Outcome

SECOND = 10**9
long_ints = st.integers(-(2**63), 2**63 - 1)
any_op = st.builds(
    Op,
    f=st.sampled_from(Action),
    type=st.sampled_from(Outcome),
    err=st.sampled_from(ErrorCode),
    t_inv=st.integers(0, 2**62),
    t_ret=st.integers(0, 2**62),
    object=long_ints,
    process=st.integers(-(2**31), 2**31 - 1),
    attempt=st.integers(0, 2**15 - 1),
    parent_op=long_ints,
    a=long_ints,
    b=long_ints,
    seen=long_ints,
    offset=long_ints,
    epoch=st.integers(-1, 2**31 - 1),
    count=st.integers(0, 2**31 - 1),
    node=st.integers(-1, 2**15 - 1),
)


def append(value: int, t: int, **changes: Any) -> Op:
    op = Op(f=Action.APPEND, type=Outcome.OK, t_inv=t, t_ret=t + 10, a=value, offset=value)
    return attrs.evolve(op, **changes)


@given(ops=st.lists(any_op, max_size=20))
def test_every_field_of_every_operation_comes_back(ops: list[Op]) -> None:
    assert list(ops_of(table_of(ops))) == ops


def test_what_is_recorded_is_read_back_bucket_by_bucket(tmp_path: Path) -> None:
    ops = [append(number, number, object=number % 17) for number in range(1000)]
    with HistoryWriter(tmp_path, part_rows_max=50) as writer:
        for op in ops:
            writer.record(op)
    reader = HistoryReader.open(tmp_path)
    assert sorted(reader.ops(), key=lambda op: op.t_inv) == ops
    for number, parts in enumerate(reader.parts):
        for part in parts:
            assert {bucket_of(op.object, len(reader.parts)) for op in ops_of(read_part(part))} == {number}


def test_the_parts_of_a_hot_log_are_its_time_segments(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, part_rows_max=100) as writer:
        for number in range(1000):
            writer.record(append(number, number))
    (parts,) = [parts for parts in HistoryReader.open(tmp_path).parts if parts]
    times = [[op.t_inv for op in ops_of(read_part(part))] for part in parts]
    assert [len(part) for part in times] == [100] * 10
    assert [time for part in times for time in part] == list(range(1000))


def test_no_more_rows_are_held_than_a_part_has(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, part_rows_max=64) as writer:
        for number in range(10_000):
            writer.record(append(number, number))
            assert all(len(rows) < 64 for rows in writer._gathering)
            assert len(writer._in_flight) <= history.PARTS_IN_FLIGHT_MAX
        assert writer.recorded == 10_000


def test_a_quiet_history_is_written_after_a_few_seconds_of_its_own_time(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, part_seconds_max=5.0)
    for number in range(4):
        writer.record(append(number, number * 2 * SECOND))
    writer._in_flight[0].result()
    assert [op.a for op in HistoryReader.open(tmp_path).ops()] == [0, 1, 2, 3]
    writer.close()


def test_after_a_crash_the_closed_parts_are_readable_and_the_torn_one_is_ignored(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from jepsen_like.history.files import *\n"
        "writer = HistoryWriter(pathlib.Path(sys.argv[1]), part_rows_max=10)\n"
        "for number in range(25):\n"
        "    writer.record(Op(f=Action.APPEND, type=Outcome.OK, t_inv=number, t_ret=number, a=number))\n"
        "for part in writer._in_flight: part.result()\n"
        "os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    bucket = tmp_path / f"bucket={bucket_of(0, history.BUCKETS)}"
    (bucket / ".part-0-000009.parquet.unfinished").write_bytes(b"PAR1 torn")
    assert [op.a for op in HistoryReader.open(tmp_path).ops()] == list(range(20))


def test_a_batch_is_a_row_per_record_at_consecutive_offsets(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as writer:
        writer.record_batch(append(0, 5, offset=40), [7, 8, 9])
        writer.record_batch(append(0, 6, offset=NONE, type=Outcome.INFO, t_ret=NEVER), [1, 2])
    rows = [(op.a, op.offset, op.count, op.t_inv) for op in HistoryReader.open(tmp_path).ops()]
    assert rows == [(7, 40, 3, 5), (8, 41, 3, 5), (9, 42, 3, 5), (1, NONE, 2, 6), (2, NONE, 2, 6)]


def test_several_writers_share_a_history(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, name="a") as one, HistoryWriter(tmp_path, name="b") as other:
        one.record(append(1, 1))
        other.record(append(2, 2))
    assert {op.a for op in HistoryReader.open(tmp_path).ops()} == {1, 2}


def test_a_part_that_cannot_be_written_is_an_error_and_not_a_hole(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path)
    writer.record(append(1, 1))
    bucket = tmp_path / f"bucket={bucket_of(0, history.BUCKETS)}"
    bucket.rmdir()
    bucket.touch()
    with pytest.raises(OSError, match="Not a directory"):
        writer.close()


def test_a_dump_keeps_every_node_and_may_be_empty(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "dump", part_rows_max=3) as writer:
        writer.record(1, 0, 2, [5, 6])
        writer.record(2, 0, 2, [5, 6])
        writer.record(1, 2, 3, iter([7]))
    rows = read_dump(tmp_path / "dump").to_pylist()
    assert [(row["node"], row["offset"], row["epoch"], row["a"]) for row in rows] == [
        (1, 0, 2, 5),
        (1, 1, 2, 6),
        (2, 0, 2, 5),
        (2, 1, 2, 6),
        (1, 2, 3, 7),
    ]
    with DumpWriter(tmp_path / "empty"):
        pass
    assert read_dump(tmp_path / "empty").num_rows == 0
    assert read_dump(tmp_path / "absent") is None


def test_half_a_dump_is_no_dump(tmp_path: Path) -> None:
    def interrupt_writer() -> None:
        with DumpWriter(tmp_path, part_rows_max=1) as writer:
            writer.record(1, 0, 1, [5])
            raise TimeoutError

    with pytest.raises(TimeoutError):
        interrupt_writer()
    assert read_dump(tmp_path) is None


@pytest.mark.parametrize("objects", [(0, 3), (3,), (5, 9, 11), range(40)])
def test_an_object_lies_in_its_bucket_wherever_empty_directories_are_missing(
    objects: Sequence[int], tmp_path: Path
) -> None:
    with HistoryWriter(tmp_path) as writer:
        for obj in objects:
            writer.record(Op(f=Action.READ, type=Outcome.OK, t_inv=1, t_ret=2, object=obj))
    for bucket in tmp_path.iterdir():
        if not any(bucket.iterdir()):
            bucket.rmdir()
    parts = HistoryReader.open(tmp_path).parts
    for number, of_bucket in enumerate(parts):
        there = {op.object for path in of_bucket for op in ops_of(read_part(path))}
        assert there == {obj for obj in objects if bucket_of(obj, len(parts)) == number}


def test_a_history_of_one_directory_has_one_bucket(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, buckets=1) as writer:
        for obj in range(10):
            writer.record(Op(f=Action.READ, type=Outcome.OK, t_inv=1, t_ret=2, object=obj))
    assert len(HistoryReader.open(tmp_path).parts) == 1


def test_files_that_are_not_ours_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableHistory, match="not a history"):
        HistoryReader.open(tmp_path)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1")
    with pytest.raises(UnreadableHistory, match=r"torn\.parquet: not a readable Parquet file"):
        read_part(torn)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(UnreadableHistory, match="format version none; this program reads 1, 2, 3, 4, 5, 6 and 7"):
        read_part(tmp_path / "foreign.parquet")
    newer = table_of([]).replace_schema_metadata({"quorumlog.format": "8"})
    write_part(newer, tmp_path / "newer.parquet")
    with pytest.raises(UnreadableHistory, match="format version 8"):
        read_part(tmp_path / "newer.parquet")
    write_part(table_of([]).drop_columns(["seen"]), tmp_path / "narrow.parquet")
    with pytest.raises(UnreadableHistory, match="its columns are"):
        read_part(tmp_path / "narrow.parquet")


def test_a_history_of_the_first_format_is_read_as_ever(tmp_path: Path) -> None:
    op = Op(f=Action.APPEND, type=Outcome.OK, t_inv=1, t_ret=2, a=5, offset=0)
    write_part(table_of([op]).replace_schema_metadata({"quorumlog.format": "1"}), tmp_path / "old.parquet")
    assert list(ops_of(read_part(tmp_path / "old.parquet"))) == [op]


def test_a_dump_from_before_objects_is_of_object_0(tmp_path: Path) -> None:
    with DumpWriter(tmp_path) as writer:
        writer.begin(1, 4)
        writer.record(1, 4, 2, [7, 8], size=9)
    (part,) = tmp_path.glob("part-*.parquet")
    older = read_part(part, of=DUMP_COLUMNS).drop_columns("object")
    write_part(older.replace_schema_metadata({"quorumlog.format": "2"}), part)
    found = json.loads((tmp_path / KEPT).read_text())
    (tmp_path / KEPT).write_text(json.dumps({**found, "nodes": found.pop("objects")["0"]}))
    assert read_dump(tmp_path).to_pylist() == [
        {"object": 0, "node": 1, "offset": offset, "epoch": 2, "a": value} for offset, value in ((4, 7), (5, 8))
    ]
    kept = read_kept(tmp_path)
    assert kept is not None
    assert (list(kept), kept[0].starts) == ([0], {1: 4})


def test_a_dump_says_where_each_log_begins_and_how_much_it_keeps(tmp_path: Path) -> None:
    with DumpWriter(tmp_path, rule=KeepRule(retention_bytes=10)) as writer:
        writer.begin(1, 0)
        writer.record(1, 0, 1, [5], size=3)
        writer.begin(1, 4)
        writer.record(1, 4, 1, [7], size=4)
        writer.begin(2, 5)
        writer.begin(1, 3, obj=8)
        writer.record(1, 3, 2, [9, 10], size=6, obj=8)
    assert not list(tmp_path.glob(".*")), "left unfinished"
    of_objects = read_kept(tmp_path)
    assert of_objects is not None
    kept = of_objects[0]
    assert (kept.rule, kept.starts, kept.bytes_kept) == (KeepRule(retention_bytes=10), {1: 4, 2: 5}, {1: 4, 2: 0})
    assert kept.ends == {1: 5, 2: 5}
    assert (of_objects[8].starts, of_objects[8].ends) == ({1: 3}, {1: 5})
    assert [row["object"] for row in read_dump(tmp_path).to_pylist()] == [0, 0, 8, 8]
    with DumpWriter(tmp_path):
        assert read_kept(tmp_path) is None, "the word of a former dump"
    (tmp_path / KEPT).write_text("{}")
    with pytest.raises(UnreadableHistory, match="does not say where logs begin"):
        read_kept(tmp_path)


def test_recording_clients_do_not_import_the_checkers_packages() -> None:
    script = "import sys, jepsen_like.history.files; sys.exit(bool({'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_columns_are_the_fields_of_an_operation() -> None:
    assert {name for name, _ in COLUMNS} == {field.name for field in attrs.fields(Op)}
