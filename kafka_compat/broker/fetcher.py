"""Fetches from one leader all partitions that this broker follows there, with Kafka's own Fetch in an incremental session (KIP-227).

The replica of a partition orders where to fetch from (`fetch`), and is given once what came (`on_answer`); until it orders it again,
the partition is not fetched. At most two requests are on their way: one waits at the leader, and when partitions are to be
fetched from elsewhere a second one follows it, which ends that wait. So each request names only what changed since the one before.

An answer belongs to the positions that its request found in the session, not to those ordered since; the replica is given both, and
ignores what came too late. When the connection breaks, or the leader has forgotten the session, all begins again with a full request.
"""

from collections import deque
from collections.abc import Callable, Iterable

import attrs

from kafka_compat.broker.peers import PeerClient, PeerFailed
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionResponse,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from log.values import frozen

VERSION = 17
PAUSE_AFTER_ERROR_S = 0.02
"""A partition that was refused is left out for so long: the leader has probably not learned of its leadership yet."""
FULL_EPOCH = 0
NO_SESSION = 0


@frozen
class FetchLimits:
    """How much, and for how long, a follower fetches; Kafka's settings in brackets."""

    max_wait_ms: int = 500
    """[replica.fetch.wait.max.ms]"""
    response_bytes: int = 10 * 1024 * 1024
    """[replica.fetch.response.max.bytes]"""
    partition_bytes: int = 1024 * 1024
    """[replica.fetch.max.bytes]"""
    answer_timeout_s: float = 30.0
    """[replica.socket.timeout.ms] In addition to the wait."""


