"""Messages, and what a group was given of them, as rows of a queue.

The C++ client reports a place in its list of queues, and a consumer the number of a queue within its broker. With one
broker group both are the object; with several the final read of all queues shows the place of each message, and rows
that need it are recorded then.
"""

from collections.abc import Mapping
from typing import Any

from jepsen_like.workload.client_rows import ClientPlan, GivenRow, Row, SentRow
from jepsen_like.workload.client_sinks import QueueSink
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.queue_recorder import QueueRecorder


class PushedSink(QueueSink):
    """A queue whose clients push. Each slot of a sender is a client that sends one message at a time."""

    def __init__(self, recorder: QueueRecorder, groups: int) -> None:
        super().__init__(recorder)
        self._is_one = groups == 1
        self._waiting: list[tuple[ClientPlan, int, SentRow | GivenRow]] = []
        self.seen: set[int] = set()
        """The values that members were given."""

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """See `ClientSink`."""
        match row:
            case SentRow(is_placed=False):
                self._waiting.append((plan, incarnation, row))
            case SentRow():
                self._send(row, self._processes.of_slot(plan, row))
            case GivenRow():
                self.seen.add(row.value)
                if self._is_one:
                    super().take(plan, incarnation, row)
                else:
                    self._waiting.append((plan, incarnation, row))
            case _:
                super().take(plan, incarnation, row)

    def place(self, objects: Mapping[int, int]) -> None:
        """See `ClientSink`. A message that is nowhere counts for the queue that its broker would have had among all."""
        waiting, self._waiting, self._is_one = self._waiting, [], True
        for plan, incarnation, row in waiting:
            placed = objects.get(row.value, row.object)
            match row:
                case SentRow():
                    self.take(plan, incarnation, row._replace(object=placed, is_placed=True))
                case GivenRow():
                    self.take(plan, incarnation, row._replace(object=placed))


class PushedRecorder(QueueRecorder):
    """A queue's, which takes the writes of our own clients and not their reads: a queue has other ones."""

    def ok(self, request: Request, seen: Seen, **about: Any) -> None:
        """See `Recorder`."""
        if request.is_write:
            super().ok(request, seen, **about)

    def record_end(self, request: Request, *args: Any, **about: Any) -> None:
        """See `Recorder`."""
        if request.is_write:
            super().record_end(request, *args, **about)
