"""The table of promises is complete, and only what it allows is excused."""

import attrs
import pytest

from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.table import KINDS
from jepsen_like.systems.rocketmq.division import Division
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq.promises import (
    SERVES,
    UNFLUSHED_HARMS,
    CopyLoss,
    CopyRule,
    RocketReplication,
    describe,
    losses_allowed,
)
from jepsen_like.systems.rocketmq.system import RocketMqSystem
from tests.jepsen_like.record.test_recovery_time import a_fault

ONE_GROUP = Division(pairs=1, nodes=3)


def test_every_kind_of_fault_is_either_done_or_refused() -> None:
    assert set(SERVES) == set(KINDS) - set(RocketMqSystem.refused)
    assert "power" in UNFLUSHED_HARMS


@pytest.mark.parametrize("replication", RocketReplication)
@pytest.mark.parametrize("is_durable", [False, True])
def test_only_what_is_not_flushed_or_not_copied_may_be_lost(replication: RocketReplication, is_durable: bool) -> None:
    rule = CopyRule(replication, is_durable)
    by_loss = {loss: {harm for harm in SERVES if rule.may_lose(harm) is loss} for loss in CopyLoss}
    assert by_loss[CopyLoss.UNFLUSHED] == (set() if is_durable else UNFLUSHED_HARMS)
    is_async = replication is RocketReplication.ASYNC_SLAVE
    assert by_loss[CopyLoss.UNCOPIED] == ({"promote-by-hand", "wipe-master"} if is_async else set())
    assert by_loss[CopyLoss.HELD_ALONE] == (set(CONTENT_KINDS) if is_async else set())
    assert not by_loss[CopyLoss.UNCOMPARED]
    is_safe = is_durable and not is_async
    assert ("nothing that was acknowledged is lost" in describe(rule, SERVES)) is is_safe


@pytest.mark.parametrize(
    ("replication", "nodes", "excused"),
    [
        (RocketReplication.ASYNC_SLAVE, (1,), True),
        (RocketReplication.SYNC_SLAVE, (1,), True),
        (RocketReplication.RAFT, (1,), False),
        (RocketReplication.RAFT, (1, 2), True),
    ],
)
def test_a_power_cut_is_an_excuse_where_it_can_have_cost_something(
    replication: RocketReplication, nodes: tuple[int, ...], excused: bool
) -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="power", nodes=nodes)
    kill = attrs.evolve(fault, kind="kill")
    allowed = losses_allowed([fault, kill], CopyRule(replication, is_durable=False), ONE_GROUP, queues=2)
    assert [each.kind for each in allowed] == (["power"] if excused else [])
    assert losses_allowed([fault, kill], CopyRule(replication, is_durable=True), ONE_GROUP, queues=2) == ()


def test_a_majority_is_that_of_the_group() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="power", nodes=(1, 2))
    mode = RocketMode.of(["ack=page-cache"], "raft")
    lost = [[one for one in mode.on(nodes).allowances([fault]) if one.may_cost_records] for nodes in (3, 5)]
    assert [len(each) for each in lost] == [1, 0]
    assert mode.survives("kill")
    assert not mode.survives("power")


def test_a_loss_is_put_down_to_the_setting_that_allows_it() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="promote-by-hand", nodes=(1,))
    (allowed,) = losses_allowed([fault], CopyRule(RocketReplication.ASYNC_SLAVE, is_durable=True), ONE_GROUP, queues=2)
    assert allowed.promise.startswith("async-slave, brokerRole=ASYNC_MASTER: ")
    assert losses_allowed([fault], CopyRule(RocketReplication.SYNC_SLAVE, is_durable=False), ONE_GROUP, queues=2) == ()


