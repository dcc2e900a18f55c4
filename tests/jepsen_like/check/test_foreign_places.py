"""Histories of others are found where they lie: in Jepsen's store, on stdin, compressed; what is cut off is named by its line."""

import gzip
import io
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jepsen_like.check.edn import PIECE_CHARS
from jepsen_like.check.jepsen_maps import operations
from jepsen_like.check.map_files import HEAD_CHARS, read_events
from jepsen_like.checker.verdict import Model
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.history.files import UnreadableHistory

EDN = """{:index 0, :type :invoke, :process 0, :f :write, :value 1, :time 5}
{:index 1, :type :ok, :process 0, :f :write, :value 1, :time 6}
{:index 2, :type :info, :process :nemesis, :f :kill, :value {"n1" [:killed "a b"]}, :time 6}
{:index 3, :type :invoke, :process 1, :f :read, :value nil, :time 7}
{:index 4, :type :ok, :process 1, :f :read, :value 1, :time 8}
"""
TXT = "0   \t:invoke\t:write\t1\n0\t:ok\t:write\t1\n:nemesis\t:info\t:kill\t{:a 1}\n1\t:invoke\t:read\tnil\n1\t:ok\t:read\t1\n"
JSON = """{"type": "invoke", "process": 0, "f": "write", "value": 1}
{"type": "ok", "process": 0, "f": "write", "value": 1}
"""


