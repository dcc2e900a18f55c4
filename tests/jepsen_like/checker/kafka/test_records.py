"""Records that were produced, delivered and committed, a JSON line each, are judged by the same rules."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.runs import Judged, judge
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine, Model
from tests.jepsen_like.checker.kafka.workload import count_allowed, counts


def produce(value: Any, offset: int | None, **more: Any) -> dict[str, Any]:
    return {"type": "produced", "producer": "p", "topic": "t", "partition": 0, "offset": offset, "value": value, **more}


def deliver(value: Any, offset: int, consumer: str = "c", **more: Any) -> dict[str, Any]:
    where = {"topic": "t", "partition": 0, "offset": offset}
    return {"type": "delivered", "consumer": consumer, **where, "value": value, **more}


def commit(offset: int, group: str = "g") -> dict[str, Any]:
    return {"type": "committed", "consumer": "c", "group": group, "topic": "t", "partition": 0, "offset": offset}


def find(path: Path, *lines: dict[str, Any]) -> Judged:
    file = path / "records.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return judge(file, Model.KAFKA, Engine.LOCAL, LocalEngine())


SENT = [produce("a", 0), produce("b", 1), produce("c", 2)]


def test_records_that_were_all_delivered_in_order_are_valid(tmp_path: Path) -> None:
    one = find(tmp_path, *SENT, deliver("a", 0), deliver("b", 1), deliver("c", 2), commit(3))
    assert (one.valid, counts(one)) == (True, {})


def test_a_record_that_was_not_delivered_though_a_later_one_was_is_lost(tmp_path: Path) -> None:
    one = find(tmp_path, *SENT, deliver("a", 0), deliver("c", 2))
    assert counts(one) == {"lost": 1, "skipped_poll": 1}
    assert one.summary[1].startswith('lost: partition "t-0": the send of "b" at offset 1 by process "p"')


def test_a_group_that_commits_what_no_member_was_given_passed_over_it(tmp_path: Path) -> None:
    in_group = {"group": "g"}
    rows = [deliver("a", 0, **in_group), deliver("c", 2, **in_group), deliver("b", 1, "other")]
    one = find(tmp_path, *SENT, *rows, commit(3))
    assert (counts(one), count_allowed(one)) == ({"skipped_poll": 1}, {"skipped_poll": 1})


def test_a_group_whose_members_share_a_partition_is_valid(tmp_path: Path) -> None:
    rows = [deliver("a", 0, group="g"), deliver("b", 1, "d", group="g"), deliver("c", 2, group="g"), commit(3)]
    assert find(tmp_path, *SENT, *rows).valid is True


def test_a_group_that_commits_backwards(tmp_path: Path) -> None:
    rows = [deliver("a", 0, group="g"), deliver("b", 1, group="g"), deliver("c", 2, group="g")]
    assert counts(find(tmp_path, *SENT, *rows, commit(3), commit(1))) == {"commit_regress": 1}


def test_a_record_delivered_before_its_acknowledgement_came_is_fine(tmp_path: Path) -> None:
    assert find(tmp_path, deliver("a", 0), produce("a", 0)).valid is True


def test_refused_and_unknown_records(tmp_path: Path) -> None:
    assert counts(find(tmp_path, produce("a", None, outcome="fail"), deliver("a", 0))) == {"aborted_read": 1}
    assert find(tmp_path, produce("a", None, outcome="info"), deliver("a", 0), produce("b", 1), deliver("b", 1)).valid


def test_an_order_of_sends_is_judged_only_where_the_lines_tell_when_they_began(tmp_path: Path) -> None:
    reads = [deliver("b", 0), deliver("a", 1)]
    one = produce("a", 1, time=10, began=5)
    assert find(tmp_path, one, produce("b", 0, time=20), *reads).valid is True
    assert counts(find(tmp_path, one, produce("b", 0, time=20, began=15), *reads)) == {"send_order": 1}


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
    one = find(tmp_path, produce("a", 0), {**produce("b", 1), **line})
    assert one.unreadable is not None
    assert "line 2" in one.unreadable
    assert says in one.unreadable
