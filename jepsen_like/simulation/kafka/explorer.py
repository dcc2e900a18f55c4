"""Every state that two replicas can reach with a few elections and records, by each order of deliveries and losses.

Replicas 1 and 2 are the real deciders with page-cache logs; the controller is its committed state alone. Under way are
a fetch and an answer for each follower, an AlterPartition and its answer, and metadata not yet received. A producer may
begin a transaction, whose coordinator sends its marker to any leader, again to the next ones.
"""

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from jepsen_like.simulation.kernel.explorer import BrokenPromise, Explorer
from kafka_compat.controller.commands import IsrChange, ProposedMember
from kafka_compat.model import NO_EPOCH, NO_LEADER, BrokerRegistration, PartitionState, TopicPartition
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import (
    AnswerFetch,
    AnswerVerification,
    AppendBatches,
    FetchFrom,
    ResetLog,
    SendAlterPartition,
    StopFetching,
    TruncateLog,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    Event,
    FetchAnswered,
    FollowerFetch,
    PartitionStateChanged,
    Produce,
    TimePassed,
    Truncated,
    VerificationAsked,
)
from kafka_compat.partition.leader import LeaderReplica
from kafka_compat.partition.model import NO_OFFSET, BatchInfo, BatchKind, PartitionConfig, RecoveredReplica
from kafka_compat.partition.producer_state import replay
from kafka_compat.protocol.error_codes import KafkaErrorCode

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes([7] * 16)
LAG_S = 10.0
Action = tuple[Any, ...]
Row = tuple[int, int, int]
"""A batch in a log: base offset, leader epoch, and its number."""
PRODUCER = 5
OPENS, ENDS = 101, 102
"""The numbers of a batch in the producer's transaction, and of its marker."""


@attrs.frozen
class KafkaScope:
    """The bounds of a search."""

    records: int = 2
    elections: int = 2
    shrinks: int = 1
    fences: int = 0
    """A broker is fenced, and unfenced at once, at most this often: it is out of the ISR, and eligible."""
    transactions: int = 0
    """1: there is a transaction."""

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in attrs.asdict(self).items())


def read_kafka_scope(text: str) -> KafkaScope:
    """Returns the scope of `records=N,elections=N,shrinks=N,fences=N,transactions=N`. Raises `ValueError` for another text."""
    values: dict[str, int] = {}
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if name not in attrs.fields_dict(KafkaScope) or not equals or not value.isdecimal():
            raise ValueError(f"{word!r} is not one of records=N, elections=N, shrinks=N, fences=N, transactions=N")
        values[name] = int(value)
    return KafkaScope(**values)


@attrs.frozen
class TwoReplicas:
    """One state. `replicas` are pickled deciders; the rest is plain."""

    replicas: tuple[bytes, bytes]
    facts: tuple[Any, Any]
    logs: tuple[tuple[Row, ...], tuple[Row, ...]]
    committed: PartitionState
    known: tuple[int, int]
    """The partition epoch that each replica has received."""
    fetches: frozenset[tuple[int, FetchFrom]] = frozenset()
    answers: frozenset[tuple[int, FetchAnswered]] = frozenset()
    alters: frozenset[SendAlterPartition] = frozenset()
    truth: tuple[Row, ...] = ()
    written: int = 0
    elections: int = 0
    shrinks: int = 0
    fences: int = 0
    begun: int = 0
    markers: int = 0


def _info(number: int, base_offset: int = NO_OFFSET, leader_epoch: int = NO_EPOCH) -> BatchInfo:
    """Returns a decider's view of a batch."""
    match number:
        case each if each == OPENS:
            return BatchInfo(1, 10, PRODUCER, 0, 0, base_offset, leader_epoch, BatchKind.TRANSACTIONAL)
        case each if each == ENDS:
            return BatchInfo(1, 10, PRODUCER, 0, -1, base_offset, leader_epoch, BatchKind.COMMIT, 0)
        case _:
            return BatchInfo(1, 10, base_offset=base_offset, leader_epoch=leader_epoch)


