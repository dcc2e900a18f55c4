"""Fetch: reads record batches, for consumers and followers, in sessions or without (KIP-227), and waits for data.

A session knows the partitions that its client fetches, so a request names only the changed ones. The session watches
their replicas and notes possible news; a request looks at those partitions alone. A request that finds less than
`min_bytes` waits, at most `max_wait_ms`, until one of its partitions has more: for a consumer when the high watermark
moves, for a follower when the log grows. Another request on its connection, or in its session, also ends the wait.

A follower may fetch from a leadership or a topic that this broker does not know yet. Its fetch waits for the metadata
instead of failing, since a follower pauses after an error: a new topic would begin with that pause.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kafka_compat.acls import ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.broker.throttle import LEADER, Throttle
from kafka_compat.config_keys import RACK_AWARE
from kafka_compat.model import NO_EPOCH, TopicPartition
from kafka_compat.partition.effects import AnswerFetch
from kafka_compat.partition.events import ConsumerFetch, FollowerFetch
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchAbortedTransaction,
    FetchDivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.batch_header import read_batch_header
from kafka_compat.protocol.common import LeaderIdAndEpoch
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer
from raft.net.handlers import serves

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
CONSUMER = NO_REPLICA = -1
DEBUG_CONSUMER = -2
READ_COMMITTED = 1
"""The isolation level of a reader that sees no transaction before its end, and none that was aborted (KIP-98)."""
FOLLOWER_SESSIONS_MAX = 16
"""Sessions of one follower at once; those of a connection that is lost end a little later."""
SESSION_KEPT_S = 120.0
"""A session that was unused for this time may make room for a new one."""
FROM_FOLLOWER_VERSION = 11
"""From this version of Fetch consumers may read from followers (KIP-392)."""
METADATA_WAIT_S = 0.5
"""The time before a follower gets an error for an unknown partition: the follower may learn about a new topic first."""
_NO_RECORDS = b""
_FOLLOWS = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
_NOT_LEADING = (KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, KafkaErrorCode.FENCED_LEADER_EPOCH)

Key = tuple[bytes, str, int]
"""Topic id (zero for requests by name), topic name (empty for requests by id), partition."""


@attrs.define(eq=False)
class SessionPartition:
    """One partition of a session, as its client asked for it last."""

    key: Key
    asked: FetchPartition
    hosted: LocalReplica | None = None
    looked_at: float = -1.0
    """The time at which its replica was last asked."""
    high_watermark: int = -1
    """As it was sent last; the log start likewise."""
    log_start: int = -1
    unknown_since: float | None = None
    """The time at which a follower first asked for it without a replica here."""
    failed: bool = False
    """True if the last answer was an error, so that the next request looks again."""
    seen_end: int = -1
    """The end of the log when it was looked at last."""

    def forget_sent(self) -> None:
        """Send high watermark and log start with the next answer, whether they change or not."""
        self.high_watermark = self.log_start = -1


@attrs.define(eq=False)
class FetchSession:
    """The partitions of one client. Watches their replicas; see `Watcher`."""

    id: int
    next_epoch: int
    by_id: bool
    follower: int
    """The broker id of a follower, CONSUMER or DEBUG_CONSUMER."""
    fetches: "FetchRequests"
    partitions: dict[Key, SessionPartition] = attrs.field(factory=dict)
    news: dict[SessionPartition, None] = attrs.field(factory=dict)
    """Partitions that must be looked at, because the client or the replica has news."""
    by_replica: dict[LocalReplica, SessionPartition] = attrs.field(factory=dict)
    waiting: "Fetch | None" = None
    used_at: float = 0.0
    has_failed: bool = False
    """True if a partition of it has `failed`."""
    looks_again_at: float = -1.0
    """The time at which all its partitions are looked at, for followers that have long had no news of some."""
    acls_version: int = -1
    """The version of the ACLs by which its partitions were looked at last."""
    connection: SocketConnection[Any] | None = None
    """The connection that used the session last.

    The session ends with it, since its client begins again on another connection.
    """

    def on_appended(self, hosted: LocalReplica) -> None:
        """See `Watcher`: a follower fetches uncommitted batches, too."""
        if self.follower != CONSUMER:
            self._note(hosted, wakes=True)

    def on_moved(self, hosted: LocalReplica) -> None:
        """See `Watcher`: a consumer may read on.

        A follower learns of it with the next answer, or at once where consumers read from followers (KIP-392).
        """
        self._note(hosted, wakes=self.follower == CONSUMER or self.fetches.is_rack_aware)

    def on_changed(self, hosted: LocalReplica) -> None:
        """See `Watcher`."""
        self._note(hosted, wakes=True)

    def _note(self, hosted: LocalReplica, *, wakes: bool) -> None:
        self.news[self.by_replica[hosted]] = None
        if wakes and self.waiting is not None:
            self.fetches.woken[self.waiting] = None

    def watch(self, partition: SessionPartition, hosted: LocalReplica | None) -> None:
        """From now on `hosted` is the replica of this partition."""
        if partition.hosted is hosted:
            return
        if partition.hosted is not None:
            partition.hosted.watchers.pop(self, None)
            self.by_replica.pop(partition.hosted, None)
        partition.hosted = hosted
        if hosted is not None:
            hosted.watchers[self] = None
            self.by_replica[hosted] = partition

    def drop(self, key: Key) -> None:
        """Remove a partition that the client no longer fetches."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.news.pop(partition, None)
            self.watch(partition, None)

    def close(self) -> None:
        """Stop watching all replicas."""
        for hosted in self.by_replica:
            hosted.watchers.pop(self, None)
        self.by_replica.clear()


