"""The final log of every node, read by the wire from the node itself: what the checker holds the history against."""

import time

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import NotServing
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.records import ALL_OURS, RecordCodec
from log.frame import HEADER_BYTES
from raft.client import Connection
from raft.errors import ProtocolError, RecordsTrimmed
from raft.results import RecordBatch, Records

READ_BYTES = 1024 * 1024
READ_WITHIN_S = 30.0
"""One read takes at most this time; a log of any length may be dumped as long as it comes."""


@attrs.frozen
class Dump:
    """The part of the logs that is read: `begin` to `end`, exclusive, which is between entries. The writer counts from `begin`."""

    writer: DumpWriter
    end: int
    begin: int = 0
    codec: RecordCodec = ALL_OURS

    def begin_node(self, node: int, offset: int) -> None:
        """Its log begins at `offset`."""
        self.writer.begin(node, offset - self.begin)

    def record(self, node: int, batch: RecordBatch, first: int) -> None:
        """Take the records of a batch from offset `first` on."""
        # The checker wants each value; a damaged record gets one that no client appended.
        values = [
            self.codec.decode(record, place)[0] for place, record in enumerate(batch.records(), batch.base_offset)
        ]
        size = len(batch.data) + HEADER_BYTES
        self.writer.record(node, first - self.begin, batch.epoch, values[first - batch.base_offset :], size=size)


async def dump_logs(clients: RaftClients, dump: Dump) -> None:
    """Read what is left of a part of the log from every node; call it when all have committed that much.

    Raises `RaftError` or `NotServing` (in a group) if a node does not give its log.
    """
    async with trio.open_nursery() as nursery:
        for node in clients.nodes:
            nursery.start_soon(_dump, node, clients, dump)
    dump.writer.dumped_ns = time.monotonic_ns()


async def _dump(node: int, clients: RaftClients, dump: Dump) -> None:
    async with clients.open(node) as connection:
        offset, end = dump.begin, dump.end
        dump.begin_node(node, offset)
        while offset < end:
            try:
                records = await _read(connection, node, offset)
            except RecordsTrimmed as error:
                # It began there before, or lets records go while it is read: only what is there in the end counts.
                if not offset < error.start_offset <= end:
                    raise ProtocolError(f"node {node} answers a read at {offset}: {error}") from None
                offset = error.start_offset
                dump.begin_node(node, offset)
                continue
            if not records.batches:
                raise ProtocolError(f"node {node} has committed {end} records and shows {offset}")
            for batch in records.batches:
                if offset >= end:
                    break
                # Where a log was replaced, the part may begin within an entry.
                first = offset if offset == dump.begin else batch.base_offset
                if not batch.base_offset <= first == offset < batch.base_offset + batch.span:
                    raise ProtocolError(f"node {node} answers a read at {offset} from {batch.base_offset} on")
                dump.record(node, batch, offset)
                offset = batch.base_offset + batch.span


async def _read(connection: Connection, node: int, offset: int) -> Records:
    try:
        with trio.fail_after(READ_WITHIN_S):
            return await connection.read(offset, READ_BYTES)
    except trio.TooSlowError:
        raise NotServing(f"node {node} did not answer a read at {offset} within {READ_WITHIN_S:g} s") from None
