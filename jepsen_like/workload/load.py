"""Clients at work: closed loop (the next operation when the last has ended) or open loop (at a given rate).

Every attempt is one operation with values of its own: nothing is ever sent twice, so an operation with unknown outcome
can never be confused with a retry of itself. Where there are several groups of nodes, each with a leader, a client's
next operations go to the others while no node leads one, as a producer's do. How an outage is kept from costing more
than about one unknown operation per client is described in `workload.routing`; it is ended by the *probes*, one per
node: each sends an operation that only a leader can answer while no leader is known or nothing has been acknowledged
for a while, and follows the first answer with one write. So recovery is seen within about `PROBE_EVERY_S`, also while
every client still waits for an operation sent to the node that was lost. And they go on asking a node that led until
just now: an answer from old beliefs is what the checker looks for.
"""

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
import trio

from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Outcome
from jepsen_like.workload.model import Nonsense, Request, Seen, Workload
from jepsen_like.workload.recorder import Recorder
from jepsen_like.workload.routing import Routing

OPERATION_WITHIN_S = 1.5
CONNECT_WITHIN_S = 0.5
PROBE_WITHIN_S = 0.5
PROBE_EVERY_S = 0.03
DOUBT_AFTER_S = 0.25
"""Without an acknowledged write for this long, the leader is doubted and the probes ask all nodes."""
ASK_ANYONE_CHANCE = 0.03
"""This share of operations for the leader goes to any node: one with old beliefs must get its chance to be wrong."""
BACK_OFF_S = 0.05
LEFT_BEHIND_S = 0.1
"""An operation may still wait for a leader for this long once another one is known."""
FINAL_READS_WITHIN_S = 20.0


@attrs.frozen(kw_only=True)
class LoadPlan:
    """The amount of load. `rate` in operations per second over all clients; 0 is closed loop."""

    concurrency: int
    rate: float = 0.0
    seed: int = 0


class RunningLoad(Protocol):
    """All clients of a run: `run` until `stop`; afterwards `final_reads`."""

    async def run(self) -> None:
        """Drive all clients; returns when `stop` was called and every operation has ended."""

    def stop(self) -> None:
        """Start no more operations."""

    async def final_reads(self) -> bool:
        """Write once more, then send the final reads to a healed cluster. Returns False if not all were answered."""

    def claimed_ends(self) -> Mapping[int, int]:
        """By object: the greatest end of a log that an answer to the final reads claimed."""


# -------------------------------------------------------------------- the clients of a system


@attrs.frozen
class NotTheLeader:
    """The node refused because it does not lead; `leader` is the node that it believes to lead, if it named one."""

    leader: int | None


@attrs.frozen
class TryLater:
    """The node refused because it has too much to do."""


@attrs.frozen
class LeftTheLog:
    """The entry to be read has left the log, which begins at `start_offset` now."""

    start_offset: int


Hint: TypeAlias = NotTheLeader | TryLater | LeftTheLog


@attrs.frozen
class Ending:
    """The meaning of an error for its operation.

    `FAIL` only for a refusal of this very request, or if no request can have left: a wrong `FAIL` would accuse the
    system of a phantom, a needless `INFO` only weakens the check.
    """

    outcome: Outcome
    code: ErrorCode
    hint: Hint | None = None
    """Its meaning for the node; None: it may be down or cut off."""


class LiveConnection(Protocol):
    """A connection with one node, on which a `Request` is asked."""

    @property
    def is_open(self) -> bool:
        """True if it can still be used."""

    def close(self) -> None:
        """Close it."""


class ClientPort(Protocol):
    """Connects clients of one system to its nodes, and interprets the errors of its client."""

    @property
    def nodes(self) -> Sequence[int]:
        """Every node that clients know."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Everything by which `connect` or an operation can end without an answer."""

    async def connect(self, node: int, *, within_s: float) -> LiveConnection:
        """Returns a new connection. Raises one of `errors` if it cannot be made."""

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        """Returns what an error of an operation means for its outcome."""


