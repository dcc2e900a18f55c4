"""The cases that Jepsen's own tests of its checker for Kafka are about, as histories of ours: the verdicts agree.

Where they differ by intent, the test tells why.
"""

from pathlib import Path

import pytest

from tests.jepsen_like.checker.kafka.workload import (
    Line,
    count_allowed,
    count_found,
    counts,
    judge_history,
    polls,
    sends,
    takes,
)

SIX = sends(
    9,
    "ok",
    "[[:send :k [0 10]] [:send :k [1 11]] [:send :k [2 12]] [:send :k [3 13]] [:send :k [4 14]] [:send :k [5 15]]]",
)
"""Six records, each at its offset."""


def read_all(process: int = 8) -> list[Line]:
    return polls(process, "[[:poll {:k [[0 10] [1 11] [2 12] [3 13] [4 14] [5 15]]}]]")


def test_a_sound_history_is_valid(tmp_path: Path) -> None:
    one = judge_history(tmp_path, SIX, read_all())
    assert (one.valid, counts(one), count_allowed(one)) == (True, {}, {})


def test_two_acknowledged_values_at_one_offset(tmp_path: Path) -> None:
    one = judge_history(tmp_path, sends(1, "ok", "[[:send 4 [57 1]]]"), sends(2, "ok", "[[:send 4 [57 2]]]"))
    assert counts(one) == {"divergent_offset": 1}
    assert "offset 57 has 2 values: 1 and 2" in one.summary[1]


def test_a_value_of_unknown_outcome_contradicts_nothing_until_its_transaction_is_seen(tmp_path: Path) -> None:
    unknown = sends(1, "info", "[[:send :k [0 1]] [:send :m 7]]", "[[:send :k 1] [:send :m 7]]")
    known = sends(2, "ok", "[[:send :k [0 2]]]")
    assert count_found(tmp_path, unknown, known) == {}
    assert count_found(tmp_path, unknown, known, polls(3, "[[:poll {:m [[5 7]]}]]")) == {"divergent_offset": 1}


def test_a_refused_record_is_polled(tmp_path: Path) -> None:
    refused = sends(1, "fail", "[[:send :k 1] [:send :m 2]]")
    assert count_found(tmp_path, refused, polls(2, "[[:poll {:k [[0 1]]}]]")) == {"aborted_read": 1}


def test_acknowledged_records_before_one_that_was_polled_are_lost(tmp_path: Path) -> None:
    one = sends(1, "ok", "[[:send :k [0 :a]]]")
    two = sends(1, "ok", "[[:send :k [1 :b]] [:send :k [3 :d]]]")
    unknown = sends(2, "info", "[[:send :k :c]]")
    judged_one = judge_history(tmp_path, one, two, unknown, polls(1, "[[:poll {:k [[2 :c]]}]]"))
    assert counts(judged_one) == {"lost": 2}
    assert judged_one.verdict["lost_acked"] == 2


def test_a_record_that_another_one_replaced_is_lost(tmp_path: Path) -> None:
    one, two = sends(1, "ok", "[[:send :k [0 :a]]]"), sends(1, "ok", "[[:send :k [0 :b]] [:send :k [2 :c]]]")
    # Jepsen's two values at offset 0 make its order of the sends hash-dependent; here a send has its own offset.
    found = count_found(tmp_path, one, two, polls(1, "[[:poll {:k [[0 :b] [2 :c]]}]]"))
    assert found == {"lost": 1, "divergent_offset": 1, "send_order": 1}


def test_what_a_transaction_sent_is_lost_once_another_part_of_it_was_seen(tmp_path: Path) -> None:
    both = sends(1, "info", "[[:send :k :a] [:send :m [0 :b]]]", "[[:send :k :a] [:send :m :b]]")
    later = sends(2, "info", "[[:send :m :c]]")
    seen, behind = polls(3, "[[:poll {:k [[0 :a]]}]]"), polls(4, "[[:poll {:m [[1 :c]]}]]")
    assert count_found(tmp_path, both, later, behind) == {}
    assert count_found(tmp_path, both, later, seen, behind) == {"lost": 1}


