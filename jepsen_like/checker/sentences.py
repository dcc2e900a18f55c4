"""Operations in words, the same words everywhere."""

from collections.abc import Sequence
from typing import Final, assert_never

from jepsen_like.checker.verdict import WITNESS_OPS_MAX
from jepsen_like.history.ops import NONE, Action, CallOp, ListOp, Op, Outcome

VALUES_SHOWN_MAX: Final = 6
NOT_ALL_SHOWN: Final = "not all operations are shown"


def describe(op: Op) -> str:
    """Returns one operation with who did it and what it saw, as the subject or object of a sentence."""
    return f"{action_of(op)} by {who(op)}"


def who(op: Op) -> str:
    """Returns who did it: a client process, or the final log of a node."""
    if op.process == NONE:
        return f"the final log of node {op.node}" if op.node != NONE else "the final logs"
    return f"process {op.process}"


def action_of(op: Op) -> str:
    """Returns one operation with what it saw."""
    match op.f:
        case Action.READ | Action.WRITE | Action.DRAIN if isinstance(op, ListOp):
            name = {Action.READ: "read", Action.WRITE: "put", Action.DRAIN: "drain"}[op.f]
            return f"{name} of {format_values(op.values)}{_doubt(op)}"
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
            new = f"{format_value(op.a)} to {op.b}"
            if op.type is Outcome.OK and op.seen != op.a:
                return f"compare-and-set of {new} that saw {format_value(op.seen)}"
            return f"compare-and-set of {new}{_doubt(op)}"
        case Action.ENQUEUE | Action.ADD:
            return f"{op.f.name.lower()} of {op.a}{_doubt(op)}"
        case Action.DEQUEUE:
            return f"dequeue of {op.a}" if op.a != NONE else "dequeue that found nothing"
        case Action.CALL if isinstance(op, CallOp):
            return f"{op.words}{_doubt(op)}"
        case Action.DRAIN | Action.CALL:
            return f"{op.f.name.lower()}{_doubt(op)}"
        case _:
            return _queue_deed(op)


def format_values(values: Sequence[int]) -> str:
    """Returns values in words, of many the first and the last."""
    if len(values) <= VALUES_SHOWN_MAX:
        return f"[{' '.join(map(str, values))}]"
    first, last = values[: VALUES_SHOWN_MAX - 1], values[-1]
    return f"[{' '.join(map(str, first))} ... {last}] ({len(values):,} values)"


def _queue_deed(op: Op) -> str:
    """Returns an operation on a partition or a group with what it saw."""
    generation = f" in generation {op.b}" if op.b != NONE else ""
    group = f" for group {op.a}" if op.a != NONE else ""
    at = f" at offset {op.offset}" if op.offset != NONE else ""
    match op.f:
        case Action.SEND:
            return f"send of {op.a}{at}{_doubt(op)}"
        case Action.POLL:
            return f"poll of {op.a if op.a != NONE else 'bytes that are no value'}{at}"
        case Action.COMMIT:
            return f"commit of {op.offset}{group}{generation}{_doubt(op)}"
        case Action.COMMITTED:
            return f"reading {format_value(op.offset)} as committed{group}"
        case Action.ASSIGN:
            return f"assignment{group}{generation}{f' from offset {op.offset}' if op.offset != NONE else ''}"
        case Action.REVOKE:
            return f"{'loss' if op.type is Outcome.INFO else 'revocation'}{group}{generation}"
        case Action.SEEK:
            return f"seek{f' to offset {op.offset}' if op.offset != NONE else ''}"
        case Action.SWITCH:
            return f"switch of cluster {op.node} to {op.b}, fenced{at}"
        case Action.TRANSLATE:
            return f"translated position{at}{group}"
        case _:
            raise ValueError(f"{op.f.name} has no words")


def unshown(evidence: Sequence[Op]) -> str:
    """Returns a remark for the end of a sentence whose evidence is longer than a witness may be."""
    return f" ({NOT_ALL_SHOWN})" if len(set(evidence)) > WITNESS_OPS_MAX else ""


def format_value(value: int) -> str:
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
