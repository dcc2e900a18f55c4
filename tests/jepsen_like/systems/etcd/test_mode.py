"""etcd is held to all that it acknowledged, and a setting that gives that up is not judged where it matters."""

import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import WrongMode
from jepsen_like.systems.etcd.clients import ending_of
from jepsen_like.systems.etcd.mode import EtcdMode
from jepsen_like.systems.etcd.processes import role_in
from jepsen_like.systems.etcd.system import EtcdSystem
from jepsen_like.systems.foreign.json_client import ErrorAnswered


def test_no_fault_may_cost_anything() -> None:
    assert EtcdMode.of([]).allowances([]) == ()
    assert EtcdMode.of([]).refusal(Model.REGISTER, ["power", "kill"]) is None


def test_a_member_that_never_flushes_is_not_judged_under_a_power_cut() -> None:
    mode = EtcdMode.of(["unsafe_no_fsync=true"])
    assert mode.refusal(Model.REGISTER, ["kill"]) is None
    assert mode.refusal(Model.REGISTER, ["kill", "power"]) is not None


@pytest.mark.parametrize("word", ["fsync=no", "unsafe_no_fsync=perhaps", "version=1.0", "backend_batch_interval=1"])
def test_settings_that_do_not_exist_are_refused(word: str) -> None:
    with pytest.raises(WrongMode):
        EtcdMode.of([word])


def test_the_mode_of_a_recorded_run_is_the_one_that_ran() -> None:
    mode = EtcdMode.of(["version=3.5.2", "unsafe_no_fsync=true", "backend_batch_interval=1ms"])
    assert EtcdMode.of_test({"settings": dict(mode.settings)}) == mode


def test_each_kind_of_fault_is_done_or_refused() -> None:
    assert set(EtcdSystem.serves) | set(EtcdSystem.refused) == set(KINDS)
    assert not set(EtcdSystem.serves) & set(EtcdSystem.refused)


def test_the_member_that_is_named_as_leader_leads() -> None:
    status = {"header": {"member_id": "7"}, "leader": "7", "raftTerm": "3"}
    assert role_in(status) == (LEADER, 3)
    assert role_in({**status, "leader": "8"}) == ("follower", 3)
    assert role_in({}) == ("follower", 0)
    assert role_in({"header": {"member_id": "0"}, "leader": "0"}) == ("follower", 0)


def test_only_a_proposal_that_was_not_taken_has_certainly_failed() -> None:
    busy = ending_of(ErrorAnswered(429, {"message": "etcdserver: too many requests"}), connection_lost=False)
    assert (busy.outcome, busy.code) == (Outcome.FAIL, ErrorCode.BUSY)
    late = ending_of(ErrorAnswered(503, {"message": "etcdserver: request timed out"}), connection_lost=False)
    assert late.outcome is Outcome.INFO
    assert ending_of(OSError(), connection_lost=True).code is ErrorCode.CONNECTION_LOST
