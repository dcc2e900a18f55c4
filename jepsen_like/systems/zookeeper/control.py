"""The harness's questions to ZooKeeper's servers, past the fault network: their state, in four-letter words."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import Control, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.exchange import NotAnswered, exchange
from jepsen_like.systems.foreign.watching import leader_among
from jepsen_like.systems.reports import ask_each
from jepsen_like.systems.zookeeper.clients import BARRIER, ERRORS, ZooConnection
from jepsen_like.systems.zookeeper.processes import LOOKING, SCOPE, STATUS, epoch_of, state_in
from jepsen_like.systems.zookeeper.register_workload import path_of
from jepsen_like.workload.registers import KEYS

STATUS_WITHIN_S: Final = 0.5
POLL_S: Final = 0.1
CONNECT_WITHIN_S: Final = 2.0
MADE_WITHIN_S: Final = 5.0


class ZooControl(Control):
    """Asks the servers of one ensemble; every answer is of this moment."""

    def __init__(self, direct: Mapping[int, Address], can_answer: Callable[[int], bool] = lambda node: True) -> None:
        self._direct = dict(direct)
        self._can_answer = can_answer

    async def state(self, node: int) -> tuple[str, int] | None:
        """Role and last transaction of a server that is led; None without an answer, or a leader."""
        with contextlib.suppress(NotAnswered):
            if self._can_answer(node):
                role, zxid = state_in(await exchange(self._direct[node], STATUS, within_s=STATUS_WITHIN_S))
                return (role, zxid) if role != LOOKING else None
        return None

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The leader of the highest epoch that any server knows."""
        leader = _leader(await ask_each(self._direct, self.state))
        return {} if leader is None else {SCOPE: leader}

    async def goal(self) -> int | None:
        """The leader's last transaction."""
        states = await ask_each(self._direct, self.state)
        leader = _leader(states)
        return states[leader.node][1] if leader is not None else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it has this transaction."""
        state = await self.state(node)
        return state is not None and state[1] >= int(goal)

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By its state."""
        try:
            answer = await exchange(address, STATUS, within_s=within_s)
        except NotAnswered as error:
            return str(error)
        return None if answer else "an empty answer"

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the nodes of all registers."""
        first, why = min(self._direct), "no server answered"
        with trio.move_on_after(within_s):
            while True:
                try:
                    with trio.fail_after(MADE_WITHIN_S):
                        async with ZooConnection.open(self._direct[first], within_s=CONNECT_WITHIN_S) as connection:
                            for path in (BARRIER, *map(path_of, range(1, KEYS + 1))):
                                await connection.create(path)
                    return
                except ERRORS as error:
                    why = repr(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the registers were not made within {within_s:g} s: {why}")

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every server has the same last transaction. A history of registers has no ends."""
        states: dict[int, tuple[str, int]] = {}
        with trio.move_on_after(within_s):
            while True:
                states = await ask_each(self._direct, self.state)
                is_whole = len(states) == len(self._direct) and _leader(states) is not None
                if is_whole and len({zxid for _, zxid in states.values()}) == 1:
                    return {}
                await trio.sleep(POLL_S)
        seen = ", ".join(f"n{node} {role} at {zxid:#x}" for node, (role, zxid) in states.items())
        raise NotServing(
            f"the servers do not agree {within_s:g} s after everything was healed: {seen or 'none answers'}"
        )

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """Registers have no log."""
        return


def _leader(states: Mapping[int, tuple[str, int]]) -> Leadership | None:
    return leader_among((node, role, epoch_of(zxid)) for node, (role, zxid) in states.items())
