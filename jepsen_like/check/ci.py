"""Verdicts for continuous integration: JUnit's XML, which CI servers show as tests, and SARIF 2.1.0, which code hosts show as alerts.

In JUnit a history is a suite, and each check a case: it fails if it was violated, and is skipped while it is open. In SARIF each
violation is a result of the rule that its check is; a verdict that is open, or a path that is no history, is a notification.
"""

import json
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from jepsen_like.check.runs import Judged
from jepsen_like.report.check_words import CHECKS_IN_WORDS

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""


def write_junit(file: Path, found: Sequence[Judged]) -> None:
    """Write a suite for each path. Raises `OSError`."""
    suites = [_suite(one) for one in found]
    counts = {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in ("tests", "failures", "errors")}
    root = ElementTree.Element("testsuites", {"name": "quorumlog check", **counts})
    root.extend(suites)
    ElementTree.indent(root)
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _suite(one: Judged) -> ElementTree.Element:
    if one.unreadable is not None:
        suite = ElementTree.Element("testsuite", name=_text(one.path), tests="1", failures="0", errors="1", skipped="0")
        case = ElementTree.SubElement(suite, "testcase", classname=_text(one.path), name="history")
        ElementTree.SubElement(case, "error", message=_text(one.unreadable))
        return suite
    checks = one.verdict["checks"]
    failures = sum(check["valid"] is False for check in checks.values())
    skipped = sum(check["valid"] is None for check in checks.values())
    # The verdict is a case of its own: it is open where nothing was tested, though no check is violated.
    numbers = {
        "tests": len(checks) + 1,
        "failures": failures + (one.valid is False),
        "errors": 0,
        "skipped": skipped + (one.valid is None),
    }
    suite = ElementTree.Element(
        "testsuite", {"name": _text(one.path), **{name: str(number) for name, number in numbers.items()}}
    )
    _case(suite, one, "verdict", one.valid, list(one.summary))
    for name, check in checks.items():
        lines = [*([check["reason"]] if check.get("reason") else []), *check["examples"]]
        more = f"{check['count']:,} found" if check["count"] else "not decided"
        _case(suite, one, name, check["valid"], [more, *lines])
    return suite


def _case(suite: ElementTree.Element, one: Judged, name: str, valid: bool | None, lines: Sequence[str]) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=_text(one.path), name=name)
    if valid is not True:
        kind = "failure" if valid is False else "skipped"
        ElementTree.SubElement(case, kind, message=_text(lines[0])).text = _text("\n".join(lines[1:]))


def _text(value: str) -> str:
    return _NO_XML.sub("?", value)


def write_sarif(file: Path, found: Sequence[Judged]) -> None:
    """Write a run with all violations of all paths. Raises `OSError`."""
    names = dict.fromkeys(row["check"] for one in found for row in one.verdict.get("violations", ()))
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "quorumlog", "version": _version(), "rules": [_rule(name) for name in names]}
                },
                "invocations": [
                    {
                        "executionSuccessful": all(one.unreadable is None for one in found),
                        "toolExecutionNotifications": [note for one in found for note in _notes(one)],
                    }
                ],
                "results": [_result(one, row) for one in found for row in one.verdict.get("violations", ())],
            }
        ],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=2), encoding="utf-8")


def _version() -> str:
    try:
        return version("quorumlog")
    except PackageNotFoundError:
        return "0"


def _rule(name: str) -> dict[str, Any]:
    meaning = CHECKS_IN_WORDS.get(name, name)
    return {"id": name, "shortDescription": {"text": meaning}, "defaultConfiguration": {"level": "error"}}


def _result(one: Judged, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "ruleId": row["check"],
        "level": "error",
        "message": {"text": row["sentence"]},
        "locations": [_location(one)],
        "partialFingerprints": {"violation/v1": f"{row['check']}/{row['object']}/{row['sentence']}"},
    }


def _location(one: Judged) -> dict[str, Any]:
    uri = Path(one.path).as_posix()
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}


def _notes(one: Judged) -> list[dict[str, Any]]:
    if one.unreadable is not None:
        return [{"level": "error", "message": {"text": one.unreadable}}]
    lines = [*one.verdict["unknown"], *one.verdict["not_tested"]]
    return [{"level": "warning", "message": {"text": f"{one.path}: {line}"}} for line in lines]
