"""PendingReads: linearizable reads on their way, from the call until they may be served.

A read waits for the next round, which asks the core for all new ones under one token, so that they share one round of
heartbeats. The core confirms them with a read index. A read that wants to see what was applied then waits until the
state machine has reached that index (P12).
"""

from collections import deque

from log.values import frozen
from raft.errors import RaftError
from raft.model import LogIndex, Token
from raft.requests import Caller


@frozen
class _Read:
    caller: Caller
    request_id: int
    after_apply: bool


class PendingReads:
    """The reads of one node, in three stages: new, asked, and confirmed ahead of the state machine."""

    def __init__(self) -> None:
        self.new: list[_Read] = []
        """Those yet to be asked for."""
        self._asked: dict[Token, list[_Read]] = {}
        self._confirmed: deque[tuple[LogIndex, _Read]] = deque()

    def add(self, caller: Caller, request_id: int, *, after_apply: bool) -> None:
        """Let a read wait for the next round."""
        self.new.append(_Read(caller, request_id, after_apply))

    def ask(self, token: Token) -> None:
        """All new reads are asked for under this token."""
        self._asked[token], self.new = self.new, []

    def confirm(self, token: Token, read_index: LogIndex, applied_index: LogIndex) -> None:
        """Serve the reads of this token, except for those that wait for the state machine to reach `read_index`."""
        for read in self._asked.pop(token):
            if read.after_apply and applied_index < read_index:
                self._confirmed.append((read_index, read))
            else:
                read.caller.on_readable(read.request_id)

    def reject(self, token: Token, error: RaftError) -> None:
        """Refuse the reads of this token."""
        for read in self._asked.pop(token):
            read.caller.on_refused(read.request_id, error)

    def release(self, applied_index: LogIndex) -> None:
        """Serve the reads that waited for the state machine to reach `applied_index`."""
        while self._confirmed and self._confirmed[0][0] <= applied_index:
            _, read = self._confirmed.popleft()
            read.caller.on_readable(read.request_id)

    def refuse_all(self, error: RaftError) -> None:
        """Refuse every read, in whatever stage it is."""
        asked = [read for reads in self._asked.values() for read in reads]
        for read in (*self.new, *asked, *(read for _, read in self._confirmed)):
            read.caller.on_refused(read.request_id, error)
        self.new.clear()
        self._asked.clear()
        self._confirmed.clear()
