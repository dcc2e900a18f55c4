"""An event that is repeated is reported once, and later with its number; reports and memory are bounded."""

from raft.net.seldom import KEPT_MAX, QUIET_S, REPORTS_MAX, Seldom


def test_a_repeated_event_is_due_once_and_after_a_while_with_its_number() -> None:
    now = 100.0
    seldom = Seldom(lambda: now)
    assert [seldom.note("a") for _ in range(4)] == [1, None, None, None]
    assert seldom.note("b") == 1
    now += QUIET_S
    assert seldom.note("a") == 4
    assert seldom.note("a") is None
    now += QUIET_S
    assert seldom.note("a") == 2


def test_different_events_have_a_common_bound() -> None:
    now = 100.0
    seldom = Seldom(lambda: now)
    assert [seldom.note(number) for number in range(REPORTS_MAX + 2)] == [1] * REPORTS_MAX + [None, None]
    now += QUIET_S
    assert seldom.note(REPORTS_MAX) == 1


def test_what_is_remembered_is_bounded() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)
    for number in range(KEPT_MAX + 10):
        now += QUIET_S
        assert seldom.note(number) == 1
    assert len(seldom._last) == KEPT_MAX