@frozen
class FetchPosition:
    """From where a partition is to be fetched, and what its replica knows of the leader."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@attrs.define
class _Sent:
    """A request on its way: what it changed in the session."""

    added: dict[TopicPartition, FetchPosition]
    forgotten: set[TopicPartition]


OnAnswer = Callable[[TopicPartition, FetchPosition, FetchPartitionResponse], None]


class ReplicaFetcher:
    """The fetches of one broker from one leader. `pump` is to be called once a round."""

    def __init__(
        self,
        peer: PeerClient,
        broker_id: int,
        broker_epoch: Callable[[], int],
        clock: Callable[[], float],
        on_answer: OnAnswer,
        limits: FetchLimits,
    ) -> None:
        self._limits = limits
        self._peer = peer
        self._clock = clock
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._on_answer = on_answer
        self._wanted: dict[TopicPartition, FetchPosition] = {}
        self._touched: set[TopicPartition] = set()
        """Partitions whose order may differ from what the session has."""
        self._paused: dict[TopicPartition, float] = {}
        self._names: dict[tuple[bytes, int], TopicPartition] = {}
        self._session_id = NO_SESSION
        self._session_epoch = FULL_EPOCH
        self._in_session: dict[TopicPartition, FetchPosition] = {}
        """What the session has after the last request that was sent."""
        self._answered: dict[TopicPartition, FetchPosition] = {}
        """What the session had for the last request that was answered."""
        self._on_way: deque[_Sent] = deque()
        self._generation = 0

    # ---------------------------------------------------------------- orders

    def fetch(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Fetch a partition from `position`, once."""
        self._wanted[partition] = position
        self._names[position.topic_id, partition.partition] = partition
        self._touched.add(partition)

    def stop(self, partition: TopicPartition) -> None:
        """Do not fetch this partition; an answer that is on its way is ignored by the replica."""
        self._paused.pop(partition, None)
        if self._wanted.pop(partition, None) is not None or partition in self._in_session:
            self._touched.add(partition)

    @property
    def deadline(self) -> float | None:
        """When `pump` is due because a pause ends; None if no partition is paused."""
        return min(self._paused.values(), default=None)

    @property
    def partitions(self) -> int:
        """How many partitions are to be fetched now."""
        return len(self._wanted)

    def pump(self, now: float) -> None:
        """Send a request if there is something to say, or none is on its way."""
        if self._paused:
            for partition in [each for each, until in self._paused.items() if until <= now]:
                del self._paused[partition]
                self._touched.add(partition)
        if len(self._on_way) >= 2 or (self._on_way and self._session_id == NO_SESSION):
            return
        if not self._touched and (self._on_way or not self._in_session):
            return
        added: dict[TopicPartition, FetchPosition] = {}
        forgotten: set[TopicPartition] = set()
        for partition in self._touched:
            position = None if partition in self._paused else self._wanted.get(partition)
            if position is None:
                if partition in self._in_session:
                    forgotten.add(partition)
            elif self._in_session.get(partition) != position:
                added[partition] = position
        if not added and self._on_way:
            return  # what is to be forgotten can wait for the next request
        self._touched.clear()
        for partition in forgotten:
            del self._in_session[partition]
        self._in_session.update(added)
        if not self._in_session and not forgotten:
            return
        self._send(_Sent(added, forgotten))

    def _send(self, sent: _Sent) -> None:
        self._on_way.append(sent)
        request = FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=1,
            max_bytes=self._limits.response_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=_topics(sent.added, self._limits.partition_bytes),
            forgotten_topics_data=() if self._session_id == NO_SESSION else self._forgotten(sent.forgotten),
            replica_state=FetchReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch()),
        )
        self._session_epoch = self._session_epoch + 1 if self._session_epoch < 2**31 - 1 else 1
        generation = self._generation
        self._peer.call(
            FETCH,
            VERSION,
            request,
            lambda response: self._answer(generation, response),
            timeout_s=self._limits.max_wait_ms / 1000 + self._limits.answer_timeout_s,
        )

    def _forgotten(self, partitions: Iterable[TopicPartition]) -> tuple[FetchForgottenTopic, ...]:
        by_topic: dict[bytes, list[int]] = {}
        for partition in partitions:
            position = self._answered.get(partition) or self._position_on_way(partition)
            if position is not None:
                by_topic.setdefault(position.topic_id, []).append(partition.partition)
        return tuple(
            FetchForgottenTopic(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in by_topic.items()
        )

    def _position_on_way(self, partition: TopicPartition) -> FetchPosition | None:
        return next((each.added[partition] for each in reversed(self._on_way) if partition in each.added), None)

    # ---------------------------------------------------------------- answers

    def _answer(self, generation: int, response: FetchResponse | PeerFailed) -> None:
        if generation != self._generation:
            return
        if isinstance(response, PeerFailed) or response.error_code:
            self._begin_anew()
            return
        if self._session_id == NO_SESSION:
            self._session_id = response.session_id
            if response.session_id == NO_SESSION:  # the leader has no room for a session: every request is a full one
                self._session_epoch = FULL_EPOCH
        sent = self._on_way.popleft()
        for partition in sent.forgotten:
            self._answered.pop(partition, None)
        self._answered.update(sent.added)
        if self._session_id == NO_SESSION:
            self._touched.update(self._wanted)
            self._in_session.clear()
        for topic in response.responses:
            for each in topic.partitions:
                self._give(topic.topic_id, each)
        if self._session_id == NO_SESSION:
            self._answered.clear()

    def _give(self, topic_id: bytes, response: FetchPartitionResponse) -> None:
        partition = self._names.get((topic_id, response.partition_index))
        if partition is None:
            return
        position = self._answered.get(partition)
        if position is None:
            return
        if self._wanted.get(partition) == position:
            del self._wanted[partition]
            self._touched.add(partition)
            if response.error_code:
                self._paused[partition] = self._clock() + PAUSE_AFTER_ERROR_S
        self._on_answer(partition, position, response)

    def _begin_anew(self) -> None:
        """Forget the session; what was to be fetched is fetched with a full request."""
        self._generation += 1
        self._session_id = NO_SESSION
        self._session_epoch = FULL_EPOCH
        self._in_session.clear()
        self._answered.clear()
        self._on_way.clear()
        self._touched = set(self._wanted)


def _topics(positions: dict[TopicPartition, FetchPosition], bytes_max: int) -> tuple[FetchTopic, ...]:
    by_topic: dict[bytes, list[FetchPartition]] = {}
    for partition, position in positions.items():
        by_topic.setdefault(position.topic_id, []).append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(parts)) for topic_id, parts in by_topic.items())
