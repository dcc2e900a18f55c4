"""The log of a raft group by the command line: what is printed is committed, and each end has its own status."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.operate.log import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, batches_of, no_leader
from jepsen_like.testing.sync import LocalCluster

Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster.open() as opened:
        yield opened


@pytest.fixture
def run(cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command on the cluster. Returns its status, the lines that it prints, and its complaint."""
    return runner(cluster, capsys, tmp_path)


def runner(cluster: LocalCluster, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    assert cluster.secret is not None
    secret = home / "secret"
    secret.touch(mode=0o600)
    secret.write_text(cluster.secret.text)

    def call(name: str, *words: str) -> tuple[int, list[str], str]:
        flags = ["--cluster", ",".join(cluster.addresses), "--cluster-id", cluster.cluster_id]
        flags += ["--secret-file", str(secret)]
        status = execute([name, *words, *flags])
        shown = capsys.readouterr()
        return status, shown.out.splitlines(), shown.err

    return call


def rows(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines]


def test_appended_records_are_committed_and_read_as_they_were_given(run: Run) -> None:
    status, lines, _ = run("append", "--json", "grün", "two")
    assert status == ExitStatus.VALID
    (appended,) = rows(lines)
    first = int(str(appended["offset"]))
    assert appended["records"] == 2
    status, lines, _ = run("read", "--json", "--from", str(first), "--count", "2")
    assert [(row["offset"], row["record"]) for row in rows(lines)] == [(first, "grün"), (first + 1, "two")]
    status, lines, _ = run("read", "--from", str(first + 1))
    assert (status, lines[0].split(), lines[-1].split()[::2]) == (
        ExitStatus.VALID,
        ["offset", "term", "record"],
        [str(first + 1), "two"],
    )


def test_standard_input_is_appended_a_line_a_record(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(BATCH_RECORDS_MAX + 1)) + b"\xff\xfe no text"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    status, shown, _ = run("append", "--json")
    assert status == ExitStatus.VALID
    assert [row["records"] for row in rows(shown)] == [BATCH_RECORDS_MAX, 2]
    _, shown, _ = run("tail", "--lines", "2", "--json")
    assert [row.get("record", row.get("base64")) for row in rows(shown)] == [
        f"line {BATCH_RECORDS_MAX}",
        "//4gbm8gdGV4dA==",
    ]


def test_an_empty_input_is_wrong_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, _, complaint = run("append")
    assert status == ExitStatus.USAGE
    assert "there is nothing to append" in complaint


def test_status_shows_every_node_and_the_one_that_leads(run: Run, cluster: LocalCluster) -> None:
    status, lines, _ = run("status", "--json")
    assert status == ExitStatus.VALID
    found = rows(lines)
    assert {row["node"] for row in found} == {1, 2, 3}
    assert [row["node"] for row in found if row["role"] == "leader"] == [cluster.leader()]
    status, lines, _ = run("status")
    assert lines[0].split()[:5] == ["node", "address", "role", "term", "leader"]
    assert len(lines) == 4


def test_without_the_secret_nothing_is_done_and_the_flag_is_named(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--cluster", cluster.addresses[0], "--cluster-id", cluster.cluster_id, "--within", "0.5"]
    status = execute(["append", "x", *flags])
    assert status == ExitStatus.NOT_DONE
    assert "give --secret-file the file that its nodes were started with" in capsys.readouterr().err


def test_without_any_node_nothing_was_appended_and_the_next_command_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = execute(["append", "x", "--cluster", "127.0.0.1:1", "--within", "0.2"])
    error = capsys.readouterr().err
    assert status == ExitStatus.NOT_DONE
    assert "quorumlog status --cluster 127.0.0.1:1" in error
    assert error.count("\n") == 1
    assert execute(["status", "--cluster", "127.0.0.1:1"]) == ExitStatus.NOT_DONE
    assert "no node answers" in capsys.readouterr().err


def test_an_append_that_may_still_happen_has_a_status_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with LocalCluster.open() as cluster:
        run = runner(cluster, capsys, tmp_path)
        leader = cluster.wait_for_leader()
        assert run("append", "before")[0] == ExitStatus.VALID
        cluster.pause(*(node for node in cluster.nodes if node != leader))
        status, lines, complaint = run("append", "perhaps", "--within", "0.5")
        assert status == ExitStatus.UNKNOWN
        assert lines == []
        assert "see what is there: quorumlog tail --cluster" in complaint


def test_batches_are_bounded_and_leave_nothing_out() -> None:
    records = [b"x" * 100_000] * 5 + [b""] * 2500 + [b"y" * BATCH_BYTES_MAX * 2, b"z"]
    batches = list(batches_of(records))
    assert [record for batch in batches for record in batch] == records
    assert all(len(batch) <= BATCH_RECORDS_MAX for batch in batches)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= BATCH_BYTES_MAX for batch in batches)
    assert list(batches_of([])) == []


@pytest.mark.parametrize(
    ("statuses", "advice"),
    [
        ([{"error": "refused"}], "no node answers"),
        ([{"node": 1, "voters": [1, 2, 3]}, {"error": "refused"}], "1 of 3 answer, and it takes 2; start the others"),
        ([{"node": n, "voters": [1, 2, 3], "unheard": [3]} for n in (1, 2)], "waits for node 3; start it"),
        ([{"node": n, "voters": [1, 2, 3], "unheard": []} for n in (1, 2)], "ask again in a few seconds"),
    ],
)
def test_a_group_without_a_leader_is_reported_with_what_to_do(statuses: list[dict[str, object]], advice: str) -> None:
    assert advice in no_leader(statuses)
