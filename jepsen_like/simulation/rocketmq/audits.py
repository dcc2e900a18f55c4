"""The invariants of a simulated broker group, checked whenever a copy decides something, and at every answer.

Q1 acknowledgement  what a status promises is on the disks that the mode names, durable where it flushes
Q2 copy             with haDivergence=refuse the log of a slave that is pushed to is a beginning of its master's
Q3 handshake        then a slave is welcomed if and only if its log is a beginning of its master's
Q4 divergence       a master takes no records from finding a divergence until an operator has decided
Q5 epoch            an epoch belongs to one start of a master, and epochs grow along a log
Q6 report           a slave reports what it holds, durable if it flushes; a broker knows what is durable when a round ends
Q7 status           a weaker status has its reason: a timeout before the promise was kept, or no slave near
Q8 log              a record is stored as its client was answered, at most once; only faults and operators remove bytes
Q9 confirm offset   what is below a master's confirm offset is on as many copies as the mode promises
Q10 whole master    a master that lacks an acknowledged record of any disk takes none, unless an operator has decided so
                    or has made another broker the master
Q11 tables          it lacks no committed offset either that a slave had when it shook hands, and misses lost tables
Q12 disk            a killed process finds all it wrote and its note of that, one that lost power all that was durable
Q13 queue           a message has the queue offset of its answer; these follow each other, and consumers see all of them
Q14 notes           a broker remembers what an order lets it remember, and forgets a doubt when all is durable again
Q15 rest            a broker with nothing to do waits for its next deadline
Q16 reading         a consumer reads what is in the log, in the order of the queue
Q17 doubt           a broker that starts without what it has acknowledged or reported doubts its copy, and does not take
                    it for flushed
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from jepsen_like.simulation.rocketmq.broker import GroupBroker, WaitingPut
from jepsen_like.simulation.rocketmq.clients import PutState, SentRecord
from jepsen_like.simulation.rocketmq.held import LossKind
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from rocketmq_compat.broker.puts import PutOutcome, StoredMessages
from rocketmq_compat.record_layout import OFFSETS, OFFSETS_AT
from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.replication.effects import (
    AdoptTables,
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    ConfirmOffsetMoved,
    CopyBackBegan,
    DivergenceFound,
    DoubtBegan,
    DoubtEnded,
    Effect,
    NoteSlave,
    ResetCommitLog,
    SendMessage,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import (
    CommitLogFlushed,
    DivergenceDiscarded,
    Event,
    HaConnectionClosed,
    LossAccepted,
    PutMessages,
    Received,
)
from rocketmq_compat.replication.messages import Handshake, HandshakeRefused, Report, Welcome
from rocketmq_compat.replication.model import RecoveredCopy
from rocketmq_compat.storage.broker_store import FoundMessages
from rocketmq_compat.storage.dispatch import QueueRun, walk

Accuse = Callable[[str, int, str], None]
EARLY_S = 1e-6
COPIES_4X = 2


@attrs.define(eq=False)
class HaLink:
    """A connection as both ends of it have shown it: what the master knows must follow from this."""

    master: int
    """The process of the master."""
    slave: int
    is_welcome: bool = False
    reported: int = 0


@attrs.define(eq=False)
class StoredRecord:
    """The facts known when the puts of a round were stored together."""

    stored_at: float
    """By the broker's own clock."""
    wait: bool
    end: int
    copies: int
    is_slave_near: bool
    data: bytes = b""
    is_flushed: bool = False
    """True if the master learned in time that it is flushed."""
    is_copied: bool = False
    """True if it learned in time that enough slaves have it."""


