"""The harness's questions to NATS servers, past the fault network: roles by their monitor port, messages as a client."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.history.ops import NONE
from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import Access, Control, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign import json_http
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.watching import leader_among
from jepsen_like.systems.nats import wire
from jepsen_like.systems.nats.clients import ERRORS, UNREACHABLE, NatsConnection
from jepsen_like.systems.nats.log_workload import LOG
from jepsen_like.systems.nats.processes import ACCOUNT, LOG_SCOPE, META_SCOPE, MONITOR, STREAM_GROUPS, roles_in
from jepsen_like.systems.nats.stream import API, STREAM, make_stream
from jepsen_like.systems.reports import ask_each
from jepsen_like.workload.payload import DAMAGED, decode_value

STATUS_WITHIN_S: Final = 0.5
POLL_S: Final = 0.1
CONNECT_WITHIN_S: Final = 2.0
MADE_WITHIN_S: Final = 5.0
READ_WITHIN_S: Final = 30.0
BATCH: Final = 1000


@attrs.frozen
class Copy:
    """One server's copy of the stream: its raft group, and what the stream holds."""

    role: str
    term: int
    index: int
    """The last index of its log."""
    applied: int
    first: int
    last: int
    """The sequence numbers of its first and last message; `last` is 0 for none."""

    @classmethod
    def of(cls, raftz: Mapping[str, Any], jsz: Mapping[str, Any]) -> "Copy | None":
        """From the answers of one server. None if it has no copy. Raises `KeyError` or `ValueError` for others."""
        groups = [group for name, group in raftz.get(ACCOUNT, {}).items() if name.startswith(STREAM_GROUPS)]
        streams = [stream for account in jsz.get("account_details", ()) for stream in account.get("stream_detail", ())]
        states = [stream["state"] for stream in streams if stream["name"] == STREAM]
        if not groups or not states:
            return None
        group, state = groups[0], states[0]
        role = str(group["state"]).lower()
        return cls(
            LEADER if role == "leader" else role,
            int(group["term"]),
            int(group["pindex"]),
            int(group["applied"]),
            int(state["first_seq"]),
            int(state["last_seq"]),
        )


