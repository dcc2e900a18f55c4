"""Simulated clients: a closed loop each, now and then a burst; they keep the history that the black box judges.

A client sends to the node it takes for the leader, sometimes to any other (so that deposed leaders are asked as well),
and waits for the answer or its timeout. It never repeats a request: each value is sent once, as ok, fail or unknown.
"""

import random
from collections import Counter
from collections.abc import Sequence

import attrs
import msgpack

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.blackbox import ClientRequest, RequestOutcome
from jepsen_like.simulation.raft.record import NUMBER_BYTES, record_bytes
from jepsen_like.simulation.raft.swarm import RaftKnobs
from raft.driver import RaftDriver
from raft.errors import NotLeader, RaftError
from raft.model import LogIndex, NodeId
from raft.register import COMPARE_AND_SET, READ, WRITE
from raft.requests import Caller

REGISTERS = 3


@attrs.define
class Waiting:
    """One request that has no outcome yet; `data` are the bytes of its records, its command or its query."""

    id: int
    op: ClientRequest
    data: bytes
    committed_when_asked: LogIndex

    def ask(self, caller: Caller, driver: RaftDriver) -> None:
        """Ask a node, as its server does."""
        op = self.op
        if op.is_read:
            driver.read(caller, self.id, after_apply=op.key >= 0)
        elif op.key >= 0:
            driver.apply(caller, self.id, self.data)
        else:
            driver.append(caller, self.id, self.data, len(op.values))


@attrs.define
class SimulatedClient:
    """The memory of one client."""

    number: int
    rng: random.Random
    target: NodeId
    previous: NodeId
    outstanding: int = 0
    considered: int = 0
    """The number of requests it has come to, made or not."""
    discouraged: bool = False
    """True if a request of this round failed: it then waits longer before the next."""
    known: dict[int, int | None] = attrs.field(factory=dict)
    """The value of each register, as far as it knows."""


