"""The harness's questions to raft nodes: STATUS, reads and dumps, on connections past the fault network."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import Access, Control, Leadership, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.dump import Dump, dump_logs
from jepsen_like.systems.raft.log_workload import LOG
from jepsen_like.systems.reports import ask_each
from raft.errors import ProtocolError, RaftError, RecordsTrimmed

STATUS_WITHIN_S: Final = 0.5
POLL_S: Final = 0.05
READ_THROUGH_WITHIN_S: Final = 5.0
READ_THROUGH_BYTES: Final = 1024 * 1024
GROUP: Final = ""
"""The one scope: a cluster is one group."""
_NO_ANSWER = (RaftError, KeyError, ValueError)


@attrs.frozen
class NodeStatus:
    """A node's answer to STATUS, as far as the harness needs it."""

    node: int
    role: str
    term: int
    last_index: int
    commit_index: int
    committed_end: int
    silent_s: Mapping[int, float] = attrs.field(factory=dict, kw_only=True)
    """A leader's: for how long each other node has not answered it."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "NodeStatus":
        """From the map on the wire. Raises `KeyError` or `ValueError` if it is not one."""
        numbers = (int(fields[name]) for name in ("term", "last_index", "commit_index", "committed_end"))
        status = cls(int(fields["node"]), str(fields["role"]), *numbers)
        silent_s = {int(node): float(each["silent_s"]) for node, each in fields.get("followers", {}).items()}
        return attrs.evolve(status, silent_s=silent_s)


def leader_among(statuses: Iterable[NodeStatus]) -> NodeStatus | None:
    """Returns the leader of the highest term seen; None if a node knows a higher term, of which no leader answered."""
    newest = max(statuses, key=lambda status: (status.term, status.role == LEADER), default=None)
    return newest if newest is not None and newest.role == LEADER else None


class RaftControl(Control):
    """Asks the nodes of one cluster; every answer is of this moment."""

    answers_within_s: float = STATUS_WITHIN_S
    """A node that takes longer counts as silent for now."""

    def __init__(
        self,
        access: Access,
        direct: Mapping[int, Address],
        can_answer: Callable[[int], bool] = lambda node: True,
        clients: RaftClients | None = None,
    ) -> None:
        self._clients = clients or RaftClients(direct, access)
        self._direct = dict(direct)
        self._can_answer = can_answer

    async def status(self, node: int) -> NodeStatus | None:
        """One node's STATUS; None if it does not answer at once."""
        if not self._can_answer(node):
            return None
        with trio.move_on_after(self.answers_within_s), contextlib.suppress(*_NO_ANSWER):
            async with self._clients.open(node) as connection:
                return NodeStatus.of(await connection.status())
        return None

    async def statuses(self) -> dict[int, NodeStatus]:
        """STATUS of every node that answers."""
        return await ask_each(self._direct, self.status)

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The leader of the highest term that any node knows."""
        leader = leader_among((await self.statuses()).values())
        return {} if leader is None else {GROUP: Leadership(leader.node, leader.term)}

    async def goal(self) -> int | None:
        """The leader's last index: its commit index may lag behind what its predecessor acknowledged."""
        leader = leader_among((await self.statuses()).values())
        return None if leader is None else leader.last_index

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it has committed that much."""
        status = await self.status(node)
        return status is not None and status.commit_index >= int(goal)

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every node has committed all there is. Returns the end of the log."""
        statuses: dict[int, NodeStatus] = {}
        with trio.move_on_after(within_s):
            while True:
                statuses = await self.statuses()
                leader = leader_among(statuses.values())
                indexes = {status.commit_index for status in statuses.values()}
                # A leader that was elected just now holds more than is known to be committed.
                if leader is not None and len(statuses) == len(self._direct) and indexes == {leader.last_index}:
                    return {LOG: leader.committed_end}
                await trio.sleep(POLL_S)
        seen = ", ".join(f"n{status.node} {status.role} at {status.commit_index}" for status in statuses.values())
        raise NotServing(f"the nodes do not agree {within_s:g} s after everything was healed: {seen or 'none answers'}")

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """The log of every node."""
        await self.read_logs(Dump(writer, ends[LOG]))

    async def read_logs(self, dump: Dump) -> None:
        """Read a part of the log of every node. Raises `NotServing`."""
        try:
            await dump_logs(self._clients, dump)
        except* RaftError as group:
            raise NotServing(f"a node did not give its log: {group.exceptions[0]}") from group

    async def read_committed(self, node: int, end: int) -> tuple[int, list[bytes]]:
        """Returns where a node's log begins, and its records from there to `end`. Raises `RaftError`."""
        start, records = 0, list[bytes]()
        async with self._clients.open(node) as connection:
            while start + len(records) < end:
                try:
                    batches = (await connection.read(start + len(records), READ_THROUGH_BYTES)).batches
                except RecordsTrimmed as error:
                    if error.start_offset <= start + len(records):
                        raise ProtocolError(f"node {node} answers a read at {start + len(records)}: {error}") from None
                    start, records = error.start_offset, []
                    continue
                if not batches:
                    raise ProtocolError(f"node {node} has committed {end} records and shows {start + len(records)}")
                for batch in batches:
                    records += batch.records()[max(0, start + len(records) - batch.base_offset) :]
        return start, records[: max(0, end - start)]

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By STATUS."""
        try:
            with trio.fail_after(within_s):
                async with self._clients.open_at(address, within_s=within_s) as connection:
                    await connection.status()
        except (*_NO_ANSWER, trio.TooSlowError) as error:
            return str(error) or f"no answer within {within_s:g} s"
        return None

    async def read_through(self, node: int) -> None:
        """Read all that one node has committed, as far as it gives it."""
        with trio.move_on_after(READ_THROUGH_WITHIN_S), contextlib.suppress(*_NO_ANSWER):
            while True:
                status = await self.status(node)
                if status is not None and status.committed_end:
                    break
                await trio.sleep(POLL_S)  # a node that has just started does not know yet what is committed
            async with self._clients.open(node) as connection:
                offset = 0
                while offset < status.committed_end:
                    records = await connection.read(offset, READ_THROUGH_BYTES)
                    if not records.batches:
                        return
                    offset = records.batches[-1].base_offset + records.batches[-1].span
