"""A loss is allowed where the documentation of NATS states that it can happen, and nowhere else."""

import attrs
import pytest

from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import WrongMode
from jepsen_like.systems.nats.mode import NatsMode
from jepsen_like.systems.nats.promises import SYNC_TAKES_S_MAX
from jepsen_like.systems.nats.system import NatsSystem
from tests.jepsen_like.record.test_recovery_time import a_fault

S = 1_000_000_000


def cut(number: int, *nodes: int, at_s: int = 1000, kind: str = "power") -> FaultRecord:
    return attrs.evolve(a_fault(at_s, at_s + 2, nodes=nodes), id=number, kind=kind)


def find_blamed(mode: NatsMode, *faults: FaultRecord) -> list[int]:
    return [one.fault for one in mode.allowances(faults)]


def test_a_cut_of_a_majority_may_cost_what_the_interval_has_not_secured() -> None:
    (allowed,) = NatsMode.of(["sync_interval=10s"]).allowances([cut(1, 1, 2)])
    assert allowed.since_ns == (1000 - 10 - int(SYNC_TAKES_S_MAX)) * S
    assert find_blamed(NatsMode.of([]), cut(1, 1, 2, 3)) == [1]


def test_a_cut_of_a_minority_may_cost_nothing() -> None:
    assert find_blamed(NatsMode.of([]), cut(1, 1)) == []
    assert find_blamed(NatsMode.of([]).on(5), cut(1, 1, 2)) == []


def test_cuts_one_after_the_other_count_together_within_the_interval() -> None:
    mode = NatsMode.of(["sync_interval=10s"])
    assert find_blamed(mode, cut(1, 1, at_s=1000), cut(2, 2, at_s=1012)) == [2]
    assert find_blamed(mode, cut(1, 1, at_s=1000), cut(2, 2, at_s=1016)) == []
    assert find_blamed(mode, cut(1, 1, at_s=1000), cut(2, 1, at_s=1012)) == []


def test_nothing_may_be_lost_where_each_message_is_flushed_or_the_power_stays() -> None:
    assert find_blamed(NatsMode.of(["sync_interval=always"]), cut(1, 1, 2, 3)) == []
    assert find_blamed(NatsMode.of([]), cut(1, 1, 2, 3, kind="kill")) == []
    assert "nothing" in NatsMode.of(["sync_interval=always"]).promise(["power"])
    assert "sync interval" in NatsMode.of([]).promise(["power", "kill"])


@pytest.mark.parametrize("word", ["sync=always", "sync_interval=2", "sync_interval=", "version=1.0"])
def test_settings_that_do_not_exist_are_refused(word: str) -> None:
    with pytest.raises(WrongMode):
        NatsMode.of([word])


def test_a_stream_has_at_most_five_copies() -> None:
    with pytest.raises(WrongMode):
        NatsMode.of([]).on(7)


def test_the_mode_of_a_recorded_run_is_the_one_that_ran() -> None:
    mode = NatsMode.of(["version=2.12.1", "sync_interval=always"]).on(5)
    assert NatsMode.of_test({"settings": dict(mode.settings), "nodes": 5}) == mode


def test_each_kind_of_fault_is_done_or_refused() -> None:
    assert set(NatsSystem.serves) | set(NatsSystem.refused) == set(KINDS)
    assert not set(NatsSystem.serves) & set(NatsSystem.refused)
