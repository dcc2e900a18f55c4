"""Turns the reports of processes with C++ clients into rows of a history: of a log, or of a queue.

The client reports a place in its list of queues, and a consumer the number of a queue within its broker. With one
broker group both are the object; with several the final read of all queues shows the place of each message, and rows
that need it are recorded then.
"""

from array import array
from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.systems.rocketmq.outcomes import outcome_of
from jepsen_like.systems.rocketmq.worker_pipe import CallRow, GivenRow, WheelPlan
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder

GROUP: Final = 0
"""The number of the one consumer group of a run."""


class WheelSink(Protocol):
    """Takes the rows of all processes."""

    def sent(self, worker: WheelPlan, row: CallRow) -> None:
        """A call has ended."""

    def given(self, process: int, row: GivenRow) -> None:
        """A member was given a message."""

    def placed(self, places: Mapping[int, int]) -> None:
        """All is over: the object of every message that is there, by value."""


class Senders:
    """Process numbers of slots: a new one after an unknown outcome."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: dict[tuple[int, int], int] = {}

    def of(self, worker: WheelPlan, row: CallRow, outcome: Outcome) -> int:
        """The number for this call."""
        slot = worker.index, row.slot
        number = self._numbers.setdefault(slot, NONE)
        if number == NONE:
            number = self._numbers[slot] = self._recorder.new_process()
        if outcome is Outcome.INFO:
            self._numbers[slot] = NONE
        return number


class WheelLogSink:
    """Each slot is a client that appends one message at a time."""

    def __init__(self, recorder: Recorder, objects: int) -> None:
        self._recorder = recorder
        self._objects = objects
        self._senders = Senders(recorder)
        self._unplaced: list[tuple[WheelPlan, CallRow]] = []

    def sent(self, worker: WheelPlan, row: CallRow) -> None:
        """An append of one record."""
        obj = object_of(worker, row, self._objects)
        if obj is None:
            self._unplaced.append((worker, row))
        else:
            self._sent(worker, row, obj)

    def _sent(self, worker: WheelPlan, row: CallRow, obj: int) -> None:
        outcome, code = outcome_of(row)
        request = Request(Action.APPEND, _never_asked, object=obj, a=row.value, values=(row.value,))
        process = self._senders.of(worker, row, outcome)
        times = {"t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            late_s = row.late_us / 1e6 if row.late_us >= 0 else None
            seen = Seen((row.value,), row.offset)
            self._recorder.ok(request, seen, process=process, node=NONE, late_s=late_s, **times)
        else:
            self._recorder.ended(request, outcome, code, process=process, node=NONE, **times)

    def given(self, process: int, row: GivenRow) -> None:
        """There are no consumers."""
        raise AssertionError(row)

    def placed(self, places: Mapping[int, int]) -> None:
        """Record what waited, each as a client of its own: others have recorded in the meantime."""
        for worker, row in self._unplaced:
            own = attrs.evolve(worker, index=self._recorder.new_process())
            self._sent(own, row, places.get(row.value, row.place))
        self._unplaced = []


def object_of(worker: WheelPlan, row: CallRow, objects: int) -> int | None:
    """The object that a call was about; None if the client's list lacked queues, so that the place does not tell."""
    if row.place < 0:  # nothing was sent, to whatever queue
        return (worker.first_key + row.slot) % objects
    return row.place if row.places == objects else None


class PushedSink:
    """Messages, and what a group was given of them."""

    def __init__(self, recorder: QueueRecorder, objects: int, groups: int) -> None:
        self._recorder = recorder
        self._objects = objects
        self._is_one = groups == 1
        self._senders = Senders(recorder)
        self._waiting: list[tuple[int, GivenRow]] = []
        self._unplaced: list[tuple[WheelPlan, CallRow]] = []
        self.seen: set[int] = set()

    def sent(self, worker: WheelPlan, row: CallRow) -> None:
        """A message of a producer."""
        obj = object_of(worker, row, self._objects)
        if obj is None:
            self._unplaced.append((worker, row))
        else:
            self._sent(worker, row, obj)

    def _sent(self, worker: WheelPlan, row: CallRow, obj: int) -> None:
        outcome, code = outcome_of(row)
        process = self._senders.of(worker, row, outcome)
        about = {"partition": obj, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            self._recorder.sent(row.value, offset=row.offset, **about)
        else:
            self._recorder.not_sent(row.value, outcome, code, **about)

    def given(self, process: int, row: GivenRow) -> None:
        """A message was pushed to a member."""
        self.seen.add(row.value)
        if self._is_one:
            self._given(process, row, row.queue)
        else:
            self._waiting.append((process, row))

    def _given(self, process: int, row: GivenRow, obj: int) -> None:
        self._recorder.polled(
            array("q", [row.value]),
            array("q", [row.offset]),
            partition=obj,
            process=process,
            t_inv=row.t_inv,
            t_ret=row.t_ret,
            is_whole=row.is_whole,
            group=GROUP,
        )

    def placed(self, places: Mapping[int, int]) -> None:
        """Record what waited.

        A message that is nowhere counts for the queue that its broker would have had among all.
        """
        for worker, sent in self._unplaced:
            self._sent(worker, sent, places.get(sent.value, sent.place))
        for process, given in self._waiting:
            self._given(process, given, places.get(given.value, given.queue))
        self._unplaced, self._waiting = [], []


class PushedRecorder(QueueRecorder):
    """A queue's, which takes the writes of our own clients and not their reads: a queue has other ones."""

    def ok(self, request: Request, seen: Seen, **about: Any) -> None:
        """See `Recorder`."""
        if request.is_write:
            super().ok(request, seen, **about)

    def ended(self, request: Request, *args: Any, **about: Any) -> None:
        """See `Recorder`."""
        if request.is_write:
            super().ended(request, *args, **about)


async def _never_asked(connection: Any) -> Any:
    """The request was carried out in another process."""
    raise AssertionError(connection)