class Connections:
    """One logical client: a connection per node it has talked to, one operation at a time."""

    def __init__(self, port: ClientPort) -> None:
        self._port = port
        self._open: dict[int, LiveConnection] = {}

    async def connect(self, node: int) -> LiveConnection:
        """Returns the connection with `node`, made if need be. Raises an error of the port, with nothing sent."""
        connection = self._open.get(node)
        if connection is None or not connection.is_open:
            connection = self._open[node] = await self._port.connect(node, within_s=CONNECT_WITHIN_S)
        return connection

    def close(self) -> None:
        """Close every connection."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()


@attrs.define(eq=False)
class _Group:
    """Nodes of which one leads, and what is believed of them."""

    routing: Routing
    last_write_s: float = -math.inf
    """The time at which one of them last had a write acknowledged."""


class RoutedLoad:
    """All clients of a run, written here: each operation goes to one node, and writes to the one believed to lead.

    `groups` are the nodes by whom leads them, and a request names its group by its place; without: one of all.
    """

    def __init__(
        self,
        workload: Workload,
        recorder: Recorder,
        port: ClientPort,
        plan: LoadPlan,
        groups: Sequence[Sequence[int]] = (),
    ) -> None:
        self.workload = workload
        self.recorder = recorder
        self.plan = plan
        self._groups = [_Group(Routing(nodes)) for nodes in groups or (port.nodes,)]
        self._group_of = {node: group for group in self._groups for node in group.routing.nodes}
        self._port = port
        self._errors: tuple[type[Exception], ...] = (*port.errors, Nonsense, trio.TooSlowError)
        """Everything by which an operation can end without an answer."""
        self._stopping = trio.Event()
        self._leader_found = trio.Event()
        self._rng = random.Random(f"load {plan.seed}")
        # A slow open loop is silent by itself.
        self._doubt_after_s = max(DOUBT_AFTER_S, 5 * len(self._groups) / plan.rate if plan.rate else 0.0)
        self._started = 0.0
        self._tickets = 0
        self._out_of_reach: Request | None = None
        """The last read whose records had left the log."""
        self._under_way: dict[int, set[trio.CancelScope]] = {node: set() for node in port.nodes}

    async def run(self) -> None:
        """Drive all clients; returns when `stop` was called and every operation has ended."""
        self._started = trio.current_time()
        async with trio.open_nursery() as probes:
            for node in self._port.nodes:
                probes.start_soon(self._probe, node)
            async with trio.open_nursery() as workers:
                for _ in range(self.plan.concurrency):
                    workers.start_soon(self._work, random.Random(self._rng.getrandbits(64)))
            probes.cancel_scope.cancel()

    def stop(self) -> None:
        """Start no more operations."""
        self._stopping.set()
        self._leader_found.set()

    # ---------------------------------------------------------------- clients

    async def _work(self, rng: random.Random) -> None:
        client = Connections(self._port)
        process = self.recorder.new_process()
        try:
            while not self._stopping.is_set():
                due = await self._next_turn()
                if self._stopping.is_set():
                    return
                chosen = await self._choose(rng)
                if chosen is None:
                    continue
                request, node = chosen
                if await self._attempt(client, node, request, process, due) is Outcome.INFO:
                    process = self.recorder.new_process()
        finally:
            client.close()

    async def _next_turn(self) -> float | None:
        """Closed loop: at once, None. Open loop: wait until the next operation is due; when that is."""
        if not self.plan.rate:
            return None
        due = self._started + self._tickets / self.plan.rate
        self._tickets += 1
        with trio.move_on_at(due):
            await self._stopping.wait()
        return due

    async def _choose(self, rng: random.Random) -> tuple[Request, int] | None:
        """Returns the next request and its node; None if there was no node to ask and the request has grown old."""
        while True:
            request = self.workload.request(rng)
            routing = self._groups[request.group].routing
            if request.anywhere or rng.random() < ASK_ANYONE_CHANCE:
                node = routing.anyone(rng, trio.current_time())
                if node is not None:
                    return request, node
            if routing.leader is not None or not self._is_led():
                break
            await trio.lowlevel.checkpoint()  # the next may be for a group that is led
        if routing.leader is None:
            await self._leader_found.wait()
        return None if self._stopping.is_set() or routing.leader is None else (request, routing.leader)

    def _is_led(self) -> bool:
        """Returns True if any group has a leader."""
        return any(group.routing.leader is not None for group in self._groups)

    async def _attempt(
        self, client: Connections, node: int, request: Request, process: int, due: float | None = None
    ) -> Outcome:
        """One operation, recorded with exactly what is known of it."""
        try:
            connection = await client.connect(node)
        except self._port.errors:
            # Nothing was asked, so there is nothing to record.
            self._doubt(node)
            await trio.sleep(BACK_OFF_S)
            return Outcome.FAIL
        late_s = trio.current_time() - due if due is not None else None
        t_inv = time.monotonic_ns()
        try:
            with trio.fail_after(OPERATION_WITHIN_S) as patience, self._note(node, patience):
                answer = await request.ask(connection)
            t_ret = time.monotonic_ns()
            seen = self._interpret(request, answer, node)
        except self._errors as error:
            t_ret = time.monotonic_ns()
            ending = self._ending_of(error, connection_lost=not connection.is_open)
            if isinstance(ending.hint, LeftTheLog):
                ending = self._note_left(request, ending, ending.hint, node=node)
            seen_start = ending.hint.start_offset if isinstance(ending.hint, LeftTheLog) else NONE
            self.recorder.record_end(
                request,
                ending.outcome,
                ending.code,
                process=process,
                node=node,
                t_inv=t_inv,
                t_ret=t_ret,
                seen=seen_start,
            )
            if ending.outcome is Outcome.INFO:
                connection.close()
            await self._learn(node, ending)
            return ending.outcome
        except trio.Cancelled:
            # The client waits no longer for the answer, but the request is on its way and may yet be carried out.
            unknown = (Outcome.INFO, ErrorCode.OTHER)
            self.recorder.record_end(
                request, *unknown, process=process, node=node, t_inv=t_inv, t_ret=time.monotonic_ns()
            )
            raise
        self.recorder.ok(request, seen, process=process, node=node, t_inv=t_inv, t_ret=t_ret, late_s=late_s)
        if request.is_write:
            self._group_of[node].last_write_s = trio.current_time()
        return Outcome.OK

    def _ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        match error:
            case trio.TooSlowError():
                return Ending(Outcome.INFO, ErrorCode.TIMEOUT)
            case Nonsense():
                return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
            case _:
                return self._port.ending_of(error, connection_lost=connection_lost)

    def _note_left(self, request: Request, ending: Ending, hint: LeftTheLog, *, node: int) -> Ending:
        """To a read it is a sound node's answer, only not to the question; to anything else it is nonsense."""
        is_answer = request.f is Action.READ and hint.start_offset < NEVER
        if is_answer:
            self._out_of_reach = request
        try:
            if not is_answer:
                raise Nonsense(f"{request.f.name} was answered by a log that begins at {hint.start_offset}")
            self.workload.on_trimmed(request, hint.start_offset)
        except Nonsense as nonsense:
            self.recorder.note_nonsense(f"node {node}: {nonsense}")
        return ending if is_answer else Ending(Outcome.INFO, ErrorCode.PROTOCOL)

    @contextlib.contextmanager
    def _note(self, node: int, patience: trio.CancelScope) -> Iterator[None]:
        """Keep an operation under way where `_give_up_on_old_leaders` finds it."""
        self._under_way[node].add(patience)
        try:
            yield
        finally:
            self._under_way[node].discard(patience)

    def _give_up_on_old_leaders(self) -> None:
        """A new leader was found: clients should not wait their whole time for the one that was lost."""
        now = trio.current_time()
        for node, under_way in self._under_way.items():
            if self._group_of[node].routing.may_have_old_beliefs(node, now):
                for patience in under_way:
                    patience.deadline = min(patience.deadline, now + LEFT_BEHIND_S)

    def _interpret(self, request: Request, answer: Any, node: int) -> Seen:
        try:
            return self.workload.interpret(request, answer)
        except Nonsense as error:
            self.recorder.note_nonsense(f"node {node}: {error}")
            raise

    async def _learn(self, node: int, ending: Ending) -> None:
        """Update the routing after an operation that failed; pause where asking again at once would only add load."""
        if ending.outcome is Outcome.INFO:
            self._doubt(node)
            return
        match ending.hint:
            case NotTheLeader(leader):
                self._group_of[node].routing.on_refused(node, leader, trio.current_time())
            case TryLater():
                await trio.sleep(BACK_OFF_S)
            case LeftTheLog():
                return
            case None:
                self._doubt(node)
        self._announce()

    def _doubt(self, node: int) -> None:
        self._group_of[node].routing.on_unanswered(node, trio.current_time())
        self._announce()

    def _announce(self) -> None:
        """Let those who wait for a leader go, or make them wait."""
        if self._is_led() or self._stopping.is_set():
            self._leader_found.set()
        elif self._leader_found.is_set():
            self._leader_found = trio.Event()

    # ---------------------------------------------------------------- probes

    async def _probe(self, node: int) -> None:
        """Probe `node` while the leader is in doubt, or `node` led until just now and may still believe so."""
        client = Connections(self._port)
        rng = random.Random(f"scout {node} {self.plan.seed}")
        process = self.recorder.new_process()
        group = self._group_of[node]
        try:
            while True:
                await trio.sleep(PROBE_EVERY_S)
                if not self._worth_asking(node) or not await self._answers_probe(client, node, process, rng):
                    continue
                is_news = group.routing.leader != node
                group.routing.on_probe_answered(node, trio.current_time())
                self._announce()
                if is_news:
                    self._give_up_on_old_leaders()
                    write = self._draw_for(self.workload.write, rng, group)
                    if await self._attempt(client, node, write, process) is Outcome.INFO:
                        process = self.recorder.new_process()
        finally:
            client.close()

    def _worth_asking(self, node: int) -> bool:
        group, now = self._group_of[node], trio.current_time()
        if group.routing.leader is None or group.routing.may_have_old_beliefs(node, now):
            return True
        return now - group.last_write_s > self._doubt_after_s

    def _draw_for(self, draw: Callable[[random.Random], Request], rng: random.Random, group: _Group) -> Request:
        """The next request for this group."""
        while self._groups[(request := draw(rng)).group] is not group:
            continue
        return request

    async def _answers_probe(self, client: Connections, node: int, process: int, rng: random.Random) -> bool:
        """Returns whether `node` answered a probe, so that it leads; only an answer that shows something is recorded."""
        request = self._draw_for(self.workload.probe, rng, self._group_of[node])
        with trio.move_on_after(PROBE_WITHIN_S), contextlib.suppress(*self._errors):
            connection = await client.connect(node)
            t_inv = time.monotonic_ns()
            answer = await request.ask(connection)
            t_ret = time.monotonic_ns()
            seen = self._interpret(request, answer, node)
            if seen.values:
                self.recorder.ok(request, seen, process=process, node=node, t_inv=t_inv, t_ret=t_ret)
            return True
        return False

    # ---------------------------------------------------------------- the end

    async def final_reads(self) -> bool:
        """Write once more to every group, then send the final reads. Returns False if not all were answered in time."""
        client = Connections(self._port)
        rng = random.Random(f"final reads {self.plan.seed}")
        self._stopping = trio.Event()
        with trio.move_on_after(FINAL_READS_WITHIN_S), contextlib.closing(client):
            for group in self._groups:
                await self._until_answered(client, rng, group, self._writes(group, rng))
            for read in self.workload.final_reads():
                await self._until_answered(client, rng, self._groups[read.group], itertools.repeat(read))
            return True
        return False

    def claimed_ends(self) -> Mapping[int, int]:
        """See `RunningLoad`."""
        return self.workload.claimed_ends()

    def _writes(self, group: _Group, rng: random.Random) -> Iterator[Request]:
        while True:
            yield self._draw_for(self.workload.write, rng, group)

    async def _until_answered(
        self, client: Connections, rng: random.Random, group: _Group, requests: Iterator[Request]
    ) -> None:
        """Ask the group's leader until one of `requests` is answered; writes have to differ: none is sent twice."""
        process = self.recorder.new_process()
        while True:
            node = group.routing.leader
            if node is None:
                node = rng.choice(group.routing.nodes)
                if not await self._answers_probe(client, node, process, rng):
                    continue
                group.routing.on_probe_answered(node, trio.current_time())
            request = next(requests)
            outcome = await self._attempt(client, node, request, process)
            if outcome is Outcome.OK or self._out_of_reach is request:
                return
            if outcome is Outcome.INFO:
                process = self.recorder.new_process()
            await trio.sleep(PROBE_EVERY_S)
