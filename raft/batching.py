"""Batcher: requests that wait to be proposed, and the rules by which they share entries.

Appends that arrive while the disk is busy, or an entry is under way, wait and then leave as one entry: one frame, one
CRC, one message a peer. Half an entry waits for nothing more. Clients that have just been answered often send again at
once, so an entry waits for their requests, too: for the round that begins when the answers have been sent, and for one
to three more, most if each brings requests (`has_postponed`). So fast clients share entries, and both rules save a
third of all processor time at 64 connections. A commit that takes longer than `PIPELINE_S` is not waited for.

A message to a peer is one frame, and heartbeats and their answers wait behind it until it has been sent. So an entry is
joined beyond `batch_bytes_min` only as far as the last large one shows that the group commits it in the time of one
heartbeat. Otherwise leaders would lose their followers on links of a few megabytes a second.

The batcher is pure: it is given the time, and the facts that it decides by.
"""

import math
from collections import deque
from collections.abc import Sequence

import crc32c

from log.frame import Payload, Pieces
from log.values import frozen
from raft.model import EntryKind, Token
from raft.net.crc import join_crcs
from raft.net.decoder import LARGE_BYTES
from raft.requests import Request

PIPELINE_S = 0.002
"""The next entry waits this long for the commit of the one before it: a slower network has room for both."""
JOIN_ROUNDS_MAX = 4
"""For how many rounds an entry waits for new requests of the clients that were just answered."""
EMPTY_ROUND = 2
"""A round without a new request counts as this many of them."""


@frozen
class Proposal:
    """One entry that was proposed, and the requests in it."""

    kind: EntryKind
    requests: list[Request]
    size: int
    proposed_at: float


class Batcher:
    """The appends and commands that wait, and the entries under way.

    A batch holds at most `batch_bytes_max`, on a slow network `batch_bytes_min`; a single larger request stays whole.
    """

    def __init__(
        self, *, batch_bytes_min: int, batch_bytes_max: int, pending_bytes_max: int, heartbeat_s: float
    ) -> None:
        self._batch_bytes_min = batch_bytes_min
        self._batch_bytes_max = batch_bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._heartbeat_s = heartbeat_s
        self._pace_bytes = batch_bytes_min
        """The bound of a batch, according to how fast the group commits."""
        self._appends: deque[Request] = deque()
        self._commands: deque[Request] = deque()
        self.waiting = 0
        """The number of requests that wait."""
        self._pending_bytes = 0
        self._under_way: dict[Token, Proposal] = {}
        self._proposed_at = 0.0
        self._rounds_to_wait = 0
        self._arrived = 0

    # ---------------------------------------------------------------- what waits

    @property
    def pending_bytes(self) -> int:
        """The bytes of the requests that wait."""
        return self._pending_bytes

    @property
    def is_full(self) -> bool:
        """True if too many bytes wait to take another request."""
        return self._pending_bytes >= self._pending_bytes_max

    def add_append(self, request: Request) -> None:
        """Let an append wait."""
        self.waiting += 1
        self._pending_bytes += len(request.data)
        self._appends.append(request)

    def add_command(self, request: Request) -> None:
        """Let a command wait."""
        self.waiting += 1
        self._pending_bytes += len(request.data)
        self._commands.append(request)

    def begin_round(self) -> None:
        """Count the round that has just ended; one that brought appends lets the next entry wait longer for more."""
        before, self._arrived = self._arrived, len(self._appends)
        if self._rounds_to_wait:
            self._rounds_to_wait = max(0, self._rounds_to_wait - (1 if self._arrived > before else EMPTY_ROUND))

    # ---------------------------------------------------------------- when an entry is made

    @property
    def has_postponed(self) -> bool:
        """True if requests wait only for the round after the answers just given have been sent."""
        return self._rounds_to_wait > 0 and self.waiting > 0

    @property
    def deadline(self) -> float:
        """The time at which waiting requests stop waiting for the entry under way; infinite if none do."""
        return self._proposed_at + PIPELINE_S if self._under_way and self.waiting else math.inf

    @property
    def fills_half(self) -> bool:
        """True if the waiting requests fill half an entry, which waits for nothing more."""
        return self._pending_bytes >= self._pace_bytes // 2

    def is_due(self, now: float, *, leads: bool, disk_is_busy: bool) -> bool:
        """Returns True if requests wait and are to be proposed now.

        A node that does not lead proposes at once, because its core will only refuse. `disk_is_busy` means that the
        next entry would have to wait for the flush under way.
        """
        if not self.waiting:
            return False
        if not leads or self.fills_half:
            return True
        if disk_is_busy:
            return False
        if self._under_way:
            return now >= self._proposed_at + PIPELINE_S
        return self._rounds_to_wait == 0

    def take(self, kind: EntryKind) -> list[Request]:
        """Returns the requests of the next entry of this kind, oldest first; they wait no more. Empty if none wait."""
        queue = self._commands if kind is EntryKind.COMMANDS else self._appends
        if self._pending_bytes <= self._pace_bytes:
            requests = list(queue)
            queue.clear()
            self.waiting -= len(requests)
            self._pending_bytes -= sum([len(request.data) for request in requests])
            return requests
        requests, size = [], 0
        while queue and (not requests or size + len(queue[0].data) <= self._pace_bytes):
            request = queue.popleft()
            size += len(request.data)
            requests.append(request)
        self.waiting -= len(requests)
        self._pending_bytes -= size
        return requests

    # ---------------------------------------------------------------- entries under way

    def begin(self, token: Token, proposal: Proposal) -> None:
        """An entry is proposed under this token."""
        self._proposed_at = proposal.proposed_at
        self._under_way[token] = proposal

    def end(self, token: Token) -> Proposal:
        """Returns the proposal of this token, which is under way no more."""
        return self._under_way.pop(token)

    def note_committed(self, proposal: Proposal, now: float) -> None:
        """Draw conclusions from an entry that was committed: its pace, and the requests that its answers may bring."""
        if proposal.size >= self._batch_bytes_min // 2:
            pace_bytes = self._batch_bytes_max
            if took := now - proposal.proposed_at:
                pace_bytes = min(pace_bytes, int(proposal.size * self._heartbeat_s / took))
            self._pace_bytes = max(self._batch_bytes_min, pace_bytes)
        if proposal.kind is EntryKind.RECORDS and (len(proposal.requests) > 1 or self._appends):
            self._rounds_to_wait = JOIN_ROUNDS_MAX

    def forget_pace(self) -> None:
        """Begin again with small entries: each leader measures the pace of its own term."""
        self._pace_bytes = self._batch_bytes_min

    def clear(self) -> tuple[list[Request], list[Request]]:
        """Returns the requests that waited, and those that were under way; none are left."""
        waiting = [*self._appends, *self._commands]
        under_way = [request for proposal in self._under_way.values() for request in proposal.requests]
        self._appends.clear()
        self._commands.clear()
        self._under_way.clear()
        self.waiting = self._pending_bytes = 0
        return waiting, under_way


def join_data(requests: Sequence[Request]) -> tuple[Payload, int]:
    """Returns the joined data of the requests, and its CRC-32C. Large data is neither copied nor read again."""
    if len(requests) == 1:
        return requests[0].data, requests[0].checksum()
    buffers = [request.data for request in requests]
    if sum(map(len, buffers)) < LARGE_BYTES * len(buffers):
        data = b"".join(buffers)
        return data, crc32c.crc32c(data)
    crc = 0
    for request in requests:
        crc = join_crcs(crc, request.checksum(), len(request.data))
    return Pieces(buffers), crc
