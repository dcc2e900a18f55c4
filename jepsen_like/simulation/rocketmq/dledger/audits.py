"""The invariants of a simulated raft group of brokers, checked at each applied command, answer and end of a round.

G1 acknowledgement  what a client is told to be stored, committed or created is in the raft logs of a majority: durable
                    with ack=durable, in memory with ack=page-cache
G2 one log          every broker applies the same commands in order, to the same effect: none of an ended leadership
G3 queue offsets    a message is stored once, a queue offset given once, and every answer names the message's place
G4 copies           the commit logs of all brokers are the same bytes, and so are their queues, topics and offsets
G5 mastership       a broker is master, for name servers and clients, only while it leads the group; it has then applied
                    to its commit log all that earlier masters acknowledged; a leadership has one master
G6 reads            consumers see committed messages alone, and those that this or an earlier master has acknowledged
G7 tables           acknowledged consumer offsets and topics are on every later master; a topic precedes its messages
G8 delays           a delayed message is delivered when it is due, not before its own time, and not again once the group
                    has decided that it was; what is decided to be delivered was
G9 snapshots        a broker takes a snapshot only if its own commit log durably holds all that leaves the raft log
G10 stalled disks   a leader whose disk hangs hands its leadership over
G11 rest            a broker to which nothing comes does nothing until something is due
"""

from collections import Counter
from collections.abc import Callable, Mapping

from jepsen_like.simulation.rocketmq.dledger.broker import DledgerBroker
from jepsen_like.simulation.rocketmq.dledger.requests import TIMER_LEVEL, BrokerRequest, RequestKind
from jepsen_like.simulation.rocketmq.dledger.truth import BrokerGroupTruth, StoredMessage
from jepsen_like.simulation.rocketmq.process import DELAYED_IDLE_ROUNDS_MAX
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from log.errors import CorruptLog
from raft.model import LogIndex
from raft.roles import Leader
from rocketmq_compat.consumers.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_compat.raft_state import BeginLeadership, decode_group_command
from rocketmq_compat.records import read_heads, read_message_id
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader
from rocketmq_compat.remoting.headers.pulling import PullMessageResponseHeader
from rocketmq_compat.remoting.headers.sending import SendMessageResponseHeader
from rocketmq_compat.storage.commit_log import CommitLog
from rocketmq_compat.storage.dispatch import UNIT

Accuse = Callable[[str, int, str], None]
OK = ResponseCode.SUCCESS


