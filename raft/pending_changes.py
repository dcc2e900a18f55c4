"""Changes of the members and of the leader that callers wait for, and the tokens of all that a driver proposes."""

from typing import assert_never

from raft.effects import Committed, HandedOver, Refusal, Rejected, Unknown
from raft.errors import Busy, InvalidRequest, OutcomeUnknown, RaftError
from raft.model import NO_INDEX, Token
from raft.requests import Caller

Outcome = Committed | Rejected | Unknown | HandedOver


class PendingChanges:
    """The callers of changes under way, by token. Each is answered once, as for a command without a result."""

    def __init__(self) -> None:
        self._callers: dict[Token, tuple[Caller, int]] = {}
        self._last_token = 0

    def draw_token(self) -> Token:
        """Returns a token that this driver has not used."""
        self._last_token += 1
        return Token(self._last_token)

    def __contains__(self, token: Token) -> bool:
        return token in self._callers

    def add(self, token: Token, caller: Caller, request_id: int) -> None:
        """A change is about to be proposed."""
        self._callers[token] = caller, request_id

    def answer(self, token: Token, outcome: Outcome, not_leader: RaftError) -> None:
        """The core has answered; `not_leader` is the error that names the leader."""
        caller, request_id = self._callers.pop(token)
        match outcome:
            case Committed(index=index):
                caller.on_applied(request_id, index, b"")
            case HandedOver():
                caller.on_applied(request_id, NO_INDEX, b"")
            case Rejected(reason=reason, detail=detail):
                caller.on_refused(request_id, _refusal(reason, detail, not_leader))
            case Unknown():
                caller.on_refused(
                    request_id, OutcomeUnknown("the change was under way when the leadership, or time, ended")
                )
            case _:
                assert_never(outcome)

    def refuse_all(self, error: RaftError) -> None:
        """Answer all that wait with one error."""
        waiting, self._callers = self._callers, {}
        for caller, request_id in waiting.values():
            caller.on_refused(request_id, error)


def _refusal(reason: Refusal, detail: str, not_leader: RaftError) -> RaftError:
    match reason:
        case Refusal.NOT_LEADER:
            return not_leader
        case Refusal.BUSY:
            return Busy("the leader is about to hand over")
        case Refusal.CHANGING:
            return Busy("another change of the members is under way, or the leader has just begun")
        case Refusal.LAGGING:
            return Busy("the node does not keep up with the log yet")
        case Refusal.SILENT:
            return Busy("too few of the voters that would be left answer")
        case Refusal.INVALID:
            return InvalidRequest(detail)
        case _:
            assert_never(reason)
