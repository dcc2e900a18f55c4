"""The settings of Apache RocketMQ decide what a run is held to, and each promise has its source."""

import attrs
import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import WrongMode
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode, broker_names
from jepsen_like.systems.apache_rocketmq.promises import PROMISES, SERVES, ApacheReplication, may_lose
from jepsen_like.systems.apache_rocketmq.system import ApacheRocketMqSystem
from jepsen_like.systems.rocketmq.promises import CopyLoss
from tests.jepsen_like.record.test_recovery_time import a_fault


def mode_of(replication: str, *words: str) -> ApacheRocketMode:
    mode = ApacheRocketMode.of(words, replication).on(3)
    assert isinstance(mode, ApacheRocketMode)
    return mode


def excuses(mode: ApacheRocketMode, kind: str, nodes: tuple[int, ...]) -> bool:
    fault = attrs.evolve(a_fault(5, 8), kind=kind, nodes=nodes)
    return any(each.may_cost_records for each in mode.allowances([fault]))


def test_every_kind_of_fault_is_either_done_or_refused() -> None:
    assert set(SERVES) == set(KINDS) - set(ApacheRocketMqSystem.refused)


def test_every_loss_that_is_allowed_has_its_source() -> None:
    assert all(row.source.startswith("github.com/") for row in PROMISES)
    for words in ([], ["flushDiskType=SYNC_FLUSH"], ["inSyncReplicas=2"]):
        for replication in ApacheReplication:
            mode = mode_of(replication, *words)
            kinds = [kind for kind in SERVES if not mode.is_raft or kind != "promote-by-hand"]
            losses = {mode.rule.may_lose(kind) for kind in kinds} - {CopyLoss.NOTHING}
            assert all(may_lose(loss, replication) for loss in losses)


@pytest.mark.parametrize(
    ("replication", "in_sync", "lossy"), [("async-slave", 2, True), ("sync-slave", 1, True), ("sync-slave", 2, False)]
)
def test_a_slave_that_is_promoted_has_all_where_a_master_waited_for_it(
    replication: str, in_sync: int, lossy: bool
) -> None:
    mode = mode_of(replication, f"inSyncReplicas={in_sync}")
    assert excuses(mode, "promote-by-hand", (1,)) is lossy
    assert mode.may_hold_alone is lossy


def test_a_group_that_elects_takes_no_promotion() -> None:
    for replication in ("dledger", "controller"):
        assert "use kill" in str(mode_of(replication).refusal(Model.LOG, ["promote-by-hand"]))
    assert mode_of("sync-slave").refusal(Model.LOG, ["promote-by-hand"]) is None


def test_positions_go_back_in_every_group_of_brokers() -> None:
    for replication in ApacheReplication:
        (rewound,) = [
            each
            for each in mode_of(replication).allowances([attrs.evolve(a_fault(5, 8), kind="kill", nodes=(1,))])
            if not each.may_cost_records
        ]
        assert rewound.rewinds_ns == 15_000_000_000
        assert "7790" in rewound.promise


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_group_by_dledger_loses_by_the_power_of_a_majority_whatever_it_flushes(flush: str) -> None:
    mode = mode_of("dledger", f"flushDiskType={flush}")
    assert not mode.acks_are_durable
    assert mode.copies_agree
    assert excuses(mode, "power", (1, 2))
    assert not excuses(mode, "power", (1,))
    assert not excuses(mode, "kill", (1, 2, 3))


@pytest.mark.parametrize("replication", ["sync-slave", "async-slave"])
def test_a_master_loses_by_its_power_what_it_did_not_flush_first(replication: str) -> None:
    default = mode_of(replication)
    assert excuses(default, "power", (1,))
    assert "no flush had secured" in default.promise(["power"])
    assert "nothing that was acknowledged" in default.promise(["kill", "pause", "partition"])
    durable = mode_of(replication, "flushDiskType=SYNC_FLUSH")
    assert not excuses(durable, "power", (1, 2, 3))
    assert not durable.copies_agree


SAFEST = ("allAckInSyncStateSet=true", "minInSyncReplicas=2")


@pytest.mark.parametrize("kind", ["kill", "pause", "partition", "slow"])
@pytest.mark.parametrize(
    ("words", "lossy"),
    [
        ([], True),
        (["inSyncReplicas=2"], True),
        (["inSyncReplicas=3"], False),
        (["allAckInSyncStateSet=true"], False),
        (SAFEST, False),
        ([*SAFEST, "enableElectUncleanMaster=true"], True),
    ],
)
def test_the_next_master_has_all_where_all_of_the_set_were_waited_for_and_none_else_may_lead(
    words: list[str], kind: str, *, lossy: bool
) -> None:
    mode = mode_of("controller", *words)
    assert excuses(mode, kind, (1,)) is lossy
    assert mode.may_hold_alone is lossy
    assert ("the next master had not copied" in mode.promise([kind])) is lossy


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_with_a_controller_any_power_cut_may_cost_what_page_caches_alone_had(flush: str) -> None:
    mode = mode_of("controller", f"flushDiskType={flush}", *SAFEST)
    assert excuses(mode, "power", (2,))
    assert "page caches alone" in mode.promise(["power"])
    assert mode.copies_agree


def test_a_master_that_was_cut_off_is_excused_until_it_knows_that_another_one_leads() -> None:
    fault = attrs.evolve(a_fault(5, 8), kind="partition", nodes=(1,))
    (loss,) = [each for each in mode_of("controller").allowances([fault]) if each.may_cost_records]
    assert loss.injected_ns == max(fault.injected_ns, fault.ended_ns) + 10_000_000_000


def test_a_setting_of_controllers_belongs_to_groups_that_have_one() -> None:
    assert mode_of("controller").settings["enableElectUncleanMaster"] == "false"
    with pytest.raises(WrongMode, match="no setting of a broker"):
        mode_of("dledger", "enableElectUncleanMaster=true")
    assert "allAckInSyncStateSet" not in mode_of("dledger").settings


def test_a_mode_is_read_back_from_what_a_run_keeps() -> None:
    mode = mode_of("sync-slave", "inSyncReplicas=2", "queues=4")
    kept = {"replication": "sync-slave", "settings": mode.settings, "nodes": 3}
    again = ApacheRocketMode.of_test(kept)
    assert (again.queues, again.rule, again.nodes) == (4, mode.rule, 3)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("flushDisk=SYNC_FLUSH", "did you mean flushDiskType?"),
        ("flushDiskType=always", "takes ASYNC_FLUSH or SYNC_FLUSH"),
        ("inSyncReplicas=0", "inSyncReplicas takes"),
        ("brokerRole=SLAVE", "follows from --replication"),
        ("brokerIP1=10.0.0.1", "follows from --replication"),
        ("controllerAddr=10.0.0.1:1", "follows from --replication"),
        ("queues=0", "takes a number"),
        ("ack=durable", "ack is no setting of a broker"),
    ],
)
def test_a_setting_that_apache_rocketmq_does_not_have_is_refused(word: str, hint: str) -> None:
    with pytest.raises(WrongMode, match=hint):
        mode_of("sync-slave", word)


def test_a_broker_lists_the_settings_that_there_are() -> None:
    assert {"waitTimeMillsInSendQueue", "haSendHeartbeatInterval", "slaveReadEnable"} <= set(broker_names())
