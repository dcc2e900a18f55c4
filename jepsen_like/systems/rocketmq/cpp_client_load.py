"""Clients at work on broker groups: RocketMQ's C++ client in processes of its own, and a few of our clients.

Our own send a little all the time (`workload.load`), so that it is seen when the brokers serve again, however long the
C++ client takes to notice: it reads routes every 30 s. They also write last and read what is there in the end. A
history tells them apart: they know the node that they asked.

Members of a group come and go. When all is healed, new ones consume what is left, for those of before may wait for
their next heartbeat.
"""

import itertools
import random
import tempfile
import time
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import attrs
import trio

from jepsen_like.systems.rocketmq.client_plan import GROUP, RocketClientPlan
from jepsen_like.systems.rocketmq.positions import QueueReader
from jepsen_like.systems.rocketmq.pushed_sink import PushedSink
from jepsen_like.workload.client_process import STOP, STOPPED, ClientProcess
from jepsen_like.workload.client_rows import AssignedRow, RevokedRow
from jepsen_like.workload.client_sinks import ClientSink
from jepsen_like.workload.load import RoutedLoad
from jepsen_like.workload.queue_recorder import QueueRecorder

WORKER: Final = "jepsen_like.systems.rocketmq.cpp_client_worker"
STAYS_S: Final = (6.0, 14.0)
"""A member stays this long before it leaves and another one comes."""
JOINS_AFTER_S: Final = 1.0
DRAINED_WITHIN_S: Final = 75.0
"""Longer than brokers keep the lock of a member that could not give it up."""
DRAIN_LOOKS_EVERY_S: Final = 0.1
POSITIONS_EVERY_S: Final = 0.25


class CppClientLoad:
    """All clients of a run (`workload.load.RunningLoad`)."""

    def __init__(
        self,
        senders: Sequence[RocketClientPlan],
        members: Sequence[RocketClientPlan],
        sink: ClientSink,
        probes: RoutedLoad,
        recorder: Any,
        queues: QueueReader,
    ) -> None:
        self._senders = tuple(senders)
        self._members = tuple(members)
        self._sink = sink
        self._probes = probes
        self._recorder = recorder
        self._queues = queues
        self._stopping = trio.Event()
        self._running: list[ClientProcess] = []
        self._lives = itertools.count()
        self._home = tempfile.TemporaryDirectory()

    async def run(self) -> None:
        """Drive all until `stop` and the last call's end. Raises `NotServing`, in a group, if a client ends."""
        try:
            async with trio.open_nursery() as helpers:
                if self._members:
                    helpers.start_soon(self._watch_positions)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._probes.run)
                    for plan in self._senders:
                        nursery.start_soon(self._work, plan, self._stopping)
                    for number, plan in enumerate(self._members):
                        nursery.start_soon(self._come_and_go, plan, random.Random(f"member {plan.seed} {number}"))
                helpers.cancel_scope.cancel()
        except BaseException:
            for process in self._running:
                process.kill()
            raise

    def stop(self) -> None:
        """Start no more operations."""
        self._stopping.set()
        self._probes.stop()

    async def final_reads(self) -> bool:
        """A last write and the last reads of our clients; then new members, until a group has all acknowledged."""
        try:
            if not await self._probes.final_reads():
                return False
            places = await self._queues.places()
            if self._members and isinstance(self._sink, PushedSink):
                await self._drain(self._sink, places.keys())
            self._sink.place(places)
            return True
        finally:
            self._home.cleanup()

    def claimed_ends(self) -> Mapping[int, int]:
        """See `RunningLoad`."""
        return self._probes.claimed_ends()

    # ---------------------------------------------------------------- processes

    def _start(self, plan: RocketClientPlan) -> ClientProcess:
        # The client writes its logs into its home.
        process = ClientProcess.start(WORKER, plan, environment={"HOME": self._home.name})
        self._running.append(process)
        return process

    def _end(self, process: ClientProcess) -> None:
        process.kill()
        self._running.remove(process)

    async def _come_and_go(self, plan: RocketClientPlan, rng: random.Random) -> None:
        while not self._stopping.is_set():
            with trio.move_on_after(rng.uniform(0.0, JOINS_AFTER_S)):
                await self._stopping.wait()
                return
            await self._stay(plan, rng.uniform(*STAYS_S), self._stopping)

    async def _stay(self, plan: RocketClientPlan, stays_s: float, leaving: trio.Event) -> None:
        """One member, from joining to having left."""
        life = attrs.evolve(plan, incarnation=next(self._lives))
        objects, done = range(self._queues.objects), trio.Event()
        self._sink.take(life, life.incarnation, AssignedRow(objects, (), time.monotonic_ns()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._work, life, done)
            with trio.move_on_after(stays_s):
                await leaving.wait()
            done.set()
        self._sink.take(life, life.incarnation, RevokedRow(objects, False, time.monotonic_ns()))

    async def _work(self, plan: RocketClientPlan, ending: trio.Event) -> None:
        """One process, from its start until it has stopped."""
        process = self._start(plan)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.listen, STOPPED, self._sink.take)
            await ending.wait()
            process.tell(STOP)
        self._end(process)

    # ---------------------------------------------------------------- groups

    async def _watch_positions(self) -> None:
        assert isinstance(self._recorder, QueueRecorder)
        process = self._recorder.new_process()
        while True:
            for obj, offset, t_inv, t_ret, node in await self._queues.read():
                self._recorder.position_read(
                    offset, group=GROUP, partition=obj, process=process, t_inv=t_inv, t_ret=t_ret, node=node
                )
            await trio.sleep(POSITIONS_EVERY_S)

    async def _drain(self, sink: PushedSink, there: Set[int]) -> None:
        """New members, which take no time for a message, until they have all that is there, or for long enough."""
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            for plan in self._members:
                nursery.start_soon(self._stay, attrs.evolve(plan, holds_ms=0.0), DRAINED_WITHIN_S, done)
            with trio.move_on_after(DRAINED_WITHIN_S):
                while not there <= sink.seen:  # noqa: ASYNC110 - rows have no event
                    await trio.sleep(DRAIN_LOOKS_EVERY_S)
            done.set()