class Clients:
    """All clients of one world, and the history they leave."""

    def __init__(self, knobs: RaftKnobs, nodes: Sequence[NodeId]) -> None:
        self._knobs = knobs
        self._nodes = nodes
        self._last_id = 0
        self._next_value = 0
        self.moment = 0
        """Counts invocations and returns."""
        self.counts: Counter[str] = Counter()
        self.history: list[ClientRequest] = []
        self.waiting: dict[int, Waiting] = {}
        self.clients = [
            SimulatedClient(number, stream(knobs.seed, f"client/{number}"), nodes[number % len(nodes)], nodes[0])
            for number in range(knobs.clients + 2)
        ]
        self.probe, *self.loops, self.watcher = self.clients
        """The client that asks, once the world has healed, whether it serves; those that work meanwhile; and one that
        reads from each new leader at once."""

    # ---------------------------------------------------------------- asking

    def choose_node(self, client: SimulatedClient) -> NodeId:
        """Mostly the believed leader; sometimes the one before, which may not know that it is deposed; or anybody."""
        dice = client.rng.random()
        if dice < 0.8:
            return client.target
        return client.previous if dice < 0.9 else client.rng.choice(self._nodes)

    def asks(self, client: SimulatedClient) -> bool:
        """Returns True if it makes its next request; all but those that a scenario leaves out."""
        client.considered += 1
        return (client.number, client.considered) not in self._knobs.unasked

    def begin(self, client: SimulatedClient, node: NodeId, committed: LogIndex) -> Waiting:
        """Invoke a request of any kind at `node`; `committed` is what any node has committed at this moment."""
        of_registers = client.rng.random() < self._knobs.commands
        if client.rng.random() < self._knobs.reads:
            return self.begin_read(client, node, committed, of_registers=of_registers)
        if of_registers:
            return self._begin_command(client, node, committed)
        return self.begin_append(client, node, committed)

    def begin_append(self, client: SimulatedClient, node: NodeId, committed: LogIndex) -> Waiting:
        """Invoke an append of a few new values at `node`."""
        rng = client.rng
        values = tuple(self._new_value() for _ in range(rng.randint(1, self._knobs.records_max)))
        filler = rng.randint(0, self._knobs.filler_bytes_max)
        data = b"".join(record_bytes(value, filler) for value in values)
        return self._begin(client, ClientRequest(client.number, node, values, self._tick()), data, committed)

    def _begin_command(self, client: SimulatedClient, node: NodeId, committed: LogIndex) -> Waiting:
        """Invoke a write or a compare-and-set of a new value at `node`."""
        key, value = client.rng.randrange(REGISTERS), self._new_value()
        op = ClientRequest(client.number, node, (value,), self._tick(), key=key)
        command: list[str | int | None] = [WRITE, key, value]
        if client.known.get(key) is not None and client.rng.random() < 0.5:
            op.expected = client.known[key]
            command = [COMPARE_AND_SET, key, op.expected, value]
        return self._begin(client, op, msgpack.packb(command), committed)

    def begin_read(
        self, client: SimulatedClient, node: NodeId, committed: LogIndex, *, of_registers: bool = False
    ) -> Waiting:
        """Invoke a read of the end of the log, or of a register, at `node`."""
        key = client.rng.randrange(REGISTERS) if of_registers else -1
        op = ClientRequest(client.number, node, (), self._tick(), key=key)
        return self._begin(client, op, msgpack.packb([READ, key]), committed)

    def _begin(self, client: SimulatedClient, op: ClientRequest, data: bytes, committed: LogIndex) -> Waiting:
        self._last_id += 1
        waiting = self.waiting[self._last_id] = Waiting(self._last_id, op, data, committed)
        self.history.append(op)
        client.outstanding += 1
        return waiting

    def _new_value(self) -> int:
        self._next_value += 1
        return self._next_value

    def _tick(self) -> int:
        self.moment += 1
        return self.moment

    # ---------------------------------------------------------------- hearing

    def append_ended(self, request_id: int, base_offset: int, term: int) -> SimulatedClient:
        """Its records are at `base_offset`, and of this term."""
        op = self.waiting[request_id].op
        op.base_offset, op.term = base_offset, term
        op.end_offset = base_offset + len(op.values)
        self.counts["acknowledgements"] += 1
        return self._end(request_id, RequestOutcome.OK)

    def command_ended(self, request_id: int, result: bytes) -> SimulatedClient:
        """Its command was applied, with this result."""
        op = self.waiting[request_id].op
        op.base_offset = int.from_bytes(result[:NUMBER_BYTES], "big")
        op.end_offset = op.base_offset + 1
        now_known: int | None = op.values[0]
        if op.expected is not None:
            has_swapped, op.found = msgpack.unpackb(result[NUMBER_BYTES:])
            now_known = now_known if has_swapped else op.found
        self.clients[op.client].known[op.key] = now_known
        self.counts["commands"] += 1
        return self._end(request_id, RequestOutcome.OK)

    def read_ended(self, request_id: int, end_offset: int, last_value: int) -> SimulatedClient:
        """A read saw the log end at `end_offset`, just after `last_value`."""
        op = self.waiting[request_id].op
        op.end_offset, op.last_value = end_offset, last_value
        self.counts["reads"] += 1
        return self._end(request_id, RequestOutcome.OK)

    def query_ended(self, request_id: int, result: bytes) -> SimulatedClient:
        """A query was answered."""
        op = self.waiting[request_id].op
        op.end_offset = int.from_bytes(result[:NUMBER_BYTES], "big")
        op.found = msgpack.unpackb(result[NUMBER_BYTES:])
        self.clients[op.client].known[op.key] = op.found
        self.counts["queries"] += 1
        return self._end(request_id, RequestOutcome.OK)

    def refuse(self, request_id: int, error: RaftError) -> SimulatedClient:
        """A node answered that the request failed."""
        is_definite = error.definite or self.waiting[request_id].op.is_read
        self.counts[f"answers_{type(error).__name__}"] += 1
        hint = NodeId(error.leader) if isinstance(error, NotLeader) and error.leader is not None else None
        return self._fail(request_id, RequestOutcome.FAIL if is_definite else RequestOutcome.UNKNOWN, hint)

    def on_failed(self, request_id: int, outcome: RequestOutcome) -> SimulatedClient | None:
        """No answer: the connection was refused or broke, or time is up; None if there had been one."""
        return self._fail(request_id, outcome, None) if request_id in self.waiting else None

    def connection_lost(self, node: NodeId) -> list[SimulatedClient]:
        """`node` died: a read had no effect, an append or a command may have had it."""
        lost = [(request_id, waiting.op) for request_id, waiting in self.waiting.items() if waiting.op.node == node]
        return [
            self._fail(request_id, RequestOutcome.FAIL if op.is_read else RequestOutcome.UNKNOWN, None)
            for request_id, op in lost
        ]

    def _fail(self, request_id: int, outcome: RequestOutcome, hint: NodeId | None) -> SimulatedClient:
        self.counts["refusals" if outcome is RequestOutcome.FAIL else "unknown_outcomes"] += 1
        self._retarget(self.clients[self.waiting[request_id].op.client], hint)
        return self._end(request_id, outcome)

    def _end(self, request_id: int, outcome: RequestOutcome) -> SimulatedClient:
        op = self.waiting.pop(request_id).op
        op.outcome = outcome
        if outcome is not RequestOutcome.UNKNOWN:
            op.returned = self._tick()
        client = self.clients[op.client]
        client.outstanding -= 1
        return client

    def _retarget(self, client: SimulatedClient, hint: NodeId | None) -> None:
        client.discouraged = True
        aim = hint if hint is not None else client.rng.choice(self._nodes)
        if aim != client.target:
            client.previous, client.target = client.target, aim