def _infos(rows: Iterable[Row]) -> tuple[BatchInfo, ...]:
    return tuple(_info(number, base_offset, leader_epoch) for base_offset, leader_epoch, number in rows)


def _facts(replica: PartitionReplica) -> tuple[Any, ...]:
    role = replica.role
    stable, open_ = replica.last_stable_offset, tuple(replica.log.producers.transactions.open)
    facts: tuple[Any, ...] = (replica.log_end, replica.high_watermark, replica.leader_epochs, role.epoch, stable, open_)
    if isinstance(role, LeaderReplica):
        followers = tuple((each.log_end, each.broker_epoch) for each in role.followers.values())
        isr = role.isr
        return (*facts, "leads", isr.committed, isr.partition_epoch, isr.pending, followers, isr.eligible)
    return (*facts, "follows", getattr(role, "fetching_from", None), getattr(role, "truncating_to", None))


def _fence(state: PartitionState, node: int) -> PartitionState:
    """The state after a member of the ISR was taken out, and another member leads if that led."""
    isr = tuple(member for member in state.isr if member != node)
    leader = state.leader if state.leader != node else next(iter(isr), NO_LEADER)
    return attrs.evolve(
        state,
        isr=isr,
        elr=tuple(sorted({*state.elr, node})),
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
    )


