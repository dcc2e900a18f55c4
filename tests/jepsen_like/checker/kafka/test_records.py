"""Records that were produced, delivered and committed, a JSON line each, are judged by the same rules."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.runs import Judged, judge
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine, Model
from tests.jepsen_like.checker.kafka.workload import allowed, counts


def produced(value: Any, offset: int | None, **more: Any) -> dict[str, Any]:
    return {"type": "produced", "producer": "p", "topic": "t", "partition": 0, "offset": offset, "value": value, **more}


def delivered(value: Any, offset: int, consumer: str = "c", **more: Any) -> dict[str, Any]:
    where = {"topic": "t", "partition": 0, "offset": offset}
    return {"type": "delivered", "consumer": consumer, **where, "value": value, **more}


def committed(offset: int, group: str = "g") -> dict[str, Any]:
    return {"type": "committed", "consumer": "c", "group": group, "topic": "t", "partition": 0, "offset": offset}


def found(path: Path, *lines: dict[str, Any]) -> Judged:
    file = path / "records.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return judge(file, Model.KAFKA, Engine.LOCAL, LocalEngine())


SENT = [produced("a", 0), produced("b", 1), produced("c", 2)]


def test_records_that_were_all_delivered_in_order_are_valid(tmp_path: Path) -> None:
    one = found(tmp_path, *SENT, delivered("a", 0), delivered("b", 1), delivered("c", 2), committed(3))
    assert (one.valid, counts(one)) == (True, {})


def test_a_record_that_was_not_delivered_though_a_later_one_was_is_lost(tmp_path: Path) -> None:
    one = found(tmp_path, *SENT, delivered("a", 0), delivered("c", 2))
    assert counts(one) == {"lost": 1, "skipped_poll": 1}
    assert one.summary[1].startswith('lost: partition "t-0": the send of "b" at offset 1 by process "p"')


def test_a_group_that_commits_what_no_member_was_given_passed_over_it(tmp_path: Path) -> None:
    in_group = {"group": "g"}
    rows = [delivered("a", 0, **in_group), delivered("c", 2, **in_group), delivered("b", 1, "other")]
    one = found(tmp_path, *SENT, *rows, committed(3))
    assert (counts(one), allowed(one)) == ({"skipped_poll": 1}, {"skipped_poll": 1})


def test_a_group_whose_members_share_a_partition_is_valid(tmp_path: Path) -> None:
    rows = [delivered("a", 0, group="g"), delivered("b", 1, "d", group="g"), delivered("c", 2, group="g"), committed(3)]
    assert found(tmp_path, *SENT, *rows).valid is True


def test_a_group_that_commits_backwards(tmp_path: Path) -> None:
    rows = [delivered("a", 0, group="g"), delivered("b", 1, group="g"), delivered("c", 2, group="g")]
    assert counts(found(tmp_path, *SENT, *rows, committed(3), committed(1))) == {"commit_regress": 1}


def test_a_record_delivered_before_its_acknowledgement_came_is_fine(tmp_path: Path) -> None:
    assert found(tmp_path, delivered("a", 0), produced("a", 0)).valid is True


def test_refused_and_unknown_records(tmp_path: Path) -> None:
    assert counts(found(tmp_path, produced("a", None, outcome="fail"), delivered("a", 0))) == {"aborted_read": 1}
    assert found(
        tmp_path, produced("a", None, outcome="info"), delivered("a", 0), produced("b", 1), delivered("b", 1)
    ).valid


def test_an_order_of_sends_is_judged_only_where_the_lines_tell_when_they_began(tmp_path: Path) -> None:
    reads = [delivered("b", 0), delivered("a", 1)]
    one = produced("a", 1, time=10, began=5)
    assert found(tmp_path, one, produced("b", 0, time=20), *reads).valid is True
    assert counts(found(tmp_path, one, produced("b", 0, time=20, began=15), *reads)) == {"send_order": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"type": "sent"}, "type is 'sent'"),
        ({"topic": None}, "no topic"),
        ({"offset": -1}, "offset is -1"),
        ({"outcome": "maybe"}, "outcome is 'maybe'"),
        ({"time": 5, "began": 9}, "began is 9"),
    ],
)
def test_a_line_that_says_too_little_is_refused_with_its_place(line: dict[str, Any], says: str, tmp_path: Path) -> None:
    one = found(tmp_path, produced("a", 0), {**produced("b", 1), **line})
    assert one.unreadable is not None
    assert "line 2" in one.unreadable
    assert says in one.unreadable
