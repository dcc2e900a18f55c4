"""The load of a queue by our own client, in the harness's process: producers and members as in `cpp_client_load`."""

import functools
from collections.abc import Mapping
from typing import Any

import trio

from jepsen_like.systems.rocketmq.client_plan import SENDER, RocketClientPlan
from jepsen_like.systems.rocketmq.cpp_client_load import CppClientLoad
from jepsen_like.systems.rocketmq.own_client import Queue, produce
from jepsen_like.systems.rocketmq.own_member import OwnMember


class OwnLoad(CppClientLoad):
    """All clients of a run. `objects` are of the queues: our own client knows where each message lies."""

    def __init__(self, objects: Mapping[Queue, int], *others: Any) -> None:
        super().__init__(*others)
        self._objects = objects

    async def _work(self, plan: RocketClientPlan, ending: trio.Event) -> None:
        tell = functools.partial(self._sink.take, plan, plan.incarnation)
        if plan.role == SENDER:
            await produce(plan, ending, self._objects, tell)
        else:
            await OwnMember(plan, f"own@{plan.incarnation}", self._objects, tell).stay(ending)
