"""A member of a consumer group: one push consumer of the C++ client in a process of its own, which leaves when it is told to stop.

A concurrent member leaves as one that crashes does, between two messages: what it has not committed comes again to another one. An orderly
member shuts its client down, which gives up the locks of its queues; brokers would keep them for a minute.
"""

import threading
import time
from typing import Any, Final

from rocketmq.client import PushConsumer, RecvMessage
from rocketmq.exceptions import ffi_check
from rocketmq.ffi import dll

from jepsen_like.systems.rocketmq.bodies import value_of
from jepsen_like.systems.rocketmq.worker_pipe import FLUSH_EVERY_S, GIVEN, STOPPED, GivenRow, WheelPipe, WheelPlan
from jepsen_like.workload.client_process import QUIT, STOP

CONSUMED: Final = 0
THREADS: Final = 4


class PushedMember:
    """What a member is given."""

    def __init__(self, plan: WheelPlan) -> None:
        self._plan = plan
        self.rows: list[GivenRow] = []
        self._lock = threading.Lock()
        self._has_left = False

    def take(self, _: Any, handle: Any) -> int:
        """The listener: called in threads of the client."""
        t_inv = time.monotonic_ns()
        message = RecvMessage(handle)
        value, is_whole = value_of(message.body or b"")
        place = message.queue_id, message.queue_offset, message.id
        if self._plan.holds_ms:
            time.sleep(self._plan.holds_ms / 1e3)
        with self._lock:
            if not self._has_left:
                self.rows.append(GivenRow(value, is_whole, *place, t_inv, time.monotonic_ns()))
                return CONSUMED
        threading.Event().wait()  # it has crashed: what is told no more is not consumed
        return CONSUMED

    def crash(self) -> None:
        """Nothing is consumed from now on."""
        with self._lock:
            self._has_left = True


def run_member(plan: WheelPlan, pipe: WheelPipe) -> None:
    """Consume until told to stop, then wait for the end."""
    member = PushedMember(plan)
    consumer = PushConsumer(plan.group, orderly=plan.is_orderly)
    consumer.set_namesrv_addr(plan.names)
    consumer.set_thread_count(THREADS)
    # Not by `subscribe`: what that makes of an exception depends on what happens to be in memory.
    ffi_check(dll.Subscribe(consumer._handle, plan.topic.encode(), b"*"))
    consumer._register_callback(member.take)
    consumer.start()
    is_here = True
    while True:
        pipe.wait(FLUSH_EVERY_S)
        commands = [command for command, *_ in pipe.commands()]
        leaves = is_here and STOP in commands
        if leaves and plan.is_orderly:
            consumer.shutdown()
        elif leaves:
            member.crash()
        if told := len(member.rows):
            pipe.say(GIVEN, member.rows[:told])
            del member.rows[:told]
        if leaves:
            is_here = False
            pipe.say(STOPPED)
        if QUIT in commands:
            return
