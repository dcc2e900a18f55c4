"""A run finds the nodes of a group, and tells which of them takes part, with others' records around its own."""

import pytest

from jepsen_like.port.port import Access, LogPart, NotServing, RunningCluster
from jepsen_like.systems.raft.control import NodeStatus
from jepsen_like.systems.raft_target.control import RaftTargetControl

ADDRESSES = {1: ("h", 1), 2: ("h", 2)}


class SeenControl(RaftTargetControl):
    """Its nodes answer with these statuses."""

    def __init__(self, *seen: NodeStatus, part: LogPart) -> None:
        super().__init__(Access("run-1", target=RunningCluster(servers=(("h", 1),)), part=part), ADDRESSES)
        self._seen = seen

    async def statuses(self) -> dict[int, NodeStatus]:
        return {status.node: status for status in self._seen}

    async def why_silent_at(self, *arguments: object, **options: object) -> None:
        return None


def status(node: int, role: str, end: int, silent_s: dict[int, float] | None = None) -> NodeStatus:
    return NodeStatus(node, role, 3, end, end, end, silent_s=silent_s or {})


async def test_nodes_agree_once_all_have_the_part_of_the_run() -> None:
    seen = status(1, "leader", 90), status(2, "follower", 70)
    assert await SeenControl(*seen, part=LogPart(40, 70)).settle(within_s=1) == {0: 30}
    with pytest.raises(NotServing, match="n2 follower at 70"):
        await SeenControl(*seen, part=LogPart(40, 71)).settle(within_s=0.05)


async def test_of_a_log_that_ends_before_the_part_nothing_is_left() -> None:
    seen = status(1, "leader", 9), status(2, "follower", 9)
    assert await SeenControl(*seen, part=LogPart(40, 9)).settle(within_s=1) == {0: 0}


async def test_a_node_that_its_leader_receives_nothing_from_takes_no_part() -> None:
    control = SeenControl(status(1, "leader", 9, {2: 7.0}), status(2, "follower", 9), part=LogPart())
    assert await control.absence(1) is None
    assert await control.absence(2) == "it answers at h:2, and n1, its leader, has received nothing from it for 7.0 s"


async def test_what_stays_is_told_once_there_is_something() -> None:
    control = SeenControl(status(1, "leader", 9), part=LogPart(9))
    assert await control.clear() is None
    control._has_begun = True
    assert "from offset 9 on" in (await control.clear() or "")
