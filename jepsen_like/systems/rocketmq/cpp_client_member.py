"""A member of a consumer group: one push consumer of the C++ client in its own process, until it has to stop.

A concurrent member leaves as one that crashes does, between two messages: what it has not committed comes again to
another one. An orderly member shuts its client down, which gives up its locks; brokers would keep them for a minute.
"""

import threading
import time
from typing import Any, Final

from rocketmq.client import PushConsumer, RecvMessage
from rocketmq.exceptions import ffi_check
from rocketmq.ffi import dll

from jepsen_like.systems.rocketmq.bodies import value_of
from jepsen_like.systems.rocketmq.client_plan import RocketClientPlan
from jepsen_like.workload.client_process import FLUSH_EVERY_S, QUIT, STOP, STOPPED, ClientPipe
from jepsen_like.workload.client_rows import GivenRow

CONSUMED, AGAIN_LATER = 0, 1
THREADS: Final = 4
SHUT_DOWN_WITHIN_S: Final = 15.0
FOREVER: Final = threading.Event()


class PushedMember:
    """A member of a consumer group: the client pushes messages to it, and it reports each."""

    def __init__(self, plan: RocketClientPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_leaving = False

    def take(self, _: Any, handle: Any) -> int:
        """The listener: called in threads of the client."""
        with self._changed:
            is_leaving = self._is_leaving
            self._under_way += not is_leaving
        if is_leaving:
            return self._refuse()
        t_inv = time.monotonic_ns()
        message = RecvMessage(handle)
        value, is_whole = value_of(message.body or b"")
        place = message.queue_id, message.queue_offset
        if self._plan.holds_ms:
            time.sleep(self._plan.holds_ms / 1e3)
        with self._changed:
            self._pipe.report(GivenRow(value, is_whole, *place, t_inv, time.monotonic_ns()))
            self._under_way -= 1
            self._changed.notify_all()
        return CONSUMED

    def _refuse(self) -> int:
        if not self._plan.is_orderly:
            FOREVER.wait()  # it has crashed
        return AGAIN_LATER

    def leave(self) -> None:
        """Take no more, and wait until the listener has returned: shutdown gives locks up without that wait."""
        with self._changed:
            self._is_leaving = True
            self._changed.wait_for(lambda: self._under_way == 0)


def shut_down(consumer: PushConsumer) -> None:
    """Let the client give its locks up. Now and then its shutdown does not return; then they end with their lease."""
    ending = threading.Thread(target=consumer.shutdown, daemon=True)
    ending.start()
    ending.join(SHUT_DOWN_WITHIN_S)


def run_member(plan: RocketClientPlan, pipe: ClientPipe) -> None:
    """Consume until told to stop, then wait for the end."""
    member = PushedMember(plan, pipe)
    consumer = PushConsumer(plan.group_name, orderly=plan.is_orderly)
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
        if leaves:
            member.leave()
            if plan.is_orderly:
                shut_down(consumer)
        pipe.flush(force=True)
        if leaves:
            is_here = False
            pipe.say(STOPPED)
        if QUIT in commands:
            return
