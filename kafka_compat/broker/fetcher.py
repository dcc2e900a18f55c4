"""Fetches all partitions followed at one leader, with Kafka's Fetch in an incremental session (KIP-227).

The replica of a partition orders the position to fetch from (`fetch`), and gets one answer (`on_answer`). The partition
then rests until the next order. At most two requests are on their way: one waits at the leader, and a second one, which
changes positions, follows it and ends that wait. So each request names only the changes since the one before.

An answer belongs to the positions that its request found in the session, not to positions ordered since. The replica
gets both, and ignores late answers. When the connection breaks, or the leader has forgotten the session, a full request
begins it again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import attrs

from kafka_compat.broker.peers import Peer, PeerFailed
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
"""The pause of a refused partition: the leader probably does not know of its leadership yet."""
FULL_EPOCH = 0
NO_SESSION = 0
AT_ONCE, NEVER = float("-inf"), float("inf")


@frozen
class FetchLimits:
    """The size and time limits of a follower's fetches; Kafka's settings in brackets."""

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
    """The position to fetch a partition from, and its replica's knowledge of the leader."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


Key = tuple[bytes, int]
"""Topic id and partition. A topic that was created again under its old name has another id."""


@attrs.define
class _Sent:
    """A request on its way, with its changes to the session."""

    added: dict[Key, FetchPosition]
    forgotten: Sequence[Key]


OnAnswer = Callable[[TopicPartition, FetchPosition, FetchPartitionResponse], float | None]
"""Takes an answer. Returns for how many seconds its partition is not to be fetched, if it is throttled."""


