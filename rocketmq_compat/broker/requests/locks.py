"""Locks of queues for consuming in order (41, 42). Only the master has them; without it, consumption in order stops."""

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.remoting.bodies import LockBatchRequestBody, LockBatchResponseBody
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.session import RemotingCall


class LockRequests:
    """Locks and unlocks queues for clients."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @serves(RequestCode.LOCK_BATCH_MQ)
    def _lock(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        body = LockBatchRequestBody.decode(call.request.body)
        locked = context.locks.lock(context.clock(), body.consumer_group, body.client_id, body.mq_set)
        call.answer(body=LockBatchResponseBody(lock_ok_mq_set=frozenset(locked)).encode())

    @serves(RequestCode.UNLOCK_BATCH_MQ)
    def _unlock(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        body = LockBatchRequestBody.decode(call.request.body)
        context.locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        call.answer()
