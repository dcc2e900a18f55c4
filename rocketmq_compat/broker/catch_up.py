"""Copies what the commit log of this broker lacks from the other brokers of its raft group.

A node that was reset to a snapshot of the leader has the state after the commands in it, and not their records: those are in the commit logs of
the others. It asks one after the other, the leader first. Only a copy that is complete is served; if it begins later, because older
messages have expired, or has other records at that place, this node's begins there as well.
"""

from collections.abc import Mapping
from typing import Final

import crc32c
import trio

from log.frame import buffers_of
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import BrokerContext, guarded
from rocketmq_compat.broker.raft_copy import RaftCopy
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.copying import CopyCommitLogRequestHeader, CopyCommitLogResponseHeader
from rocketmq_compat.remoting.session import Handler, RemotingCall
from rocketmq_compat.storage.commit_log import CommitLog

COPY_BYTES: Final = 1024 * 1024
"""Of one answer, unless one batch has more."""
ASK_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.2
"""After no broker had anything."""


class CatchUp:
    """Both sides of the copying."""

    def __init__(self, context: BrokerContext, reactor: Reactor, copy: RaftCopy, peers: Mapping[int, Address]) -> None:
        """`peers` is where each other node is, by its number."""
        self._context = context
        self._reactor = reactor
        self._copy = copy
        self._clients = {node: RemotingClient(reactor, address) for node, address in peers.items()}

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the handlers by request code."""
        return {RequestCode.COPY_COMMIT_LOG: guarded(self._serve)}

    def close(self) -> None:
        """End the connections."""
        for client in self._clients.values():
            client.close()

    # ---------------------------------------------------------------- what this node has

    def _serve(self, call: RemotingCall) -> None:
        header = CopyCommitLogRequestHeader.read(call.request.ext)
        log = self._context.store.log
        if self._copy.incomplete.is_set() or header.offset >= log.end_offset:
            call.refuse(ResponseCode.PULL_NOT_FOUND, "this copy has nothing behind that offset")
            return
        own_epoch = epoch_before(log, header.offset)
        if header.offset < log.start_offset or (header.epoch and own_epoch not in (header.epoch, 0)):
            moved = CopyCommitLogResponseHeader(offset=log.start_offset)
            call.answer(ResponseCode.PULL_OFFSET_MOVED, moved)
            return
        batches = log.read(header.offset, COPY_BYTES, header.end)
        same = [each for each in batches if each.epoch == batches[0].epoch]
        body = b"".join(buffer for each in same for buffer in buffers_of(each.payload))
        if not body:
            call.refuse(ResponseCode.PULL_NOT_FOUND, "this copy has nothing behind that offset")
            return
        answer = CopyCommitLogResponseHeader(offset=header.offset, epoch=same[0].epoch, crc=crc32c.crc32c(body))
        call.answer(header=answer, body=body)

    # ---------------------------------------------------------------- what this node lacks

    async def run(self) -> None:
        """Copy whenever something is missing, until cancelled."""
        while True:
            await self._copy.incomplete.wait()
            for node in self._in_turn():
                while self._copy.incomplete.is_set() and await self._take(self._clients[node]):
                    pass
            self._reactor.request_round()
            if self._copy.incomplete.is_set():
                await trio.sleep(RETRY_S)

    def _in_turn(self) -> list[int]:
        return sorted(self._clients, key=lambda node: node != self._copy.leader)

    async def _take(self, client: RemotingClient) -> bool:
        """Returns whether this broker had something."""
        log = self._context.store.log
        offset = log.end_offset
        asked = CopyCommitLogRequestHeader(offset=offset, epoch=epoch_before(log, offset), end=self._copy.state.end)
        try:
            answer = await client.ask(Command(RequestCode.COPY_COMMIT_LOG, ext=asked.ext()), timeout_s=ASK_TIMEOUT_S)
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED):
                return False
            found = CopyCommitLogResponseHeader.read(answer.ext)
        except (RemotingFailed, BadHeader):
            return False
        if log.end_offset != offset or not self._copy.incomplete.is_set():
            return True  # another snapshot has come meanwhile
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            if not 0 <= found.offset <= self._copy.state.end:
                return False
            self._context.tell("commit_log_reset", start=found.offset, end=offset)
            self._copy.reset_to(found.offset)
            return True
        body = bytes(answer.body)
        if found.offset != offset or crc32c.crc32c(body) != found.crc:
            self._context.tell(
                "copy_refused", peer="{}:{}".format(*client.address), reason="its checksum does not match"
            )
            return False
        try:
            self._copy.append_missing(body, offset=offset, epoch=found.epoch)
        except ValueError as error:
            self._context.tell("copy_refused", peer="{}:{}".format(*client.address), reason=str(error))
            return False
        return True


def epoch_before(log: CommitLog, offset: int) -> int:
    """Returns the epoch of what lies before a physical offset of the log; 0 if the log holds nothing there."""
    if not log.start_offset < offset <= log.end_offset:
        return 0
    return max((epoch for epoch, start in log.epochs if start < offset), default=0)