class KafkaExplorer(Explorer[TwoReplicas, Action]):
    """The search of one scope."""

    def __init__(self, scope: KafkaScope) -> None:
        super().__init__()
        self.scope = scope
        self._brokers = {
            node: BrokerRegistration(node, node, bytes([node] * 16), "h", 1, fenced=False) for node in (1, 2)
        }

    def starts(self) -> list[TwoReplicas]:
        """See `Explorer`."""
        first = PartitionState(TOPIC_ID, (1, 2), (1, 2), 1, 1, 1)
        config = PartitionConfig(replica_lag_time_s=LAG_S)
        replicas = [PartitionReplica(node, NAME, config, RecoveredReplica(), 0.0) for node in (1, 2)]
        content = tuple(pickle.dumps(replica) for replica in replicas)
        state = TwoReplicas((content[0], content[1]), (None, None), ((), ()), first, (0, 0))
        for node in (1, 2):
            state = self._step(state, node, BrokersChanged(self._brokers))
            state = self._step(state, node, PartitionStateChanged(first))
        return [attrs.evolve(state, known=(1, 1))]

    def possible(self, state: TwoReplicas) -> Iterator[Action]:
        """See `Explorer`."""
        if state.written < self.scope.records:
            for node in (1, 2):
                if "leads" in state.facts[node - 1]:
                    yield ("produce", node)
        if self.scope.transactions:
            yield from self._parts_of_a_transaction(state)
        if state.elections < self.scope.elections:
            for node in state.committed.isr or state.committed.elr:
                yield ("elect", node)
        if state.fences < self.scope.fences:
            for node in state.committed.isr:
                yield ("fence", node)
        for node in (1, 2):
            if state.known[node - 1] < state.committed.partition_epoch:
                yield ("metadata", node)
            if state.shrinks < self.scope.shrinks and "leads" in state.facts[node - 1]:
                yield ("silence", node)
        yield from (("fetch", node, order) for node, order in state.fetches)
        yield from (("answer", node, answer) for node, answer in state.answers)
        yield from (("alter", request) for request in state.alters)

    def _parts_of_a_transaction(self, state: TwoReplicas) -> Iterator[Action]:
        leaders = [node for node in (1, 2) if "leads" in state.facts[node - 1]]
        if state.begun < self.scope.transactions:
            yield from (("begin", node) for node in leaders)
        elif state.markers <= self.scope.elections:
            yield from (("mark", node) for node in leaders)

    def after(self, state: TwoReplicas, action: Action) -> TwoReplicas:
        """See `Explorer`."""
        match action:
            case ("produce", node):
                number = state.written + 1
                state = attrs.evolve(state, written=number)
                state = self._step(state, node, Produce(number, 1, BatchInfo(1, 10), 1e9, number))
            case ("begin", node):
                state = attrs.evolve(state, begun=state.begun + 1)
                state = self._step(state, node, VerificationAsked(OPENS, PRODUCER, 0, 0))
            case ("mark", node):
                state = attrs.evolve(state, markers=state.markers + 1)
                state = self._step(state, node, Produce(ENDS, -1, _info(ENDS), 1e9, ENDS))
            case ("elect", node):
                old = state.committed
                eligible = {*old.isr, *old.elr} - {node} if not old.isr else set(old.elr)
                new = attrs.evolve(
                    old,
                    isr=old.isr or (node,),
                    elr=tuple(sorted(eligible)),
                    leader=node,
                    leader_epoch=old.leader_epoch + 1,
                    partition_epoch=old.partition_epoch + 1,
                )
                state = attrs.evolve(state, committed=new, elections=state.elections + 1)
            case ("fence", node):
                state = attrs.evolve(state, committed=_fence(state.committed, node), fences=state.fences + 1)
            case ("metadata", node):
                known = list(state.known)
                known[node - 1] = state.committed.partition_epoch
                state = attrs.evolve(state, known=(known[0], known[1]))
                state = self._step(state, node, PartitionStateChanged(state.committed))
            case ("silence", node):
                state = attrs.evolve(state, shrinks=state.shrinks + 1)
                state = self._step(state, node, TimePassed(), now=(state.shrinks + 1) * 3 * LAG_S)
            case ("fetch", node, order):
                state = self._fetch(state, node, order)
            case ("answer", node, answer):
                state = attrs.evolve(state, answers=state.answers - {(node, answer)})
                state = self._step(state, node, answer)
            case ("alter", request):
                state = self._alter(state, request)
            case _:
                raise AssertionError(f"no such action: {action}")
        self._check(state)
        return state

    def _fetch(self, state: TwoReplicas, node: int, order: FetchFrom) -> TwoReplicas:
        """It arrives; it may arrive again, since a follower repeats it."""
        fetch = FollowerFetch(
            0, node, node, order.leader_epoch, order.fetch_offset, order.last_fetched_epoch, order.log_start, 0.0
        )
        return self._step(state, order.leader, fetch, order=order)

    def _alter(self, state: TwoReplicas, request: SendAlterPartition) -> TwoReplicas:
        committed = state.committed
        leads_here = "leads" in state.facts[0] and state.facts[0][3] == request.leader_epoch
        leader = 1 if leads_here else 2
        state = attrs.evolve(state, alters=state.alters - {request})
        change = IsrChange(
            TOPIC_ID,
            0,
            request.leader_epoch,
            request.partition_epoch,
            tuple(ProposedMember(broker, epoch) for broker, epoch in request.isr),
            keeps_eligible=request.keeps_eligible,
        )
        error = KafkaErrorCode.NONE
        if change.leader_epoch != committed.leader_epoch:
            error = KafkaErrorCode.FENCED_LEADER_EPOCH
        elif change.partition_epoch != committed.partition_epoch:
            error = KafkaErrorCode.INVALID_UPDATE_VERSION
        else:
            isr = tuple(member.broker for member in change.isr)
            left = {*committed.elr, *committed.isr}.difference(isr) if change.keeps_eligible else ()
            committed = attrs.evolve(
                committed, isr=isr, elr=tuple(sorted(left)), partition_epoch=committed.partition_epoch + 1
            )
            state = attrs.evolve(state, committed=committed)
        news = committed if error is KafkaErrorCode.NONE else None
        return self._step(state, leader, AlterPartitionAnswered(request.request, error, news))

    def _step(
        self, state: TwoReplicas, node: int, event: Event, *, now: float | None = None, order: FetchFrom | None = None
    ) -> TwoReplicas:
        """Let a decider take an event, and carry out what it orders."""
        moment = state.shrinks * 3 * LAG_S if now is None else now
        replica: PartitionReplica = pickle.loads(state.replicas[node - 1])  # noqa: S301 - made here
        log = list(state.logs[node - 1])
        fetches, answers, alters = set(state.fetches), set(state.answers), set(state.alters)
        events: list[Event] = [event]
        while events:
            try:
                effects = replica.step(moment, events.pop(0))
            except AssertionError as error:
                raise BrokenPromise(f"invariant: {error}") from error
            for effect in effects:
                match effect:
                    case AppendBatches():
                        if effect.leader_epoch >= 0:
                            assert isinstance(effect.payload, int), "one number for each batch"
                            log.append((effect.base_offset, effect.leader_epoch, effect.payload))
                        else:
                            assert isinstance(effect.payload, tuple), "rows of a leader"
                            log.extend(effect.payload)
                    case TruncateLog():
                        shorter = effect.end < replica.log_end
                        log = [row for row in log if row[0] < effect.end]
                        producers, transactions = replay((), _infos(log))
                        events.append(Truncated(effect.end, producers if shorter else None, transactions))
                    case AnswerVerification(error=KafkaErrorCode.NONE, guard=guard):
                        # the transaction's coordinator agrees
                        events.append(Produce(OPENS, -1, _info(OPENS), 1e9, OPENS, guard=guard))
                    case ResetLog():
                        log = []
                    case FetchFrom():
                        fetches = {each for each in fetches if each[0] != node} | {(node, effect)}
                    case StopFetching():
                        fetches = {each for each in fetches if each[0] != node}
                    case SendAlterPartition():
                        alters.add(effect)
                    case AnswerFetch() if order is not None:
                        rows = tuple(row for row in log if effect.start <= row[0] < effect.end)
                        infos = _infos(rows)
                        answers.add(
                            (
                                3 - node,
                                FetchAnswered(
                                    order.leader_epoch,
                                    order.fetch_offset,
                                    effect.error,
                                    effect.high_watermark,
                                    effect.log_start,
                                    effect.diverging,
                                    infos,
                                    rows,
                                    order.last_fetched_epoch,
                                ),
                            )
                        )
                    case _:
                        pass
        replicas, facts, logs = list(state.replicas), list(state.facts), list(state.logs)
        replicas[node - 1], facts[node - 1], logs[node - 1] = pickle.dumps(replica), _facts(replica), tuple(log)
        # Answers of an earlier epoch are ignored, whatever happens.
        answers = {each for each in answers if each[1].leader_epoch >= facts[each[0] - 1][3]}
        return attrs.evolve(
            state,
            replicas=(replicas[0], replicas[1]),
            facts=(facts[0], facts[1]),
            logs=(logs[0], logs[1]),
            fetches=frozenset(fetches),
            answers=frozenset(answers),
            alters=frozenset(alters),
        )

    def _check(self, state: TwoReplicas) -> None:
        """StrongIsr: the controller's ISR and each eligible replica have all below any leader's high watermark.

        And nothing above an open transaction is stable, whose marker is missing below the high watermark.
        """
        for node in (1, 2):
            facts = state.facts[node - 1]
            self._check_transaction(node, facts, state.logs[node - 1])
            if "leads" not in facts:
                continue
            below = tuple(row for row in state.logs[node - 1] if row[0] < facts[1])
            for member in (*state.committed.isr, *state.committed.elr):
                if state.logs[member - 1][: len(below)] != below:
                    held = state.logs[member - 1]
                    raise BrokenPromise(f"K1 StrongIsr: n{member} has {held}, and n{node} calls {below} committed")

    @staticmethod
    def _check_transaction(node: int, facts: tuple[Any, ...], log: tuple[Row, ...]) -> None:
        begins = [row[0] for row in log if row[2] == OPENS]
        if not begins:
            return
        ends = [row[0] for row in log if row[2] == ENDS and row[0] > begins[0]]
        if facts[5] != (() if ends else (PRODUCER,)):
            raise BrokenPromise(f"K5: n{node} has {log}, and knows the open transactions {facts[5]}")
        if facts[4] > begins[0] and not (ends and ends[0] < facts[1]):
            raise BrokenPromise(f"K14: n{node} has {log} up to {facts[1]}, and calls all below {facts[4]} stable")

    def key(self, state: TwoReplicas) -> int:
        """See `Explorer`."""
        return hash(attrs.astuple(attrs.evolve(state, replicas=(b"", b"")), recurse=False))

    def words(self, action: Action) -> str:
        """See `Explorer`."""
        return " ".join(map(str, action))
