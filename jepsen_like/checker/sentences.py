"""Operations in words, the same words everywhere."""

from collections.abc import Sequence
from typing import Final, assert_never

from jepsen_like.checker.verdict import WITNESS_OPS_MAX
from jepsen_like.history.ops import NONE, Action, Op, Outcome

NOT_ALL_SHOWN: Final = "not all operations are shown"


def told(op: Op) -> str:
    """Returns one operation with who did it and what it saw, as the subject or object of a sentence."""
    return f"{deed(op)} by {who(op)}"


def who(op: Op) -> str:
    """Who did it: a client process, or the final log of a node."""
    if op.process == NONE:
        return f"the final log of node {op.node}" if op.node != NONE else "the final logs"
    return f"process {op.process}"


def deed(op: Op) -> str:
    """Returns one operation with what it saw."""
    match op.f:
        case Action.APPEND:
            where = f" at offset {op.offset}" if op.offset != NONE else ""
            return f"append of {op.a}{where}{_doubt(op)}"
        case Action.READ:
            what = "nothing" if op.a == NONE else str(op.a)
            return f"read of {what} at offset {op.offset}" if op.offset != NONE else f"read of {what}"
        case Action.TAIL:
            return f"tail of {op.offset}"
        case Action.WRITE:
            return f"write of {op.a}{_doubt(op)}"
        case Action.CAS:
            new = f"{shown(op.a)} to {op.b}"
            if op.type is Outcome.OK and op.seen != op.a:
                return f"compare-and-set of {new} that saw {shown(op.seen)}"
            return f"compare-and-set of {new}{_doubt(op)}"
        case _:
            assert_never(op.f)


def unshown(evidence: Sequence[Op]) -> str:
    """Returns a remark for the end of a sentence whose evidence is longer than a witness may be."""
    return f" ({NOT_ALL_SHOWN})" if len(set(evidence)) > WITNESS_OPS_MAX else ""


def shown(value: int) -> str:
    """Returns a value in words, or that there was none."""
    return "nothing" if value == NONE else str(value)


def _doubt(op: Op) -> str:
    match op.type:
        case Outcome.OK:
            return ""
        case Outcome.FAIL:
            return " (refused)"
        case Outcome.INFO:
            return " (outcome unknown)"
        case _:
            assert_never(op.type)
