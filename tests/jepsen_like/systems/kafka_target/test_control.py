"""A run removes the topic that it has made, and no other one."""

import pytest

from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.port.port import Access, NotServing, RunningCluster
from jepsen_like.systems.kafka_target import control as module
from jepsen_like.systems.kafka_target.control import TargetControl
from jepsen_like.systems.target.system import name_of


async def test_a_topic_is_deleted_only_by_the_run_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELETE_TIMEOUT_MS", 50)
    with ReservedPorts(1) as reserved:
        address = ("127.0.0.1", reserved.ports[0])
        control = TargetControl(Access("run-1", target=RunningCluster(servers=(address,))), {1: address})
        await control.clear()  # asks nothing
        control.is_ours = True
        with pytest.raises(NotServing, match=name_of("run-1")):
            await control.clear()
        assert "silent at" in (await control.absence(1) or "")
