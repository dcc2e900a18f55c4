"""An operator's decision where logs have diverged (51902): which of them counts. Not RocketMQ's."""

from log.errors import NoSpace
from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.divergence import (
    ACCEPT_LOSS,
    DISCARD,
    DecideDivergenceRequestHeader,
    divergences_text,
)
from rocketmq_compat.remoting.session import RemotingCall
from rocketmq_compat.replication.events import DivergenceDiscarded, LossAccepted


class DivergenceRequests:
    """Serves operators of brokers with fixed roles."""

    def __init__(self, context: Context, log: ReplicatedLog) -> None:
        self._context = context
        self._log = log

    @serves(RequestCode.DECIDE_DIVERGENCE)
    def _decide(self, call: RemotingCall) -> None:
        context, log = self._context, self._log
        header = DecideDivergenceRequestHeader.read(call.request.ext)
        if header.decision not in (ACCEPT_LOSS, DISCARD):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"{header.decision!r} is no decision: {ACCEPT_LOSS} or {DISCARD}"
            )
        if context.is_slave != (header.decision == DISCARD):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"this broker is a {'slave' if context.is_slave else 'master'}: {ACCEPT_LOSS} is for a master, {DISCARD} for a slave",
            )
        known = divergences_text(log.divergences)
        if not known:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "no divergence is known here: there is nothing to decide")
        if known != header.divergences:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"the divergences are {known} now, not {header.divergences}: look at them first",
            )
        kept = None
        if header.decision == DISCARD:
            try:
                kept = context.store.keep_aside(log.divergences[0].start)
            except NoSpace as error:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, f"nothing was given up: no room to keep the bytes aside: {error}"
                ) from None
            log.step(DivergenceDiscarded())
        elif log.is_copying_back:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"nothing is lost: {log.objection}")
        else:
            log.step(LossAccepted())
        context.tell("divergence_decided", decision=header.decision, divergences=known, kept=kept)
        call.answer()
