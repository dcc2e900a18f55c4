"""What a cluster of a test promised is held against the logs in the end."""

from jepsen_like.testing.ledger import Ledger


def test_what_was_acknowledged_and_stands_in_every_log_is_well() -> None:
    ledger = Ledger()
    ledger.on_appended(1, [b"b", b"c"])
    ledger.on_committed(2, 0, [b"a", b"b"])
    verdict = ledger.verdict({1: [b"a", b"b", b"c"], 2: [b"a", b"b", b"c"]})
    assert verdict.valid
    assert str(verdict) == "2 records acknowledged, 3 in the log: nothing acknowledged was lost"


def test_an_acknowledged_record_that_is_nowhere_is_lost() -> None:
    ledger = Ledger()
    ledger.on_appended(0, [b"a"])
    verdict = ledger.verdict({1: [], 2: []})
    assert not verdict.valid
    assert str(verdict) == "1 record acknowledged, 0 in the log: offset 0, b'a', is lost"


def test_a_record_at_the_place_of_another_is_told() -> None:
    ledger = Ledger()
    ledger.on_appended(0, [b"a"])
    assert ledger.verdict({1: [b"b"]}).broken == ("offset 0 was b'a' and is b'b' now",)


def test_two_promises_about_one_offset_contradict_each_other_whatever_the_log_says() -> None:
    ledger = Ledger()
    ledger.on_appended(0, [b"a"])
    ledger.on_committed(3, 0, [b"b"])
    assert ledger.verdict({1: [b"a"]}).broken == ("offset 0 was b'a', and b'b' is committed by node 3 there",)


def test_logs_that_differ_are_told_even_if_nothing_was_promised() -> None:
    verdict = Ledger().verdict({1: [b"a", b"b"], 2: [b"x"]})
    assert verdict.broken == ("the log of node 2 is not that of the others",)


def test_many_broken_promises_are_counted_and_long_records_cut_short() -> None:
    ledger = Ledger()
    ledger.on_appended(0, [b"x" * 1000] * 8)
    text = str(ledger.verdict({1: []}))
    assert text.endswith("; and 3 more")
    assert "(1000 bytes)" in text
    assert len(text) < 600
