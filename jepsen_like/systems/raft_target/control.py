"""Asks the nodes of a raft group that others run, and tells which part of its log is the run's.

A log gives nothing back, so what the run appends stays. What others append meanwhile lies between its records, and is taken as
it comes (`load`).
"""

from collections.abc import Mapping
from typing import Any, Final

import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import Access, Mode, NotServing, RunningCluster
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.raft.control import POLL_S, NodeStatus, RaftControl, leader_among
from jepsen_like.systems.raft.dump import Dump
from jepsen_like.systems.raft.log_workload import LOG
from jepsen_like.systems.raft.records import RecordCodec
from jepsen_like.systems.raft_target.access import RaftAccess
from jepsen_like.systems.target.system import name_of, none_answers
from raft.addresses import address_of
from raft.errors import NotLeader, RaftError

ANSWER_WITHIN_S: Final = 5.0
SILENT_AFTER_S: Final = 2.0


def codec_of(cluster_id: str) -> RecordCodec:
    """Returns how the records of a run are known."""
    return RecordCodec(f"{name_of(cluster_id)} ".encode())


class RaftTargetControl(RaftControl):
    """See `RaftControl`; other clients may append at any time."""

    answers_within_s = 2.0

    def __init__(self, access: Access, direct: Mapping[int, Address]) -> None:
        assert access.target is not None
        super().__init__(access, direct, clients=RaftAccess.of(access.target).clients(direct))
        self._part = access.part
        self._codec = codec_of(access.cluster_id)
        self._has_begun = False

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """The run's part of the log begins where the log ends now."""
        why = "no node answers"
        with trio.move_on_after(within_s):
            while True:
                for node in self._direct:
                    try:
                        async with self._clients.open(node) as connection:
                            self._part.begin = (await connection.tail()).committed_end
                        self._has_begun = True
                        return
                    except NotLeader:
                        continue
                    except RaftError as error:
                        why = f"n{node}: {error}"
                await trio.sleep(POLL_S)
        raise NotServing(f"where the log ends could not be asked within {within_s:g} s: {why}")

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every node has committed all of the run's part."""
        statuses: dict[int, NodeStatus] = {}
        with trio.move_on_after(within_s):
            while True:
                statuses = await self.statuses()
                leader = leader_among(statuses.values())
                if leader is not None and len(statuses) == len(self._direct):
                    end = leader.committed_end if self._part.end is None else self._part.end
                    if all(status.committed_end >= end for status in statuses.values()):
                        return {LOG: max(0, end - self._part.begin)}
                await trio.sleep(POLL_S)
        seen = ", ".join(f"n{status.node} {status.role} at {status.committed_end}" for status in statuses.values())
        raise NotServing(
            f"not all nodes have the log {within_s:g} s after everything was healed: {seen or 'none answers'}"
        )

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """The run's part of the log of every node."""
        begin = self._part.begin
        await self.read_logs(Dump(writer, begin + ends[LOG], begin, self._codec))

    async def absence(self, node: int) -> str | None:
        """Silence at its address; or it answers, and its leader receives nothing from it."""
        address = self._direct[node]
        if (silence := await self.why_silent_at(address, within_s=SILENT_AFTER_S)) is not None:
            return f"silent at {text_of(address)}: {silence}"
        leader = leader_among((await self.statuses()).values())
        if leader is not None and (silent_s := leader.silent_s.get(node, 0.0)) > SILENT_AFTER_S:
            return f"it answers at {text_of(address)}, and n{leader.node}, its leader, has received nothing from it for {silent_s:.1f} s"
        return None

    async def clear(self) -> str | None:
        """A log gives nothing back."""
        if not self._has_begun:
            return None
        return f"the records of this run stay in the log, from offset {self._part.begin} on; a log gives nothing back"


# -------------------------------------------------------------------- the nodes


async def addresses_of(target: RunningCluster) -> dict[int, Address]:
    """Returns the addresses of the nodes, by their ids. Raises `NotServing` and `WrongMode`.

    A node is asked where it was given, and else where the group dials it.
    """
    clients = RaftAccess.of(target).clients({})
    why: dict[Address, str] = {}
    given: dict[int, Address] = {}
    status: Mapping[str, Any] = {}
    for address in target.servers:
        try:
            async with clients.open_at(address, within_s=ANSWER_WITHIN_S) as connection:
                status = await connection.status()
                given[connection.node_id] = address
        except RaftError as error:
            why[address] = f"{error}".rstrip(".")
    if not status:
        raise none_answers(why)
    found = {int(node): address_of(address) for node, address in status["addresses"].items() if address} | given
    for node in {*status["voters"], *status["learners"], *status["outgoing"]} - found.keys():
        raise NotServing(f"where node {node} is was not found out: name its address in --bootstrap-servers, too")
    return found