class DledgerAudits:
    """Looks on."""

    def __init__(self, knobs: RocketmqKnobs, brokers: Mapping[int, DledgerBroker], report: Accuse) -> None:
        self.counts: Counter[str] = Counter()
        self.truth = BrokerGroupTruth(report, self.counts)
        self._knobs = knobs
        self._brokers = brokers
        self._report = report
        self._place: dict[int, tuple[int, int]] = {}
        """By process, the index of the entry that it applies, and which of its commands."""
        self._masters: dict[int, int] = {}
        """The master of each term."""
        self._claims: dict[int, int] = {}
        """By process that is master, in which term."""
        self._acked_end = 0
        """The physical end of what was acknowledged."""
        self._acked_nexts: dict[tuple[str, int], int] = {}
        self._acked_offsets: dict[tuple[str, str, int], int] = {}
        self._acked_topics: set[str] = set()
        self._due: dict[bytes, float] = {}
        self.acknowledged: dict[bytes, StoredMessage] = {}
        self.refused: set[bytes] = set()

    # ---------------------------------------------------------------- what brokers apply

    def on_applied(self, broker: DledgerBroker, now: float, index: int, command: bytes, *, had_effect: bool) -> None:
        """A copy has applied a command."""
        last, ordinal = self._place.get(broker.process, (0, 0))
        ordinal = ordinal + 1 if last == index else 0
        self._place[broker.process] = index, ordinal
        self.counts["commands_applied"] += 1
        known = len(self.truth.delayed)
        outcome = self.truth.on_applied(broker.node, index, ordinal, command, had_effect)
        if len(self.truth.delayed) > known:
            body = next(reversed(self.truth.delayed))
            self._due[body] = now
        decoded = decode_group_command(command)
        if isinstance(decoded, BeginLeadership) and had_effect:
            broker.begun_in = decoded.term
        state = broker.copy.state
        if (state.term, state.end) != (outcome.term, outcome.end):
            words = f"is at term {state.term}, end {state.end} after {index}"
            self._report("G2", broker.node, f"{words}, where the group is at {outcome.term}, {outcome.end}")
        if not broker.copy.incomplete.is_set():
            if broker.store.log.end_offset < state.end:
                self._report(
                    "G4", broker.node, f"its commit log ends at {broker.store.log.end_offset}, not {state.end}"
                )
            size = outcome.end - getattr(decoded, "base", outcome.end)
            self._same_bytes(broker, outcome.end - max(size, 0), outcome.end)

    def on_copied(self, broker: DledgerBroker, start: int, end: int) -> None:
        """A copy has taken over a part of another commit log."""
        if not broker.copy.incomplete.is_set():
            for topic, keepers in self.truth.deleted.items():
                keepers.discard(broker.node)
                if topic in broker.copy.state.tables.topics:
                    keepers.add(broker.node)
        self.counts["copies_taken"] += 1
        self._same_bytes(broker, start, end)

    def _same_bytes(self, broker: DledgerBroker, start: int, end: int) -> None:
        """G4."""
        found = content_of(broker.store.log, start, end)
        if found is not None and found != self.truth.content[max(start, broker.store.log.start_offset) : end]:
            self._report(
                "G4", broker.node, f"its commit log holds other bytes at [{start}, {end}) than the group has decided"
            )

    def snapshot_taken(self, broker: DledgerBroker) -> None:
        """G9."""
        log, state = broker.store.log, broker.copy.state
        self.counts["snapshots_taken"] += 1
        if broker.copy.incomplete.is_set() or log.end_offset < state.end:
            self._report(
                "G9", broker.node, f"takes a snapshot up to {state.end}, and its commit log ends at {log.end_offset}"
            )
        elif log.durable_offset < state.end:
            self._report(
                "G9", broker.node, f"takes a snapshot up to {state.end}, of which {log.durable_offset} is durable"
            )

    # ---------------------------------------------------------------- who is master

    def on_round_end(self, broker: DledgerBroker) -> None:
        """A round has ended."""
        core = broker.core
        if broker.idle_rounds > DELAYED_IDLE_ROUNDS_MAX:
            self._report("G11", broker.node, f"{broker.idle_rounds} rounds in a row have nothing to do")
        leads = isinstance(core.role, Leader)
        if leads and broker.flush_begun is not None and self._knobs.dledger.durable:
            hangs_s = broker.reading() - broker.flush_begun
            if hangs_s > self._knobs.dledger.flush_stall_s + 4 * self._knobs.dledger.heartbeat_s:
                self._report("G10", broker.node, f"leads, although its disk has not answered for {hangs_s:.2f} s")
        if not broker.claims:
            self._claims.pop(broker.process, None)
            return
        if not leads or broker.begun_in != core.term:
            role = f"{core.role_name.value} in {core.term}, of which the begin {'' if broker.begun_in == core.term else 'not '}applied"
            self._report("G5", broker.node, f"is master, and is {role}")
        elif self._claims.get(broker.process) != core.term:
            self._claims[broker.process] = core.term
            self._becomes_master(broker)

    def _becomes_master(self, broker: DledgerBroker) -> None:
        copy, log, node = broker.copy, broker.store.log, broker.node
        self.counts["masters"] += 1
        other = self._masters.setdefault(broker.core.term, node)
        if other != node:
            self._report("G5", node, f"is master in term {broker.core.term}, as broker {other} was")
        if copy.incomplete.is_set() or log.end_offset < copy.state.end:
            self._report("G5", node, f"is master, and its commit log ends at {log.end_offset} of {copy.state.end}")
        if copy.state.end < self._acked_end:
            self._report("G5", node, f"is master, and knows {copy.state.end} of {self._acked_end} acknowledged bytes")
        for key, offset in self._acked_offsets.items():
            if (broker.context.offsets.get(key) or 0) < offset:
                self._report(
                    "G7", node, f"is master, and has {broker.context.offsets.get(key)} for {key}, not {offset}"
                )
        for topic in self._acked_topics:
            if broker.context.topics.get(topic) is None:
                self._report("G7", node, f"is master, and does not know topic {topic}")

    # ---------------------------------------------------------------- answers

    def on_answered(self, broker: DledgerBroker, request: BrokerRequest, answer: Command) -> None:
        """A client is about to be answered."""
        is_ok = answer.code == OK
        self.counts[f"{request.kind.value}s_{'ok' if is_ok else 'refused'}"] += 1
        match request.kind:
            case RequestKind.SEND if is_ok:
                self._on_stored(broker, request, SendMessageResponseHeader.read(answer.ext))
            case RequestKind.SEND if answer.code != ResponseCode.SYSTEM_ERROR:
                self.refused.update(request.bodies)
            case RequestKind.PULL if "maxOffset" in answer.ext:
                self._on_pulled(broker, request, answer)
            case RequestKind.COMMIT if is_ok:
                self._on_committed(broker, request)
            case RequestKind.QUERY if is_ok and broker.claims:
                key = request.group, request.topic, request.queue
                found = OffsetResponseHeader.read(answer.ext).offset
                if self._is_newest(broker) and found < self._acked_offsets.get(key, 0):
                    self._report("G7", broker.node, f"says {found} for {key}, after {self._acked_offsets[key]}")
            case RequestKind.CREATE if is_ok:
                if request.topic not in self.truth.topics:
                    self._report("G7", broker.node, f"topic {request.topic} is said to be created, and is not")
                else:
                    self._held_by_majority(broker, self.truth.changed_at[request.topic], f"topic {request.topic}")
                self._acked_topics.add(request.topic)
            case _:
                pass

    def _is_newest(self, broker: DledgerBroker) -> bool:
        return self._claims.get(broker.process) == max(self._masters, default=0)

    def _on_stored(self, broker: DledgerBroker, request: BrokerRequest, answer: SendMessageResponseHeader) -> None:
        topic = request.topic
        if request.level:
            topic = TIMER_TOPIC if request.level == TIMER_LEVEL else SCHEDULE_TOPIC
        physical = [read_message_id(each)[2] for each in answer.msg_id.split(",")]
        if len(physical) != len(request.bodies):
            self._report("G3", broker.node, f"{len(request.bodies)} messages are answered with {len(physical)} places")
        for number, (body, at) in enumerate(zip(request.bodies, physical, strict=False)):
            found = self.truth.stored.get((topic, body))
            if found is None:
                self._report("G1", broker.node, f"{body!r} is acknowledged, and no broker has stored it")
                continue
            if (found.physical, found.queue_offset) != (at, answer.queue_offset + number):
                said = f"at {at}, offset {answer.queue_offset + number}"
                self._report(
                    "G3", broker.node, f"{body!r} is said to be {said}; it is at {found.physical}, {found.queue_offset}"
                )
            self._held_by_majority(broker, found.index, repr(body))
            self.acknowledged[body] = found
            self._acked_end = max(self._acked_end, found.physical + 1)
            key = found.topic, found.queue
            if found.queue_offset < self.truth.nexts.get(key, 0):  # else the topic has been deleted since
                self._acked_nexts[key] = max(self._acked_nexts.get(key, 0), found.queue_offset + 1)

    def _held_by_majority(self, broker: DledgerBroker, index: int, what: str) -> None:
        """G1."""
        log = broker.core.log
        if index <= log.start.index:
            return
        term, durably = log.term_at(LogIndex(index)), self._knobs.dledger.durable
        holders = [each.node for each in self._brokers.values() if each.holds(index, term, durably=durably)]
        if 2 * len(holders) <= len(self._brokers):
            where = "on the disks of" if durably else "with"
            self._report("G1", broker.node, f"{what} is acknowledged, and is {where} {holders} alone")

    def _on_committed(self, broker: DledgerBroker, request: BrokerRequest) -> None:
        key = request.group, request.topic, request.queue
        if self.truth.offsets.get(key, -1) < request.offset:
            self._report(
                "G7", broker.node, f"{key} is said to be at {request.offset}, and is at {self.truth.offsets.get(key)}"
            )
        else:
            self._held_by_majority(broker, self.truth.changed_at[key], f"offset {request.offset} of {key}")
        self._acked_offsets[key] = max(self._acked_offsets.get(key, 0), request.offset)

    def _on_pulled(self, broker: DledgerBroker, request: BrokerRequest, answer: Command) -> None:
        """G6."""
        content = b"".join((answer.body, *answer.more))
        for start, head in read_heads(content):
            at, record = head.physical_offset, content[start : start + head.size]
            self.counts["messages_read"] += 1
            if self.truth.content[at : at + len(record)] != record:
                self._report(
                    "G6",
                    broker.node,
                    f"a consumer sees {bytes(head.body(record))!r} at {at}, where the group has decided otherwise",
                )
            if (head.topic, head.queue_id) != (request.topic, request.queue):
                self._report("G6", broker.node, f"a consumer of {request.topic} sees a message of {head.topic}")
        header = PullMessageResponseHeader.read(answer.ext)
        acked = self._acked_nexts.get((request.topic, request.queue), 0)
        stands = acked <= self.truth.nexts.get(
            (request.topic, request.queue), 0
        )  # else the topic has been deleted since
        if broker.claims and self._is_newest(broker) and header.max_offset < acked and stands:
            what = f"{request.topic}/{request.queue} ends at {header.max_offset}"
            self._report("G6", broker.node, f"{what}, and {acked} are acknowledged")

    # ---------------------------------------------------------------- the end

    def owed_deliveries(self) -> int:
        """Returns the number of delayed messages that have not been delivered."""
        return len(self.truth.delayed.keys() - self.truth.delivered)

    def on_started(self, broker: DledgerBroker) -> None:
        """A process has begun."""
        if broker.store.derived.report.rebuilt is not None:
            for keepers in self.truth.deleted.values():
                keepers.add(broker.node)

    def differences(self, broker: DledgerBroker) -> list[str]:
        """In what a broker is not yet as the group has decided, in words."""
        truth, found = self.truth, list[str]()
        context, log = broker.context, broker.store.log
        if broker.copy.incomplete.is_set() or log.end_offset != truth.end:
            found.append(f"broker {broker.node} has {log.end_offset} of {truth.end} bytes")
        if broker.copy.state.end != truth.end or broker.copy.state.term != truth.term:
            found.append(f"broker {broker.node} is at {broker.copy.state.end} in {broker.copy.state.term}")
        if truth.topics and set(context.topics.topics) != truth.topics:
            found.append(f"broker {broker.node} has other topics")
        if dict(context.offsets.snapshot().offsets) != truth.offsets:
            found.append(f"broker {broker.node} has other offsets")
        if {level: each for level, each in broker.delays.offsets.items() if each} != {
            k: v for k, v in truth.delays.items() if v
        }:
            found.append(f"broker {broker.node} has other delay offsets")
        return found

    def judge(self, node: int) -> None:
        """At the end acknowledged messages are where they should be, refused ones nowhere, and all copies are equal."""
        truth = self.truth
        bodies = {
            body: message
            for (topic, body), message in truth.stored.items()
            if body not in truth.delayed or topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
        }
        for body, message in self.acknowledged.items():
            if bodies.get(body) != message:
                self._report("G3", node, f"{body!r} was acknowledged at {message.physical}, and is not there")
        for body in self.refused & bodies.keys():
            self._report("G3", node, f"{body!r} was refused for certain, and is stored")
        for broker in self._brokers.values():
            log = broker.store.log
            found = content_of(log, log.start_offset, log.end_offset)
            if found is not None and found != truth.content[log.start_offset : log.end_offset]:
                self._report("G4", broker.node, "its commit log is not that of the group")
            self._judge_queues(broker)

    def _judge_queues(self, broker: DledgerBroker) -> None:
        deleted = {topic for topic, keepers in self.truth.deleted.items() if broker.node in keepers}
        nexts = {
            queue.key: queue.next for queue in broker.store.derived.queues if queue.next and queue.key[0] not in deleted
        }
        if nexts != {key: each for key, each in self.truth.nexts.items() if key[0] not in deleted}:
            self._report("G4", broker.node, f"its queues end at {nexts}, those of the group at {self.truth.nexts}")
        for (topic, body), message in self.truth.stored.items():
            queue = broker.store.derived.queues.get((message.topic, message.queue))
            if queue is None or body in self.truth.delayed or message.physical < broker.store.log.start_offset:
                continue
            if not queue.min_offset(broker.store.log.start_offset) <= message.queue_offset < queue.next:
                continue
            units = queue.units(message.queue_offset, 1)
            physical, _, _ = UNIT.unpack_from(units)
            if physical != message.physical and self._is_last_of_its_place(topic, body, message):
                self._report(
                    "G4",
                    broker.node,
                    f"its queue {topic}/{message.queue} has {physical} for {body!r}, at {message.physical}",
                )

    def _is_last_of_its_place(self, topic: str, body: bytes, message: StoredMessage) -> bool:
        """Returns True if no later message has got the same queue offset, as happens once a topic has been deleted."""
        place = message.topic, message.queue, message.queue_offset
        return all(
            (each.topic, each.queue, each.queue_offset) != place or each.physical <= message.physical
            for each in self.truth.stored.values()
        )


def content_of(log: CommitLog, start: int, end: int) -> bytes | None:
    """The bytes of a commit log in that range, from its start on; None if there are none."""
    start = max(start, log.start_offset)
    if start >= end:
        return None
    try:
        found = log.byte_reader().read(start, end - start)
    except CorruptLog:
        return None  # damage that its broker has not read yet
    return None if found is None else bytes(found)
