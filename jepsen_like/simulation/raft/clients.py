"""Simulated clients: a closed loop each, now and then a burst; they keep the history that the black box judges.

A client sends to the node it takes for the leader, sometimes to any other (so that deposed leaders are asked as well),
and waits for the answer or its timeout. It never repeats a request: a value is sent once, so its outcome is one of ok,
fail and unknown.
"""

import random
from collections import Counter
from collections.abc import Sequence

import attrs
from crc32c import crc32c

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.blackbox import ClientRequest, RequestOutcome
from jepsen_like.simulation.raft.record import record_bytes
from jepsen_like.simulation.raft.swarm import RaftKnobs
from raft.effects import Committed, Rejected, Unknown
from raft.model import Batch, EntryKind, LogIndex, NodeId, Offset, Token

PROBE_CLIENT = 0
"""The client that asks, once the world has healed, whether it serves."""


@attrs.define
class Waiting:
    """One request that has no outcome yet."""

    op: ClientRequest
    batch: Batch | None
    committed_when_asked: LogIndex


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


class Clients:
    """All clients of one world, and the history they leave."""

    def __init__(self, knobs: RaftKnobs, nodes: Sequence[NodeId]) -> None:
        self._knobs = knobs
        self._nodes = nodes
        self._next_token = 0
        self._next_value = 0
        self._moment = 0
        self.counts: Counter[str] = Counter()
        self.history: list[ClientRequest] = []
        self.waiting: dict[Token, Waiting] = {}
        self.clients = [
            SimulatedClient(number, stream(knobs.seed, f"client/{number}"), nodes[number % len(nodes)], nodes[0])
            for number in range(knobs.clients + 1)
        ]

    # ---------------------------------------------------------------- asking

    def choose_node(self, client: SimulatedClient) -> NodeId:
        """Mostly the believed leader; sometimes the one before, which may not know that it is deposed; or anybody."""
        dice = client.rng.random()
        if dice < 0.8:
            return client.target
        return client.previous if dice < 0.9 else client.rng.choice(self._nodes)

    def wants_read(self, client: SimulatedClient) -> bool:
        """Returns True if the next request is a read."""
        return client.rng.random() < self._knobs.reads

    def asks(self, client: SimulatedClient) -> bool:
        """Returns True if it makes its next request; all but those that a scenario leaves out."""
        client.considered += 1
        return (client.number, client.considered) not in self._knobs.unasked

    def begin_append(
        self, client: SimulatedClient, node: NodeId, now: float, committed: LogIndex
    ) -> tuple[Token, Batch]:
        """Invoke an append of a few new values at `node`."""
        rng = client.rng
        values = tuple(self._new_value() for _ in range(rng.randint(1, self._knobs.records_max)))
        filler = rng.randint(0, self._knobs.filler_bytes_max)
        data = b"".join(record_bytes(value, filler) for value in values)
        batch = Batch(EntryKind.RECORDS, len(values), int(now * 1000), data, crc32c(data))
        return self._begin(client, ClientRequest(client.number, node, values, self._tick()), batch, committed), batch

    def begin_read(self, client: SimulatedClient, node: NodeId, committed: LogIndex) -> Token:
        """Invoke a read at `node`; `committed` is what any node has committed at this moment."""
        return self._begin(client, ClientRequest(client.number, node, (), self._tick()), None, committed)

    def _begin(self, client: SimulatedClient, op: ClientRequest, batch: Batch | None, committed: LogIndex) -> Token:
        self._next_token += 1
        token = Token(self._next_token)
        self.waiting[token] = Waiting(op, batch, committed)
        self.history.append(op)
        client.outstanding += 1
        return token

    def _new_value(self) -> int:
        self._next_value += 1
        return self._next_value

    def _tick(self) -> int:
        self._moment += 1
        return self._moment

    # ---------------------------------------------------------------- hearing

    def append_ended(self, token: Token, outcome: Committed | Rejected | Unknown) -> SimulatedClient | None:
        """The outcome of an append; the client, unless it had given up."""
        waiting = self.waiting.get(token)
        if waiting is None:
            return None
        client = self.clients[waiting.op.client]
        match outcome:
            case Committed(base_offset=base_offset):
                self._on_seen(waiting.op, base_offset)
                self.counts["acknowledgements"] += 1
                return self._end(token, RequestOutcome.OK)
            case Rejected(leader_hint=hint):
                self.counts["refusals"] += 1
                self._retarget(client, hint)
                return self._end(token, RequestOutcome.FAIL)
            case Unknown(leader_hint=hint):
                self.counts["unknown_outcomes"] += 1
                self._retarget(client, hint)
                return self._end(token, RequestOutcome.UNKNOWN)

    def _on_seen(self, op: ClientRequest, base_offset: Offset) -> None:
        """It is at `base_offset`, and the node that answered leads."""
        op.base_offset = base_offset
        op.end_offset = base_offset + len(op.values)

    def read_ended(self, token: Token, end_offset: int, last_value: int) -> SimulatedClient | None:
        """A read saw the log end at `end_offset`, just after `last_value`."""
        waiting = self.waiting.get(token)
        if waiting is None:
            return None
        waiting.op.end_offset = end_offset
        waiting.op.last_value = last_value
        self.counts["reads"] += 1
        return self._end(token, RequestOutcome.OK)

    def on_failed(self, token: Token, outcome: RequestOutcome) -> SimulatedClient | None:
        """No answer: refused, the connection broke, or time is up."""
        waiting = self.waiting.get(token)
        if waiting is None:
            return None
        self.counts["refusals" if outcome is RequestOutcome.FAIL else "unknown_outcomes"] += 1
        self._retarget(self.clients[waiting.op.client], None)
        return self._end(token, outcome)

    def connection_lost(self, node: NodeId) -> list[SimulatedClient]:
        """`node` died: a read had no effect, an append may have had it."""
        lost = [(token, waiting.op) for token, waiting in self.waiting.items() if waiting.op.node == node]
        ended = [
            self.on_failed(token, RequestOutcome.FAIL if op.is_read else RequestOutcome.UNKNOWN) for token, op in lost
        ]
        return [client for client in ended if client is not None]

    def _end(self, token: Token, outcome: RequestOutcome) -> SimulatedClient:
        op = self.waiting.pop(token).op
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
