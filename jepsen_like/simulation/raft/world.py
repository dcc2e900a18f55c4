"""A Raft group with its clients in virtual time.

While the nemesis strikes, clients work; once all faults have ended, every node comes back, and the group must converge
and serve. Invariants and audits look on at every step; at the end the black box judges what the clients saw against the
committed log.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jepsen_like.simulation.kernel.findings import CRASH, NODE_ERRORS
from jepsen_like.simulation.kernel.network import Link, Parcel, SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.kernel.world import POLL_S, SimulatedWorld
from jepsen_like.simulation.raft import blackbox
from jepsen_like.simulation.raft.audits import Audits
from jepsen_like.simulation.raft.blackbox import RequestOutcome
from jepsen_like.simulation.raft.clients import PROBE_CLIENT, Clients, SimulatedClient
from jepsen_like.simulation.raft.invariants import Invariants
from jepsen_like.simulation.raft.machine import BeforeStep, SimulatedMachine
from jepsen_like.simulation.raft.nemesis import SimulatedNemesis
from jepsen_like.simulation.raft.record import ClusterRecord, first_difference, values_of
from jepsen_like.simulation.raft.swarm import RaftKnobs
from jepsen_like.simulation.raft.tracing import describe_effect, describe_event, describe_state
from log.errors import CorruptLog, LogError, StorageError
from raft.effects import Committed, Effect, LoadEntries, Rejected, Send, Unknown
from raft.events import Disconnected, Event, Propose, ReadRequest, Receive
from raft.messages import Message
from raft.model import Entry, EntryKind, LogIndex, LogStart, NodeId, Position, Token


class RaftWorld(SimulatedWorld[RaftKnobs]):
    """A cluster and everything around it."""

    def build(self) -> None:
        """Record, network, nodes, clients, and all that looks on."""
        knobs = self.knobs
        self.record = ClusterRecord()
        nodes = [NodeId(number) for number in range(1, knobs.nodes + 1)]
        self.network: SimulatedNetwork[NodeId, Message] = SimulatedNetwork(knobs, nodes, self._post)
        self.machines: Mapping[NodeId, SimulatedMachine] = {
            node: SimulatedMachine(self, knobs, node, nodes) for node in nodes
        }
        self.clients = Clients(knobs, nodes)
        self._invariants = Invariants(self.record, self.machines, self._accuse)
        self._audits = Audits(self.record, self.machines, self._accuse)
        self._nemesis = SimulatedNemesis(self, knobs)
        self._probes = {"append": False, "read": False}

    def begin(self) -> None:
        """Start the nodes with their clocks, the clients and the planned faults."""
        knobs = self.knobs
        clocks = stream(knobs.seed, "clocks")
        for machine in self.machines.values():
            machine.clock.rate = 1.0 + clocks.uniform(-knobs.drift, knobs.drift)
            machine.start()
        for client in self.clients.clients:
            if client.number != PROBE_CLIENT:
                self.schedule(knobs.think_s * client.rng.random(), self._client_wakes, client)
        for number, at_s in enumerate(knobs.vanishes_s):
            self.schedule(at_s, self._nemesis.vanish, number)
        for fault in knobs.faults:
            self.schedule(fault.at_s, self._nemesis.strike, fault)

    # ---------------------------------------------------------------- what machines report

    def on_appended(self, machine: SimulatedMachine, entries: Sequence[Entry]) -> None:
        """See `Surroundings`."""
        self._invariants.on_appended(machine, entries)

    def on_sent(self, machine: SimulatedMachine, send: Send) -> None:
        """See `Surroundings`: the wire tap."""
        self._audits.on_sent(machine, send)
        self.network.transmit(self.now, (machine.node_id, send.to), send.message)

    def on_committed(self, machine: SimulatedMachine, index: LogIndex) -> None:
        """See `Surroundings`."""
        known = self.record.committed_index
        self._invariants.on_committed(machine, index)
        if self.record.committed_index != known:
            self._audits.check_electability(machine)

    def on_trimmed(self, machine: SimulatedMachine, start: LogStart) -> None:
        """See `Surroundings`."""
        self._audits.on_trimmed(machine, start)

    def on_applied(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`."""
        self._invariants.on_applied(machine)

    def on_synced(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`."""
        self._audits.check_start(machine)
        self._audits.check_electability(machine)

    def on_decided(self, machine: SimulatedMachine, before: BeforeStep) -> None:
        """See `Surroundings`."""
        self._invariants.on_decided(machine, before)

    def on_stepped(
        self, machine: SimulatedMachine, before: BeforeStep, event: Event, effects: Sequence[Effect]
    ) -> None:
        """See `Surroundings`."""
        self.steps += 1
        self._invariants.on_stepped(machine, before, event)
        if self.observer is not None:
            words = "; ".join(map(describe_effect, effects))
            state = describe_state(machine)
            self.observer(TraceEvent(self.now, f"n{machine.node_id}", describe_event(event), state, words))

    def on_restarted(self, machine: SimulatedMachine) -> None:
        """See `Surroundings`: the log apart starts from what the disk holds."""
        self._audits.on_restarted(machine)

    def on_died(self, machine: SimulatedMachine, error: Exception) -> None:
        """See `Surroundings`: a node that raises ends, as its process would, and is started again."""
        if machine.disk_refused(error):
            # The disk failed or filled up as the nemesis asked, and so the process ends, as it must.
            self.counts["disk_failures"] += 1
        elif isinstance(error, StorageError):
            self._accuse("A5", machine, f"says that a sound disk failed: {error}")
        elif isinstance(error, CorruptLog) and machine.spoilt:
            # The next start finds it, and repairs the log.
            self.counts["rot_met"] += 1
            self.note("meets bit rot", machine.node_id)
        elif isinstance(error, CorruptLog):
            self._accuse("A5", machine, f"finds damage on a disk that has none: {error}")
        else:
            self._accuse(CRASH, machine, f"{type(error).__name__}: {error}")
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
        self._ask(node, token, ReadRequest(token))

    def _ask(self, node: NodeId, token: Token, event: Event) -> None:
        self.requests += 1
        machine = self.machines[node]
        if machine.up:
            self.schedule(self.now + self.knobs.client_timeout_s, self._client_gives_up, token)
            machine.deliver(event)
        else:
            self.schedule(self.now + self.knobs.delay_s, self._client_refused, token)

    def _client_refused(self, token: Token) -> None:
        self._client_ended(self.clients.on_failed(token, RequestOutcome.FAIL))

    def _client_gives_up(self, token: Token) -> None:
        self._client_ended(self.clients.on_failed(token, RequestOutcome.UNKNOWN))

    def _client_ended(self, client: SimulatedClient | None) -> None:
        if client is None or client.outstanding:
            return
        if client.number == PROBE_CLIENT:
            self.schedule(self.now + POLL_S, self._probe)
        else:
            mean_s = self.knobs.retry_s if client.discouraged else self.knobs.think_s
            client.discouraged = False
            self.schedule(self.now + mean_s * client.rng.expovariate(1.0), self._client_wakes, client)

    def on_answered(self, machine: SimulatedMachine, token: Token, outcome: Committed | Rejected | Unknown) -> None:
        """See `Surroundings`."""
        waiting = self.clients.waiting.get(token)
        if waiting is None:
            return
        if isinstance(outcome, Committed):
            assert waiting.batch is not None
            self._audits.on_answered(machine, waiting.batch, outcome)
            if waiting.op.client == PROBE_CLIENT:
                self._probes["append"] = True
        self._client_ended(self.clients.append_ended(token, outcome))

    def read_answered(self, machine: SimulatedMachine, token: Token, read_index: LogIndex | None) -> None:
        """See `Surroundings`: the read is served from the node's own log on disk, at exactly the index promised."""
        waiting = self.clients.waiting.get(token)
        if waiting is None:
            return
        if read_index is None:
            self._client_ended(self.clients.on_failed(token, RequestOutcome.FAIL))
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
                (stored,) = machine.storage.load(LoadEntries(machine.node_id, entry.index, 1))
                return end_offset, values_of(stored)[-1]
        return end_offset, 0

    # ---------------------------------------------------------------- the network

    def _post(self, arrival: float, parcel: Parcel[NodeId, Message]) -> None:
        self.schedule(arrival, self._arrives, parcel)

    def _arrives(self, parcel: Parcel[NodeId, Message]) -> None:
        if self.network.arrives(parcel):
            self._receive(parcel.link, parcel.message)

    def _receive(self, link: Link[NodeId], message: Message) -> None:
        sender, receiver = link
        machine = self.machines[receiver]
        if not machine.up:
            self.network.counts["messages_lost"] += 1
        machine.deliver(Receive(sender, message))

    def reset(self, link: Link[NodeId]) -> None:
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
        if machine.incarnation != incarnation or machine.up:
            return
        if not self.healed:
            self._nemesis.take_directory(machine)
            self._nemesis.rot(machine)
        self.counts["restarts"] += 1
        self.note("restarts", machine.node_id)
        try:
            machine.start()
        except StorageError as error:
            self._start_failed(machine, error)
            return
        except CorruptLog as error:
            self._on_refused(machine, error)
            return
        except NODE_ERRORS as error:
            self._accuse("A5", machine, f"cannot restart: {type(error).__name__}: {error}")
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
            self._accuse("A5", machine, f"cannot restart, though its disk is sound: {error}")
        self._restart_later(machine)

    def _restart_later(self, machine: SimulatedMachine) -> None:
        machine.give_up_start()
        self.schedule(self.now + self.knobs.raft.election_timeout_s_max, self._restart, machine, machine.incarnation)

    def _on_refused(self, machine: SimulatedMachine, error: CorruptLog) -> None:
        """Damage that cannot be repaired costs the node its log, and it begins blank; but only a power cut leaves such
        damage.
        """
        if not machine.spoilt:
            self._accuse("A5", machine, f"cannot restart: {error}")
            self.finished = True
        elif machine.storage is not None:
            # Met while it read its newest entries; the next start looks there.
            self.counts["rot_met"] += 1
            self._restart_later(machine)
        else:
            if machine.legacy is not None and machine.legacy.complete and not machine.start_spoilt:
                self._accuse("A5", machine, f"was killed, everything is known, and yet it refuses: {error}")
            self.counts["repairs_refused"] += 1
            self.note(f"its log is set aside: {error}", machine.node_id)
            machine.give_up_start()
            machine.set_aside()
            self.schedule(self.now, self._restart, machine, machine.incarnation)

    # ---------------------------------------------------------------- healing

    def end_faults(self) -> None:
        """Every node comes back with a good disk, met damage and a true clock, and the probes begin."""
        patience_s = self.knobs.raft.election_timeout_s_min
        for machine in self.machines.values():
            machine.calm(flush_s=patience_s / 20)
            if machine.up:
                machine.meet_rot()
            else:
                self._restart(machine, machine.incarnation)
        self.network.delay_s = min(self.network.delay_s, patience_s / 30)
        self.schedule(self.now + POLL_S, self._probe)

    def _probe(self) -> None:
        """One append, then one read, repeated until each has succeeded."""
        client = self.clients.clients[PROBE_CLIENT]
        node = self.clients.choose_node(client)
        if not self._probes["append"]:
            self._ask_append(client, node)
        elif not self._probes["read"]:
            self._ask_read(client, node)

    def open_conditions(self) -> list[str]:
        """Probes that have not succeeded yet, and whether the nodes agree."""
        missing = [f"no {probe} succeeded" for probe, done in self._probes.items() if not done]
        if not self._has_converged():
            missing.append("the nodes do not agree")
        return missing

    def _has_converged(self) -> bool:
        cores = [machine.core for machine in self.machines.values()]
        ends = {(core.commit_index, core.log.durable_index, core.log.position) for core in cores if core is not None}
        return (
            len(ends) == 1
            and None not in cores
            and cores[0] is not None
            and ends == {(cores[0].log.last_index, cores[0].log.last_index, cores[0].log.position)}
        )

    def judge(self) -> None:
        """The log as stored on every node against the committed one, and that against what clients saw."""
        for machine in self.machines.values():
            if machine.storage is None or not self.record.ledger or not self._has_converged():
                continue
            try:
                stored = machine.stored_entries()
                machine.apply_all()
            except LogError as error:
                self._accuse("B-diverged", machine, f"its stored log cannot be read: {error}")
                continue
            assert machine.core is not None
            first_index = LogIndex(machine.core.log.start.index + 1)
            committed = [known.entry for known in self.record.ledger[first_index - 1 :]]
            at = first_difference(stored, committed)
            if at is not None:
                index, ends = first_index + at, f"{first_index}..{first_index + len(stored) - 1}"
                self._accuse(
                    "B-diverged", machine, f"its stored log, {ends}, differs from the committed log at {index}"
                )
        for oracle, sentence in blackbox.check(self.clients.history, self.record.values()):
            self.report(oracle, 0, sentence)

    def committed_position(self) -> Position:
        """See `Victims`."""
        return self.record.committed_position

    # ---------------------------------------------------------------- findings

    def _accuse(self, oracle: str, machine: SimulatedMachine, sentence: str) -> None:
        self.report(oracle, machine.node_id, sentence)

    def totals(self) -> Counter[str]:
        """Returns the counts of the world, the network, the clients and each node."""
        total = self.counts + self.network.counts + self.clients.counts + self._nemesis.counts
        for machine in self.machines.values():
            total += machine.counts
            total["segment_rolls"] += machine.segments() - 1
        total["committed_entries"] = len(self.record.ledger)
        return total

    def outcome(self) -> Iterator[object]:
        """The committed log, and the size and age of each node's."""
        for known in self.record.ledger:
            yield known.entry.term, known.leader_term, known.entry.batch.crc
        for machine in self.machines.values():
            yield machine.incarnation, len(machine.entries), machine.durable_log().term

    def all_requests(self) -> list[tuple[int, int]]:
        """The requests of all clients, probes too."""
        return [
            (client.number, number) for client in self.clients.clients for number in range(1, client.considered + 1)
        ]

    def state_of(self, node: int) -> str:
        """Role, term, commit index and ends of the log."""
        return describe_state(self.machines[NodeId(node)] if node else None)
