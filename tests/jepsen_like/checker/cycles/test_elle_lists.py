"""The cases that Elle's tests of list-append are about, as histories of ours: the verdicts agree, or the test tells why not."""

from pathlib import Path

import pytest

from jepsen_like.checker.cycles.levels import Level
from tests.jepsen_like.checker.cycles.histories import at_once, count_found, event, in_turn, judge_lines

RU, RC, RR, SI = Level.READ_UNCOMMITTED, Level.READ_COMMITTED, Level.REPEATABLE_READ, Level.SNAPSHOT_ISOLATION
SER, STRICT = Level.SERIALIZABLE, Level.STRICT_SERIALIZABLE
SESSION_SI, STRONG_SI = Level.STRONG_SESSION_SNAPSHOT_ISOLATION, Level.STRONG_SNAPSHOT_ISOLATION


@pytest.mark.parametrize(
    ("texts", "level", "found"),
    [
        # Two keys that were written in opposite orders.
        (["ax1ay1", "ax2ay2", "rx12ry21"], RU, {"g0": 1}),
        (["ax1!", "rx1"], RU, {}),
        (["ax1!", "rx1", "ay1", "ry1"], RC, {"aborted_read": 1}),
        (["ax1!", "rx1"], RR, {"aborted_read": 1}),
        # A read of what its transaction went on from lacks the rest of it, too.
        (["ax1ax2", "rx1"], RU, {}),
        (["ax1ax2", "rx1"], RC, {"intermediate_read": 1}),
        (["ax1ax2", "rx1"], SER, {"intermediate_read": 1, "g_single": 1}),
        (["ax1rx1ax2", "rx12"], SER, {}),
        # The second wrote x behind the first, which read what the second wrote to y.
        (["ax1ry1", "ax2ay1", "rx12ry1"], RU, {}),
        (["ax1ry1", "ax2ay1", "rx12ry1"], RC, {"g1c": 1}),
        (["ax1ay1", "ax2ry", "rx12"], RC, {}),
        (["ax1ay1", "ax2ry", "rx12"], SI, {"g_single": 1}),
        (["ax1ay1", "ax2ry", "rx12"], RR, {"g_single": 1}),
        (["ax1ay1", "rx1ry"], RR, {"g_single": 1}),
        (["ax1ry", "ay1rx"], RC, {}),
        (["ax1ry", "ay1rx"], SI, {}),
        (["ax1ry", "ay1rx"], RR, {"g2": 1}),
        (["ax1ry", "ay1rx"], SER, {"g2": 1}),
        (["rxay1", "ryax1"], SER, {"g2": 1}),
        # Two reads on opposite sides of the cycle: snapshots forbid it.
        (["ax1", "rx1ry", "ay1", "ry1rx"], SI, {"g_nonadjacent": 1}),
        (["ax1", "rx1ry", "ay1", "ry1rx"], RC, {}),
        (["ax1at1", "rx1ry", "ay1az2", "rz2rt"], RR, {"g_nonadjacent": 1}),
        # Of five edges two that follow each other are reads: snapshots allow it.
        (["rx5ry", "ay1rz", "az2at3", "rt3ru", "au4ax5"], SI, {}),
        (["rx5ry", "ay1rz", "az2at3", "rt3ru", "au4ax5"], SER, {"g2": 1}),
        # A history of Elle's whose versions must not be joined across what no read has.
        (["az2", "ay1rz", "rxryaz5", "ax2rz2"], SI, {}),
        (["az2", "ay1rz", "rxryaz5", "ax2rz2"], RR, {"g2": 1}),
        # The example of Elle's paper: the last one misses what the third read, and the third misses what it wrote.
        (
            ["ax1ax3ax4ay2ay3ay4ay5az1az2", "ay8rx134", "az4ry23458rz124rx134", "au9rx134ry2345az3"],
            SER,
            {"g_single": 1},
        ),
        # The second and the fourth read disagree; the versions are those of the longest one.
        (["ax1ry1", "ax2", "ax3ay1", "rx13", "rx123"], RC, {"incompatible_order": 1, "g1c": 1}),
        (["ax1!", "ax2", "rx12"], RC, {"aborted_read": 1, "dirty_update": 1}),
        (["ax1!", "ax2?", "ax3", "rx123"], RC, {"aborted_read": 1, "dirty_update": 1}),
        (["ax1!"], RC, {}),
        (["ax1ry1", "ax2ay1", "rx121"], RC, {"duplicated": 1, "g1c": 1}),
        # A write between two of one transaction, and a read that ends with a foreign one behind its own.
        (["ax1ax2ax4", "ax3rx1234"], RU, {"g0": 1}),
        # What no read has comes behind the longest read: the third transaction is in no cycle.
        (["ax1ay1", "ax2ay2", "ax3ay3", "rx12", "ry2"], SER, {"g0": 1, "g_single": 1}),
        (["ax0", "rx0ax1", "rx0ax2"], SER, {"lost_update": 1, "g2": 1}),
        (["rxax1ax2", "rx12"], SER, {}),
        (["rx1ax1"], RC, {}),
        (["rx1ax1", "ay1", "ry1"], SI, {"internal": 1}),
    ],
)
def test_a_case_of_elles(texts: list[str], level: Level, found: dict[str, int], tmp_path: Path) -> None:
    assert count_found(tmp_path, at_once(*texts), level) == found


