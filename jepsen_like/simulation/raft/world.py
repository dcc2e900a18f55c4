"""One seed, one world: a heap of events in virtual time, pumped until the world has healed or a promise is broken.

Nothing here sleeps, threads or asks the real time. Two phases: in the first the nemesis strikes while clients work; then
all faults end, every node comes back, and the cluster must converge and serve within a bound (V-liveness). Invariants and
audits look on at every step; at the end the black box judges what the clients saw against the committed log.

With `stop_at_first` false a world goes on after a violation, so that the power of different oracles can be compared; with
`stop_at` it ends at the first violation that this oracle sees.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from jepsen_like.simulation.kernel.findings import CRASH, OracleViolation, SeedResult
from jepsen_like.simulation.kernel.network import Link, Parcel, SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft import blackbox
from jepsen_like.simulation.raft.audits import Audits
from jepsen_like.simulation.raft.blackbox import RequestOutcome
from jepsen_like.simulation.raft.clients import PROBE_CLIENT, Clients, SimulatedClient
from jepsen_like.simulation.raft.invariants import Invariants
from jepsen_like.simulation.raft.machine import NODE_ERRORS, BeforeStep, SimulatedMachine
from jepsen_like.simulation.raft.nemesis import SimulatedNemesis
from jepsen_like.simulation.raft.record import ClusterRecord, same, values_of
from jepsen_like.simulation.raft.swarm import Knobs, draw
from log.errors import CorruptLog, LogError, StorageError
from raft.effects import Committed, Effect, Load, Rejected, Send, Unknown
from raft.events import Disconnected, Event, Propose, Read, Receive
from raft.messages import Message
from raft.model import Entry, EntryKind, LogIndex, LogStart, NodeId, Token

STEPS_MAX = 10_000
STEPS_PER_REQUEST_MAX = 40
"""A cap on the steps of all cores together: a broken node may answer messages with messages for ever (V-storm). Sound worlds
need about a thousand, and for each request what the network makes of it: twenty to thirty where it reorders nearly everything."""
HEAL_S_MAX = 120.0
"""How long a healed world may take until it has converged and served, in virtual seconds."""
POLL_S = 0.02
VIOLATIONS_MAX = 40


class _Stop(Exception):
    """The first violation was found, and one is enough."""


Observer = Callable[[float, SimulatedMachine | None, Event | str, Sequence[Effect]], None]
"""Sees every event: when it happened, at which node if at any, what it was, and the effects it had."""


class RaftWorld:
    """A cluster and everything around it; `run` plays it once."""

    def __init__(
        self,
        knobs: Knobs,
        *,
        stop_at_first: bool = True,
        stop_at: str | None = None,
        steps_max: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.knobs = knobs
        self.now = 0.0
        self.steps = 0
        self.requests = 0
        self.healed = False
        self.finished = False
        self.counts: Counter[str] = Counter()
        self.violations: list[OracleViolation] = []
        self.record = ClusterRecord()
        nodes = [NodeId(number) for number in range(1, knobs.nodes + 1)]
        self.network = SimulatedNetwork(knobs, nodes, self._post)
        self.machines: Mapping[NodeId, SimulatedMachine] = {
            node: SimulatedMachine(self, knobs, node, nodes) for node in nodes
        }
        self.clients = Clients(knobs, nodes)
        self._invariants = Invariants(self.record, self.machines, self._accuse)
        self._audits = Audits(self.record, self.machines, self._accuse)
        self._nemesis = SimulatedNemesis(self, knobs)
        self._observer = observer
        self._stop_at_first = stop_at_first
        self._stop_at = stop_at
        self._steps_max = steps_max
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._posted = 0
        self._probes = {"append": False, "read": False}

    # ---------------------------------------------------------------- the pump

    def run(self) -> SeedResult:
        """Play the whole seed."""
        try:
            self._begin()
            self._pump()
            self._judge()
        except _Stop:
            pass
        except NODE_ERRORS as error:
            # Whatever a node can raise inside a step ends that node; out here it is a bug too, and the seed must be named.
            self.violations.append(OracleViolation(CRASH, self.now, 0, f"{type(error).__name__}: {error}"))
        return SeedResult(self.knobs.seed, tuple(self.violations), self._total(), self.steps, self._fingerprint())

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`; what is scheduled for the same moment happens in this order."""
        self._posted += 1
        heapq.heappush(self._heap, (at, self._posted, action, arguments))

    def _pump(self) -> None:
        heap = self._heap
        while heap and not self.finished:
            at, _, action, arguments = heapq.heappop(heap)
            if at > self.now:
                self.now = at
            action(*arguments)
            if self.steps > self._steps_allowed:
                self._report("V-storm", None, f"{self._steps_allowed} steps were not enough")
                return

    @property
    def _steps_allowed(self) -> int:
        return STEPS_MAX + STEPS_PER_REQUEST_MAX * self.requests if self._steps_max is None else self._steps_max

    def _begin(self) -> None:
        knobs = self.knobs
        clocks = stream(knobs.seed, "clocks")
        for machine in self.machines.values():
            machine.clock.rate = 1.0 + clocks.uniform(-knobs.drift, knobs.drift)
            machine.start()
        for client in self.clients.clients:
            if client.number != PROBE_CLIENT:
                self.schedule(knobs.think_s * client.rng.random(), self._client_wakes, client)
        for fault in knobs.faults:
            self.schedule(fault.at_s, self._nemesis.strike, fault)
        self.schedule(knobs.safety_s, self._heal)

    # ---------------------------------------------------------------- what machines report

    def appended(self, machine: SimulatedMachine, entries: Sequence[Entry]) -> None:
        """See `Surroundings`."""
        self._invariants.appended(machine, entries)

    def sent(self, machine: SimulatedMachine, send: Send) -> None:
        """See `Surroundings`: the wire tap."""
        self._audits.sent(machine, send)
        self.network.transmit(self.now, (machine.node_id, send.to), send.message)

    def committed(self, machine: SimulatedMachine, index: LogIndex) -> None:
        """See `Surroundings`."""
        known = self.record.committed_index
        self._invariants.committed(machine, index)
        if self.record.committed_index != known:
            self._audits.check_electability(machine)

    def trimmed(self, machine: SimulatedMachine, start: LogStart) -> None:
        """See `Surroundings`."""
        self._audits.trimmed(machine, start)

    def applied(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`."""
        self._invariants.applied(machine)

    def synced(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`."""
        self._audits.check_start(machine)
        self._audits.check_electability(machine)

    def decided(self, machine: SimulatedMachine, before: BeforeStep) -> None:
        """See `Surroundings`."""
        self._invariants.decided(machine, before)

    def stepped(self, machine: SimulatedMachine, before: BeforeStep, event: Event, effects: Sequence[Effect]) -> None:
        """See `Surroundings`."""
        self.steps += 1
        self._invariants.stepped(machine, before, event)
        if self._observer is not None:
            self._observer(self.now, machine, event, effects)

    def restarted(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`: the log apart starts from what the disk holds."""
        self._audits.restarted(machine)

    def died(self, machine: SimulatedMachine, error: Exception) -> None:
        """See `Surroundings`: a node that raises ends, as its process would, and is started again."""
        if machine.disk_refused(error):
            # The disk failed or filled up as the nemesis asked, and so the process ends, as it must.
            self.counts["disk_failures"] += 1
        elif isinstance(error, StorageError):
            self._report("A5", machine, f"says that a sound disk failed: {error}")
        elif isinstance(error, CorruptLog) and machine.spoilt:
            # The next start finds it, and repairs the log.
            self.counts["rot_met"] += 1
            self.note("meets bit rot", machine.node_id)
        elif isinstance(error, CorruptLog):
            self._report("A5", machine, f"finds damage on a disk that has none: {error}")
        else:
            self._report(CRASH, machine, f"{type(error).__name__}: {error}")
        if machine.up:
            self.kill(machine, self.knobs.raft.election_timeout_s_max, in_step=True)

    def sprung(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`."""
        back = stream(self.knobs.seed, f"trap/{machine.node_id}/{machine.incarnation}")
        self.cut_power(machine, back.choice((0.02, 0.3, 1.0)) * self.knobs.raft.election_timeout_s_max)

    # ---------------------------------------------------------------- clients

    def _client_wakes(self, client: SimulatedClient) -> None:
        if self.healed:
            return
        node = self.clients.choose_node(client)
        client.outstanding += 1  # an answer that comes at once must not look like the end of the burst
        for _ in range(self.knobs.burst):
            if client.discouraged:
                break
            if not self.clients.asks(client):
                continue
            if self.clients.wants_read(client):
                self._ask_read(client, node)
            else:
                self._ask_append(client, node)
        client.outstanding -= 1
        self._client_ended(client)

    def _ask_append(self, client: SimulatedClient, node: NodeId) -> None:
        token, batch = self.clients.begin_append(client, node, self.now, self.record.committed_index)
        self._ask(node, token, Propose(token, batch))

    def _ask_read(self, client: SimulatedClient, node: NodeId) -> None:
        token = self.clients.begin_read(client, node, self.record.committed_index)
        self._ask(node, token, Read(token))

    def _ask(self, node: NodeId, token: Token, event: Event) -> None:
        self.requests += 1
        machine = self.machines[node]
        if machine.up:
            self.schedule(self.now + self.knobs.client_timeout_s, self._client_gives_up, token)
            machine.deliver(event)
        else:
            self.schedule(self.now + self.knobs.delay_s, self._client_refused, token)

    def _client_refused(self, token: Token) -> None:
        self._client_ended(self.clients.failed(token, RequestOutcome.FAIL))

    def _client_gives_up(self, token: Token) -> None:
        self._client_ended(self.clients.failed(token, RequestOutcome.UNKNOWN))

    def _client_ended(self, client: SimulatedClient | None) -> None:
        if client is None or client.outstanding:
            return
        if client.number == PROBE_CLIENT:
            self.schedule(self.now + POLL_S, self._probe)
        else:
            mean_s = self.knobs.retry_s if client.discouraged else self.knobs.think_s
            client.discouraged = False
            self.schedule(self.now + mean_s * client.rng.expovariate(1.0), self._client_wakes, client)

    def answered(self, machine: SimulatedMachine, token: Token, outcome: Committed | Rejected | Unknown) -> None:
        """See `Surroundings`."""
        waiting = self.clients.waiting.get(token)
        if waiting is None:
            return
        if isinstance(outcome, Committed):
            assert waiting.batch is not None
            self._audits.answered(machine, waiting.batch, outcome)
            if waiting.op.client == PROBE_CLIENT:
                self._probes["append"] = True
        self._client_ended(self.clients.append_ended(token, outcome))

    def read_answered(self, machine: SimulatedMachine, token: Token, read_index: LogIndex | None) -> None:
        """See `Surroundings`: the read is served from the node's own log on disk, at exactly the index promised."""
        waiting = self.clients.waiting.get(token)
        if waiting is None:
            return
        if read_index is None:
            self._client_ended(self.clients.failed(token, RequestOutcome.FAIL))
            return
        self._audits.read_ready(machine, read_index, waiting.committed_when_asked)
        if waiting.op.client == PROBE_CLIENT:
            self._probes["read"] = True
        self._client_ended(self.clients.read_ended(token, *self._look(machine, read_index)))

    def _look(self, machine: SimulatedMachine, index: LogIndex) -> tuple[int, int]:
        """The end offset at `index` and the last value before it, as the node's storage has them."""
        assert machine.storage is not None
        assert machine.core is not None
        if index == 0 or index > len(machine.entries):
            return 0, 0
        end_offset = machine.entries[index - 1].end_offset
        for entry in reversed(machine.entries[:index]):
            if entry.batch.kind is EntryKind.RECORDS and entry.index <= machine.core.log.start.index:
                return end_offset, values_of(entry)[-1]
            if entry.batch.kind is EntryKind.RECORDS:
                (stored,) = machine.storage.load(Load(machine.node_id, entry.index, 1))
                return end_offset, values_of(stored)[-1]
        return end_offset, 0

    # ---------------------------------------------------------------- the network

    def _post(self, arrival: float, parcel: Parcel) -> None:
        self.schedule(arrival, self._arrives, parcel)

    def _arrives(self, parcel: Parcel) -> None:
        if self.network.arrives(parcel):
            self._receive(parcel.link, parcel.message)

    def _receive(self, link: Link, message: Message) -> None:
        sender, receiver = link
        machine = self.machines[receiver]
        if not machine.up:
            self.network.counts["messages_lost"] += 1
        machine.deliver(Receive(sender, message))

    def reset(self, link: Link) -> None:
        """See `Victims`."""
        self.counts["resets"] += 1
        self.network.reset(link)
        a, b = link
        self.note(f"connection {a}>{b} reset")
        self.machines[a].deliver(Disconnected(b))
        self.machines[b].deliver(Disconnected(a))

    # ---------------------------------------------------------------- power

    def cut_power(self, machine: SimulatedMachine, back_after_s: float) -> None:
        """See `Victims`."""
        if not machine.up:
            return
        self.counts["power_cuts"] += 1
        self.counts["power_cuts_in_flush"] += machine.flush is not None
        self.note("power cut inside an fsync" if machine.flush is not None else "power cut", machine.node_id)
        machine.cut_power()
        self._after_death(machine, back_after_s)

    def kill(self, machine: SimulatedMachine, back_after_s: float, *, in_step: bool = False) -> None:
        """See `Victims`: peers see its connections close at once."""
        if not machine.up:
            return
        self.counts["kills"] += 1
        self.note("killed", machine.node_id)
        machine.kill(in_step=in_step)
        for other in self.machines:
            if other != machine.node_id:
                self.schedule(self.now + self.knobs.delay_s, self._peer_gone, other, machine.node_id)
        self._after_death(machine, back_after_s)

    def _peer_gone(self, node: NodeId, peer: NodeId) -> None:
        self.machines[node].deliver(Disconnected(peer))

    def _after_death(self, machine: SimulatedMachine, back_after_s: float) -> None:
        for client in self.clients.connection_lost(machine.node_id):
            self._client_ended(client)
        self.schedule(self.now + back_after_s, self._restart, machine, machine.incarnation)

    def _restart(self, machine: SimulatedMachine, incarnation: int) -> None:
        if machine.incarnation != incarnation or machine.up or machine.lost:
            return
        if not self.healed:
            self._nemesis.rot(machine)
        self.counts["restarts"] += 1
        self.note("restarts", machine.node_id)
        try:
            machine.start()
        except StorageError as error:
            self._start_failed(machine, error)
            return
        except CorruptLog as error:
            self._refused(machine, error)
            return
        except NODE_ERRORS as error:
            self._report("A5", machine, f"cannot restart: {type(error).__name__}: {error}")
            self.finished = True
            return
        if self.healed:
            machine.meet_rot()
        elif self._nemesis.recovery_crash(machine):
            self.counts["recovery_crashes"] += 1
            self.cut_power(machine, 0.01)

    def _start_failed(self, machine: SimulatedMachine, error: StorageError) -> None:
        """A disk that fails or is full may keep a node down for a while; a sound one may not."""
        if machine.disk_refused(error):
            self.counts["disk_failures"] += 1
        else:
            self._report("A5", machine, f"cannot restart, though its disk is sound: {error}")
        self._restart_later(machine)

    def _restart_later(self, machine: SimulatedMachine) -> None:
        machine.give_up_start()
        self.schedule(self.now + self.knobs.raft.election_timeout_s_max, self._restart, machine, machine.incarnation)

    def _refused(self, machine: SimulatedMachine, error: CorruptLog) -> None:
        """Damage that cannot be repaired is told, and the node stays down; but only a power cut leaves such damage."""
        if not machine.spoilt:
            self._report("A5", machine, f"cannot restart: {error}")
            self.finished = True
        elif machine.storage is not None:
            # Met while it read its newest entries; the next start looks there.
            self.counts["rot_met"] += 1
            self._restart_later(machine)
        else:
            if machine.legacy is not None and machine.legacy.complete and not machine.start_spoilt:
                self._report("A5", machine, f"was killed, everything is known, and yet it refuses: {error}")
            self.counts["repairs_refused"] += 1
            self.note(f"stays down: {error}", machine.node_id)
            machine.give_up_start()
            machine.lost = True

    # ---------------------------------------------------------------- healing

    def _heal(self) -> None:
        """End every fault; from here on the cluster owes liveness."""
        self.healed = True
        self.note("all faults end")
        self.network.calm(self.now)
        patience_s = self.knobs.raft.election_timeout_s_min
        for machine in self.machines.values():
            machine.calm(flush_s=patience_s / 20)
            if machine.up:
                machine.meet_rot()
            else:
                self._restart(machine, machine.incarnation)
        self.network.delay_s = min(self.network.delay_s, patience_s / 30)
        self.schedule(self.now + HEAL_S_MAX, self._out_of_patience)
        self.schedule(self.now + POLL_S, self._probe)
        self.schedule(self.now + POLL_S, self._poll)

    def _probe(self) -> None:
        """One append, then one read, repeated until each has succeeded."""
        client = self.clients.clients[PROBE_CLIENT]
        node = self.clients.choose_node(client)
        if not self._probes["append"]:
            self._ask_append(client, node)
        elif not self._probes["read"]:
            self._ask_read(client, node)

    def _poll(self) -> None:
        if all(self._probes.values()) and self._converged():
            self.finished = True
        else:
            self.schedule(self.now + POLL_S, self._poll)

    def _converged(self) -> bool:
        cores = [machine.core for machine in self.machines.values() if not machine.lost]
        ends = {(core.commit_index, core.log.durable_index, core.log.position) for core in cores if core is not None}
        return (
            len(ends) == 1
            and None not in cores
            and cores[0] is not None
            and ends == {(cores[0].log.last_index, cores[0].log.last_index, cores[0].log.position)}
        )

    def _out_of_patience(self) -> None:
        missing = [f"no {probe} succeeded" for probe, done in self._probes.items() if not done]
        if not self._converged():
            missing.append("the nodes do not agree")
        self._report("V-liveness", None, f"{HEAL_S_MAX:.0f} s after the last fault: {', '.join(missing)}")
        self.finished = True

    def _judge(self) -> None:
        """The logs as stored on every node against each other, and against what clients saw."""
        for machine in self.machines.values():
            if machine.storage is None or not self.record.ledger or not self._converged():
                continue
            try:
                stored = machine.stored_entries()
                machine.apply_all()
            except LogError as error:
                self._report("B-diverged", machine, f"its stored log cannot be read: {error}")
                continue
            assert machine.core is not None
            kept = self.record.ledger[machine.core.log.start.index :]
            if len(stored) < len(kept) or not all(
                same(entry, known.entry) for entry, known in zip(stored, kept, strict=False)
            ):
                self._report("B-diverged", machine, "its stored log differs from the committed log")
        for oracle, sentence in blackbox.check(self.clients.history, self.record.values()):
            self._report(oracle, None, sentence)

    # ---------------------------------------------------------------- findings

    def note(self, text: str, node: NodeId | None = None) -> None:
        """See `Victims`."""
        if self._observer is not None:
            self._observer(self.now, None if node is None else self.machines[node], text, ())

    def _accuse(self, oracle: str, machine: SimulatedMachine, sentence: str) -> None:
        self._report(oracle, machine, sentence)

    def _report(self, oracle: str, machine: SimulatedMachine | None, sentence: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            node = 0 if machine is None else machine.node_id
            self.violations.append(OracleViolation(oracle, self.now, node, sentence))
            self.note(f"VIOLATION {oracle}: {sentence}", None if machine is None else machine.node_id)
        if self._stop_at_first or oracle == self._stop_at:
            raise _Stop

    def _total(self) -> Counter[str]:
        total = self.counts + self.network.counts + self.clients.counts + self._nemesis.counts
        for machine in self.machines.values():
            total += machine.counts
            total["segment_rolls"] += machine.segments() - 1
        total["committed_entries"] = len(self.record.ledger)
        return total

    def _fingerprint(self) -> str:
        """The same for the same seed in any process; cheap, so that every seed has one."""
        digest = blake2b(digest_size=8)
        digest.update(repr((self.steps, self.now, sorted(self._total().items()))).encode())
        for known in self.record.ledger:
            digest.update(repr((known.entry.term, known.reign, known.entry.batch.crc)).encode())
        for machine in self.machines.values():
            digest.update(repr((machine.incarnation, len(machine.entries), machine.durable_log().term)).encode())
        return digest.hexdigest()


def play(seed: int, *, stop_at_first: bool = True, observer: Observer | None = None) -> SeedResult:
    """The world of `seed`, played once."""
    return RaftWorld(draw(seed), stop_at_first=stop_at_first, observer=observer).run()
