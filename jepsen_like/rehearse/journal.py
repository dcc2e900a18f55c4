"""The history of a rehearsal: the attempts of all clients, and what the operator did, from any thread."""

import threading
from collections.abc import Sequence
from typing import Any

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, Action, Op, Outcome


class Journal:
    """Records rows in the order in which they end, and knows when a cluster first served anyone."""

    def __init__(self, history: HistoryWriter) -> None:
        self._history = history
        self._lock = threading.Lock()
        self.first: dict[tuple[Action, int], int] = {}
        """By action and cluster: the end of the first success since `forget`."""

    def record(self, f: Action, **fields: Any) -> None:
        """Take one attempt, by the names of `Op`; it is `OK` unless `type` names another outcome."""
        op = Op(f=f, **{"type": Outcome.OK, **fields})
        with self._lock:
            self._history.record(op)
            if op.type is Outcome.OK and op.node != NONE:
                self.first.setdefault((op.f, op.node), op.t_ret)

    def record_polled(self, values: Sequence[int], offsets: Sequence[int], **fields: Any) -> None:
        """Take the records of one partition that one poll brought."""
        with self._lock:
            op = Op(f=Action.POLL, type=Outcome.OK, **fields)
            self._history.record_rows(op, values, offsets)
            self.first.setdefault((op.f, op.node), op.t_ret)

    def forget(self) -> None:
        """Begin to look for first successes again."""
        with self._lock:
            self.first.clear()