class ReplicaFetcher:
    """The fetches of one broker from one leader. `pump` is to be called once a round."""

    def __init__(
        self,
        peer: Peer,
        broker_id: int,
        broker_epoch: Callable[[], int],
        clock: Callable[[], float],
        on_answer: OnAnswer,
        limits: FetchLimits,
    ) -> None:
        self._limits = limits
        self._peer = peer
        self._clock = clock
        self._broker = broker_id, broker_epoch
        self._on_answer = on_answer
        self._keys: dict[TopicPartition, Key] = {}
        """The partitions that this broker follows at the leader."""
        self._names: dict[Key, TopicPartition] = {}
        self._wanted: dict[Key, FetchPosition] = {}
        self._touched: dict[Key, None] = {}
        """Partitions whose order may differ from the session, in the order in which that came."""
        self._paused: dict[Key, float] = {}
        self._session_id = NO_SESSION
        self._session_epoch = FULL_EPOCH
        self._in_session: dict[Key, FetchPosition] = {}
        """The positions in the session after the last request that was sent."""
        self._answered: dict[Key, FetchPosition] = {}
        """The positions in the session for the last request that was answered."""
        self._on_way: deque[_Sent] = deque()
        self._generation = 0
        self.silent_since = NEVER
        """Since when the leader owes an answer, which no dial and no new request moves; NEVER without partitions, too."""
        self.deadline = NEVER  # when `pump` is due: at once after an order or an answer, or when a pause ends

    # ---------------------------------------------------------------- orders

    def fetch(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Fetch a partition from `position`, once."""
        key = (position.topic_id, partition.partition)
        self.deadline = AT_ONCE
        if self._keys.get(partition) != key:
            self.stop(partition)
            self._keys[partition] = key
            self._names[key] = partition
        self._wanted[key] = position
        self._touched[key] = None

    def stop(self, partition: TopicPartition) -> None:
        """Do not fetch this partition; an answer that is on its way is ignored."""
        key = self._keys.pop(partition, None)
        if key is None:
            return
        del self._names[key]
        if not self._keys:
            self.silent_since = NEVER
        self._paused.pop(key, None)
        self._wanted.pop(key, None)
        if key in self._in_session:
            self._touched[key] = None
            self.deadline = AT_ONCE
        else:
            self._touched.pop(key, None)

    def resume(self) -> None:
        """Let no partition rest any longer."""
        self._paused = dict.fromkeys(self._paused, AT_ONCE)
        self.deadline = AT_ONCE

    @property
    def partitions(self) -> int:
        """The number of partitions to fetch now."""
        return len(self._wanted)

    def pump(self, now: float) -> None:
        """Send a request if there is something to say, or none is on its way."""
        if self._paused:
            for key in [each for each, until in self._paused.items() if until <= now]:
                del self._paused[key]
                self._touched[key] = None
        self.deadline = min(self._paused.values(), default=NEVER)
        if len(self._on_way) >= 2 or (self._on_way and self._session_id == NO_SESSION):
            return
        if not self._touched and (self._on_way or not self._in_session):
            return
        added: dict[Key, FetchPosition] = {}
        forgotten: list[Key] = []
        for key in self._touched:
            position = None if key in self._paused else self._wanted.get(key)
            if position is None:
                if key in self._in_session:
                    forgotten.append(key)
            elif self._in_session.get(key) != position:
                added[key] = position
        if not added and self._on_way:
            return  # what is to be forgotten can wait for the next request
        self._touched.clear()
        for key in forgotten:
            del self._in_session[key]
        self._in_session.update(added)
        if not self._in_session and not forgotten:
            return
        self._send(_Sent(added, forgotten))

    def _send(self, sent: _Sent) -> None:
        self._on_way.append(sent)
        if self.silent_since == NEVER:
            self.silent_since = self._clock() + self._limits.max_wait_ms / 1000
        request = FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=1,
            max_bytes=self._limits.response_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=_topics(sent.added, self._limits.partition_bytes),
            forgotten_topics_data=() if self._session_id == NO_SESSION else _group_forgotten(sent.forgotten),
            replica_state=FetchReplicaState(replica_id=self._broker[0], replica_epoch=self._broker[1]()),
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

    # ---------------------------------------------------------------- answers

    def _answer(self, generation: int, response: FetchResponse | PeerFailed) -> None:
        if generation != self._generation:
            return
        self.deadline = AT_ONCE
        if not isinstance(response, PeerFailed):
            self.silent_since = NEVER if len(self._on_way) < 2 else self._clock() + self._limits.max_wait_ms / 1000
        if isinstance(response, PeerFailed) or response.error_code:
            if not isinstance(response, PeerFailed) and self._session_id == NO_SESSION:
                # A full request has no session that the leader could have forgotten: asked again at once, it refuses again.
                self._paused = dict.fromkeys(self._wanted, self._clock() + PAUSE_AFTER_ERROR_S)
            self._begin_anew()
            return
        if self._session_id == NO_SESSION:
            self._session_id = response.session_id
            if response.session_id == NO_SESSION:  # the leader has no room for a session: every request is a full one
                self._session_epoch = FULL_EPOCH
        sent = self._on_way.popleft()
        for key in sent.forgotten:
            self._answered.pop(key, None)
        self._answered.update(sent.added)
        if self._session_id == NO_SESSION:
            self._touched |= dict.fromkeys(self._wanted)
            self._in_session.clear()
        for topic in response.responses:
            for partition in topic.partitions:
                self._give((topic.topic_id, partition.partition_index), partition)
        if self._session_id == NO_SESSION:
            self._answered.clear()

    def _give(self, key: Key, response: FetchPartitionResponse) -> None:
        partition = self._names.get(key)
        position = self._answered.get(key)
        if partition is None or position is None:
            return
        if self._wanted.get(key) == position:
            del self._wanted[key]
            self._touched[key] = None
            if response.error_code:
                self._paused[key] = self._clock() + PAUSE_AFTER_ERROR_S
        if rest_s := self._on_answer(partition, position, response):
            self._paused[key] = self._clock() + rest_s

    def _begin_anew(self) -> None:
        """Forget the session, and fetch all positions again with a full request."""
        self._generation += 1
        self._session_id = NO_SESSION
        self._session_epoch = FULL_EPOCH
        self._in_session.clear()
        self._answered.clear()
        self._on_way.clear()
        self._touched = dict.fromkeys(self._wanted)


def _group_forgotten(keys: Iterable[Key]) -> tuple[FetchForgottenTopic, ...]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, number in keys:
        by_topic.setdefault(topic_id, []).append(number)
    return tuple(
        FetchForgottenTopic(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in by_topic.items()
    )


def _topics(positions: dict[Key, FetchPosition], bytes_max: int) -> tuple[FetchTopic, ...]:
    by_topic: dict[bytes, list[FetchPartition]] = {}
    for (_, number), position in positions.items():
        by_topic.setdefault(position.topic_id, []).append(
            FetchPartition(
                partition=number,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(parts)) for topic_id, parts in by_topic.items())