class TestOnePollAfterAnother:
    FIRST = polls(0, "[[:poll {:k [[1 :a] [2 :b]]}]]")
    OTHER = polls(1, "[[:poll {:k [[3 :c]]}]]")
    SECOND = polls(0, "[[:poll {:k [[4 :d]]}]]")
    SIXTH = sends(2, "ok", "[[:send :k [6 :f]]]")
    THIRD = polls(0, "[[:poll {:k [[7 :g]]}]]")
    ALL = sends(3, "info", "[[:send :k :a] [:send :k :b] [:send :k :c] [:send :k :d] [:send :k :g]]")

    def find(self, path: Path, one: list[Line], two: list[Line]) -> dict[str, int]:
        rows = [self.ALL, self.FIRST, self.OTHER, one, self.SECOND, two, self.SIXTH, self.THIRD]
        found = count_found(path, *rows)
        assert found.pop("lost") == 1, "nothing polled :f"
        return found

    def test_passes_over_records(self, tmp_path: Path) -> None:
        assert self.find(tmp_path, [], []) == {"skipped_poll": 2}

    def test_may_pass_over_records_of_a_partition_that_it_gave_up(self, tmp_path: Path) -> None:
        gave_up = takes(0, "subscribe", "[:m]"), takes(0, "assign", "[:m]", "info")
        assert self.find(tmp_path, *gave_up) == {}

    def test_may_not_where_it_kept_the_partition(self, tmp_path: Path) -> None:
        kept = takes(0, "assign", "[:k :m]"), takes(0, "assign", "[:m :k]")
        assert self.find(tmp_path, *kept) == {"skipped_poll": 2}

    def test_may_where_a_group_gave_it_the_partition(self, tmp_path: Path) -> None:
        # Jepsen allows it for all clients of a test that subscribes; here for those that last subscribed.
        kept = takes(0, "subscribe", "[:k :m]"), takes(0, "assign", "[:k :m]")
        assert self.find(tmp_path, *kept) == {"skipped_poll": 1}


def first(process: int = 1) -> list[Line]:
    return polls(process, "[[:poll {:k [[0 10]]}]]", f="txn")


def one_two(outcome: str) -> list[Line]:
    return polls(1, "[[:poll {:k [[1 11] [2 12]]}]]", outcome, "txn")


def three_four(outcome: str) -> list[Line]:
    return polls(1, "[[:poll {:k [[3 13] [4 14]]}]]", outcome, "txn")


def test_an_aborted_transaction_polls_again_what_it_had(tmp_path: Path) -> None:
    rest = polls(1, "[[:poll {:k [[3 13] [4 14] [5 15]]}]]", f="txn")
    one = judge_history(tmp_path, SIX, first(), one_two("fail"), one_two("info"), one_two("ok"), rest)
    assert (one.valid, counts(one)) == (True, {})


@pytest.mark.parametrize(
    ("rest", "count"),
    [([three_four("fail"), polls(1, "[[:poll {:k [[5 15]]}]]", f="txn")], 2), ([three_four("info"), read_all()], 1)],
)
def test_a_transaction_that_goes_on_from_an_aborted_one_skips(
    rest: list[list[Line]], count: int, tmp_path: Path
) -> None:
    found = count_found(tmp_path, SIX, first(), one_two("fail"), *rest)
    assert found.pop("skipped_poll") == count
    assert set(found) <= {"lost"}


FOUR = sends(0, "ok", "[[:send :k :a] [:send :k :b] [:send :k :c] [:send :k :d]]")
ABC = polls(0, "[[:poll {:k [[1 :a] [2 :b] [3 :c]]}]]")
BCD = polls(0, "[[:poll {:k [[2 :b] [3 :c] [4 :d]]}]]")


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ([], {"nonmonotonic_poll": 1}),
        (takes(0, "subscribe", "[:m]"), {}),
        (takes(0, "assign", "[:m]"), {}),
        (takes(0, "assign", "[:k :m]"), {"nonmonotonic_poll": 1}),
    ],
)
def test_a_process_polls_backwards(between: list[Line], found: dict[str, int], tmp_path: Path) -> None:
    assert count_found(tmp_path, FOUR, ABC, between, BCD) == found


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ([], {"send_order": 1}),
        (takes(0, "subscribe", "[:m]"), {}),
        (takes(0, "assign", "[:m]", "info"), {}),
        (takes(0, "assign", "[:k :m]"), {"send_order": 1}),
    ],
)
def test_a_process_sends_backwards(between: list[Line], found: dict[str, int], tmp_path: Path) -> None:
    later = sends(0, "ok", "[[:send :k [3 :c]] [:send :k [4 :d]]]")
    earlier = sends(0, "ok", "[[:send :k [1 :a]] [:send :k [2 :b]]]")
    assert count_found(tmp_path, later, between, earlier) == found


