"""A Raft group with its clients in virtual time.

Clients work while the nemesis strikes; once faults have ended, every node is back, and the group must converge and
serve. Invariants and audits look on at every step; at the end the black box judges what clients saw by the log.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jepsen_like.simulation.kernel.findings import CRASH, NODE_ERRORS
from jepsen_like.simulation.kernel.network import Link, SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.kernel.world import POLL_S, SimulatedWorld
from jepsen_like.simulation.raft import blackbox
from jepsen_like.simulation.raft.audits import Audits
from jepsen_like.simulation.raft.blackbox import UNSEEN, RequestOutcome
from jepsen_like.simulation.raft.clients import Clients, SimulatedClient, Waiting
from jepsen_like.simulation.raft.invariants import Invariants
from jepsen_like.simulation.raft.machine import BeforeStep, SimulatedMachine
from jepsen_like.simulation.raft.member_changes import joining_nodes
from jepsen_like.simulation.raft.nemesis import SimulatedNemesis
from jepsen_like.simulation.raft.record import ClusterRecord, first_difference, value_of, values_in
from jepsen_like.simulation.raft.swarm import RaftKnobs
from jepsen_like.simulation.raft.tracing import describe_effect, describe_event, describe_state
from log.errors import CorruptLog, LogError, NoSpace, StorageError
from raft.driver import RaftDriver
from raft.effects import Effect
from raft.errors import ProtocolError, RaftError
from raft.events import Event
from raft.membership import Configuration
from raft.messages import Message
from raft.model import LogIndex, NodeId, Offset, Position
from raft.roles import Leader
from raft.subscription import Delivered

try:
    from jepsen_like.simulation.raft import histories
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    HAS_CHECKER = False  # a base install has the audits and the black box alone
else:
    HAS_CHECKER = True


class RaftWorld(SimulatedWorld[RaftKnobs]):
    """A cluster and everything around it."""

    def build(self) -> None:
        """Record, network, nodes, clients, and all that looks on."""
        knobs = self.knobs
        voters = [NodeId(number) for number in range(1, knobs.nodes + 1)]
        nodes = [*voters, *joining_nodes(knobs)]
        self.record = ClusterRecord(Configuration(voters))
        self.network: SimulatedNetwork[NodeId, Message] = SimulatedNetwork(knobs, nodes, self.post)
        self.machines: Mapping[NodeId, SimulatedMachine] = {
            node: SimulatedMachine(self, knobs, node, voters) for node in nodes
        }
        self.clients = Clients(knobs, nodes)
        self._invariants = Invariants(self.record, self.machines, self._accuse)
        self._audits = Audits(self.record, self.machines, self._accuse)
        self.on_appended, self.on_applied = self._invariants.on_appended, self._invariants.on_applied
        self.on_trimmed = self._audits.on_trimmed
        self._nemesis = SimulatedNemesis(self, knobs)
        self._probes = {"append": False, "read": False}
        self._healed_at = 0

    def begin(self) -> None:
        """Start the nodes with their clocks, the clients and the planned faults."""
        knobs = self.knobs
        clocks = stream(knobs.seed, "clocks")
        for machine in self.machines.values():
            machine.clock.rate = 1.0 + clocks.uniform(-knobs.drift, knobs.drift)
            machine.start()
        for client in self.clients.loops:
            self.schedule(knobs.think_s * client.rng.random(), self._client_wakes, client)
        self._nemesis.changes.begin()
        for number, at_s in enumerate(knobs.vanishes_s):
            self.schedule(at_s, self._nemesis.vanish, number)
        for fault in knobs.faults:
            self.schedule(fault.at_s, self._nemesis.strike, fault)

    # ---------------------------------------------------------------- what machines report

    def on_sent(self, machine: SimulatedMachine, to: NodeId, message: Message) -> None:
        """`machine` puts a message on the wire, now, and the audits tap it.

        It reaches whom it knows, and who has dialled it (`raft.links`).
        """
        self._audits.on_sent(machine, to, message)
        if machine.dials(to) or self._has_dialled(to, machine.node_id):
            self.network.transmit(self.now, (machine.node_id, to), message)

    def _has_dialled(self, node: NodeId, peer: NodeId) -> bool:
        other = self.machines[node]
        return other.up and other.dials(peer)

    def on_committed(self, machine: SimulatedMachine, index: LogIndex) -> None:
        """`machine` considers everything up to `index` committed."""
        known = self.record.committed_index
        self._invariants.on_committed(machine, index)
        if self.record.committed_index != known:
            self._audits.check_electability(machine)

    def on_command(self, machine: SimulatedMachine, index: int, command: bytes) -> None:
        """The state machine of `machine` is about to apply this command."""
        self._invariants.on_command(machine, LogIndex(index), command)

    def on_delivered(self, machine: SimulatedMachine, delivered: Delivered) -> None:
        """A subscriber at `machine` was given this."""
        self.counts["delivered"] += 1
        self._audits.on_delivered(machine, delivered)

    def on_synced(self, machine: SimulatedMachine) -> None:
        """An fsync of `machine` has ended: more of its log is durable."""
        self._audits.check_start(machine)
        self._audits.check_electability(machine)

    def on_decided(self, machine: SimulatedMachine, before: BeforeStep) -> None:
        """`machine` has taken one step, whose effects are still to be carried out: it may lose its power among them."""
        self._invariants.on_decided(machine, before)
        leads = machine.core is not None and isinstance(machine.core.role, Leader)
        if leads and not before.led and not self.healed and self.clients.loops:
            self.schedule(self.now + self.knobs.delay_s, self._watcher_reads, machine.node_id)

    def _watcher_reads(self, node: NodeId) -> None:
        """Read both the log and a register from a node that has just begun to lead."""
        watcher, committed = self.clients.watcher, self.record.committed_index
        kinds = (False, True) if self.knobs.commands else (False,)
        asked = [
            self.clients.begin_read(watcher, node, committed, of_registers=of_registers)
            for of_registers in kinds
            if self.clients.asks(watcher)
        ]
        self._ask(node, asked)

    def on_stepped(
        self, machine: SimulatedMachine, before: BeforeStep, event: Event, effects: Sequence[Effect]
    ) -> None:
        """`machine` has taken one step, and the world has seen what it orders."""
        self.steps += 1
        self._invariants.on_stepped(machine, before, event)
        self._audits.on_stepped(machine, event, effects)
        if self.observer is not None:
            words = "; ".join(map(describe_effect, effects))
            state = describe_state(machine)
            self.observer(TraceEvent(self.now, f"n{machine.node_id}", describe_event(event), state, words))

    def on_restarted(self, machine: SimulatedMachine) -> None:
        """`machine` has come up from its disk, from which the log apart starts, too."""
        self._audits.on_restarted(machine)

    def on_died(self, machine: SimulatedMachine, error: Exception) -> None:
        """`machine` raised: it ends, as its process would, and is started again."""
        if isinstance(error, NoSpace):
            self._accuse("A5", machine, f"ends because its disk is full: {error}")
        elif machine.held.has_refused(error):
            # The disk failed as the nemesis asked, and so the process ends, as it must.
            self.counts["disk_failures"] += 1
        elif isinstance(error, StorageError):
            self._accuse("A5", machine, f"says that a sound disk failed: {error}")
        elif isinstance(error, CorruptLog) and machine.held.spoilt:
            # The next start finds it, and repairs the log.
            self.counts["rot_met"] += 1
            self.note("meets bit rot", machine.node_id)
        elif isinstance(error, CorruptLog):
            self._accuse("A5", machine, f"finds damage on a disk that has none: {error}")
        elif isinstance(error, AssertionError) and "(P5)" in str(error) and self._has_lost:
            # It has committed what the group has lost and replaced since.
            self.counts["ends_after_loss"] += 1
        else:
            self._accuse(CRASH, machine, f"{type(error).__name__}: {error}")
        if machine.up:
            self.kill(machine, self.knobs.raft.election_timeout_s_max, in_step=True)

    def on_objection(self, machine: SimulatedMachine, sender: NodeId, error: ProtocolError) -> None:
        """`machine` takes a message of `sender` for one that no correct node sends."""
        raise AssertionError(f"the message of node {sender} is refused: {error}")

    def sprung(self, machine: SimulatedMachine) -> None:
        """A crash point of `machine` was reached: cut its power, now."""
        back = stream(self.knobs.seed, f"trap/{machine.node_id}/{machine.lives}")
        self.cut_power(machine, back.choice((0.02, 0.3, 1.0)) * self.knobs.raft.election_timeout_s_max)

    # ---------------------------------------------------------------- clients

    def _client_wakes(self, client: SimulatedClient) -> None:
        if self.healed:
            return
        node = self.clients.choose_node(client)
        client.outstanding += 1  # an answer that comes at once must not look like the end of the burst
        asked = [
            self.clients.begin(client, node, self.record.committed_index)
            for _ in range(self.knobs.burst)
            if not client.discouraged and self.clients.asks(client)
        ]
        self._ask(node, asked)
        client.outstanding -= 1
        self._client_ended(client)

    def _ask(self, node: NodeId, asked: Sequence[Waiting]) -> None:
        """Send requests to `node`, which come in one round, as what is sent at once on one connection does."""
        self.requests += len(asked)
        machine = self.machines[node]
        for waiting in asked:
            if machine.up:
                self.schedule(self.now + self.knobs.client_timeout_s, self._client_gives_up, waiting.id)
            else:
                self.schedule(self.now + self.knobs.delay_s, self._client_refused, waiting.id)
        machine.take(self._arrive_at, machine, asked)

    def _arrive_at(self, machine: SimulatedMachine, asked: Sequence[Waiting]) -> None:
        assert machine.driver is not None
        for waiting in asked:
            self._audits.on_asked(machine, waiting.id, self.now)
            if waiting.op.is_read:
                self._audits.on_read(machine, waiting.id)
            waiting.ask(machine, machine.driver)

    def _client_refused(self, request_id: int) -> None:
        self._client_ended(self.clients.on_failed(request_id, RequestOutcome.FAIL))

    def _client_gives_up(self, request_id: int) -> None:
        self._client_ended(self.clients.on_failed(request_id, RequestOutcome.UNKNOWN))

    def _client_ended(self, client: SimulatedClient | None) -> None:
        if client is None or client.outstanding:
            return
        if client is self.clients.probe:
            self.schedule(self.now + POLL_S, self._probe)
        elif client is not self.clients.watcher:
            mean_s = self.knobs.retry_s if client.discouraged else self.knobs.think_s
            client.discouraged = False
            self.schedule(self.now + mean_s * client.rng.expovariate(1.0), self._client_wakes, client)

    def on_acknowledged(
        self, machine: SimulatedMachine, request_id: int, base_offset: int, span: int, term: int
    ) -> None:
        """A client learns, now, that its records are committed."""
        waiting = self._take_answer(machine, request_id)
        if waiting is None:
            return
        self._audits.on_acknowledged(machine, waiting.data, base_offset, span, term)
        if waiting.op.client == self.clients.probe.number:
            self._probes["append"] = True
        self._client_ended(self.clients.append_ended(request_id, base_offset, term))

    def on_command_done(self, machine: SimulatedMachine, request_id: int, index: int, result: bytes) -> None:
        """A client learns, now, the result of its command."""
        waiting = self._take_answer(machine, request_id)
        if waiting is None:
            return
        self._audits.on_command_done(machine, waiting.data, LogIndex(index), result)
        self._client_ended(self.clients.command_ended(request_id, result))

    def on_readable(self, machine: SimulatedMachine, request_id: int) -> None:
        """A client may read the present state of `machine`, from which it is served at once, as its server does."""
        waiting, driver = self._take_answer(machine, request_id), machine.driver
        if waiting is None:
            return
        assert driver is not None
        assert machine.core is not None
        index = driver.applied_index if waiting.op.key >= 0 else machine.core.commit_index
        self._audits.on_served(machine, request_id, index)
        self._audits.on_readable(machine, index, waiting.committed_when_asked)
        if waiting.op.key >= 0:
            self._client_ended(self.clients.query_ended(request_id, driver.query(waiting.data)))
            return
        if waiting.op.client == self.clients.probe.number:
            self._probes["read"] = True
        end_offset = driver.committed_end
        self._audits.on_end_shown(machine, end_offset)
        self._client_ended(self.clients.read_ended(request_id, end_offset, _last_value(driver, end_offset)))

    def on_refused(self, machine: SimulatedMachine, request_id: int, error: RaftError) -> None:
        """A client learns that its request failed."""
        if self._take_answer(machine, request_id) is not None:
            self._client_ended(self.clients.refuse(request_id, error))

    def _take_answer(self, machine: SimulatedMachine, request_id: int) -> Waiting | None:
        """Returns the request that is answered, unless its client has given up."""
        self._audits.on_answered(machine, request_id)
        return self.clients.waiting.get(request_id)

    # ---------------------------------------------------------------- the network

    def deliver(self, sender: NodeId, to: NodeId, message: Message) -> None:
        """See `SimulatedWorld`."""
        machine = self.machines[to]
        if not machine.up:
            self.network.counts["messages_lost"] += 1
        machine.receive(sender, message)

    def reset(self, link: Link[NodeId]) -> None:
        """Break the connection of one direction and tell both ends."""
        self.counts["resets"] += 1
        self.network.reset(link)
        a, b = link
        self.note(f"connection {a}>{b} reset")
        self.machines[a].lose_connection(b)
        self.machines[b].lose_connection(a)

    # ---------------------------------------------------------------- power

    def cut_power(self, machine: SimulatedMachine, back_after_s: float) -> None:
        """Cut a machine's power; start it again after a while."""
        if not machine.up:
            return
        self.counts["power_cuts"] += 1
        self.counts["power_cuts_in_flush"] += machine.flush is not None
        self.note("power cut inside an fsync" if machine.flush is not None else "power cut", machine.node_id)
        machine.cut_power()
        if self.knobs.driver.flush_every_s:
            self._note_taken(machine)
        self._after_death(machine, back_after_s)

    def _note_taken(self, machine: SimulatedMachine) -> None:
        """Note what a power cut took, where others may count on what is in page caches."""
        assert machine.held.legacy is not None
        durable = machine.held.durable_log()
        taken = [entry for entry in machine.held.legacy.entries if not durable.has(entry)]
        if taken:
            self.counts["cuts_that_took"] += 1
            self.record.note_taken(taken)

    def kill(self, machine: SimulatedMachine, back_after_s: float, *, in_step: bool = False) -> None:
        """Kill a machine's process; start it again after a while. Peers see its connections close at once."""
        if not machine.up:
            return
        self.counts["kills"] += 1
        self.note("killed", machine.node_id)
        if not in_step and stream(self.knobs.seed, f"stop/{machine.node_id}/{machine.lives}").random() < 0.3:
            machine.stop()
        machine.kill(in_step=in_step)
        for other in self.machines:
            if other != machine.node_id:
                self.schedule(self.now + self.knobs.delay_s, self._peer_gone, other, machine.node_id)
        self._after_death(machine, back_after_s)

    def _peer_gone(self, node: NodeId, peer: NodeId) -> None:
        self.machines[node].lose_connection(peer)

    def _after_death(self, machine: SimulatedMachine, back_after_s: float) -> None:
        for client in self.clients.connection_lost(machine.node_id):
            self._client_ended(client)
        self.schedule(self.now + back_after_s, self._restart, machine, machine.lives)

    def _restart(self, machine: SimulatedMachine, lives: int) -> None:
        if machine.lives != lives or machine.up:
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
        if machine.held.has_refused(error):
            self.counts["disk_failures"] += 1
        else:
            self._accuse("A5", machine, f"cannot restart, though its disk is sound: {error}")
        self._restart_later(machine)

    def _restart_later(self, machine: SimulatedMachine) -> None:
        machine.give_up_start()
        self.schedule(self.now + self.knobs.raft.election_timeout_s_max, self._restart, machine, machine.lives)

    def _on_refused(self, machine: SimulatedMachine, error: CorruptLog) -> None:
        """Unrepairable damage costs the node its log, and it begins blank; only a power cut leaves such damage."""
        if not machine.held.spoilt:
            self._accuse("A5", machine, f"cannot restart: {error}")
            self.finished = True
        elif machine.storage is not None:
            # Met while it read its newest entries; the next start looks there.
            self.counts["rot_met"] += 1
            self._restart_later(machine)
        else:
            if machine.held.legacy is not None and machine.held.legacy.complete and not machine.held.start_spoilt:
                self._accuse("A5", machine, f"was killed, everything is known, and yet it refuses: {error}")
            self.counts["repairs_refused"] += 1
            self.note(f"its log is set aside: {error}", machine.node_id)
            machine.give_up_start()
            machine.set_aside()
            self.schedule(self.now, self._restart, machine, machine.lives)

    # ---------------------------------------------------------------- healing

    def end_faults(self) -> None:
        """Every node comes back with a good disk, met damage and a true clock, and the probes begin."""
        self._healed_at = self.clients.moment
        patience_s = self.knobs.raft.election_timeout_s_min
        for machine in self.machines.values():
            machine.calm(flush_s=patience_s / 20)
            if machine.up:
                machine.meet_rot()
            else:
                self._restart(machine, machine.lives)
        self.network.delay_s = min(self.network.delay_s, patience_s / 30)
        self.schedule(self.now + POLL_S, self._probe)

    def _probe(self) -> None:
        """One append, then one read, repeated until each has succeeded."""
        client = self.clients.probe
        node = self.clients.choose_node(client)
        if not self._probes["append"]:
            self._ask(node, [self.clients.begin_append(client, node, self.record.committed_index)])
        elif not self._probes["read"]:
            self._ask(node, [self.clients.begin_read(client, node, self.record.committed_index)])

    def open_conditions(self) -> list[str]:
        """Probes that have not succeeded yet, and whether the nodes agree."""
        missing = [f"no {probe} succeeded" for probe, done in self._probes.items() if not done]
        if not self._has_converged():
            missing.append("the nodes do not agree")
        if self._voters_without_a_count():
            missing.append("a voter that lost its directory is no learner yet")
        drivers = [machine.driver for machine in self._members() if machine.driver is not None]
        if any(driver.applied_index < driver.core.commit_index for driver in drivers):
            missing.append("the nodes have not applied all")
        return missing

    def _voters_without_a_count(self) -> list[SimulatedMachine]:
        """Returns the voters that answer from another directory than the group counts."""
        members = self.record.committed_members()
        return [
            machine
            for node, machine in self.machines.items()
            if node in members.voters and machine.core and not members.counts(node, machine.core.directory_id)
        ]

    def _members(self) -> list[SimulatedMachine]:
        """Returns the machines that are in the group at the end, learners included."""
        nodes = self.record.committed_members().nodes
        return [machine for node, machine in self.machines.items() if node in nodes]

    def _has_converged(self) -> bool:
        cores = [machine.core for machine in self._members()]
        ends = {(core.commit_index, core.log.durable_index, core.log.position) for core in cores if core is not None}
        return (
            len(ends) == 1
            and None not in cores
            and cores[0] is not None
            and ends == {(cores[0].log.last_index, cores[0].log.last_index, cores[0].log.position)}
        )

    def judge(self) -> None:
        """The log as stored on every node against the committed one, and that against what clients saw."""
        logs = [self._judge_log(machine) for machine in self._members()] if self._has_converged() else []
        self._audits.check_owed(self.now - self.knobs.patience_s)
        values = self.record.values()
        commands = [value_of(command) for _, command in self.record.commands()]
        history = self.clients.history
        if self._has_lost:
            history = blackbox.without_lost(history, {*values, *commands}, self.record.taken_values, self._healed_at)
        for oracle, sentence in blackbox.check(history, values, commands):
            self.report(oracle, 0, sentence)
        if HAS_CHECKER and logs and None not in logs:
            for oracle, sentence in histories.check(history, [log for log in logs if log is not None]):
                self.report(oracle, 0, sentence)

    def _judge_log(self, machine: SimulatedMachine) -> blackbox.NodeLog | None:
        """Returns the log of a node as clients read it, after a comparison of what is stored; None if it is unreadable."""
        assert machine.core is not None
        assert machine.driver is not None
        try:
            stored = machine.stored_entries() if self.record.ledger else ()
            machine.apply_all()
            log = _final_log(machine.node_id, machine.driver)
        except LogError as error:
            self._accuse("B-diverged", machine, f"its stored log cannot be read: {error}")
            return None
        first_index = LogIndex(machine.core.log.start.index + 1)
        committed = [known.entry for known in self.record.ledger[first_index - 1 :]]
        at = first_difference(stored, committed)
        if at is not None:
            index, ends = first_index + at, f"{first_index}..{first_index + len(stored) - 1}"
            self._accuse("B-diverged", machine, f"its stored log, {ends}, differs from the committed log at {index}")
        return log

    @property
    def _has_lost(self) -> bool:
        """True if a power cut took what may have been acknowledged."""
        return self.record.taken_from < float("inf")

    def committed_position(self) -> Position:
        """Returns the end of the committed log."""
        return self.record.committed_position

    # ---------------------------------------------------------------- findings

    def _accuse(self, oracle: str, machine: SimulatedMachine, sentence: str) -> None:
        self.report(oracle, machine.node_id, sentence)

    def totals(self) -> Counter[str]:
        """Returns the counts of the world, the network, the clients and each node."""
        total = self.counts + self.network.counts + self.clients.counts + self._nemesis.counts
        for machine in self.machines.values():
            total += machine.counts
            total["segment_rolls"] += machine.held.segments() - 1
        total["committed_entries"] = len(self.record.ledger)
        return total

    def outcome(self) -> Iterator[object]:
        """The committed log, and the size and age of each node's."""
        for known in self.record.ledger:
            yield known.entry.term, known.leader_term, known.entry.batch.crc
        for machine in self.machines.values():
            yield machine.lives, len(machine.entries), machine.held.durable_log().term

    def all_requests(self) -> list[tuple[int, int]]:
        """The requests of all clients, probes too."""
        return [
            (client.number, number) for client in self.clients.clients for number in range(1, client.considered + 1)
        ]

    def state_of(self, node: int) -> str:
        """Role, term, commit index and ends of the log."""
        return describe_state(self.machines[NodeId(node)] if node else None)


def _last_value(driver: RaftDriver, end_offset: int) -> int:
    """Returns the last value before `end_offset`, as a client reads it; 0 if there is none, `UNSEEN` if it has left."""
    if end_offset == 0:
        return 0
    if end_offset <= driver.core.log.start.offset:
        return UNSEEN
    for batch in driver.read_committed(end_offset - 1, 1):
        return values_in(batch.data)[end_offset - 1 - batch.base_offset]
    return UNSEEN


def _final_log(node: NodeId, driver: RaftDriver) -> blackbox.NodeLog:
    """Returns the log of a node, as a client reads it."""
    first = offset = driver.core.log.start.offset
    values: list[int] = []
    terms: list[int] = []
    while offset < driver.committed_end:
        for batch in driver.read_committed(offset, 1 << 20):
            values += (values_in(batch.data) + [0] * batch.span)[: batch.span]  # however it is damaged
            terms += [batch.epoch] * batch.span
            offset = Offset(batch.base_offset + batch.span)
    return blackbox.NodeLog(node, first, values, terms)