@pytest.mark.parametrize(("is_durable", "forks"), [(False, True), (True, False)])
def test_an_asynchronous_master_may_go_on_behind_another_beginning_after_a_power_cut(
    is_durable: bool, forks: bool
) -> None:
    cut = attrs.evolve(a_fault(5, 8), id=1, kind="power", nodes=(1, 2, 3))
    promoted = attrs.evolve(a_fault(10, 12), id=2, kind="promote-by-hand", nodes=(1,))
    rule = CopyRule(RocketReplication.ASYNC_SLAVE, is_durable=is_durable)
    *_, last = losses_allowed([promoted, cut], rule, ONE_GROUP, queues=2)
    assert (last.kind, last.other_log) == ("promote-by-hand", forks)
    assert last.begun_ns == (cut if forks else promoted).begun_ns
    synchronous = losses_allowed(
        [cut, promoted], attrs.evolve(rule, replication=RocketReplication.SYNC_SLAVE), ONE_GROUP, 2
    )
    assert not any(each.other_log for each in synchronous)


def test_readers_of_a_wiped_master_find_nothing_and_records_are_lost_only_where_no_slave_need_have_them() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="wipe-master", nodes=(1,))
    for words, costs, said in (
        ([], False, "nothing may"),
        (["haDivergence=rocketmq"], True, "sync-slave, haDivergence=rocketmq"),
    ):
        (allowed,) = [each for each in RocketMode.of(words, "sync-slave").on(3).allowances([fault]) if each.other_log]
        assert (allowed.other_log, allowed.may_cost_records) == (True, costs)
        assert said in allowed.promise
    assert "wipe-master" in describe(RocketMode.of(["haDivergence=rocketmq"], "sync-slave").rule, ["wipe-master"])


def test_a_fault_excuses_only_the_queues_of_the_groups_that_it_hit() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="power", nodes=(2, 4, 5))
    of_pairs = RocketMode.of(["pairs=2", "queues=3"], "async-slave").on(4)
    allowed = of_pairs.allowances([attrs.evolve(fault, nodes=(3,))])
    assert [each.objects for each in allowed] == [frozenset({3, 4, 5})] * 2, "records, and what groups have"
    of_records, _ = RocketMode.of(["pairs=2", "ack=page-cache"], "raft").on(6).allowances([fault])
    assert of_records.objects == frozenset({2, 3}), "only of the second group a majority was hit"


@pytest.mark.parametrize(("replication", "rewinds"), [("sync-slave", True), ("raft", False)])
def test_a_fault_costs_groups_locks_and_positions_where_no_log_has_them(replication: str, rewinds: bool) -> None:
    (disturbed,) = RocketMode.of([], replication).on(3).allowances([a_fault(5, 8)])
    assert not disturbed.may_cost_records
    assert disturbed.unlocks_ns > 0
    assert (disturbed.rewinds_ns > 0) is rewinds


def test_a_touched_disk_costs_an_asynchronous_master_only_what_it_had_alone_since_the_fault_began() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="vanish", nodes=(1, 2, 3, 4), harmed=(3,))
    for replication in ("sync-slave", "raft"):
        (groups_only,) = RocketMode.of(["pairs=2"], replication).on(4).allowances([fault])
        assert not groups_only.may_cost_records
        assert not RocketMode.of([], replication).may_hold_alone
    mode = RocketMode.of(["pairs=2"], "async-slave").on(4)
    (lost,) = [each for each in mode.allowances([fault]) if each.may_cost_records]
    assert (lost.since_ns, lost.begun_ns) == (fault.begun_ns, fault.injected_ns)
    assert lost.objects == frozenset({2, 3}), "the queues of the pair whose disk it was"
    assert "no slave had copied" in lost.promise
    assert mode.may_hold_alone


def test_a_master_that_does_not_compare_may_begin_again_after_its_disk_was_touched() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="vanish", nodes=(1, 2, 3), harmed=(1,))
    mode = RocketMode.of(["haDivergence=rocketmq"], "sync-slave").on(3)
    (lost,) = [each for each in mode.allowances([fault]) if each.may_cost_records]
    assert lost.other_log
    assert lost.since_ns < 0
    assert "haDivergence=rocketmq" in lost.promise
