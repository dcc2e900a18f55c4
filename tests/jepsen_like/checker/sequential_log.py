"""The log as the definition has it: one state, step by step."""

from collections.abc import Hashable

from jepsen_like.checker.pending import Sequential, State
from jepsen_like.history.ops import NONE, Action, Op, Outcome


class SequentialLog(Sequential):
    """A tuple of values; append, read at an offset, tail. For histories of a few dozen operations."""

    initial: State = ()

    def step(self, state: State, op: Op) -> State | None:
        """See `Sequential`."""
        assert isinstance(state, tuple)
        match op.f:
            case Action.APPEND:
                lands = op.type is Outcome.INFO or op.offset == len(state)
                return (*state, op.a) if lands else None
            case Action.READ:
                there = state[op.offset] if op.offset < len(state) else NONE
                return state if there == op.a else None
            case Action.TAIL:
                return state if op.offset == len(state) else None
            case _:
                raise ValueError(f"{op.f.name} is no operation of a log")

    def value_seen(self, op: Op) -> int | None:
        """See `Sequential`. A length can depend on any append, so appends never count as unseen."""
        return op.a if op.f is Action.READ and op.a != NONE else None

    def changes(self, op: Op) -> bool:
        """See `Sequential`."""
        return op.f is Action.APPEND

    def effect(self, op: Op) -> Hashable:
        """See `Sequential`."""
        return op.a
