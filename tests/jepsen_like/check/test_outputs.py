"""A check writes pages for people and files for continuous integration, about any history."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from jepsen_like.check.map_files import Event
from jepsen_like.check.nemesis_maps import faults_of
from jepsen_like.cli import ExitStatus, execute

SKEW = """
{:process 0, :type :invoke, :f :txn, :value [[:append "k<1>" 1] [:r :y nil]], :time 1000000}
{:process 1, :type :invoke, :f :txn, :value [[:append :y 2] [:r "k<1>" nil]], :time 2000000}
{:process :nemesis, :type :info, :f :start-partition, :value :majority, :time 3000000}
{:process :nemesis, :type :info, :f :start-partition, :value [:isolated {"n1" ["n2"]}], :time 4000000}
{:process 0, :type :ok, :f :txn, :value [[:append "k<1>" 1] [:r :y []]], :time 5000000}
{:process 1, :type :ok, :f :txn, :value [[:append :y 2] [:r "k<1>" []]], :time 900000000}
{:process :nemesis, :type :info, :f :stop-partition, :value nil, :time 950000000}
{:process :nemesis, :type :info, :f :stop-partition, :value :healed, :time 960000000}
"""
SOUND = SKEW.replace('[:r "k<1>" []]], :time 9', '[:r "k<1>" [1]]], :time 9')
OPEN = """
{"type": "produced", "producer": "p", "topic": "t", "partition": 0, "offset": 0, "value": "a"}
{"type": "produced", "producer": "p", "topic": "t", "partition": 0, "offset": 1, "value": "b"}
{"type": "delivered", "consumer": "c", "topic": "t", "partition": 0, "offset": 0, "value": "a"}
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def run(*arguments: Any) -> int:
    return execute(["check", *map(str, arguments), "--engine", "local"])


def test_a_page_shows_what_is_wrong_and_the_faults_of_the_nemesis(tmp_path: Path) -> None:
    history = write(tmp_path / "history.edn", SKEW)
    status = run(history, "--model", "list-append", "--html", tmp_path / "pages")
    assert status == ExitStatus.VIOLATION
    page = (tmp_path / "pages" / "history.edn.html").read_text()
    assert "g2: 1 found" in page
    assert "partition" in page
    assert ":majority" in page
    assert "k&lt;1&gt;" in page
    assert "k<1>" not in page, "what comes from a history is escaped"
    assert "T1: " in page


def test_each_path_has_a_page_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "history.edn", SOUND)
    paths = [tmp_path / name / "history.edn" for name in ("a", "b")]
    assert run(*paths, "--model", "list-append", "--html", tmp_path / "pages") == ExitStatus.VALID
    assert sorted(page.name for page in (tmp_path / "pages").iterdir()) == ["history.edn-2.html", "history.edn.html"]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            "register",
            '{"process": 0, "type": "invoke", "f": "read", "value": null}\n{"process": 0, "type": "ok", "f": "read", "value": "x"}',
        ),
        (
            "set",
            '{"process": 0, "type": "invoke", "f": "read", "value": null}\n{"process": 0, "type": "ok", "f": "read", "value": ["x", [1]]}',
        ),
        ("kafka", OPEN),
    ],
)
def test_histories_of_every_kind_have_pages_whatever_their_values_are(model: str, text: str, tmp_path: Path) -> None:
    history = write(tmp_path / "history.json", text)
    assert run(history, "--model", model, "--html", tmp_path / "pages") in (ExitStatus.VIOLATION, ExitStatus.UNKNOWN)
    assert "<svg" in (tmp_path / "pages" / "history.json.html").read_text()


def test_junit_has_a_suite_for_each_path_and_a_case_for_each_check(tmp_path: Path) -> None:
    bad, unknown = (
        write(
            tmp_path / "bad.jsonl",
            OPEN.replace('"offset": 0, "value": "a"}\n{"type": "p', '"offset": 1, "value": "a"}\n{"type": "p'),
        ),
        write(tmp_path / "open.jsonl", OPEN),
    )
    broken = write(tmp_path / "broken.jsonl", '{"type": "sent"}')
    assert run(bad, unknown, broken, "--model", "kafka", "--junit", tmp_path / "ci" / "j.xml") == ExitStatus.VIOLATION
    root = ElementTree.parse(tmp_path / "ci" / "j.xml").getroot()
    first, second, third = root
    assert [suite.get("name") for suite in root] == [str(bad), str(unknown), str(broken)]
    failed = {case.get("name") for case in first if case.find("failure") is not None}
    assert failed == {"verdict", "divergent_offset", "duplicated", "send_order"} - {"send_order"}
    assert (second.get("failures"), second.find("testcase/skipped") is not None) == ("0", True)
    assert third.find("testcase/error") is not None
    assert (root.get("failures"), root.get("errors")) == (str(len(failed)), "1")


def test_sarif_has_a_result_for_each_violation(tmp_path: Path) -> None:
    history = write(tmp_path / "history.edn", SKEW)
    assert run(history, "--model", "list-append", "--sarif", tmp_path / "s.json") == ExitStatus.VIOLATION
    (one,) = json.loads((tmp_path / "s.json").read_text())["runs"]
    (result,) = one["results"]
    assert result["ruleId"] == "g2"
    assert [rule["id"] for rule in one["tool"]["driver"]["rules"]] == ["g2"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == history.as_posix()


def test_sarif_of_an_open_verdict_has_no_result_and_the_reason(tmp_path: Path) -> None:
    history = write(tmp_path / "open.jsonl", OPEN)
    assert run(history, "--model", "kafka", "--sarif", tmp_path / "s.json") == ExitStatus.UNKNOWN
    (one,) = json.loads((tmp_path / "s.json").read_text())["runs"]
    assert one["results"] == []
    assert "not reached by any poll" in one["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def event(f: str, time: int, process: Any = "nemesis", value: Any = None) -> Event:
    return Event({"process": process, "type": "info", "f": f, "value": value, "time": time}, 1, 1)


def faults(*events: Event) -> list[tuple[str, int, int]]:
    return [(one.kind, one.begun_ns, one.ended_ns) for one in faults_of(events)]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([event("start", 10), event("start", 20), event("stop", 30), event("stop", 40)], [("start", 10, 30)]),
        ([event("kill", 10), event("kill", 20), event("start", 30), event("start", 40)], [("kill", 10, 30)]),
        ([event("pause", 10), event("pause", 20)], [("pause", 10, 20)]),
        ([event("bump-clock", 10), event("bump-clock", 20)], [("bump-clock", 10, 20)]),
        ([event("stop-partition", 10), event("stop-partition", 20)], []),
        (
            [
                *(event("start-partition", 10), event("start-partition", 20), event("pause", 30), event("pause", 40)),
                *(event("stop-partition", 50), event("stop-partition", 60), event("resume", 70), event("resume", 80)),
            ],
            [("partition", 10, 50), ("pause", 30, 70)],
        ),
    ],
)
def test_the_faults_of_jepsens_nemeses(events: list[Event], found: list[tuple[str, int, int]]) -> None:
    assert faults(*events) == found
