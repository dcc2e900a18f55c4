"""Decides what a broker of a raft group copies, from which peer, and what it hands out itself.

A node that was reset to a snapshot of the leader has the state after the snapshot's commands, but lacks their records.
The commit logs of the others have them. It asks one peer after the other, the leader first. Only a complete copy is
served. If the peer's log begins later, because older messages have expired, or has other records at that place, this
node's log begins there as well.

No sockets and no tasks: requests and answers are values, time is an argument. `catch_up.py` is the shell.
"""

import math
from collections import deque
from collections.abc import Collection
from typing import Final

import attrs
import crc32c

from log.errors import NoSpace
from log.frame import buffers_of
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.full_disk import FullDiskNotes
from rocketmq_compat.broker.raft_copy import RaftCopy
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.headers.copying import CopyCommitLogRequestHeader, CopyCommitLogResponseHeader
from rocketmq_compat.storage.commit_log import CommitLog

COPY_BYTES: Final = 1024 * 1024
"""Of one answer, unless one batch has more."""
RETRY_S: Final = 0.2
"""After no broker had anything."""


@attrs.frozen
class CopyAsked:
    """A request to copy, with the node to ask."""

    node: int
    header: CopyCommitLogRequestHeader


@attrs.frozen
class CopyAnswer:
    """A broker's answer: SUCCESS with a body, PULL_OFFSET_MOVED, or PULL_NOT_FOUND, which has no header."""

    code: int
    header: CopyCommitLogResponseHeader | None = None
    body: bytes = b""


NOTHING: Final = CopyAnswer(ResponseCode.PULL_NOT_FOUND)


class CommitLogCopying:
    """Both sides of the copying. One request is under way at a time."""

    def __init__(
        self, context: Context, copy: RaftCopy, peers: Collection[int], *, bytes_max: int = COPY_BYTES
    ) -> None:
        """`peers` are the other nodes of the group, as they are at any time."""
        self._context = context
        self._copy = copy
        self._peers = peers
        self._bytes_max = bytes_max
        self._left: deque[int] = deque()
        """The nodes to ask in this turn. The first one is asked as long as it has more."""
        self._is_asking = False
        self._retry_at = -math.inf
        self._full_disk = FullDiskNotes(context)

    # ---------------------------------------------------------------- what this node has

    def serve(self, header: CopyCommitLogRequestHeader) -> CopyAnswer:
        """Returns the answer to a request of another node."""
        log = self._context.store.log
        if self._copy.incomplete.is_set() or header.offset >= log.end_offset:
            return NOTHING
        own_epoch = epoch_before(log, header.offset)
        if header.offset < log.start_offset or (header.epoch and own_epoch not in (header.epoch, 0)):
            return CopyAnswer(ResponseCode.PULL_OFFSET_MOVED, CopyCommitLogResponseHeader(offset=log.start_offset))
        batches = log.read(header.offset, self._bytes_max, header.end)
        same = [each for each in batches if each.epoch == batches[0].epoch]
        body = b"".join(buffer for each in same for buffer in buffers_of(each.payload))
        if not body:
            return NOTHING
        found = CopyCommitLogResponseHeader(offset=header.offset, epoch=same[0].epoch, crc=crc32c.crc32c(body))
        return CopyAnswer(ResponseCode.SUCCESS, found, body)

    # ---------------------------------------------------------------- what this node lacks

    @property
    def deadline(self) -> float:
        """The time at which `next` has a request, in seconds of the context's clock.

        It is infinite while an answer is awaited, or nothing is missing.
        """
        has_cause = self._copy.incomplete.is_set() and bool(self._peers) and not self._is_asking
        return self._retry_at if has_cause else math.inf

    def next(self, now: float) -> CopyAsked | None:
        """Returns the request to send now, or None; `on_answer` must follow."""
        if now < self.deadline:
            return None
        if not self._left:
            self._left.extend(sorted(self._peers, key=lambda node: (node != self._copy.leader, node)))
        log = self._context.store.log
        self._is_asking = True
        offset = log.end_offset
        return CopyAsked(
            self._left[0],
            CopyCommitLogRequestHeader(offset=offset, epoch=epoch_before(log, offset), end=self._copy.state.end),
        )

    def on_answer(self, now: float, asked: CopyAsked, answer: CopyAnswer | None) -> None:
        """Take a node's answer; None stands for a missing or malformed one."""
        self._is_asking = False
        has_something = answer is not None and self._take(asked, answer)
        if not self._copy.incomplete.is_set():
            self._left.clear()
        elif not has_something:
            self._left.popleft()
            if not self._left:
                self._retry_at = now + RETRY_S

    def _take(self, asked: CopyAsked, answer: CopyAnswer) -> bool:
        """Returns True if the other broker had records for this one."""
        offset, found = asked.header.offset, answer.header
        if found is None or answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED):
            return False
        if self._context.store.log.end_offset != offset or not self._copy.incomplete.is_set():
            return True  # another snapshot has come meanwhile
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            if not 0 <= found.offset <= self._copy.state.end:
                return False
            self._context.tell("commit_log_reset", start=found.offset, end=offset)
            self._copy.reset_to(found.offset)
            return True
        if found.offset != offset or crc32c.crc32c(answer.body) != found.crc:
            self._context.tell("copy_refused", peer=asked.node, reason="its checksum does not match")
            return False
        try:
            self._copy.append_missing(answer.body, offset=offset, epoch=found.epoch)
        except ValueError as error:
            self._context.tell("copy_refused", peer=asked.node, reason=str(error))
            return False
        except NoSpace as error:
            self._full_disk.note(error)
            return False
        return True


def epoch_before(log: CommitLog, offset: int) -> int:
    """Returns the epoch before a physical offset of the log, or 0 if the log holds no byte there."""
    if not log.start_offset < offset <= log.end_offset:
        return 0
    return max((epoch for epoch, start in log.epochs if start < offset), default=0)