@pytest.mark.parametrize(
    "text",
    ["rx12ax3rx12", "rx12ax3rx023", "rx12ax3rx1234", "rx12ax3rx1", "ax3rx1234", "ax3rx", "rx012ax1", "ax1rx01ax0ax3"],
)
def test_a_transaction_that_contradicts_itself(text: str, tmp_path: Path) -> None:
    # The elements that no transaction appended are findings here; Elle passes over them.
    found = count_found(tmp_path, at_once(text, "ay1", "ry1"))
    assert found["internal"] == 1
    assert set(found) <= {"internal", "phantom", "incompatible_order"}


def test_a_transaction_that_agrees_with_itself(tmp_path: Path) -> None:
    others = ["ax1ax2", "ay5ay6"]
    assert count_found(tmp_path, at_once(*others, "ry56ax3rx123ax4rx1234")) == {}


STALE = in_turn((0, "ax1"), (1, "ax2"), (2, "rx1"), (3, "rx12"))
STALE_IN_A_SESSION = in_turn((0, "ax1"), (1, "ax2"), (1, "rx1"), (2, "rx12"))
APART_IN_A_SESSION = [
    *in_turn((0, "rxrz1"))[:1],
    *in_turn((1, "ax1"), (1, "rz")),
    event(2, "invoke", "az1"),
    event(2, "ok", "az1"),
    *in_turn((0, "rxrz1"))[1:],
]
READ_IN_A_SESSION = [event(1, "invoke", "rx1ay1"), *in_turn((2, "ry1"), (2, "ax1")), event(1, "ok", "rx1ay1")]


@pytest.mark.parametrize(
    ("lines", "level", "found"),
    [
        (STALE, SER, {}),
        (STALE, SESSION_SI, {}),
        (STALE, STRONG_SI, {"g_single_realtime": 1}),
        (STALE, STRICT, {"g_single_realtime": 1}),
        (STALE_IN_A_SESSION, SER, {}),
        (STALE_IN_A_SESSION, SESSION_SI, {"g_single_process": 1}),
        (STALE_IN_A_SESSION, STRICT, {"g_single_process": 1}),
        (APART_IN_A_SESSION, SER, {}),
        (APART_IN_A_SESSION, SESSION_SI, {"g_nonadjacent_process": 1}),
        (READ_IN_A_SESSION, SER, {}),
        (READ_IN_A_SESSION, SESSION_SI, {"g1c_process": 1}),
    ],
)
def test_a_case_of_elles_about_sessions_and_real_time(
    lines: list[str], level: Level, found: dict[str, int], tmp_path: Path
) -> None:
    assert count_found(tmp_path, lines, level) == found


def test_a_history_in_which_nothing_depends_on_anything_is_not_decided(tmp_path: Path) -> None:
    """Elle calls it unknown as well."""
    assert judge_lines(tmp_path, at_once("ax1", "ay1")).valid is None
    assert judge_lines(tmp_path, at_once("ax1", "rx1")).valid is True


def test_a_value_that_is_appended_twice_leaves_its_key_open(tmp_path: Path) -> None:
    """Elle ends with an error."""
    one = judge_lines(tmp_path, at_once("ax1ry", "ay2ax1", "az1", "rz1"))
    assert one.valid is None
    assert "key :x: nothing is inferred from it" in one.verdict["unknown"][0]


def test_a_cycle_is_told_with_its_transactions(tmp_path: Path) -> None:
    one = judge_lines(tmp_path, at_once("ax1ay1", "ax2ry", "rx12"))
    (violation,) = one.verdict["violations"]
    assert "of key :y, before" in violation["sentence"]
    assert [op["call"].split(":")[0] for op in violation["ops"]] == ["T2", "T1"] or len(violation["ops"]) == 2
    assert one.summary[0] == "3 operations (0 of unknown outcome) on 2 keys"


def test_what_a_level_allows_is_counted(tmp_path: Path) -> None:
    one = judge_lines(tmp_path, at_once("ax1ry", "ay1rx"), SI)
    (row,) = one.verdict["tolerated"]
    assert (row["check"], row["count"], row["because"]) == ("g2", 1, "snapshot-isolation allows it")


def test_a_long_ring_among_many_other_cycles_is_found_for_certain(tmp_path: Path) -> None:
    """The ring has one read that misses a write. Elle's search for it times out, and its parts prove that it is there; here, too."""
    count = 120
    ring = [
        f"[[:append :ring {at}] {'[:append :anti 0]' if at == 0 else '[:r :anti []]' if at == count - 1 else f'[:append {at} 0]'}]"
        for at in range(count)
    ]
    noise = [
        text
        for at in range(1, count - 1)
        for text in (
            f"[[:append {at} 1]]",
            f"[[:append {at} 2]]",
            f"[[:r {at} [0 1 2]] [:r [:anti {at}] []]]",
            f"[[:append [:anti {at}] 0] [:r :ring []]]",
        )
    ]
    values = [*ring, f"[[:r :ring [{' '.join(map(str, range(count)))}]]]", *noise]
    lines = [
        f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}"
        for kind in ("invoke", "ok")
        for process, value in enumerate(values)
    ]
    one = judge_lines(tmp_path, lines, SI)
    assert one.valid is False
    assert {row["check"] for row in one.verdict["violations"]} == {"g_single"}
