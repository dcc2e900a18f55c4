"""The harness's questions to RabbitMQ's nodes, past the fault network: the state that each answers with on a port of its own."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import Access, Control, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.exchange import NotAnswered, exchange
from jepsen_like.systems.foreign.watching import leader_among
from jepsen_like.systems.rabbitmq.clients import ERRORS, Closed, RabbitConnection
from jepsen_like.systems.rabbitmq.mode import RabbitMode
from jepsen_like.systems.rabbitmq.processes import SCOPE, STATUS, node_name, roles_in, state_in
from jepsen_like.systems.reports import ask_each

STATUS_WITHIN_S: Final = 0.5
POLL_S: Final = 0.1
CONNECT_WITHIN_S: Final = 2.0
MADE_WITHIN_S: Final = 10.0


@attrs.frozen
class RabbitNode:
    """One node's answer: the nodes that it sees, and its copy of the queue."""

    serves: bool
    running: frozenset[str]
    role: str = ""
    """Empty while it knows of no queue."""
    term: int = 0
    index: int = 0
    messages: int = 0
    """The messages in the queue; of mirrors the leader alone knows them."""
    copies: frozenset[str] = frozenset()
    """The nodes that have a copy, of mirrors those that are in sync."""

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "RabbitNode":
        """From the answer. Raises `KeyError`, `TypeError` or `ValueError` for another."""
        serves, running = bool(state["serves"]), frozenset(state["running"])
        for _, (role, term) in roles_in(state):
            return cls(
                serves, running, role, term, int(state["index"]), int(state["messages"]), frozenset(state["copies"])
            )
        return cls(serves, running)


class RabbitControl(Control):
    """Asks the nodes of one cluster; every answer is of this moment."""

    def __init__(
        self,
        mode: RabbitMode,
        access: Access,
        direct: Mapping[int, Address],
        can_answer: Callable[[int], bool] = lambda node: True,
    ) -> None:
        self._mode = mode
        self._direct = dict(direct)
        self._status = access.further[STATUS]
        self._can_answer = can_answer
        self._is_prepared = False

    async def state(self, node: int) -> RabbitNode | None:
        """One node's state; None if it does not answer at once."""
        with contextlib.suppress(NotAnswered, KeyError, TypeError, ValueError):
            if self._can_answer(node):
                answer = await exchange(self._status[node], b"", within_s=STATUS_WITHIN_S)
                return RabbitNode.of(state_in(answer))
        return None

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The queue's; before there is one, the first node stands for it once all are one cluster."""
        states = await ask_each(self._direct, self.state)
        if not self._is_prepared:
            return {SCOPE: Leadership(min(states), 0)} if are_one(states, len(self._direct)) else {}
        leader = _leader(states)
        return {} if leader is None else {SCOPE: leader}

    async def goal(self) -> int | None:
        """The last index that the leader knows to be committed; of mirrors only whether they are in sync counts."""
        states = await ask_each(self._direct, self.state)
        leader = _leader(states)
        return states[leader.node].index if leader is not None else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it has this index, and its copy counts."""
        state = await self.state(node)
        return state is not None and state.index >= int(goal) and node_name(node) in state.copies

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By the beginning of a connection. A node that has paused refuses it, which is an answer, too."""
        try:
            async with RabbitConnection.open(address, within_s=within_s):
                return None
        except (Closed, ConnectionError, trio.BrokenResourceError):
            return None
        except ERRORS as error:
            return str(error) or f"no answer within {within_s:g} s"

    # ---------------------------------------------------------------- begin and end

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the queue, with a copy on every node."""
        first, why = min(self._direct), "no node answered"
        arguments = {"x-queue-type": "classic" if self._mode.is_mirrored else "quorum"}
        states: dict[int, RabbitNode] = {}
        with trio.move_on_after(within_s):
            while True:
                try:
                    with trio.fail_after(MADE_WITHIN_S):
                        async with RabbitConnection.open(self._direct[first], within_s=CONNECT_WITHIN_S) as connection:
                            await connection.declare(arguments)
                    break
                except ERRORS as error:
                    why = repr(error)
                await trio.sleep(POLL_S)
            self._is_prepared = True
            while not are_whole(states := await ask_each(self._direct, self.state), len(self._direct)):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return
        raise NotServing(f"the queue was not made within {within_s:g} s: {_words(states) or why}")

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until all nodes are one cluster again, each with a copy, and all messages were taken. A queue has no end."""
        states: dict[int, RabbitNode] = {}
        with trio.move_on_after(within_s):
            while True:
                states = await ask_each(self._direct, self.state)
                if are_whole(states, len(self._direct)) and not any(state.messages for state in states.values()):
                    return {}
                await trio.sleep(POLL_S)
        raise NotServing(f"the nodes do not agree {within_s:g} s after everything was healed: {_words(states)}")

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """A queue that was emptied has no log."""
        return


def are_one(states: Mapping[int, RabbitNode], nodes: int) -> bool:
    """Returns True if all nodes serve, and each sees all."""
    return len(states) == nodes and all(state.serves and len(state.running) == nodes for state in states.values())


def are_whole(states: Mapping[int, RabbitNode], nodes: int) -> bool:
    """Returns True if all nodes are one cluster, and each has a copy of a queue that is led."""
    copies = all(state.role and len(state.copies) == nodes for state in states.values())
    return are_one(states, nodes) and copies and _leader(states) is not None


def _leader(states: Mapping[int, RabbitNode]) -> Leadership | None:
    with_queue = ((node, state.role, state.term) for node, state in states.items() if state.role)
    return leader_among(with_queue)


def _words(states: Mapping[int, RabbitNode]) -> str:
    return "; ".join(
        f"n{node} sees {', '.join(sorted(state.running)) or 'none'}, {state.role or 'no queue'} of term {state.term}, "
        f"index {state.index}, {state.messages} messages, copies on {', '.join(sorted(state.copies)) or 'none'}"
        for node, state in sorted(states.items())
    )
