"""Calls of this process to its own node, and how each is settled: with its result, or with the error of the driver."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

from raft.errors import OutcomeUnknown, RaftError
from raft.results import Appended, Applied

T = TypeVar("T")


class Call(Generic[T]):
    """One call that waits. The result of an append is `Appended`, of a command `Applied`, of a read None."""

    __slots__ = ("_outcome", "_settled")

    def __init__(self) -> None:
        self._settled = trio.Event()
        self._outcome: T | RaftError | None = None

    def settle(self, outcome: T | RaftError) -> None:
        """End the wait."""
        self._outcome = outcome
        self._settled.set()

    async def result(self) -> T:
        """Returns the result once the call is settled. Raises the error that it was settled with."""
        await self._settled.wait()
        if isinstance(self._outcome, RaftError):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]


class Calls:
    """The `Caller` of this process: knows what settles each call under way, by its request id."""

    def __init__(self) -> None:
        self._settle: dict[int, Callable[[Any], None]] = {}
        self._last_id = 0

    def add(self, settle: Callable[[Any], None]) -> int:
        """Returns the request id of a new call; `settle` is called once, with its result or its error."""
        self._last_id += 1
        self._settle[self._last_id] = settle
        return self._last_id

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`."""
        self._settle.pop(request_id)(Appended(base_offset, span, term))

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self._settle.pop(request_id)(Applied(index, result))

    def on_readable(self, request_id: int) -> None:
        """See `Caller`."""
        self._settle.pop(request_id)(None)

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        self._settle.pop(request_id)(error)

    def give_up(self) -> None:
        """Settle all calls as unknown: the driver will answer no more."""
        under_way, self._settle = self._settle, {}
        for settle in under_way.values():
            settle(OutcomeUnknown("the node has failed while the request was in flight"))