def test_one_transaction_polls_past_a_record(tmp_path: Path) -> None:
    three = sends(1, "info", "[[:send :k :a] [:send :k :b] [:send :k :d]]")
    at_once = polls(2, "[[:poll {:k [[1 :a] [4 :d]]}]]")
    in_turn = polls(3, "[[:poll {:k [[1 :a]]}] [:poll {:k [[4 :d]]}]]")
    between = polls(4, "[[:poll {:k [[2 :b]]}]]")
    assert count_found(tmp_path, three, at_once, in_turn, between) == {"internal_poll_skip": 2}


def test_a_partition_that_was_rebalanced_meanwhile_may_be_polled_past_records(tmp_path: Path) -> None:
    invoked, ended = polls(1, "[[:poll {:k [[0 10]]}] [:poll {:k [[2 12]]}]]")
    (tmp_path / "history.edn").touch()
    process, kind, f, value = ended
    moved: Line = (process, kind, f, f"{value}, :rebalance-log [{{:keys [:k]}}]")
    assert count_found(tmp_path, SIX, [invoked, ended], read_all()) == {"internal_poll_skip": 1}
    assert count_found(tmp_path, SIX, [invoked, moved], read_all()) == {}


def test_one_transaction_sends_around_a_record_of_another(tmp_path: Path) -> None:
    around = sends(0, "ok", "[[:send :k [1 :a]] [:send :k :c]]", "[[:send :k :a] [:send :k :c]]")
    inside = sends(1, "info", "[[:send :k :b]]")
    one = judge_history(tmp_path, around, inside, polls(2, "[[:poll {:k [[1 :a] [2 :b] [3 :c]]}]]"))
    # Jepsen finds and allows it, too.
    assert (one.valid, counts(one), count_allowed(one)) == (True, {}, {"internal_send_skip": 1, "g0": 1})


def test_one_transaction_polls_backwards(tmp_path: Path) -> None:
    three = sends(0, "info", "[[:send :k :a] [:send :k :b] [:send :k :c]]")
    back, again = (
        polls(1, "[[:poll {:k [[3 :c] [1 :a]]}]]"),
        polls(2, "[[:poll {:k [[2 :b] [3 :c]]}] [:poll {:k [[3 :c]]}]]"),
    )
    assert count_found(tmp_path, three, back, again) == {"internal_nonmonotonic_poll": 2}


def test_one_transaction_sends_backwards_by_its_offsets_or_by_what_polls_saw(tmp_path: Path) -> None:
    told = sends(0, "ok", "[[:send :k [3 :c]] [:send :k [1 :a]]]")
    inferred = sends(1, "info", "[[:send :m :d] [:send :m :b]]")
    third = sends(2, "info", "[[:send :m :c]]")
    poll = polls(3, "[[:poll {:m [[2 :b] [3 :c] [4 :d]]}]]")
    assert count_found(tmp_path, told, inferred, third, poll) == {"internal_send_order": 2}


def test_a_value_at_two_offsets(tmp_path: Path) -> None:
    one, two = sends(0, "ok", "[[:send :k [1 :a]]]"), sends(1, "info", "[[:send :k :b]]")
    assert count_found(tmp_path, one, two, polls(2, "[[:poll {:k [[2 :b] [3 :a]]}]]")) == {"duplicated": 1}


def test_ten_values_at_the_same_two_offsets_are_all_duplicated(tmp_path: Path) -> None:
    rows = [
        each
        for value in range(10)
        for each in (
            sends(value, "ok", f"[[:send :k [0 {value}]]]"),
            polls(20 + value, f"[[:poll {{:k [[1 {value}]]}}]]"),
        )
    ]
    assert count_found(tmp_path, *rows) == {"duplicated": 10, "divergent_offset": 2}


