"""Reports of acknowledged records: all of a report counts or none, and it is bounded."""

from typing import Any

import attrs
import pytest

from jepsen_like.port import witness
from jepsen_like.port.witness import CheckFinding, ReportedRecord, TooMuchReported, Witness, WrongReport


@attrs.frozen
class Noted:
    name: str
    at: int
    value: bytes | None
    key: bytes | None


class PlainWitness(Witness):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Noted] = []

    def parse(self, record: ReportedRecord) -> Noted:
        return Noted(
            record.text("name"), record.number("at"), record.content("value"), record.content("key", is_needed=False)
        )

    def keep(self, record: Noted) -> None:
        self.kept.append(record)

    def start_over(self) -> None:
        self.kept.clear()

    async def compare(self, *, within_s: float) -> CheckFinding:
        return CheckFinding(True, "", len(self.kept), 0)


GOOD = {"name": "orders", "at": 7, "value": "tea"}


def test_bytes_are_text_or_base64_or_null() -> None:
    plain = PlainWitness()
    records = [
        GOOD,
        {"name": "orders", "at": 8, "value_base64": "/w==", "key": "ü"},
        {"name": "orders", "at": 9, "value": None, "key_base64": None},
    ]
    assert plain.note({"records": records}) == 3
    assert [(each.value, each.key) for each in plain.kept] == [(b"tea", None), (b"\xff", "ü".encode()), (None, None)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (7, "records[1] is no JSON object"),
        ({**GOOD, "at": -1}, "records[1]: at is a number from 0 on"),
        ({**GOOD, "at": True}, "records[1]: at is a number"),
        ({**GOOD, "at": "7"}, "records[1]: at is a number"),
        ({**GOOD, "name": ""}, "records[1]: name is a text"),
        ({"name": "orders", "at": 7}, "records[1]: give one of value and value_base64"),
        ({**GOOD, "value_base64": ""}, "records[1]: give one of value and value_base64"),
        ({**GOOD, "value": 7}, "records[1]: value is a text, or null"),
        ({**GOOD, "value": "\ud800"}, "records[1]: value: "),
        ({"name": "orders", "at": 7, "value_base64": "?"}, "records[1]: value_base64: "),
        ({**GOOD, "values": 1}, "records[1]: there is no values"),
    ],
)
def test_a_report_with_one_wrong_record_is_refused_whole(record: Any, words: str) -> None:
    plain = PlainWitness()
    with pytest.raises(WrongReport) as refused:
        plain.note({"records": [GOOD, record]})
    assert words in str(refused.value)
    assert plain.kept == []


def test_reports_are_bounded_until_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "HELD_BYTES_MAX", 2 * (witness.RECORD_BYTES + len(b"tea")))
    plain = PlainWitness()
    plain.note({"records": [GOOD, GOOD]})
    with pytest.raises(TooMuchReported, match="forget what was reported"):
        plain.note({"records": [GOOD]})
    plain.forget()
    assert plain.note({"records": [GOOD]}) == 1
