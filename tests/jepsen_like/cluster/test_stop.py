"""A process that asks a majority before it ends is noted as one that did not end only where there is a majority."""

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.port.port import Member


@attrs.define
class Running:
    """Notes whether it must end."""

    is_running: bool = True
    must_end: bool | None = None

    async def stop(self, *, within_s: float, must_end: bool) -> None:
        self.must_end, self.is_running = must_end, False


@pytest.mark.parametrize(
    ("asks", "stopped", "must_end"),
    [(True, [1], True), (True, [1, 2], False), (True, [1, 2, 3], False), (False, [1, 2, 3], True)],
)
async def test_a_process_must_end_where_a_majority_is_left_to_ask(
    asks: bool, stopped: list[int], must_end: bool
) -> None:
    cluster: Any = object.__new__(Cluster)
    cluster.members = {node: Member(node, "broker") for node in (1, 2, 3)}
    cluster.nodes = {node: Running() for node in cluster.members}
    cluster.system = SimpleNamespace(slower_by_s=0.0, ends_by_majority=asks)
    await cluster.stop(stopped)
    assert [cluster.nodes[node].must_end for node in stopped] == [must_end] * len(stopped)
