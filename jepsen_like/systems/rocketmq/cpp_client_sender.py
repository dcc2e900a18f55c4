"""Producers of a run: one C++ client in its own process, a thread for each slot, each `send_orderly` one attempt.

A slot sends the messages of one key, the next one when the last call has ended. The selector picks the key's queue from
the list that the client has at the moment. The client is told not to try again: it would take another queue then, and
could store a message twice.
"""

import ctypes
import threading
import time
from typing import Any, Final

from rocketmq.client import Message, Producer, RecvMessage
from rocketmq.exceptions import RocketMQException

from jepsen_like.history.ops import NONE
from jepsen_like.systems.rocketmq.bodies import body_of
from jepsen_like.systems.rocketmq.client_plan import RAISED, RocketClientPlan
from jepsen_like.systems.rocketmq.outcomes import outcome_of
from jepsen_like.workload.client_process import FLUSH_EVERY_S, QUIT, STOP, STOPPED, ClientPipe
from jepsen_like.workload.client_rows import SentRow

SEND_WITHIN_MS: Final = 1500
NO_RETRIES: Final = 0
BACK_OFF_S: Final = 0.1
CHOSEN_NONE: Final = -1


class Slot:
    """One key's thread."""

    def __init__(self, plan: RocketClientPlan, number: int, producer: Producer, pipe: ClientPipe) -> None:
        self._plan = plan
        self._number = number
        self._key = plan.first_key + number
        self._producer = producer
        self._pipe = pipe
        self._chosen = (CHOSEN_NONE, 0)

    def run(self, turns: "Turns") -> None:
        """Send until told otherwise."""
        count = 0
        while (late_us := turns.next()) is not None:
            count += 1
            if not self._send(count * self._plan.keys + self._key, late_us):
                time.sleep(BACK_OFF_S)

    def _send(self, value: int, late_us: int) -> bool:
        message = Message(self._plan.topic)
        message.set_keys(str(value))
        message.set_body(body_of(value, self._plan.record_bytes))
        self._chosen = (CHOSEN_NONE, 0)
        status, offset = RAISED, NONE
        t_inv = time.monotonic_ns()
        try:
            result = self._producer.send_orderly(message, self._key, NO_RETRIES, self._choose)
            status, offset = int(result.status), result.offset
        except RocketMQException:
            pass  # the same "No route info of this topic" for every failure
        t_ret = time.monotonic_ns()
        place, places = self._chosen
        is_sent, objects = place != CHOSEN_NONE, self._plan.objects
        obj = place if is_sent else self._plan.object_of_slot(self._number)
        ended = outcome_of(status, is_sent=is_sent)
        is_placed = not is_sent or places == objects  # else the client's list lacked queues
        self._pipe.report(SentRow(self._number, value, obj, t_inv, t_ret, *ended, offset, late_us, is_placed))
        return status != RAISED

    def _choose(self, places: int, message: RecvMessage, argument: Any) -> int:
        key: int = ctypes.cast(argument, ctypes.POINTER(ctypes.c_int))[0]
        self._chosen = (key % places, places)
        return key % places


class Turns:
    """The times at which messages are due."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._tickets = 0

    def stop(self) -> None:
        """There is no next one."""
        self._stopping.set()

    def next(self) -> int | None:
        """Waits until the next message is due. Returns how late it is in µs, -1 in a closed loop; None to stop."""
        if not self._rate:
            return None if self._stopping.is_set() else -1
        with self._lock:
            due = self._started + self._tickets / self._rate
            self._tickets += 1
        if self._stopping.wait(max(0.0, due - time.monotonic())):
            return None
        return max(0, round((time.monotonic() - due) * 1e6))


def run_sender(plan: RocketClientPlan, pipe: ClientPipe) -> None:
    """Work until told to quit."""
    producer = Producer(f"producers-{plan.seed}", timeout=SEND_WITHIN_MS)
    producer.set_namesrv_addr(plan.names)
    producer.start()
    turns = Turns(plan.rate)
    slots = [Slot(plan, number, producer, pipe) for number in range(plan.slots)]
    threads = [threading.Thread(target=slot.run, args=(turns,), daemon=True) for slot in slots]
    for thread in threads:
        thread.start()
    stopping = stopped = False
    while True:
        pipe.wait(FLUSH_EVERY_S)
        for command, *_ in pipe.commands():
            if command == QUIT:
                return
            stopping |= command == STOP
        if stopping:
            turns.stop()
        is_idle = not any(thread.is_alive() for thread in threads)
        pipe.flush(force=True)
        if stopping and is_idle and not stopped:
            stopped = True
            pipe.say(STOPPED)
