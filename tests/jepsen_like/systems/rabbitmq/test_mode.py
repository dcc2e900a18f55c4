"""A loss is allowed where the documentation of RabbitMQ states that it can happen, and nowhere else."""

import attrs
import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import WrongMode
from jepsen_like.systems.rabbitmq.mode import RabbitMode
from jepsen_like.systems.rabbitmq.promises import PARTING, PROMISES, promise_of
from jepsen_like.systems.rabbitmq.settings import PartitionHandling, QueueType
from jepsen_like.systems.rabbitmq.system import RabbitSystem
from tests.jepsen_like.record.test_recovery_time import a_fault

MIRRORED = ["queue_type=mirrored", "cluster_partition_handling=autoheal"]


def fault(kind: str) -> FaultRecord:
    return attrs.evolve(a_fault(1000, 1010, nodes=(1,)), id=4, kind=kind)


def test_a_side_that_gives_way_may_lose_what_it_confirmed_while_nodes_were_apart() -> None:
    cut = fault("partition")
    (allowed,) = RabbitMode.of(MIRRORED).allowances([cut, fault("kill"), fault("power")])
    assert (allowed.fault, allowed.since_ns) == (4, cut.begun_ns)
    assert allowed.injected_ns > cut.ended_ns
    assert "lost" in RabbitMode.of(MIRRORED).promise(["partition"])
    assert RabbitMode.of(MIRRORED).promise(["kill"]).startswith("no confirmed message is lost")


@pytest.mark.parametrize("words", [[], ["queue_type=mirrored"], ["cluster_partition_handling=autoheal"]])
def test_no_other_setting_may_lose_anything(words: list[str]) -> None:
    mode = RabbitMode.of(words)
    assert mode.allowances([fault(kind) for kind in KINDS]) == ()
    assert mode.promise(PARTING).startswith("no confirmed message is lost")


def test_each_setting_has_one_promise() -> None:
    rows = [promise_of(queue, handling) for queue in QueueType for handling in PartitionHandling]
    assert set(PROMISES) == set(rows)
    assert all(len([row for row in PROMISES if row.queue_type is one.queue_type]) in (1, 2) for one in rows)


def test_nodes_that_stay_apart_cannot_be_judged() -> None:
    mode = RabbitMode.of(["cluster_partition_handling=ignore"])
    assert mode.refusal(Model.TOTAL_QUEUE, ["kill", "partition"])
    assert mode.refusal(Model.TOTAL_QUEUE, ["kill", "power"]) is None


@pytest.mark.parametrize(
    "word", ["queue=quorum", "queue_type=classic", "cluster_partition_handling=", "net_ticktime=0"]
)
def test_settings_that_do_not_exist_are_refused(word: str) -> None:
    with pytest.raises(WrongMode):
        RabbitMode.of([word])


def test_the_mode_of_a_recorded_run_is_the_one_that_ran() -> None:
    mode = RabbitMode.of([*MIRRORED, "net_ticktime=4"])
    assert RabbitMode.of_test({"settings": dict(mode.settings)}) == mode


def test_each_kind_of_fault_is_done_or_refused() -> None:
    assert set(RabbitSystem.serves) | set(RabbitSystem.refused) == set(KINDS)
    assert not set(RabbitSystem.serves) & set(RabbitSystem.refused)
