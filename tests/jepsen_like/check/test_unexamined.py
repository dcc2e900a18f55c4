"""A promise that no operation looked at is not kept but unknown, and what a file is that cannot be read is named."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check import map_files
from jepsen_like.cli import LINE_CHARS_MAX, ExitStatus, execute

Row = tuple[int, str, str, Any]


def maps(*rows: Row) -> str:
    return "".join(
        json.dumps({"process": process, "type": kind, "f": f, "value": value}) + "\n"
        for process, kind, f, value in rows
    )


def did(f: str, asked: Any, answered: Any, kind: str = "ok") -> list[Row]:
    return [(0, "invoke", f, asked), (0, kind, f, answered)]


def status_of(path: Path, text: str, model: str) -> int:
    path.write_text(text)
    return execute(["check", str(path), "--model", model, "--engine", "local"])


CHANGE = {
    "register": ("write", "read", 1, 1),
    "set": ("add", "read", 1, [1]),
    "linearizable-set": ("add", "read", 1, [1]),
    "unordered-queue": ("enqueue", "dequeue", 1, 1),
    "fifo-queue": ("enqueue", "dequeue", 1, 1),
    "total-queue": ("enqueue", "drain", 1, [1]),
    "key-value": ("append", "get", [5, 1], [5, [1]]),
}


@pytest.mark.parametrize("model", CHANGE)
def test_what_no_operation_looked_at_is_unknown(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, look, value, seen = CHANGE[model]
    asked = [5, None] if model == "key-value" else None
    put = did(change, value, value)
    assert status_of(tmp_path / "h.jsonl", maps(*put, *did(look, asked, None, "info")), model) == ExitStatus.UNKNOWN
    assert "that returned could have found what was acknowledged" in capsys.readouterr().out
    assert status_of(tmp_path / "h.jsonl", maps(*put, *did(look, asked, seen)), model) == ExitStatus.VALID


@pytest.mark.parametrize("model", ["set", "linearizable-set"])
def test_a_read_before_all_adds_examines_none(model: str, tmp_path: Path) -> None:
    early = [*did("read", None, []), *did("add", 1, 1)]
    assert status_of(tmp_path / "h.jsonl", maps(*early), model) == ExitStatus.UNKNOWN


def test_one_set_that_was_never_read_leaves_the_verdict_open_and_one_register_does_not(tmp_path: Path) -> None:
    sets = [*did("add", [1, 7], [1, 7]), *did("read", [1, None], [1, [7]]), *did("add", [2, 7], [2, 7])]
    assert status_of(tmp_path / "h.jsonl", maps(*sets), "set") == ExitStatus.UNKNOWN
    registers = [*did("write", [1, 7], [1, 7]), *did("read", [1, None], [1, 7]), *did("write", [2, 7], [2, 7])]
    assert status_of(tmp_path / "h.jsonl", maps(*registers), "register") == ExitStatus.VALID


def test_a_refused_swap_has_looked(tmp_path: Path) -> None:
    rows = [*did("write", 1, 1), *did("cas", [2, 3], [2, 3], "fail")]
    assert status_of(tmp_path / "h.jsonl", maps(*rows), "register") == ExitStatus.VALID


PUT = [*did("enqueue", 1, 1), *did("enqueue", 2, 2)]
TAKEN = [*did("dequeue", None, 1), *did("dequeue", None, 2)]


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        (TAKEN, "true"),
        ([*TAKEN, (0, "invoke", "dequeue", None), (0, "fail", "dequeue", None)], "true"),
        ([*did("dequeue", None, 3)], "false"),
    ],
)
def test_a_drain_may_be_recorded_with_the_dequeues_that_it_takes(
    inside: list[Row], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*PUT, (0, "invoke", "drain", None), *inside, (0, "ok", "drain", "exhausted")]
    for model in ("total-queue", "unordered-queue", "fifo-queue"):
        status_of(tmp_path / "h.jsonl", maps(*rows), model)
        assert capsys.readouterr().out.splitlines()[-1].endswith(found)


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ([(0, "invoke", "enqueue", 1)], "line 2: process 0 invokes, but what it invoked in line 1"),
        ([(0, "invoke", "dequeue", None), (0, "invoke", "dequeue", None)], "line 3: process 0 invokes"),
        ([(0, "invoke", "dequeue", None), (0, "ok", "drain", 1)], "line 3: ok of 'drain', but line 2"),
        ([*TAKEN, (0, "invoke", "drain", None)], "line 6: process 0 invokes, but what it invoked in line 1"),
    ],
)
def test_nothing_else_lies_within_a_drain(
    inside: list[Row], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        status_of(tmp_path / "h.jsonl", maps((0, "invoke", "drain", None), *inside), "total-queue") == ExitStatus.USAGE
    )
    assert reason in capsys.readouterr().err


def archive(kind: str) -> bytes:
    data, text = io.BytesIO(), maps(*did("write", 1, 1)).encode()
    if kind == "zip":
        with zipfile.ZipFile(data, "w") as file:
            file.writestr("history.jsonl", text)
    else:
        with tarfile.open(fileobj=data, mode="w") as tar:
            info = tarfile.TarInfo("history.jsonl")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return data.getvalue()


TEXT = maps(*did("write", 1, 1))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("h.edn", archive("zip"), "is a zip archive: unpack it"),
        ("h.edn", archive("tar"), "is a tar archive: unpack it"),
        ("h.edn.gz", gzip.compress(archive("tar")), "is a tar archive: unpack it"),
        ("h.json", TEXT.encode("utf-16"), "is text in UTF-16: convert it"),
        ("h.json", TEXT.encode("utf-16-le"), "is text in UTF-16 or UTF-32: convert it"),
        ("h.json", b"PAR1" + bytes(50), "is a Parquet file: name it with the suffix .parquet"),
        ("h.json.gz", gzip.compress(gzip.compress(TEXT.encode())), "is compressed with gzip twice"),
        ("h.json", b"\x28\xb5\x2f\xfd" + bytes(9), "is compressed with zstd"),
        ("h.json", b"BZh9" + bytes(9), "is compressed with bzip2"),
        ("h.json", b"\x7fELF\x00" + b"\x01" * 50, "is a binary file, not text"),
        ("h.json", gzip.compress(TEXT.encode())[:20], "end-of-stream"),
        ("h.json", gzip.compress(TEXT.encode() * 99)[:15] + b"\xff" * 40, "h.json"),
        ("h.parquet", gzip.compress(TEXT.encode()), "is compressed with gzip"),
        ("h.parquet", TEXT.encode(), "looks like operation maps"),
        ("h.parquet", archive("zip"), "is a zip archive"),
    ],
    ids=range(15),
)
def test_a_file_that_is_no_history_is_named_as_what_it_is(
    name: str, content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / name).write_bytes(content)
    assert execute(["check", str(path), "--model", "register", "--engine", "local"]) == ExitStatus.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


@pytest.mark.parametrize("field", ["time", "index"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_moment_that_is_no_number_is_refused_with_its_line(
    field: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace('"value": 1}', f'"value": 1, "{field}": {value}}}')
    assert status_of(tmp_path / "h.jsonl", text, "register") == ExitStatus.USAGE
    assert f"line 1: its {field} is " in capsys.readouterr().err


LONG = "x" * 300_000


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        ("register", did("write", LONG, LONG + "y")),
        ("register", did(LONG, 1, 1)),
        ("register", [(0, "invoke", "write", [LONG, 1]), (0, "ok", "write", [LONG + "y", 1])]),
        ("register", [(0, LONG, "write", 1)]),
        ("register", did("cas", LONG, LONG)),
        ("log", did("append", 1, [LONG, 1])),
        ("set", did("read", None, LONG)),
        ("key-value", did("txn", [[LONG, 1, 2]], None)),
        ("register", [*did("write", 1, 1), *did("read", None, LONG)]),
        ("set", [*did("add", 1, 1), *did("read", None, [LONG + str(number) for number in range(9)])]),
    ],
    ids=range(10),
)
def test_no_line_is_longer_than_can_be_read(
    model: str, rows: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("h.jsonl", maps(*rows)), ("h.jsonl", maps(*rows)[:-3])):
        status_of(tmp_path / name, text, model)
        printed = capsys.readouterr()
        assert all(len(line) < 2000 for line in [*printed.out.splitlines(), *printed.err.splitlines()])
    assert LINE_CHARS_MAX < 2000


@pytest.mark.parametrize(
    "begin", ['{"process": 0, "value": "', '[{"process": 0, "value": "', '{:process 0, :value "', "(", "; "]
)
def test_what_is_compressed_is_read_up_to_a_bound(
    begin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(map_files, "FORM_CHARS_MAX", 1 << 18)
    monkeypatch.setattr("jepsen_like.check.edn.FORM_CHARS_MAX", 1 << 18)
    (path := tmp_path / "bomb.gz").write_bytes(gzip.compress(begin.encode() + b"a" * (1 << 22)))
    assert execute(["check", str(path), "--model", "register", "--engine", "local"]) == ExitStatus.USAGE
    assert "262,144 characters" in capsys.readouterr().err
