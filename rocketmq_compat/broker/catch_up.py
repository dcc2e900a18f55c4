"""Copies missing parts of the commit log from the brokers of the raft group, by the rules of `copying.py`."""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from raft.addresses import address_of
from raft.model import NodeId
from raft.net.certificates import Certificates
from raft.net.handlers import serves
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.copying import CommitLogCopying, CopyAnswer, CopyAsked
from rocketmq_compat.broker.raft_copy import RaftCopy
from rocketmq_compat.membership import BrokerCredentials, Proof, broker_named
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.copying import CopyCommitLogRequestHeader, CopyCommitLogResponseHeader
from rocketmq_compat.remoting.session import RemotingCall

ASK_TIMEOUT_S: Final = 5.0
IDLE_S: Final = 1.0
"""Between two looks at who is there to be asked."""


class CatchUp:
    """Both sides of the copying."""

    def __init__(
        self,
        context: Context,
        reactor: Reactor,
        copy: RaftCopy,
        peers: Mapping[int, Address],
        trust: BrokerCredentials | None = None,
        tls: Certificates | None = None,
    ) -> None:
        """`peers` is where each other node is, by its number."""
        self._trust = trust
        self._context = context
        self._reactor = reactor
        self._copy = copy
        self._tls = tls
        self._known = peers
        self._clients: dict[int, RemotingClient] = {}
        self._copying = CommitLogCopying(context, copy, self._clients)
        self.take({})

    def take(self, addresses: Mapping[NodeId, str], settled: Collection[int] | None = None) -> None:
        """Take the members of the group, by number; `settled` has all of them once they are committed.

        Others are asked no more then. An address in this broker's settings comes before that of the group.
        """
        reached = {node: address_of(text) for node, text in addresses.items()} | dict(self._known)
        for node, address in reached.items():
            wanted = node != self._context.node_id and (settled is None or node in settled)
            client = self._clients.get(node)
            if client is not None and (not wanted or client.address != address):
                self._clients.pop(node).close()
            if wanted and node not in self._clients:
                self._clients[node] = RemotingClient(self._reactor, address, proof=self._proof_to(node), tls=self._tls)

    def _proof_to(self, node: int) -> Proof | None:
        trust, name = self._trust, self._context.broker_name
        return None if trust is None else trust.to_broker(broker_named(name, 0, node))

    def close(self) -> None:
        """End the connections."""
        for client in self._clients.values():
            client.close()

    @serves(RequestCode.COPY_COMMIT_LOG)
    def _serve(self, call: RemotingCall) -> None:
        answer = self._copying.serve(CopyCommitLogRequestHeader.read(call.request.ext))
        if answer.header is None:
            call.refuse(answer.code, "this copy has nothing behind that offset")
        else:
            call.answer(answer.code, answer.header, body=answer.body)

    async def run(self) -> None:
        """Copy whenever something is missing, until cancelled."""
        clock = self._context.clock
        while True:
            await self._copy.incomplete.wait()
            asked = self._copying.next(clock())
            if asked is None:
                await trio.sleep(min(max(0.0, self._copying.deadline - clock()), IDLE_S))
                continue
            self._copying.on_answer(clock(), asked, await self._ask(asked))
            self._reactor.request_round()

    async def _ask(self, asked: CopyAsked) -> CopyAnswer | None:
        request = Command(RequestCode.COPY_COMMIT_LOG, ext=asked.header.ext())
        client = self._clients.get(asked.node)
        if client is None:
            return None  # it has left the group
        try:
            answer = await client.ask(request, timeout_s=ASK_TIMEOUT_S)
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED):
                return CopyAnswer(answer.code)
            return CopyAnswer(answer.code, CopyCommitLogResponseHeader.read(answer.ext), bytes(answer.body))
        except (RemotingFailed, BadHeader):
            return None
