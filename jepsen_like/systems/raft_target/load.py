"""The load of a run on a raft group to which others may append, too.

In the end it reads all of the run's part once. Each record of others there is noted as an append that another client began
before the run, and of which nothing more is known: it may stand anywhere.
"""

import time
from collections.abc import Iterable
from typing import Final

import trio

from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.port.port import LogPart
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.dump import READ_BYTES
from jepsen_like.systems.raft.log_workload import LogWorkload
from jepsen_like.systems.raft.records import RecordCodec, is_of_others
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.model import Request
from jepsen_like.workload.recorder import Recorder
from raft.client import Connection
from raft.errors import RaftError

READ_ALL_WITHIN_S: Final = 60.0
POLL_S: Final = 0.1


class SharedLoad(RoutedLoad):
    """See `RoutedLoad`; `part` is the run's part of the log."""

    def __init__(
        self, recorder: Recorder, clients: RaftClients, plan: LoadPlan, part: LogPart, codec: RecordCodec
    ) -> None:
        super().__init__(LogWorkload(begin=part.begin, codec=codec), recorder, clients, plan)
        self._clients, self._part, self._codec = clients, part, codec
        self._began_ns = time.monotonic_ns()

    async def final_reads(self) -> bool:
        """See `RoutedLoad`; then read all."""
        return await super().final_reads() and await self._read_all()

    async def _read_all(self) -> bool:
        """Read the run's part, and note what is of others. Returns False if no node gave it in time."""
        with trio.move_on_after(READ_ALL_WITHIN_S):
            while True:
                for node in self._clients.nodes:
                    try:
                        async with self._clients.open(node) as connection:
                            end = (await connection.tail()).committed_end
                            others = await self._read_others(connection, end)
                    except RaftError:
                        continue
                    self._part.end = end
                    self._note_others(others, node)
                    return True
                await trio.sleep(POLL_S)
        return False

    async def _read_others(self, connection: Connection, end: int) -> list[int]:
        """Returns the values of all records of others up to `end`. Raises `RaftError`."""
        found: list[int] = []
        offset = self._part.begin
        while offset < end:
            for batch in (await connection.read(offset, READ_BYTES)).batches:
                places = enumerate(batch.records(), batch.base_offset)
                found += filter(is_of_others, (self._codec.decode(record, place)[0] for place, record in places))
                offset = batch.base_offset + batch.span
        return found

    def _note_others(self, values: Iterable[int], node: int) -> None:
        for value in values:
            request = Request(Action.APPEND, _not_asked, a=value, offset=NONE, values=(value,))
            self.recorder.record_end(
                request,
                Outcome.INFO,
                ErrorCode.OTHER,
                process=self.recorder.new_process(),
                node=node,
                t_inv=self._began_ns,
                t_ret=self._began_ns,
            )


async def _not_asked(connection: object) -> object:
    raise AssertionError("others have asked it")
