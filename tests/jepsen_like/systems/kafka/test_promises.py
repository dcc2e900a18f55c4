"""The table of promises is complete, and only what it allows is excused."""

import attrs
import pytest

from jepsen_like.history.ops import NEVER
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.promises import ISR_PROMISES, NOTICED_S, RULES, SERVES, IsrRule, MayLose, describe
from jepsen_like.systems.kafka.sources import STATEMENTS, cite, statements_for
from jepsen_like.systems.kafka.system import KafkaAdapter
from kafka_compat.config_keys import BEFORE_ACK
from tests.jepsen_like.record.test_recovery_time import a_fault

S = 1_000_000_000
SAFE = IsrRule("all", several=True, unclean=False, flush="before-ack")


def a_fault_of(
    kind: str, begin: float = 5, end: float = 8, *, nodes: tuple[int, ...] = (1,), id_: int = 1
) -> FaultRecord:
    return attrs.evolve(a_fault(begin, end), kind=kind, nodes=nodes, id=id_)


def test_every_combination_has_one_row_for_every_fault_that_can_be_done() -> None:
    assert set(SERVES) == set(KINDS) - set(KafkaAdapter.refused)
    assert set(ISR_PROMISES) == {(rule, harm) for rule in RULES for harm in SERVES}
    assert len(RULES) == len(set(RULES)) == 48


def test_acks_all_with_two_in_sync_clean_elections_and_flushes_loses_nothing() -> None:
    assert {ISR_PROMISES[SAFE, harm].may_lose for harm in SERVES} == {MayLose.NOTHING}
    assert describe(SAFE, SERVES) == "nothing that was acknowledged is lost by any of these faults"


@pytest.mark.parametrize(
    ("changes", "harm", "loss"),
    [
        ({"acks": "1"}, "kill", MayLose.UNREPLICATED),
        ({"acks": "1"}, "partition", MayLose.UNREPLICATED),
        ({"acks": "1"}, "wipe", MayLose.EVERYTHING),
        ({"several": False}, "kill", MayLose.NOTHING),
        ({"several": False}, "pause", MayLose.NOTHING),
        ({"several": False}, "wipe", MayLose.EVERYTHING),
        ({"flush": "page-cache"}, "kill", MayLose.NOTHING),
        ({"flush": "page-cache"}, "power", MayLose.UNFLUSHED),
        ({"unclean": True}, "pause", MayLose.OUT_OF_SYNC),
        ({"unclean": True, "flush": "page-cache"}, "power", MayLose.OUT_OF_SYNC),
        ({"flush": "page-cache"}, "damage", MayLose.NOTHING),
        ({"flush": "page-cache"}, "vanish", MayLose.NOTHING),
        ({"several": False}, "damage", MayLose.HELD_ALONE),
        ({"several": False}, "vanish", MayLose.HELD_ALONE),
        ({"acks": "1"}, "vanish", MayLose.HELD_ALONE),
        ({"is_eligible": False}, "damage", MayLose.EVERYTHING),
        ({"is_eligible": False}, "vanish", MayLose.EVERYTHING),
        ({"is_eligible": False}, "kill", MayLose.NOTHING),
    ],
)
def test_what_each_setting_gives_up(changes: dict[str, object], harm: str, loss: MayLose) -> None:
    assert ISR_PROMISES[attrs.evolve(SAFE, **changes), harm].may_lose is loss  # type: ignore[arg-type]


def test_a_weaker_setting_never_promises_more() -> None:
    for (rule, harm), row in ISR_PROMISES.items():
        stronger = [
            attrs.evolve(rule, acks="all"),
            attrs.evolve(rule, several=True),
            attrs.evolve(rule, unclean=False),
            attrs.evolve(rule, flush="before-ack"),
            attrs.evolve(rule, is_eligible=True),
        ]
        assert all(ISR_PROMISES[one, harm].may_lose <= row.may_lose for one in stronger)


def test_acks_of_the_leader_alone_reach_back_over_the_lag_and_on_until_it_has_learned() -> None:
    mode = KafkaMode.of(["acks=1", "replica.lag.time.max.ms=1000", "broker.session.timeout.ms=1000"])
    fault = a_fault_of("pause")
    (allowed,) = mode.allowances([fault])
    assert fault.begun_ns - 5 * S < allowed.since_ns < fault.begun_ns - 1 * S
    assert allowed.injected_ns == fault.ended_ns + round((1 + NOTICED_S) * S)
    assert ", acks=1: what the leader had acknowledged" in allowed.promise


