"""Which partitions a change of leader may have cost something, and what that is called."""

from pathlib import Path

import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.history.ops import NEVER, NONE
from jepsen_like.history.partition_states import PartitionStates, StateKind, brokers_of, mask_of, read_states
from jepsen_like.systems.isr_losses import by_partition, leader_changes

S = 10**9
NAMES = {0: "orders-0", 1: "orders-1", 2: "orders-2"}


def fault(number: int, begun_s: float, *, reads: bool = False) -> Allowance:
    return Allowance(
        fault=number,
        kind="kill",
        promise="acks=1: what the next leader had not copied may be lost",
        since_ns=0,
        begun_ns=round(begun_s * S),
        injected_ns=round((begun_s + 1) * S),
        may_cost_read=reads,
    )


def write_states(place: Path, *rows: tuple[float, int, int, int]) -> dict[str, object] | None:
    """Writes the states of these leaders (second, partition, broker, epoch) and reads them again."""
    states = PartitionStates()
    for at_s, partition, broker, epoch in rows:
        states.record(round(at_s * S), partition, StateKind.LEADER, broker, node=broker, epoch=epoch)
        states.record(round(at_s * S), partition, StateKind.ISR, mask_of([broker]), node=broker, epoch=epoch)
    states.write(place)
    return read_states(place)


def test_states_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_states(tmp_path) is None
    states = write_states(tmp_path, (1, 0, 2, 5))
    assert states is not None
    assert {name: list(column) for name, column in states.items()} == {  # type: ignore[call-overload]
        "t_ns": [S, S],
        "object": [0, 0],
        "kind": [StateKind.LEADER, StateKind.ISR],
        "node": [2, 2],
        "epoch": [5, 5],
        "value": [2, 4],
    }
    assert brokers_of(mask_of([0, 3, 61])) == (0, 3, 61)
    with pytest.raises(ValueError, match="broker 62 cannot be told"):
        mask_of([62])


def test_only_a_partition_whose_leader_changed_is_excused_and_only_what_the_old_one_gave(tmp_path: Path) -> None:
    states = write_states(tmp_path, (0, 0, 1, 1), (0, 1, 2, 1), (0, 2, 3, 1), (12.3, 0, 2, 2))
    (one,) = by_partition([fault(4, 12)], states, acks="1", names=NAMES, origin_ns=S)
    assert (one.fault, one.objects, one.node, one.epoch_max, one.may_cost_read) == (4, frozenset({0}), 1, 1, False)
    assert one.promise == (
        "acks=1: what the next leader had not copied may be lost; the leader of orders-0 went from n1 to n2 at 11.3 s"
    )


def test_a_leader_told_again_or_late_has_not_changed(tmp_path: Path) -> None:
    states = write_states(tmp_path, (0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 2, 2), (3, 0, 1, 1), (4, 0, 2, 3))
    assert states is not None
    (change,) = leader_changes(states)[0]
    assert (change.old, change.new, change.t_ns) == (1, 2, 2 * S)


def test_an_epoch_between_two_of_one_broker_was_another_ones(tmp_path: Path) -> None:
    states = write_states(tmp_path, (0, 0, 1, 1), (9, 0, 1, 3))
    assert states is not None
    assert [(change.old, change.new) for change in leader_changes(states)[0]] == [(1, 1)]


def test_the_last_fault_before_a_change_is_named_and_a_change_without_one_is_named_as_such(tmp_path: Path) -> None:
    states = write_states(tmp_path, (0, 0, 1, 1), (20, 0, 2, 2), (200, 0, 3, 3), (0, 1, 1, 1), (0, 2, 1, 1))
    first, second = by_partition([fault(1, 3), fault(2, 18)], states, acks="1", names=NAMES)
    assert (first.fault, second.fault, second.begun_ns) == (2, NONE, 200 * S)
    assert second.promise.endswith("the leader of orders-0 went from n2 to n3 at 200.0 s, without a fault")
    assert [one.fault for one in by_partition([fault(1, 3), fault(2, 18)], states, acks="all", names=NAMES)] == [2]


def test_what_reaches_further_than_a_change_of_leader_stays_as_it_is(tmp_path: Path) -> None:
    power = fault(1, 3, reads=True)
    states = write_states(tmp_path, (0, 0, 1, 1))
    assert by_partition([power], states, acks="all", names=NAMES) == (power,)


def test_partitions_of_which_nothing_was_told_keep_the_whole_allowance(tmp_path: Path) -> None:
    kill = fault(1, 3)
    assert by_partition([kill], None, acks="1", names=NAMES) == (kill,)
    states = write_states(tmp_path, (0, 0, 1, 1))
    (one,) = by_partition([kill], states, acks="1", names=NAMES)
    assert (one.objects, one.node) == (frozenset({1, 2}), NONE)


def test_without_acknowledgements_nothing_is_promised() -> None:
    *_, last = by_partition([fault(1, 3)], None, acks="0", names=NAMES)
    assert (last.fault, last.begun_ns, last.is_tail) == (NONE, NEVER, False)