class NatsControl(Control):
    """Asks the servers of one cluster; every answer is of this moment."""

    def __init__(
        self, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool] = lambda node: True
    ) -> None:
        self._direct = dict(direct)
        self._monitors = access.further[MONITOR]
        self._can_answer = can_answer
        self._is_prepared = False

    # ---------------------------------------------------------------- roles

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The stream's; before there is one, that of the group that makes streams."""
        scope = LOG_SCOPE if self._is_prepared else META_SCOPE
        leader = await self.leader_of(scope)
        return {} if leader is None else {scope: leader}

    async def leader_of(self, scope: Scope) -> Leadership | None:
        """By what each server believes of itself."""
        query = f"?acc={ACCOUNT}" if scope == LOG_SCOPE else ""

        async def ask(node: int) -> tuple[int, str, int] | None:
            found = await self._ask_monitor(node, f"/raftz{query}")
            roles = {its: (role, term) for its, role, term in roles_in(found or {})}
            return (node, *roles[scope]) if scope in roles else None

        return leader_among((await ask_each(self._direct, ask)).values())

    async def _ask_monitor(self, node: int, path: str) -> Any:
        """Returns the answer of a server; None without one."""
        with contextlib.suppress(NotAnswered):
            if self._can_answer(node):
                return await json_http.ask(self._monitors[node], path, within_s=STATUS_WITHIN_S)
        return None

    async def copy_of(self, node: int) -> Copy | None:
        """Returns a server's copy of the stream; None without an answer."""
        raftz = await self._ask_monitor(node, f"/raftz?acc={ACCOUNT}")
        jsz = await self._ask_monitor(node, "/jsz?streams=1")
        with contextlib.suppress(KeyError, ValueError):
            return Copy.of(raftz or {}, jsz or {})
        return None

    async def goal(self) -> int | None:
        """The leader's last index."""
        copies = await ask_each(self._direct, self.copy_of)
        leader = _leader(copies)
        return copies[leader].index if leader is not None else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it has applied that much."""
        copy = await self.copy_of(node)
        return copy is not None and copy.applied >= int(goal)

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By a ping."""
        try:
            with trio.fail_after(within_s):
                async with NatsConnection.open(address, within_s=within_s) as connection:
                    await connection.ping()
        except UNREACHABLE as error:
            return str(error) or f"no answer within {within_s:g} s"
        return None

    # ---------------------------------------------------------------- begin and end

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the stream, with a copy on every server."""
        first, why = min(self._direct), "no server answered"
        with trio.move_on_after(within_s):
            while True:
                try:
                    with trio.fail_after(MADE_WITHIN_S):
                        async with NatsConnection.open(self._direct[first], within_s=CONNECT_WITHIN_S) as connection:
                            await make_stream(connection, len(self._direct))
                    break
                except ERRORS as error:
                    why = repr(error)
                await trio.sleep(POLL_S)
            self._is_prepared = True
            while not _are_equal(await ask_each(self._direct, self.copy_of), len(self._direct)):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return
        raise NotServing(f"the stream was not made within {within_s:g} s: {why}")

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every server has applied all of the leader's log. Returns the end of the longest copy.

        Copies that differ although all is applied are no reason to wait: the dump then shows how they differ.
        """
        copies: dict[int, Copy] = {}
        with trio.move_on_after(within_s):
            while not _are_equal(copies := await ask_each(self._direct, self.copy_of), len(self._direct)):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return {LOG: max(copy.last for copy in copies.values())}
        if len(copies) == len(self._direct) and _leader(copies) is not None and _is_all_applied(copies):
            return {LOG: max(copy.last for copy in copies.values())}
        seen = ", ".join(f"n{node} {copy}" for node, copy in copies.items())
        raise NotServing(
            f"the servers do not agree {within_s:g} s after everything was healed: {seen or 'none answers'}"
        )

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """The messages of every server's own copy."""
        for node, address in self._direct.items():
            writer.begin(node, 0)
            try:
                with trio.fail_after(READ_WITHIN_S):
                    async with NatsConnection.open(address, within_s=CONNECT_WITHIN_S) as connection:
                        await _dump(connection, node, ends[LOG], writer)
            except ERRORS as error:
                raise NotServing(f"n{node} did not give its log: {error!r}") from error
        writer.dumped_ns = time.monotonic_ns()


def _leader(copies: Mapping[int, Copy]) -> int | None:
    found = leader_among((node, copy.role, copy.term) for node, copy in copies.items())
    return found.node if found is not None else None


def _is_all_applied(copies: Mapping[int, Copy]) -> bool:
    leader = _leader(copies)
    return leader is not None and all(copy.applied >= copies[leader].index for copy in copies.values())


def _are_equal(copies: Mapping[int, Copy], nodes: int) -> bool:
    """Returns True if all servers have a copy and are led, and have applied the same messages."""
    return len(copies) == nodes and _is_all_applied(copies) and len({copy.last for copy in copies.values()}) == 1


def missing_value(offset: int) -> int:
    """Returns what stands in the dump where a copy has no message, though it has later ones: no client's value."""
    return 2 * DAMAGED + offset


async def _dump(connection: NatsConnection, node: int, end: int, writer: DumpWriter) -> None:
    """Raises one of `ERRORS`. A server answers a direct get of its own clients from its own copy."""
    offset = 0
    while offset < end:
        wanted = json.dumps({"seq": offset + 1, "batch": min(BATCH, end - offset)}).encode()
        values: dict[int, int] = {}
        async for message in connection.ask_many(f"{API}.DIRECT.GET.{STREAM}", wanted):
            if message.status in (wire.END_OF_BATCH, wire.NOT_FOUND):
                break
            values[int(message.headers["Nats-Sequence"]) - 1] = decode_value(message.payload)[0]
        values = {place: value for place, value in values.items() if offset <= place < end}
        if not values:
            return
        until = max(values) + 1
        writer.record(node, offset, NONE, [values.get(place, missing_value(place)) for place in range(offset, until)])
        offset = until
