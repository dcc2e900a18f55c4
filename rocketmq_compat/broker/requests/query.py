"""Single messages, by their id (33) or a key (12)."""

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.pulling import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketmq_compat.remoting.session import RemotingCall

MESSAGES_MAX = 64
"""Messages of one answer (`defaultQueryMaxNum` is 32)."""


class QueryRequests:
    """Finds messages."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @serves(RequestCode.VIEW_MESSAGE_BY_ID)
    def _view(self, call: RemotingCall) -> None:
        offset = ViewMessageRequestHeader.read(call.request.ext).offset
        record = self._context.store.log.message_at(offset)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        call.answer(body=record)

    @serves(RequestCode.QUERY_MESSAGE)
    def _query(self, call: RemotingCall) -> None:
        context = self._context
        header = QueryMessageRequestHeader.read(call.request.ext)
        records = tuple(
            context.store.lookup(
                header.topic,
                header.key,
                begin_ms=max(header.begin_timestamp, 0),
                end_ms=max(header.end_timestamp, 0),
                count_max=min(header.max_num, MESSAGES_MAX),
            )
        )
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=context.wall_ms(), index_last_update_phyoffset=context.store.derived.dispatched
        )
        if records:
            call.answer(header=answer, body=records[0], more=records[1:])
        else:
            call.answer(
                ResponseCode.QUERY_NOT_FOUND, answer, remark="can not find message, maybe time range not correct"
            )
