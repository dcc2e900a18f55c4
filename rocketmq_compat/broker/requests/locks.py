"""Locks of queues for consuming in order (41, 42). Only the master has them; without it, consumption in order stops."""

from collections.abc import Mapping

from rocketmq_compat.broker.context import Context, guard
from rocketmq_compat.remoting.bodies import LockBatchRequestBody, LockBatchResponseBody
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.session import Handler, RemotingCall


class LockRequests:
    """Locks and unlocks queues for clients."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the handlers by request code."""
        return {
            RequestCode.LOCK_BATCH_MQ: guard(self._lock),
            RequestCode.UNLOCK_BATCH_MQ: guard(self._unlock),
        }

    def _lock(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        body = LockBatchRequestBody.decode(call.request.body)
        locked = context.locks.lock(context.clock(), body.consumer_group, body.client_id, body.mq_set)
        call.answer(body=LockBatchResponseBody(lock_ok_mq_set=frozenset(locked)).encode())

    def _unlock(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        body = LockBatchRequestBody.decode(call.request.body)
        context.locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        call.answer()