def check(path: object) -> int:
    return execute(["check", str(path), "--model", "register", "--engine", "local"])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one test, as Jepsen leaves it."""
    test = tmp_path / "store" / "my test" / "20260101T000000"
    key = test / "independent" / "7"
    key.mkdir(parents=True)
    for place in (test, key):
        (place / "history.edn").write_text(EDN)
        (place / "results.edn").write_text("{:valid? false")
    (test / "test.jepsen").write_bytes(bytes(range(256)))
    (test.parent / "latest").symlink_to(test.name)
    (test.parent.parent / "latest").symlink_to(test.relative_to(test.parent.parent))
    return test


def test_a_directory_of_the_store_is_a_history(store: Path) -> None:
    for path in (store, store / "history.edn", store.parent / "latest", store.parent, store.parent.parent):
        assert check(path) == ExitStatus.VALID, path
    assert check(store / "independent" / "7") == ExitStatus.VALID


def test_of_a_directory_of_the_store_the_model_is_asked_for(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["check", str(store.parent)]) == ExitStatus.USAGE
    assert f"{store.parent}: no test.json tells what its objects are; --model is needed" in capsys.readouterr().err


def test_without_its_edn_the_text_is_read(store: Path) -> None:
    (store / "history.edn").unlink()
    (store / "history.txt").write_text(TXT)
    assert check(store) == ExitStatus.VALID
    (store / "history.txt").write_text(TXT.replace(":read\t1", ":read\t2"))
    assert check(store) == ExitStatus.VIOLATION


def test_what_cannot_be_read_there_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "history.edn").unlink()
    assert check(store) == ExitStatus.USAGE
    assert "its keys are judged one by one: independent/*" in capsys.readouterr().err
    (store / "independent" / "7" / "history.edn").unlink()
    assert check(store) == ExitStatus.USAGE
    assert "no history.edn, and test.jepsen is not text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (EDN.encode(), "true"),
        (JSON.encode(), "unknown"),  # a write that was never read
        (gzip.compress(EDN.encode(), mtime=0), "true"),
        (f"[{EDN}]".encode(), "true"),
    ],
    ids=["EDN", "JSON", "gzip", "vector"],
)
def test_stdin_is_told_apart_by_how_it_begins(
    content: bytes, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert check("-") == (ExitStatus.VALID if word == "true" else ExitStatus.UNKNOWN)
    assert capsys.readouterr().out.splitlines()[-1] == f"-\t{word}"


def test_values_that_are_no_text_are_written_into_tables(tmp_path: Path) -> None:
    (path := tmp_path / "h.jsonl").write_text(
        '{"type": "invoke", "process": 0, "f": "read", "value": null}\n'
        '{"type": "ok", "process": 0, "f": "read", "value": "\\ud800"}\n'
    )
    assert execute(["check", str(path), "--model", "register", "--out", str(tmp_path)]) == ExitStatus.VIOLATION
    (violation,) = pq.read_table(tmp_path / "violations.parquet").to_pylist()
    assert violation["ops"][0]["a"] == "\\ud800"


def test_stdin_needs_no_engine_but_a_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EDN.encode())))
    assert execute(["check", "-"]) == ExitStatus.USAGE
    assert "--model is needed" in capsys.readouterr().err
    assert execute(["check", "-", "--model", "register"]) == ExitStatus.VALID


def test_stdin_is_checked_alone(tmp_path: Path) -> None:
    (path := tmp_path / "h.edn").write_text(EDN)
    assert execute(["check", "-", str(path), "--model", "register"]) == ExitStatus.USAGE


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    (path := tmp_path / "history.edn.gz").write_bytes(gzip.compress(EDN.encode()))
    assert check(path) == ExitStatus.VALID
    path.write_bytes(gzip.compress(EDN.encode())[:-9])
    assert check(path) == ExitStatus.USAGE


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        pytest.param("h.edn", EDN[:-20], "line 5: the text ends before }", id="EDN"),
        pytest.param("h.edn", EDN.replace(":value 1, :time 8}", ':value "open}'), "line 5: unreadable text", id="EDN string"),
        pytest.param("h", f"[{EDN}", "line 6: the text ends before ]", id="EDN vector"),
        pytest.param("h.jsonl", JSON[:-20], "line 2: Unterminated string starting at at column 35; was the file", id="JSON lines"),
        pytest.param("h.json", "[" + JSON.replace("}\n", "},\n")[:-20], "was the file cut off?", id="JSON array"),
        pytest.param("h.txt", TXT[:-12], "line 5: process, type, f and value expected", id="text"),
        pytest.param("h.edn", EDN.replace(":value nil, :time 7}", ":value nil, :time}"), "line 4: a map with a key", id="bad EDN"),
        pytest.param("h.edn", EDN.replace(":f :read", ":f :pop"), "line 4: a register has write, read, cas, but", id="unknown f"),
        pytest.param("h.edn", EDN.replace(":process 1", ":process 0").replace(":ok", ":invoke"), "line 2: process 0 invokes", id="two"),
        pytest.param("h.edn", EDN.replace(":invoke, :process 1", ":ok, :process 1"), "line 4: ok of process 1, which invoked", id="ok"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_line(name: str, text: str, complaint: str, tmp_path: Path) -> None:
    (path := tmp_path / name).write_text(text)
    with pytest.raises(UnreadableHistory) as refused:
        list(operations(read_events(path), Model.REGISTER, path))
    assert complaint in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize("form", ["edn", "vector", "jsonl", "array"])
def test_pieces_join_wherever_a_file_is_divided(form: str, tmp_path: Path) -> None:
    assert PIECE_CHARS == HEAD_CHARS
    lines = []
    for number in range(3000):
        value = f'"{chr(228) * (number % 50)} {{[;"' if number % 3 else str(number)
        if form in ("edn", "vector"):
            lines.append(f"{{:type :invoke, :process {number}, :f :write, :value {value}}} ; {number}")
        else:
            lines.append(f'{{"type": "invoke", "process": {number}, "f": "write", "value": {value}}}')
    text = {"vector": "[{}\n]", "array": "[{}]"}.get(form, "{}").format(
        (",\n" if form == "array" else "\n").join(lines)
    )
    assert len(text) > 2 * PIECE_CHARS
    (path := tmp_path / "history").write_text(text)
    found = list(read_events(path))
    assert [event.fields["process"] for event in found] == list(range(3000))
    assert [event.line for event in found] == list(range(1, 3001))
    assert found[7].fields["value"] == f"{chr(228) * 7} {{[;"