def test_a_power_cut_of_fewer_than_hold_each_record_is_no_excuse_unless_something_else_was_broken() -> None:
    mode = KafkaMode.of(["min.insync.replicas=2"])
    alone = a_fault_of("power", nodes=(1,))
    assert mode.allowances([alone]) == ()
    (both,) = mode.allowances([a_fault_of("power", nodes=(1, 2))])
    assert both.since_ns == -NEVER
    cut_before = a_fault_of("partition", 2, 4, id_=2)
    (shrunk,) = mode.allowances([cut_before, alone])
    assert shrunk.kind == "power"
    assert mode.allowances([a_fault_of("partition", -20, -10, id_=2), alone]) == ()


def test_a_zone_with_one_copy_of_each_partition_is_no_excuse_however_many_brokers_stand_in_it() -> None:
    mode = KafkaMode.of(["min.insync.replicas=2"])
    zone = a_fault_of("zone-down", nodes=(1, 4))
    assert mode.allowances([attrs.evolve(zone, observed={"copies": "1 of one scope"})]) == ()
    (both,) = mode.allowances([attrs.evolve(zone, observed={"copies": "2 of one scope"})])
    (unknown,) = mode.allowances([zone])
    assert both == unknown


def test_kill_pause_and_partition_excuse_nothing_by_default() -> None:
    faults = [a_fault_of(kind, nodes=(1, 2, 3)) for kind in ("kill", "pause", "partition", "restart", "reset")]
    assert KafkaMode.of([]).allowances(faults) == ()
    assert KafkaMode.of([]).survives("kill")


def test_wipe_is_survived_only_where_each_record_has_two_holders() -> None:
    assert KafkaMode.of(["min.insync.replicas=2"]).survives("wipe")
    assert not KafkaMode.of([]).survives("wipe")
    assert not KafkaMode.of(["min.insync.replicas=2", "acks=1"]).survives("wipe")


def test_acks_0_says_that_it_promises_nothing() -> None:
    assert KafkaMode.of(["acks=0"]).promise(["kill"]) == "nothing: with acks=0 nothing is acknowledged"


def test_a_touched_disk_costs_only_what_was_acknowledged_by_its_broker_alone_since_the_fault_began() -> None:
    fault = attrs.evolve(a_fault_of("vanish", nodes=(1, 2, 3)), harmed=(3,))
    assert KafkaMode.of(["min.insync.replicas=2"]).allowances([fault]) == ()
    (alone,) = KafkaMode.of([]).allowances([fault])
    assert (alone.since_ns, alone.begun_ns) == (fault.begun_ns, fault.injected_ns)
    assert alone.promise.endswith(
        "what the broker whose disk was touched had acknowledged without the others may be lost"
    )
    (lagging,) = KafkaMode.of(["acks=1"]).allowances([fault])
    assert lagging.since_ns < fault.begun_ns


def test_without_eligible_leader_replicas_a_touched_disk_may_cost_everything_and_the_switch_is_named() -> None:
    mode = KafkaMode.of(["min.insync.replicas=2", "eligible.leader.replicas.version=0"])
    (allowed,) = mode.allowances([a_fault_of("damage", nodes=(1, 2, 3))])
    assert allowed.since_ns == -NEVER
    assert "eligible.leader.replicas.version=0: all that the last replica in sync held" in allowed.promise
    assert not mode.survives("damage")
    assert KafkaMode.of(["min.insync.replicas=2"]).survives("damage")


@pytest.mark.parametrize(
    ("words", "waits"), [([], True), (["acks=1", "min.insync.replicas=2"], True), (["min.insync.replicas=2"], False)]
)
def test_a_fault_waits_for_other_copies_where_one_broker_may_hold_a_record_alone(words: list[str], waits: bool) -> None:
    assert KafkaMode.of(words).may_hold_alone is waits


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_source_in_kafkas_documentation(rule: IsrRule) -> None:
    found = statements_for(rule)
    assert f"acks={rule.acks}" in STATEMENTS
    assert STATEMENTS[f"acks={rule.acks}"] in found
    assert (STATEMENTS["unclean.leader.election.enable"] in found) is rule.unclean
    assert (STATEMENTS["flush of each record"] in found) is (rule.flush == BEFORE_ACK)
    assert (STATEMENTS["min.insync.replicas"] in found) is (rule.several and rule.acks == "all")
    assert all(statement.source.startswith("https://kafka.apache.org/documentation/#") for statement in found)
    assert cite("nothing is lost", rule).startswith("nothing is lost (by https://kafka.apache.org/")