def test_polls_of_aborted_transactions_count_and_their_sends_do_not(tmp_path: Path) -> None:
    there = sends(0, "ok", "[[:send :k [1 0]]]")
    aborted = sends(0, "fail", "[[:send :k [2 1]]]")
    poll = polls(1, "[[:poll {:k [[11 0] [12 1]]}]]", "fail")
    assert count_found(tmp_path, there, aborted, poll) == {"duplicated": 1}


def test_a_history_without_records_is_not_valid(tmp_path: Path) -> None:
    assert judge_history(tmp_path, takes(0, "assign", "[:k]")).valid is None


def test_acknowledged_records_that_nothing_reached_leave_it_open(tmp_path: Path) -> None:
    """Jepsen calls what was never polled an error. It is neither there nor lost."""
    two = sends(0, "ok", "[[:send :k [0 :a]] [:send :k [1 :b]]]")
    one = judge_history(tmp_path, two, polls(1, "[[:poll {:k [[0 :a]]}]]"))
    assert (one.valid, counts(one)) == (None, {})
    assert "1 acknowledged records of partition :k" in one.verdict["unknown"][0]
    assert (
        judge_history(tmp_path, two, polls(1, "[[:poll {:k [[0 :a]]}]]"), polls(1, "[[:poll {:k [[1 :b]]}]]")).valid
        is True
    )


def test_a_transaction_polls_what_it_sends(tmp_path: Path) -> None:
    own: list[Line] = [
        (0, "invoke", "txn", "[[:send :k :a] [:poll]]"),
        (0, "ok", "txn", "[[:send :k [0 :a]] [:poll {:k [[0 :a]]}]]"),
    ]
    assert count_found(tmp_path, own) == {"precommitted_read": 1}


def test_a_record_that_nobody_sent_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    """Jepsen's checker ends with an error at such a poll."""
    assert count_found(tmp_path, polls(0, "[[:poll {:k [[0 :a]]}]]")) == {"phantom": 1}


def both(one: tuple[str, str], other: tuple[str, str]) -> list[Line]:
    """Two transactions that run at the same time: what each was asked, and what came of it."""
    return [
        (0, "invoke", "txn", one[0]),
        (1, "invoke", "txn", other[0]),
        (0, "ok", "txn", one[1]),
        (1, "ok", "txn", other[1]),
    ]


def test_writes_in_opposite_orders_are_allowed(tmp_path: Path) -> None:
    """Jepsen finds them where it is asked to look at writes, and allows them."""
    writes = both(
        ("[[:send :k :a] [:send :m :a]]", "[[:send :k [0 :a]] [:send :m [1 :a]]]"),
        ("[[:send :k :b] [:send :m :b]]", "[[:send :k [1 :b]] [:send :m [0 :b]]]"),
    )
    one = judge_history(tmp_path, writes, polls(2, "[[:poll {:k [[0 :a] [1 :b]] :m [[0 :b] [1 :a]]}]]"))
    assert (one.valid, count_allowed(one)) == (True, {"g0": 1})


def test_two_transactions_that_poll_each_others_records(tmp_path: Path) -> None:
    reads = both(
        ("[[:send :k :a] [:poll]]", "[[:send :k [0 :a]] [:poll {:m [[0 :b]]}]]"),
        ("[[:send :m :b] [:poll]]", "[[:send :m [0 :b]] [:poll {:k [[0 :a]]}]]"),
    )
    assert count_found(tmp_path, reads) == {"g1c": 1}


def test_a_poll_of_a_transaction_whose_record_stands_before_its_own_is_allowed(tmp_path: Path) -> None:
    mixed = both(
        ("[[:send :k :a] [:send :m :c]]", "[[:send :k [0 :a]] [:send :m [2 :c]]]"),
        ("[[:poll] [:send :m :b]]", "[[:poll {:k [[0 :a]]}] [:send :m [1 :b]]]"),
    )
    one = judge_history(tmp_path, mixed, polls(2, "[[:poll {:m [[1 :b] [2 :c]]}]]"))
    assert (counts(one), count_allowed(one)) == ({}, {"g1c": 1})


def test_a_record_that_is_polled_before_it_is_sent(tmp_path: Path) -> None:
    assert count_found(tmp_path, polls(0, "[[:poll {:k [[0 :a]]}]]"), sends(1, "ok", "[[:send :k [0 :a]]]")) == {
        "g1c_realtime": 1
    }
