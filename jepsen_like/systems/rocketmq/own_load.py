"""The load of a queue by our own client, in the harness's process: the producers and members of `wheel_load`, without
processes of their own.
"""

import time
from collections.abc import Mapping
from typing import Any

import trio

from jepsen_like.systems.rocketmq.own_client import Queue, produce
from jepsen_like.systems.rocketmq.own_member import OwnMember
from jepsen_like.systems.rocketmq.wheel_load import WheelLoad
from jepsen_like.systems.rocketmq.wheel_sinks import GROUP
from jepsen_like.systems.rocketmq.worker_pipe import WheelPlan


class OwnLoad(WheelLoad):
    """All clients of a run.

    `objects` are the objects of the queues: our own client knows of each message where it lies.
    """

    def __init__(self, objects: Mapping[Queue, int], *others: Any) -> None:
        super().__init__(*others)
        self._objects = objects

    async def _send(self, plan: WheelPlan) -> None:
        await produce(plan, self._stopping, self._objects, lambda row: self._sink.sent(plan, row))

    async def _stay(self, plan: WheelPlan, stays_s: float, leaving: trio.Event) -> None:
        number = self._recorder.new_process()
        member = OwnMember(plan, f"own@{number}", self._objects, lambda row: self._sink.given(number, row))
        self._recorder.assigned(self._objects.values(), process=number, t_ns=time.monotonic_ns(), group=GROUP)
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.stay, done)
            with trio.move_on_after(stays_s):
                await leaving.wait()
            done.set()
        self._recorder.revoked(self._objects.values(), process=number, t_ns=time.monotonic_ns(), group=GROUP)