class RocketmqAudits:
    """Looks on."""

    def __init__(self, knobs: RocketmqKnobs, brokers: Mapping[int, GroupBroker], report: Accuse) -> None:
        self.counts: Counter[str] = Counter()
        self._knobs = knobs
        self._brokers = brokers
        self._report = report
        self._links: dict[int, HaLink] = {}
        self._stored: dict[int, dict[int, StoredRecord]] = {}
        """By process and token, what is not answered yet."""
        self._epochs: dict[int, int] = {}
        self._diverging: dict[int, set[int]] = {}
        """By process of a master, the slaves of which it knows that they diverge."""
        self._accepting: set[int] = set()
        self._acknowledged: list[tuple[int, bytes]] = []
        """Offset and record, of what no operator has given up."""
        self._decided: set[int] = set()
        """Processes of masters that an operator has let go on."""
        self._confirmed: dict[int, int] = {}

    def _by_process(self, process: int) -> GroupBroker | None:
        """The broker, if that process is the one that lives."""
        broker = self._brokers[process % 100]
        return broker if broker.up and broker.process == process else None

    def operator_decided(self) -> None:
        """An operator has let a log count as it is: what it lacks is given up."""
        self._acknowledged.clear()

    def on_recovered(self, broker: GroupBroker, recovered: RecoveredCopy) -> None:
        """A start has found this on its disk."""
        held, doubt = broker.held, recovered.doubt
        if broker.lacks_tables and doubt is None and self._knobs.refuses:
            self._report("Q11", broker.node, "starts without tables that it had, and is sure")
        if held.end >= broker.held.promised or not self._knobs.refuses:
            return
        self.counts["starts_without_promised"] += 1
        floor = None if doubt is None else doubt.floor
        if doubt is None or doubt.is_flushed or (floor is not None and floor.end < broker.held.promised):
            self._report(
                "Q17", broker.node, f"starts with a log up to {held.end} of {broker.held.promised}, and with {doubt}"
            )

    def on_consumed(self, broker: GroupBroker, offset: int, found: FoundMessages) -> None:
        """A consumer has read messages of a queue from `offset` on."""
        self.counts["messages_consumed"] += len(found.records)
        for record in found.records:
            queue_offset, physical = OFFSETS.unpack_from(record, OFFSETS_AT)
            if queue_offset < offset or not broker.held.holds(physical, bytes(record)):
                self._report("Q16", broker.node, f"message {queue_offset} is read as that at {physical}, from {offset}")
            offset = queue_offset + 1

    def on_round_end(self, broker: GroupBroker) -> None:
        """A round has ended."""
        known, durable = broker.replica.log.flushed_end, broker.held.durable_end
        if known < durable:
            self._report("Q6", broker.node, f"its log is durable up to {durable}, and it counts on {known}")

    # ---------------------------------------------------------------- before orders are carried out

    def on_stepped(self, broker: GroupBroker, event: Event | None, effects: Sequence[Effect]) -> None:
        """A copy has decided."""
        if isinstance(event, Received) and broker.listens:
            self._master_received(broker, event, effects)
        elif isinstance(event, CommitLogFlushed):
            for stored in self._stored.get(broker.process, {}).values():
                if stored.end <= event.end and self._waited_s(broker, stored) < self._knobs.sync_flush_timeout_s:
                    stored.is_flushed = True
        elif isinstance(event, HaConnectionClosed) and broker.listens:
            self._links.pop(event.connection, None)
        elif isinstance(event, LossAccepted):
            self._accepting.add(broker.process)
            self._diverging.pop(broker.process, None)
            self._decided.add(broker.process)
            self.operator_decided()
        for effect in effects:
            match effect:
                case AppendMessages() if isinstance(event, PutMessages):
                    self._appends(broker, event, effect)
                case TruncateCommitLog(end=end):
                    self.counts["cuts_within_batches"] += broker.held.start < end and end not in broker.held.ends
                    if not isinstance(event, DivergenceDiscarded):
                        self._report("Q8", broker.node, "a log is cut, and no operator has decided so")
                case ResetCommitLog(start=start) if isinstance(event, DivergenceDiscarded):
                    self.counts["resets_to_before"] += start < broker.held.start
                case ResetCommitLog(start=start) if broker.held.data and not isinstance(event, DivergenceDiscarded):
                    if start < broker.held.end:
                        self._report(
                            "Q8", broker.node, f"a log up to {broker.held.end} is dropped, to begin at {start}"
                        )
                case _:
                    pass

    @staticmethod
    def _waited_s(broker: GroupBroker, stored: StoredRecord) -> float:
        return broker.reading() - stored.stored_at

    def _master_received(self, broker: GroupBroker, event: Received, effects: Sequence[Effect]) -> None:
        message, connection = event.message, event.connection
        if isinstance(message, Handshake):
            self._links[connection] = HaLink(broker.process, message.slave_id)
        elif isinstance(message, Report) and connection in self._links:
            if any(isinstance(effect, CloseHaConnection) for effect in effects):
                return
            self._links[connection].reported = message.end
            reports = sorted(self._near(broker), reverse=True)
            for stored in self._stored.get(broker.process, {}).values():
                is_there = (
                    stored.copies > 1 and len(reports) >= stored.copies - 1 and reports[stored.copies - 2] >= stored.end
                )
                if is_there and self._waited_s(broker, stored) < self._knobs.slave_timeout_s:
                    stored.is_copied = True

    def _near(self, broker: GroupBroker) -> list[int]:
        """The reports of the slaves of this master, one each."""
        mine = [link for link in self._links.values() if link.master == broker.process and link.is_welcome]
        return list({link.slave: link.reported for link in mine}.values())

    def _appends(self, broker: GroupBroker, event: PutMessages, order: AppendMessages) -> None:
        if self._diverging.get(broker.process):
            slaves = sorted(self._diverging[broker.process])
            self._report("Q4", broker.node, f"records are taken at {order.offset}, although {slaves} diverge")
        if order.epoch not in self._epochs and self._knobs.refuses and broker.is_designated:
            self._check_whole(broker)
        owner = self._epochs.setdefault(order.epoch, broker.process)
        if owner != broker.process:
            self._report("Q5", broker.node, f"epoch {order.epoch} was begun by another start, too")
        if broker.held.epochs and broker.held.epochs[-1].epoch > order.epoch:
            self._report("Q5", broker.node, f"epoch {order.epoch} after {broker.held.epochs[-1].epoch}")
        knobs, reports = self._knobs, self._near(broker)
        in_sync = 1 + sum(broker.held.end - each < knobs.fallbehind_bytes_max for each in reports)
        end = order.offset + order.size
        near = bool(reports) and end - max(reports) < knobs.fallbehind_bytes_max
        stored = StoredRecord(broker.reading(), event.wait, end, self._copies(in_sync), near)
        self._stored.setdefault(broker.process, {})[event.token] = stored

    def _check_whole(self, broker: GroupBroker) -> None:
        """Before the first record of a start: the master has what is acknowledged, as far as any disk has it."""
        trimmed = max(each.held.trimmed for each in self._brokers.values())
        for offset, record in self._acknowledged:
            if offset < trimmed or broker.held.holds(offset, record):
                continue
            holders = [each.node for each in self._brokers.values() if each.held.holds(offset, record)]
            if holders:
                self._report("Q10", broker.node, f"takes records without {record!r} at {offset}, which {holders} have")
                return
        self.counts["whole_masters"] += 1

    def _copies(self, in_sync: int) -> int:
        """Returns the number of copies that a record is promised if it is stored while so many are in sync."""
        knobs = self._knobs
        if not knobs.sync_master:
            return 1
        if not knobs.five_x:
            return COPIES_4X
        if knobs.auto_in_sync_replicas:
            return max(min(knobs.copies_wanted, in_sync), min(knobs.min_in_sync_replicas, knobs.copies_wanted))
        return knobs.copies_wanted

    # ---------------------------------------------------------------- after orders were carried out

    def on_effect(self, broker: GroupBroker, event: Event | None, effect: Effect) -> None:
        """An order was carried out."""
        match effect:
            case SendMessage(message=Welcome()) if isinstance(event, Received):
                self._welcomes(broker, effect.connection, event)
            case SendMessage(message=HandshakeRefused(agreed_end=agreed)) if agreed >= 0 and isinstance(
                event, Received
            ):
                self._refuses(broker, event)
            case SendMessage(message=Report(end=end)):
                self._reports(broker, end)
                broker.held.promises = max(broker.held.promises, end)
            case CloseHaConnection(connection=connection) if broker.listens:
                self._links.pop(connection, None)
            case AppendPushed():
                self._on_pushed(broker, effect, event)
            case AppendMessages(offset=offset) if isinstance(event, PutMessages):
                stored = self._stored[broker.process][event.token]
                stored.data = broker.held.read(offset, stored.end)
                self.counts["puts_stored_together"] += broker.held.end != stored.end or len(broker.waiting) > 1
            case TruncateCommitLog(end=end) | ResetCommitLog(start=end):
                broker.held.take_back(end)
                if broker.held.end != end:
                    self._report("Q8", broker.node, f"a log that was cut at {end} ends at {broker.held.end}")
            case AnswerPut():
                self._answers(broker, effect)
            case ConfirmOffsetMoved(confirm_offset=offset) if broker.listens:
                self._confirms(broker, offset)
            case NoteSlave(slave_id=slave_id) if slave_id not in broker.store.copy.notes.slaves:
                self._report("Q14", broker.node, f"slave {slave_id} is not noted")
            case DoubtBegan(doubt=doubt) if broker.store.copy.notes.doubt != doubt:
                self._report("Q14", broker.node, f"notes the doubt {broker.store.copy.notes.doubt}, not {doubt}")
            case CopyBackBegan():
                self.counts["copies_back"] += 1
                self.counts["bytes_copied_back"] += effect.end - effect.start
            case AdoptTables():
                self.counts["tables_adopted"] += 1
            case DoubtEnded():
                self.counts["doubts_ended"] += 1
                self.counts["doubts_ended_short"] += effect.missing_bytes > 0
                self._check_tables(broker)
                self._check_forgotten(broker, effect)
                broker.lacks_tables = False
                broker.held.take_back(broker.held.end)
            case DivergenceFound(blocks=blocks):
                self.counts["divergences"] += 1
                self.counts["blocked_masters"] += blocks
            case _:
                pass

    def _check_tables(self, broker: GroupBroker) -> None:
        """A master that takes records again has the offsets that its slaves had."""
        is_free = broker.process in self._decided or not self._knobs.refuses
        if not broker.listens or not broker.lacks_tables or is_free:
            return
        near = {link.slave for link in self._links.values() if link.master == broker.process and link.is_welcome}
        offsets = broker.context.offsets.offsets
        for node in sorted(near):
            for key, offset in self._brokers[node].context.offsets.offsets.items():
                if offset > offsets.get(key, 0):
                    self._report("Q11", broker.node, f"is sure without offset {offset} of {key}, which {node} has")
                    return

    def _check_forgotten(self, broker: GroupBroker, news: DoubtEnded) -> None:
        """A doubt is forgotten when the log and the tables are durable."""
        if broker.held.durable_end < news.end:
            self._report("Q14", broker.node, f"is sure up to {news.end}, of which {broker.held.durable_end} is durable")
        if broker.store.copy.notes.doubt is None and broker.listens:
            durable, offsets = broker.durable_offsets(), broker.context.offsets.offsets
            ahead = {key: offset for key, offset in offsets.items() if offset > durable.get(key, 0)}
            if ahead:
                self._report("Q14", broker.node, f"has forgotten its doubt before {ahead} is on its disk")

    def _slave_of(self, connection: int, shake: Handshake) -> GroupBroker | None:
        """The broker that has shaken hands, if it still has that connection, and the log of which it told."""
        slave = self._brokers.get(shake.slave_id)
        if slave is None or connection not in slave.links.sockets.open:
            return None
        if (slave.held.start, slave.held.end) != (shake.log_start, shake.log_end):
            return None
        return slave

    def _welcomes(self, broker: GroupBroker, connection: int, event: Received) -> None:
        shake = event.message
        self.counts["welcomes"] += 1
        self._links[connection].is_welcome = True
        if not isinstance(shake, Handshake):  # its master has copied back what it had
            source = self._brokers[self._links[connection].slave]
            if connection in source.links.sockets.open and not source.held.is_beginning_of(broker.held):
                self._report("Q3", broker.node, f"slave {source.node} is welcomed, and has more than was copied back")
            return
        if self._knobs.refuses:
            self._diverging.get(broker.process, set()).discard(shake.slave_id)
            slave = self._slave_of(event.connection, shake)
            if slave is not None and not slave.held.is_beginning_of(broker.held):
                ends = f"{slave.held.end}, of {broker.held.end}"
                self._report("Q3", broker.node, f"slave {slave.node} is welcomed with another log up to {ends}")

    def _refuses(self, broker: GroupBroker, event: Received) -> None:
        shake = event.message
        assert isinstance(shake, Handshake), "a handshake is refused"
        self.counts["handshakes_refused"] += 1
        slave = self._slave_of(event.connection, shake)
        if slave is not None and slave.held.is_beginning_of(broker.held) and not _is_later(slave, broker):
            self._report(
                "Q3", broker.node, f"slave {slave.node} is refused, and its log is a beginning of the master's"
            )
        if broker.process not in self._accepting:
            self._diverging.setdefault(broker.process, set()).add(shake.slave_id)

    def _reports(self, broker: GroupBroker, end: int) -> None:
        disk = broker.held
        held = disk.durable_end if broker.replica.config.sync_flush else disk.end
        if end > held:
            self._report("Q6", broker.node, f"reports {end}, and holds {held}")

    def _on_pushed(self, broker: GroupBroker, effect: AppendPushed, event: Event | None) -> None:
        self.counts["pushes"] += 1
        disk = broker.held
        if len(disk.epochs) > 1 and disk.epochs[-2].epoch > disk.epochs[-1].epoch:
            self._report("Q5", broker.node, f"epoch {disk.epochs[-1].epoch} after {disk.epochs[-2].epoch}")
        assert isinstance(event, Received), "what is pushed was received"
        if broker.listens:
            slave = self._brokers[self._links[event.connection].slave]
            if event.connection in slave.links.sockets.open and not disk.is_beginning_of(slave.held):
                self._report("Q2", broker.node, f"its log up to {disk.end} is not a beginning of broker {slave.node}'s")
            return
        connection = next((each for each, name in broker.links.dials.items() if name == event.connection), 0)
        link = self._links.get(connection)
        master = self._by_process(link.master) if link is not None else None
        if master is None or disk.is_beginning_of(master.held):
            return
        if self._knobs.refuses:
            self._report("Q2", broker.node, f"its log up to {disk.end} is not a beginning of broker {master.node}'s")
        else:
            self.counts["pushes_behind_other_bytes"] += 1

    def _holders(self, broker: GroupBroker, offset: int, data: bytes) -> list[int]:
        """The other brokers that have these bytes, or had them until a fault or retention took them."""
        return [
            other.node
            for other in self._brokers.values()
            if other is not broker
            and (offset < other.held.trimmed or other.held.has_held(offset, data, durable=self._knobs.slave_sync_flush))
        ]

    def on_put_ended(self, broker: GroupBroker, put: WaitingPut, outcome: PutOutcome) -> None:
        """A client is answered."""
        held = broker.held
        if not isinstance(outcome, StoredMessages):
            self.counts["refusals"] += 1
            if put.body in held.data:
                self._report("Q8", broker.node, "a message is refused, and stored")
            return
        self.counts[f"status_{outcome.status.name}"] += 1
        (offset,) = outcome.physical_offsets
        if offset < held.start:
            return
        end = offset + put.record_bytes
        record = held.read(offset, end)
        is_promised = put.wait and outcome.status is SendStatus.SEND_OK and self._knobs.sync_flush
        if put.body not in record:
            self._report("Q1", broker.node, f"a message is answered at {offset}, where it is not")
        elif is_promised and held.durable_end < end:
            self._report("Q1", broker.node, f"the message at {offset} waited, and is not durable")
        elif OFFSETS.unpack_from(record, OFFSETS_AT) != (outcome.queue_offsets[0], offset):
            self._report("Q13", broker.node, f"the message at {offset} is answered as {outcome.queue_offsets[0]}")

    def _answers(self, broker: GroupBroker, answer: AnswerPut) -> None:
        stored = self._stored[broker.process].pop(answer.token)
        held = broker.held
        if answer.offset >= held.start and not held.holds(answer.offset, stored.data):
            self._report("Q1", broker.node, f"records are answered at {answer.offset}, where they are not")
        self._check_status(broker, stored, answer.status)
        if answer.status is not SendStatus.SEND_OK or not stored.wait:
            return
        broker.held.promises = max(broker.held.promises, stored.end)
        if broker.is_designated:
            self._acknowledged.append((answer.offset, stored.data))
        if self._knobs.sync_flush and held.durable_end < stored.end:
            self._report("Q1", broker.node, f"the record at {answer.offset} is acknowledged, and not durable")
        holders = self._holders(broker, answer.offset, stored.data)
        if len(holders) < stored.copies - 1 and answer.offset >= held.trimmed:
            if self._knobs.refuses:
                self._report(
                    "Q1", broker.node, f"the record at {answer.offset} is acknowledged with copies on {holders}"
                )
            else:
                self.counts["acknowledged_without_copies"] += 1

    def _check_status(self, broker: GroupBroker, stored: StoredRecord, status: SendStatus) -> None:
        knobs = self._knobs
        waited_s = broker.reading() - stored.stored_at + EARLY_S
        is_unavailable = knobs.sync_master and not knobs.five_x and stored.wait and not stored.is_slave_near
        problem = ""
        match status:
            case SendStatus.FLUSH_DISK_TIMEOUT:
                if not (knobs.sync_flush and stored.wait and waited_s >= knobs.sync_flush_timeout_s) or is_unavailable:
                    problem = f"{waited_s:.3f} s"
                elif stored.is_flushed:
                    problem = "it was flushed in time"
            case SendStatus.FLUSH_SLAVE_TIMEOUT:
                if not (knobs.sync_master and stored.wait and waited_s >= knobs.slave_timeout_s) or is_unavailable:
                    problem = f"{waited_s:.3f} s"
                elif stored.is_copied:
                    problem = "enough slaves had it in time"
            case SendStatus.SLAVE_NOT_AVAILABLE:
                if not is_unavailable:
                    problem = "a slave is near, or none was to be waited for"
            case SendStatus.SEND_OK:
                if is_unavailable:
                    problem = "no slave was near"
        if problem:
            self._report("Q7", broker.node, f"the answer {status.name}: {problem}")

    def _confirms(self, broker: GroupBroker, offset: int) -> None:
        knobs, disk = self._knobs, broker.held
        if knobs.sync_flush and disk.durable_end < offset:
            self._report("Q9", broker.node, f"{offset} is confirmed, and not durable")
        if not knobs.sync_master or not knobs.refuses or knobs.auto_in_sync_replicas:
            return
        start = max(self._confirmed.get(broker.process, 0), *[each.held.trimmed for each in self._brokers.values()])
        self._confirmed[broker.process] = offset
        wanted = COPIES_4X if not knobs.five_x else knobs.copies_wanted
        for begin, end in itertools.pairwise([start, *[each for each in disk.ends if start < each <= offset]]):
            holders = self._holders(broker, begin, disk.read(begin, end))
            if len(holders) < wanted - 1:
                self._report("Q9", broker.node, f"{end} is confirmed with copies on {holders} alone")

    # ---------------------------------------------------------------- the end

    def judge(self, master: GroupBroker, sent: Sequence[SentRecord]) -> None:
        """All logs are alike, and have each record once or not at all, as its client knows it."""
        for broker in self._brokers.values():
            if broker.held.end != master.held.end or not broker.held.is_beginning_of(master.held):
                if self._knobs.refuses:
                    self._report("Q2", broker.node, f"its log up to {broker.held.end} is not the master's")
                else:
                    self.counts["silent_divergences"] += 1
        if self._knobs.refuses:
            for broker in self._brokers.values():
                self._check_queues(broker)
        content = bytes(master.held.data)
        for each in sent:
            count = content.count(each.body)
            if count > 1:
                self._report("Q8", master.node, f"{each.body!r} is in the log {count} times")
            if each.state is PutState.FAILED and count:
                self._report("Q8", master.node, f"{each.body!r} has failed for certain, and is in the log")
            if each.state is PutState.OK and not count and each.offset >= master.held.start:
                self._on_lost(master, each)

    def _check_queues(self, broker: GroupBroker) -> None:
        """The offsets of each queue follow each other in the log, and consumers see all of them."""
        found = walk(bytes(broker.held.data), broker.held.start)
        if len({run.key for run in found.runs}) < len(found.runs):
            self._report("Q13", broker.node, f"the offsets of a queue have a gap: {describe_runs(found.runs)}")
        for run in found.runs:
            seen = broker.store.queue(run.key)
            if seen is None or seen[1] != run.next:
                self._report("Q13", broker.node, f"consumers see {seen} of {run.key}, which ends at {run.next}")

    def _on_lost(self, master: GroupBroker, sent: SentRecord) -> None:
        """An acknowledged record is not in the final log: some disk must have lost it, by a fault or an operator."""
        kinds = {
            lost.kind for broker in self._brokers.values() for lost in broker.held.losses if sent.body in lost.data
        }
        self.counts["excused_losses"] += 1
        if sent.offset < max(broker.held.trimmed for broker in self._brokers.values()):
            return
        faults = {LossKind.POWER, LossKind.WIPE, LossKind.DAMAGE, LossKind.OPERATOR}
        if not kinds & faults and self._knobs.refuses:
            self._report("Q8", master.node, f"{sent.body!r} was acknowledged at {sent.offset}, and no fault took it")


def _is_later(slave: GroupBroker, master: GroupBroker) -> bool:
    """Returns True if a slave's log ends before its master's begins, and yet is of a later epoch."""
    one, other = slave.held, master.held
    if one.end > other.start or not (one.epochs and other.epochs):
        return False
    return one.epochs[-1].epoch > other.epochs[0].epoch


def describe_runs(runs: Iterable[QueueRun]) -> str:
    """Returns the stretches of offsets in words."""
    return ", ".join(f"{run.key} [{run.first},{run.next})" for run in runs)
