"""The harness's questions to members of etcd, past the fault network: their status, and a hash of what they hold."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import Control, Leadership, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.etcd.processes import SCOPE, STATUS, role_in
from jepsen_like.systems.foreign import json_http
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.watching import leader_among
from jepsen_like.systems.reports import ask_each

STATUS_WITHIN_S: Final = 0.5
POLL_S: Final = 0.1
HASHES: Final = ("/v3/maintenance/hashkv", "/v3/maintenance/hash")
"""The places of the hash of all keys: since 3.6, and before. Since 3.6 the second one also hashes what each member has of its own."""


@attrs.frozen
class MemberStatus:
    """One member's answer, as far as the harness needs it."""

    role: str
    term: int
    index: int
    applied: int

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> "MemberStatus":
        """From the answer. Raises `KeyError` or `ValueError` for another."""
        role, term = role_in(status)
        return cls(role, term, int(status["raftIndex"]), int(status["raftAppliedIndex"]))


class EtcdControl(Control):
    """Asks the members of one cluster; every answer is of this moment."""

    answers_within_s: float = STATUS_WITHIN_S
    """A member that takes longer counts as silent for now."""

    def __init__(self, direct: Mapping[int, Address], can_answer: Callable[[int], bool] = lambda node: True) -> None:
        self._direct = dict(direct)
        self._can_answer = can_answer

    async def ask(self, address: Address, path: str, body: Any, *, within_s: float) -> Any:
        """Returns the answer of the member there. Raises `NotAnswered`."""
        return await json_http.ask(address, path, body, within_s=within_s)

    async def status(self, node: int) -> MemberStatus | None:
        """One member's status; None if it does not answer at once."""
        with contextlib.suppress(NotAnswered, KeyError, ValueError):
            if self._can_answer(node):
                return MemberStatus.of(await self.ask(self._direct[node], STATUS, {}, within_s=self.answers_within_s))
        return None

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The leader of the highest term that any member knows."""
        leader = _leader(await ask_each(self._direct, self.status))
        return {} if leader is None else {SCOPE: leader}

    async def goal(self) -> int | None:
        """The leader's last index."""
        statuses = await ask_each(self._direct, self.status)
        leader = _leader(statuses)
        return statuses[leader.node].index if leader is not None else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it has applied that much."""
        status = await self.status(node)
        return status is not None and status.applied >= int(goal)

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By its status."""
        try:
            await self.ask(address, STATUS, {}, within_s=within_s)
        except NotAnswered as error:
            return str(error)
        return None

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every member has applied the same, and holds the same. A history of registers has no ends."""
        seen = "none answers"
        with trio.move_on_after(within_s):
            while True:
                statuses = await ask_each(self._direct, self.status)
                hashes = await ask_each(self._direct, self._hash)
                applied = {status.applied for status in statuses.values()}
                is_whole = len(statuses) == len(hashes) == len(self._direct) and _leader(statuses) is not None
                if is_whole and len(applied) == 1 and len(set(hashes.values())) == 1:
                    return {}
                seen = ", ".join(f"n{node} {status}, hash {hashes.get(node)}" for node, status in statuses.items())
                await trio.sleep(POLL_S)
        raise NotServing(f"the members do not agree {within_s:g} s after everything was healed: {seen}")

    async def _hash(self, node: int) -> str | None:
        """The hash of all keys that a member holds."""
        for path in HASHES:
            with contextlib.suppress(NotAnswered, KeyError):
                return str((await self.ask(self._direct[node], path, {}, within_s=self.answers_within_s))["hash"])
        return None

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """Registers have no log."""
        return


def _leader(statuses: Mapping[int, MemberStatus]) -> Leadership | None:
    return leader_among((node, status.role, status.term) for node, status in statuses.items())
