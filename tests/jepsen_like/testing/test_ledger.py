"""A test cluster's promises are held against the logs in the end."""

from jepsen_like.testing.ledger import UNSEEN_BYTES, Ledger
from log.frame import HEADER_BYTES
from log.retention import Retention


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


def test_what_left_all_logs_by_their_retention_is_not_lost() -> None:
    ledger = Ledger(retention=Retention(bytes_max=1))
    ledger.on_appended(0, [b"a", b"b", b"c", b"d"])
    verdict = ledger.verdict({1: [b"c", b"d"], 2: [b"d"], 3: []}, {1: 2, 2: 3, 3: 4})
    assert (verdict.valid, verdict.expired, verdict.committed) == (True, 2, 2)
    assert str(verdict) == "4 records acknowledged, 2 in the log, 2 have left it: nothing acknowledged was lost"


def test_what_lies_at_the_start_or_above_is_looked_for_as_ever() -> None:
    ledger = Ledger(retention=Retention(bytes_max=1))
    ledger.on_appended(0, [b"a", b"b", b"c"])
    assert ledger.verdict({1: [b"x", b"c"], 2: [b"c"]}, {1: 1, 2: 2}).broken == ("offset 1 was b'b' and is b'x' now",)
    assert ledger.verdict({1: [b"b"]}, {1: 1}).broken == ("offset 2, b'c', is lost",)
    assert ledger.verdict({1: [b"b", b"c"], 2: [b"y"]}, {1: 1, 2: 2}).broken == (
        "the log of node 2 is not that of the others",
    )


def test_without_a_retention_a_log_that_begins_late_is_told_and_what_it_lacks_is_lost() -> None:
    ledger = Ledger()
    ledger.on_appended(0, [b"a", b"b"])
    assert ledger.verdict({1: [b"b"]}, {1: 1}).broken == (
        "offset 0, b'a', is lost",
        "the log of node 1 begins at 1, and nothing may leave it",
    )


def test_logs_that_begin_behind_all_that_was_ever_told_are_no_logs() -> None:
    ledger = Ledger(retention=Retention(age_ms_max=1))
    ledger.on_appended(0, [b"a"])
    starts = dict.fromkeys((1, 2, 3), 10**9)
    broken = ledger.verdict({node: [] for node in starts}, starts).broken
    assert broken[0] == "the log of node 1 begins at 1000000000, and there were never more than 1"
    assert len(broken) == 3
    ledger.on_end(10**9)
    assert ledger.verdict({node: [] for node in starts}, starts).valid


def test_a_log_of_records_holds_what_its_retention_keeps_but_for_a_little() -> None:
    kept = UNSEEN_BYTES + 10 * (HEADER_BYTES + 1000)
    ledger = Ledger(retention=Retention(bytes_max=kept))
    records = [b"." * 1000] * 20
    ledger.on_appended(0, records)
    assert ledger.verdict({1: records[10:]}, {1: 10}, of_records={1}).valid
    little = {1: records[11:]}
    assert ledger.verdict(little, {1: 11}, of_records={1}).broken == (
        "the log of node 1 begins at 11 and lacks 1080 bytes of what its retention keeps",
    )
    assert ledger.verdict(little, {1: 11}).valid, "the rest may be commands"
    old = Ledger(retention=Retention(bytes_max=kept, age_ms_max=1))
    old.on_appended(0, records)
    assert old.verdict(little, {1: 11}, of_records={1}).valid, "it may have been too old"
    ledger.unknown_bytes = 1080
    assert ledger.verdict(little, {1: 11}, of_records={1}).valid, "the rest may have been replaced"
    ledger.unknown_bytes = 0
    assert ledger.verdict({1: [*records[11:], b"x"]}, {1: 11}, of_records={1}).valid, "others wrote, too"