@attrs.define(eq=False)
class Fetch:
    """One request that is being served."""

    call: ClientCall
    request: FetchRequest
    session: FetchSession
    full: bool
    """True if the answer contains every partition, not only the partitions with news."""
    deadline: float


class FetchRequests:
    """The handler of one broker, with the sessions of all clients. `pump` is to be called once a round."""

    def __init__(self, context: Context, replicas: Replicas, tell: Callable[..., None]) -> None:
        self.woken: dict[Fetch, None] = {}
        """Those for which `pump` should be called at once: one fetch may have moved the data that another waits for."""
        self._context = context
        self._replicas = replicas
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Least recently used first."""
        self._waiting: dict[Fetch, None] = {}
        self._by_connection: dict[SocketConnection[Any], Fetch] = {}
        self._sessions_of: dict[SocketConnection[Any], dict[FetchSession, None]] = {}
        self._strangers: dict[FetchSession, None] = {}
        """Followers that wait for a partition that this broker does not know."""
        self.is_rack_aware = context.settings.text("replica.selector.class") == RACK_AWARE
        self._tell = tell
        self._follower_reads: Counter[TopicPartition] = Counter()
        self._throttle = Throttle(context, LEADER)
        self._lag_time_s = context.settings.seconds("replica.lag.time.max.ms")

    # ---------------------------------------------------------------- requests

    @serves(FETCH.key)
    def fetch(self, call: ClientCall) -> None:
        """Answer at once, or when there is enough."""
        request: FetchRequest = call.request
        before = self._by_connection.get(call.connection)
        if before is not None:
            self._finish(before)
        now = self._context.clock()
        if call.access is not None and not self._may_fetch(call.access, call.version, request):
            call.answer(FetchResponse(error_code=KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED, responses=()))
            return
        found = self._session(call, request, now)
        if isinstance(found, KafkaErrorCode):
            call.answer(FetchResponse(error_code=found, session_id=0, responses=()))
            return
        session, full = found
        if session.waiting is not None:
            self._finish(session.waiting)
        session.used_at = now
        if session.id and session.connection is not call.connection:
            self._leave_connection(session)
            session.connection = call.connection
            self._sessions_of.setdefault(call.connection, {})[session] = None
        self._take_changes(session, request, now)
        if call.access is not None and session.acls_version != self._context.image.acls.version:
            session.acls_version = self._context.image.acls.version
            session.news.update(dict.fromkeys(session.partitions.values()))
        fetch = Fetch(call, request, session, full, now + max(request.max_wait_ms, 0) / 1000)
        # It waits before it looks: what it tells its leader may commit a record, and have another one appended.
        session.waiting = fetch
        self._waiting[fetch] = None
        self._by_connection[call.connection] = fetch
        if self._try(fetch, now, last_chance=request.max_wait_ms <= 0):
            self._over(fetch)

    def _session(
        self, call: ClientCall, request: FetchRequest, now: float
    ) -> tuple[FetchSession, bool] | KafkaErrorCode:
        by_id = call.version >= 13
        known = self._sessions.get(request.session_id)
        if known is not None and known.follower >= 0 and not self._context.may_speak_for(call, known.follower):
            known = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            follower = request.replica_state.replica_id if call.version >= 15 else request.replica_id
            if follower >= 0 and not self._context.may_speak_for(call, follower):
                return KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if known is not None:
                self._close(known.id)
            session = FetchSession(0, 0, by_id, follower, self)
            if (
                request.session_epoch == INITIAL_EPOCH
                and request.topics
                # However many consumers there are, replication goes on at its pace.
                and (follower >= 0 or self._make_room(now))
            ):
                if follower >= 0:
                    self._close_oldest(follower)
                session.id = self._new_id()
                session.next_epoch = 1
                self._sessions[session.id] = session
            return session, True
        if known is None:
            return KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != known.next_epoch:
            return KafkaErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.by_id != by_id:
            return KafkaErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        known.next_epoch = known.next_epoch + 1 if known.next_epoch < 2**31 - 1 else 1
        self._sessions.move_to_end(known.id)
        return known, False

    def _new_id(self) -> int:
        while True:
            drawn = self._context.rng.randrange(1, 2**31)
            if drawn not in self._sessions:
                return drawn

    def _close_oldest(self, follower: int) -> None:
        """Leave a follower room for one more session: a sound one uses one, and forgets those before."""
        own = [each.id for each in self._sessions.values() if each.follower == follower]
        if len(own) >= FOLLOWER_SESSIONS_MAX:
            self._close(own[0])

    def _make_room(self, now: float) -> bool:
        slots = self._context.settings.number("max.incremental.fetch.session.cache.slots")
        if len(self._sessions) < slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or oldest.waiting is not None or now - oldest.used_at < SESSION_KEPT_S:
            return False
        self._close(oldest.id)
        return True

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            if session.waiting is not None:
                self._finish(session.waiting)
            self._leave_connection(session)
            self._strangers.pop(session, None)
            session.close()

    def _leave_connection(self, session: FetchSession) -> None:
        if session.connection is not None:
            others = self._sessions_of[session.connection]
            del others[session]
            if not others:
                del self._sessions_of[session.connection]
            session.connection = None

    def _take_changes(self, session: FetchSession, request: FetchRequest, now: float) -> None:
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.drop((forgotten.topic_id, forgotten.topic, number))
        for topic in request.topics:
            for asked in topic.partitions:
                key = (topic.topic_id, topic.topic, asked.partition)
                partition = session.partitions.get(key)
                if partition is None:
                    partition = session.partitions[key] = SessionPartition(key, asked)
                else:
                    before, partition.asked = partition.asked, asked
                    if (
                        asked.current_leader_epoch != before.current_leader_epoch
                        or asked.fetch_offset < before.fetch_offset
                    ):
                        partition.forget_sent()  # the answer to what it asked before is too late for the client
                session.news[partition] = None
        if session.has_failed or now >= session.looks_again_at:
            self._look_again(session, now)

    def _look_again(self, session: FetchSession, now: float) -> None:
        """A follower that has nothing to say is still there; and who was refused may not be any more."""
        session.has_failed = False
        session.looks_again_at = now + self._lag_time_s / 8
        stale = now - self._lag_time_s / 8
        for partition in session.partitions.values():
            if partition.failed or (session.follower >= 0 and partition.looked_at < stale):
                session.news[partition] = None

    # ---------------------------------------------------------------- answers

    def pump(self, now: float) -> None:
        """Answer the fetches whose time is over, and look again at partitions with possible news."""
        if self._waiting:
            for fetch in [each for each in self._waiting if each.deadline <= now]:
                self._finish(fetch)
        if self.woken:
            woken, self.woken = self.woken, {}
            for fetch in woken:
                if fetch in self._waiting and self._try(fetch, now, last_chance=False):
                    self._over(fetch)

    def role_changed(self) -> None:
        """Try again the fetches of followers that wait for a replica or a leadership that may have come."""
        if self._strangers:
            strangers, self._strangers = self._strangers, {}
            for session in strangers:
                if session.waiting is not None:
                    self.woken[session.waiting] = None

    def find_overlooked(self) -> Iterator[TopicPartition]:
        """Yields the partitions that have grown since a waiting follower looked: no append has woken it."""
        for fetch in self._waiting:
            session = fetch.session
            if session.follower < 0 or fetch in self.woken:
                continue
            for partition in session.partitions.values():
                hosted = partition.hosted
                if hosted is not None and hosted.leads and hosted.log.end_offset > partition.seen_end:
                    yield hosted.partition

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due."""
        return min([each.deadline for each in self._waiting]) if self._waiting else float("inf")

    def connection_closed(self, connection: SocketConnection[Any]) -> None:
        """Drop the waiting fetch of a closed connection, and close its sessions."""
        fetch = self._by_connection.get(connection)
        if fetch is not None:
            self._over(fetch)
            if not fetch.session.id:
                self._strangers.pop(fetch.session, None)
                fetch.session.close()
        for session in tuple(self._sessions_of.get(connection, ())):
            self._close(session.id)

    def _finish(self, fetch: Fetch) -> None:
        """Answer with the batches at hand."""
        self._over(fetch)
        self._try(fetch, self._context.clock(), last_chance=True)

    def _over(self, fetch: Fetch) -> None:
        if fetch not in self._waiting:
            return  # its connection closed as it was answered
        del self._waiting[fetch]
        self.woken.pop(fetch, None)
        fetch.session.waiting = None
        if self._by_connection.get(fetch.call.connection) is fetch:
            del self._by_connection[fetch.call.connection]

    def _try(self, fetch: Fetch, now: float, *, last_chance: bool) -> bool:
        """Answer if there is enough data, an error, or no time left. Returns True if it was answered."""
        session, request = fetch.session, fetch.request
        # Partitions that are read move to the end, so that those before them do not starve the others.
        news, session.news = session.news, {}  # what comes from here on is newer than what is found
        looked_at = list(news) if len(news) < 2 else [each for each in session.partitions.values() if each in news]
        is_short = fetch.call.connection.is_short  # then the records wait in the log
        room = 0 if is_short else max(min(request.max_bytes, self._context.settings.number("fetch.max.bytes")), 0)
        got = 0
        urgent = False
        found: list[tuple[SessionPartition, FetchPartitionResponse]] = []
        left: list[SessionPartition] = []
        for partition in looked_at:
            is_first = not got and not is_short
            response, size, is_urgent = self._look(fetch, partition, room - got, is_first=is_first, now=now, left=left)
            got += size
            urgent = urgent or is_urgent
            if response is not None:
                found.append((partition, response))
        if not (last_chance or urgent or got >= request.min_bytes):
            session.news.update(news)
            return False
        session.news.update(dict.fromkeys(left))
        self._send(fetch, found)
        if not session.id:
            self._strangers.pop(session, None)
            session.close()
        return True

    def _send(self, fetch: Fetch, found: list[tuple[SessionPartition, FetchPartitionResponse]]) -> None:
        session = fetch.session
        by_topic: dict[tuple[bytes, str], list[FetchPartitionResponse]] = {}
        for partition, response in found:
            has_data = bool(response.records)
            is_sent_on = response.preferred_read_replica != NO_REPLICA
            partition.failed = bool(response.error_code)
            session.has_failed = session.has_failed or partition.failed
            diverges = response.diverging_epoch.epoch != NO_EPOCH
            changed = (
                response.high_watermark != partition.high_watermark or response.log_start_offset != partition.log_start
            )
            if fetch.full or has_data or partition.failed or changed or diverges or is_sent_on:
                partition.high_watermark = response.high_watermark
                partition.log_start = response.log_start_offset
                by_topic.setdefault(partition.key[:2], []).append(response)
            if partition.failed or diverges or has_data or is_sent_on:
                partition.forget_sent()  # the client may take nothing else from such an answer: it may have had the data
            if has_data:
                # There may be more of it behind what was read.
                session.partitions[partition.key] = session.partitions.pop(partition.key)
                session.news[partition] = None
        fetch.call.answer(
            FetchResponse(
                session_id=session.id,
                responses=tuple(
                    FetchTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(responses))
                    for (topic_id, name), responses in by_topic.items()
                ),
            )
        )

    def _look(
        self,
        fetch: Fetch,
        partition: SessionPartition,
        room: int,
        *,
        is_first: bool,
        now: float,
        left: list[SessionPartition],
    ) -> tuple[FetchPartitionResponse | None, int, bool]:
        """Returns the answer for one partition (None: not yet), its bytes, and whether the client should know at once.

        Who has records for which there is no room is added to `left`: the next request looks again.
        """
        session = fetch.session
        hosted, error = self._replica_of(partition)
        access = fetch.call.access
        if access is not None and session.follower < 0 and not self._may_read(access, partition.key):
            hosted, error = None, KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED
        session.watch(partition, hosted)
        if hosted is None:
            if session.follower >= 0 and self._may_come(session, partition, now):
                left.append(partition)
                return None, 0, False
            return _build_failure(partition, error), 0, True
        partition.unknown_since = None
        partition.seen_end = hosted.log.end_offset
        asked = partition.asked
        if session.follower >= 0 and asked.current_leader_epoch > hosted.leader_epoch:
            return _empty(partition, hosted), 0, False  # the metadata is on its way
        partition.looked_at = now
        answer = self._ask(session, fetch.call.version, fetch.request, hosted, asked)
        if answer.error or answer.diverging is not None:
            return self._build_refusal(hosted, partition, answer), 0, True
        nearer = self._find_nearer(fetch, hosted, asked.fetch_offset)
        if nearer is not None:
            return self._build_preference(partition, answer, nearer), 0, True
        records: tuple[Buffer, ...] | bytes = _NO_RECORDS
        size = 0
        is_held = answer.start < answer.end and self._holds_back(session, hosted)
        if is_held or (answer.start < answer.end and not (room > 0 or is_first)):
            left.append(partition)
        elif answer.start < answer.end:
            limit = min(asked.partition_max_bytes, room)
            batches = hosted.log.read(answer.start, max(limit, 1), answer.end)
            size = sum(map(len, batches))
            if size > limit and not is_first:
                batches, size = [], 0  # only the first may be larger than there is room for
                left.append(partition)
            records = tuple(batches)
            if size and session.follower >= 0:
                self._throttle.take(hosted.partition, session.follower, size)
            elif size and not hosted.leads:
                self._count_follower_read(hosted.partition)
        aborted: tuple[FetchAbortedTransaction, ...] | None = None
        if fetch.request.isolation_level == READ_COMMITTED and session.follower == CONSUMER:
            aborted = _find_aborted(hosted, asked.fetch_offset, records)
        response = FetchPartitionResponse(
            partition_index=asked.partition,
            error_code=KafkaErrorCode.NONE,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable,
            log_start_offset=answer.log_start,
            aborted_transactions=aborted,
            records=records,
        )
        # A follower that serves consumers should learn of the high watermark at once.
        is_late = session.follower >= 0 and self.is_rack_aware and answer.high_watermark != partition.high_watermark
        return response, size, is_late

    def _count_follower_read(self, partition: TopicPartition) -> None:
        """A consumer read here although another broker leads (KIP-392). Report that whenever the count has doubled."""
        self._follower_reads[partition] += 1
        count = self._follower_reads[partition]
        if count.bit_count() == 1:
            self._tell("follower_reads", topic=partition.topic, partition=partition.partition, times=count - count // 2)

    def _holds_back(self, session: FetchSession, hosted: LocalReplica) -> bool:
        """Returns True if a follower has to wait for its throttle."""
        return session.follower >= 0 and self._throttle.delay_s(hosted.partition, session.follower) > 0

    def _find_nearer(self, fetch: Fetch, hosted: LocalReplica, offset: int) -> int | None:
        """Returns the follower in the rack of this consumer that it should read from, or None to read here."""
        rack = fetch.request.rack_id
        if not (rack and self.is_rack_aware and fetch.session.follower == CONSUMER and hosted.leads):
            return None
        brokers = self._context.image.brokers.values()
        near = frozenset(each.id for each in brokers if each.rack == rack and each.active)
        found = hosted.decider.nearest_replica(near, offset)
        return None if found == self._context.broker_id else found

    @staticmethod
    def _build_preference(partition: SessionPartition, answer: AnswerFetch, nearer: int) -> FetchPartitionResponse:
        return FetchPartitionResponse(
            partition_index=partition.asked.partition,
            error_code=KafkaErrorCode.NONE,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable,
            log_start_offset=answer.log_start,
            aborted_transactions=None,
            preferred_read_replica=nearer,
            records=_NO_RECORDS,
        )

    def _may_fetch(self, access: Access, version: int, request: FetchRequest) -> bool:
        """Returns True unless this is a follower's fetch, or uses a follower's session, and the caller is no broker."""
        follower = request.replica_state.replica_id if version >= 15 else request.replica_id
        known = self._sessions.get(request.session_id)
        follows = follower >= 0 or (known is not None and known.follower >= 0)
        return not follows or access.may(*_FOLLOWS)

    def _may_read(self, access: Access, key: Key) -> bool:
        """Returns True if the caller may read this topic, or if its id is unknown."""
        topic_id, name, _ = key
        if topic_id != NO_UUID:
            topic = self._context.image.topics_by_id.get(topic_id)
            if topic is None:
                return True
            name = topic.name
        return access.may(AclOperation.READ, ResourceType.TOPIC, name)

    def _may_come(self, session: FetchSession, partition: SessionPartition, now: float) -> bool:
        """Returns True if the metadata about this partition may be on its way."""
        if partition.unknown_since is None:
            partition.unknown_since = now
        self._strangers[session] = None
        return now - partition.unknown_since < METADATA_WAIT_S

    def _replica_of(self, partition: SessionPartition) -> tuple[LocalReplica | None, KafkaErrorCode]:
        topic_id, name, number = partition.key
        image = self._context.image
        if topic_id != NO_UUID:
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                return None, KafkaErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        else:
            topic = image.topics.get(name)
        hosted = self._replicas.hosted.get(TopicPartition(name, number))
        if hosted is not None:
            return hosted, KafkaErrorCode.NONE
        if topic is None or not 0 <= number < len(topic.partitions):
            return None, KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER

    def _ask(
        self, session: FetchSession, version: int, request: FetchRequest, hosted: LocalReplica, asked: FetchPartition
    ) -> AnswerFetch:
        if session.follower == DEBUG_CONSUMER:
            return _everything(hosted, asked.fetch_offset)
        answers: list[Answer] = []
        token = self._replicas.token(answers.append)
        if session.follower >= 0:
            event: FollowerFetch | ConsumerFetch = FollowerFetch(
                token,
                session.follower,
                request.replica_state.replica_epoch,
                asked.current_leader_epoch,
                asked.fetch_offset,
                asked.last_fetched_epoch,
                asked.log_start_offset,
                0.0,
                0,
            )
        else:
            event = ConsumerFetch(
                token,
                asked.fetch_offset,
                0.0,
                0,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                request.isolation_level == READ_COMMITTED,
                version >= FROM_FOLLOWER_VERSION,
            )
        self._replicas.step(hosted, event)
        (answer,) = answers  # a fetch that does not wait is answered within its step
        assert isinstance(answer, AnswerFetch), "a fetch is answered as one"
        return answer

    def _build_refusal(
        self, hosted: LocalReplica, partition: SessionPartition, answer: AnswerFetch
    ) -> FetchPartitionResponse:
        diverging, leader = FetchDivergingEpoch(), LeaderIdAndEpoch()
        if answer.diverging is not None:
            diverging = FetchDivergingEpoch(epoch=answer.diverging.epoch, end_offset=answer.diverging.end_offset)
        if answer.error in _NOT_LEADING:
            leader = LeaderIdAndEpoch(leader_id=hosted.leader, leader_epoch=hosted.leader_epoch)
        return FetchPartitionResponse(
            partition_index=partition.asked.partition,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable,
            log_start_offset=answer.log_start,
            aborted_transactions=None,
            records=_NO_RECORDS,
            diverging_epoch=diverging,
            current_leader=leader,
        )


def _find_aborted(
    hosted: LocalReplica, offset: int, records: tuple[Buffer, ...] | bytes
) -> tuple[FetchAbortedTransaction, ...]:
    """Returns the aborted transactions of the batches that are sent to a reader of committed records."""
    transactions = hosted.decider.log.producers.transactions
    if not records or not transactions.aborted:
        return ()
    assert isinstance(records, tuple), "only no records are bytes"
    end = read_batch_header(records[-1]).end_offset
    return tuple(
        FetchAbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in transactions.aborted_between(offset, end)
    )


def _build_failure(partition: SessionPartition, error: KafkaErrorCode) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=partition.asked.partition,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=(),
        records=_NO_RECORDS,
    )


def _empty(partition: SessionPartition, hosted: LocalReplica) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=partition.asked.partition,
        error_code=KafkaErrorCode.NONE,
        high_watermark=-1,
        log_start_offset=hosted.log.start_offset,
        aborted_transactions=None,
        records=_NO_RECORDS,
    )


def _everything(hosted: LocalReplica, offset: int) -> AnswerFetch:
    """Returns all of the log of one replica, leader or not, with its own high watermark.

    Tools ask for it with replica id -2.
    """
    log = hosted.log
    inside = log.start_offset <= offset <= log.end_offset
    error = KafkaErrorCode.NONE if inside else KafkaErrorCode.OFFSET_OUT_OF_RANGE
    stable = hosted.decider.last_stable_offset
    return AnswerFetch(0, error, offset, log.end_offset, hosted.high_watermark, log.start_offset, None, stable)
