"""Following other brokers: a fetcher for each leader, which hands its answers to the replicas."""

from collections.abc import Callable, Mapping

from crc32c import crc32c

from kafka_compat.broker.context import Context
from kafka_compat.broker.fetcher import NEVER, FetchLimits, FetchPosition, ReplicaFetcher
from kafka_compat.broker.peers import Peer
from kafka_compat.broker.replicas import Replicas
from kafka_compat.broker.throttle import FOLLOWER, Throttle
from kafka_compat.markers import batch_info
from kafka_compat.model import TopicPartition
from kafka_compat.partition.events import FetchAnswered
from kafka_compat.partition.model import BatchInfo, EpochEnd
from kafka_compat.protocol.apis.fetch import FetchPartitionResponse
from kafka_compat.protocol.batch_header import CHECKED_AT, InvalidBatch, batch_headers
from kafka_compat.protocol.error_codes import KafkaErrorCode, known_error
from raft.net.decoder import Buffer


class Following:
    """The fetchers of one broker. `pump` is to be called once a round."""

    def __init__(self, context: Context, peers: Mapping[int, Peer], replicas: Callable[[], Replicas]) -> None:
        self._context = context
        self._replicas = replicas
        self._leader_of: dict[TopicPartition, int] = {}
        self.deadline = NEVER
        """The time at which `pump` is due, as of its last call: orders and answers come before it in their round."""
        settings = context.settings
        self._peers = peers
        self._throttle = Throttle(context, FOLLOWER)
        self._settings = settings
        """As of the last `pump`: with others the throttle may be another one."""
        self._limits = FetchLimits(
            settings.number("replica.fetch.wait.max.ms"),
            settings.number("replica.fetch.response.max.bytes"),
            settings.number("replica.fetch.max.bytes"),
            settings.seconds("replica.socket.timeout.ms"),
        )
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self.silent: tuple[int, ...] = ()
        """The leaders that have owed an answer for too long, as of the last call of `pump`."""
        self.on_silence: Callable[[], None] = lambda: None
        """Called when `silent` has changed."""
        silence_s, session_s = context.silence_s, settings.seconds("broker.session.timeout.ms")
        self._patience_s = silence_s * 2 / 3 if silence_s < session_s else NEVER
        self._unreached: dict[TopicPartition, tuple[int, FetchPosition]] = {}
        """Orders to fetch from a broker that this one has no address of: it may be about to learn of it."""

    def fetch(self, leader: int, partition: TopicPartition, position: FetchPosition) -> None:
        """See `Fetchers`."""
        before = self._leader_of.get(partition)
        if before is not None and before != leader:
            self._fetchers[before].stop(partition)
        fetcher = self._fetcher_of(leader)
        if fetcher is None:
            self._leader_of.pop(partition, None)
            self._unreached[partition] = leader, position
            return
        self._unreached.pop(partition, None)
        self._leader_of[partition] = leader
        fetcher.fetch(partition, position)

    def _fetcher_of(self, leader: int) -> ReplicaFetcher | None:
        fetcher, context = self._fetchers.get(leader), self._context
        if fetcher is None and leader in self._peers:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                self._peers[leader],
                context.broker_id,
                lambda: context.broker_epoch,
                context.clock,
                self._on_answer,
                self._limits,
            )
        return fetcher

    def stop(self, partition: TopicPartition) -> None:
        """See `Fetchers`."""
        self._unreached.pop(partition, None)
        leader = self._leader_of.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].stop(partition)

    def pump(self, now: float) -> None:
        """Send the requests that are due."""
        self.deadline = NEVER
        if self._settings is not self._context.settings:
            self._settings = self._context.settings
            for fetcher in self._fetchers.values():
                fetcher.resume()
        if self._unreached:
            for partition, (leader, position) in list(self._unreached.items()):
                if leader in self._peers:
                    self.fetch(leader, partition, position)
        silent: tuple[int, ...] = ()
        patient_since = self._context.held_up()
        for leader, fetcher in self._fetchers.items():
            if fetcher.deadline <= now:
                fetcher.pump(now)
            if fetcher.deadline < self.deadline:
                self.deadline = fetcher.deadline
            due = max(fetcher.silent_since, patient_since) + self._patience_s
            if due <= now:
                silent = (*silent, leader)
            elif due < self.deadline:
                self.deadline = due
        if silent != self.silent:
            self.silent = silent
            self.on_silence()

    def _on_answer(self, partition: TopicPartition, position: FetchPosition, response: FetchPartitionResponse) -> float:
        replicas = self._replicas()
        hosted = replicas.hosted.get(partition)
        if hosted is None or hosted.topic_id != position.topic_id:
            return 0.0
        error = known_error(response.error_code)
        batches: tuple[BatchInfo, ...] = ()
        payload: tuple[Buffer, ...] = ()
        if response.records:
            try:
                batches, payload = _taken_apart(response.records)
            except InvalidBatch:
                error = KafkaErrorCode.CORRUPT_MESSAGE
        diverging = response.diverging_epoch
        replicas.step(
            hosted,
            FetchAnswered(
                position.leader_epoch,
                position.offset,
                error,
                response.high_watermark,
                response.log_start_offset,
                EpochEnd(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
                batches,
                payload,
                position.last_fetched_epoch,
            ),
        )
        size = sum(map(len, payload))
        return self._throttle.take(partition, self._context.broker_id, size) if size else 0.0


def _taken_apart(records: Buffer | tuple[Buffer, ...]) -> tuple[tuple[BatchInfo, ...], tuple[Buffer, ...]]:
    """Returns the header facts and the bytes of the batches in a leader's answer. Raises `InvalidBatch` for damage."""
    assert not isinstance(records, tuple), "what was received is one view"
    view = memoryview(records)
    infos: list[BatchInfo] = []
    pieces: list[Buffer] = []
    for position, header in batch_headers(view):
        batch = view[position : position + header.size]
        if crc32c(batch[CHECKED_AT:]) != header.crc:
            raise InvalidBatch(KafkaErrorCode.CORRUPT_MESSAGE, "the CRC of a leader's batch is wrong", position)
        pieces.append(batch)
        infos.append(batch_info(header, batch))
    return tuple(infos), tuple(pieces)
