"""The clients of a rehearsal: confluent-kafka as it is, each in a thread, which goes on at another cluster when it is told.

A producer keeps its number wherever it sends, so that the order of its records can be judged over a switch. A member of a group
is a new one at each cluster, and begins where the group has committed there.
"""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import attrs
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.rehearse.journal import Journal
from jepsen_like.systems.kafka.load import COMMON
from jepsen_like.systems.kafka.outcomes import outcome_of, outcome_of_commit
from jepsen_like.workload.payload import decode_value, encode_value

TOPIC: Final = "orders"
RECORD_BYTES: Final = 100
POLL_S: Final = 0.05
SESSION_MS: Final = 3000
ANSWER_WITHIN_S: Final = 5.0
FLUSHED_WITHIN_S: Final = 20.0
SETTLES_WITHIN_S: Final = 40.0
RECORDS_MAX: Final = 200


@attrs.frozen
class Home:
    """A cluster, as clients know it: its number in the history, and its brokers."""

    number: int
    servers: str


class NotSettled(Exception):
    """A client did not come to an end, or to another cluster, in time."""


class Client(ABC):
    """A thread that works at one cluster after the other."""

    def __init__(self, name: str) -> None:
        self._wanted: Home | None = None
        self._is_lost = False
        self._ends = False
        self._news = threading.Event()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._error: Exception | None = None
        self._thread.start()

    def go_on_at(self, home: Home | None, *, is_lost: bool = False) -> None:
        """Work at this cluster from now on, or at none; `is_lost`: the former one is not there any more."""
        self._wanted, self._is_lost = home, is_lost
        self._settled.clear()
        self._news.set()

    def end(self) -> None:
        """Stop for good."""
        self._ends = True
        self.go_on_at(None)

    def wait(self) -> None:
        """Return once it has come to where it was told to be. Raises `NotSettled`, or what ended it."""
        is_settled = self._settled.wait(SETTLES_WITHIN_S)
        if self._error is not None:
            raise self._error
        if not is_settled:
            raise NotSettled(f"{self._thread.name} did not leave its cluster within {SETTLES_WITHIN_S:g} s")

    def _run(self) -> None:
        try:
            while True:
                self._news.wait()
                self._news.clear()
                home = self._wanted
                if home is None:
                    self._settled.set()
                    if self._ends:
                        return
                    continue
                self._enter(home)
                self._settled.set()
                while not self._news.is_set():
                    self._work(home)
                self._leave(home, is_lost=self._is_lost)
        except Exception as error:  # noqa: BLE001 - raised by `wait`
            self._error = error
            self._settled.set()

    @abstractmethod
    def _enter(self, home: Home) -> None: ...

    @abstractmethod
    def _work(self, home: Home) -> None: ...

    @abstractmethod
    def _leave(self, home: Home, *, is_lost: bool) -> None: ...


class SteadyProducer(Client):
    """Sends records at a steady rate to all partitions in turn; every `step`-th value from `number` on is its own."""

    def __init__(self, journal: Journal, number: int, step: int, partitions: int, rate: float) -> None:
        self._journal = journal
        self._number, self._step, self._partitions, self._rate = number, step, partitions, rate
        self._sent = 0
        self._due = 0.0
        super().__init__(f"producer {number}")

    def _enter(self, home: Home) -> None:
        config = {**COMMON, "bootstrap.servers": home.servers, "enable.idempotence": True, "linger.ms": 1}
        self._producer = Producer(config)
        self._due = time.monotonic()

    def _work(self, home: Home) -> None:
        if (wait_s := self._due - time.monotonic()) > 0:
            self._producer.poll(min(wait_s, POLL_S))
            return
        self._due += 1 / self._rate
        value, partition = self._number + self._sent * self._step, self._sent % self._partitions
        self._sent += 1
        begun = time.monotonic_ns()

        def report(error: KafkaError | None, message: Message) -> None:
            outcome, why = outcome_of(error.code() if error is not None else 0, may_retry=True)
            offset = message.offset()
            self._journal.record(
                Action.SEND,
                type=outcome,
                object=partition,
                process=self._number,
                a=value,
                offset=offset if outcome is Outcome.OK and offset is not None else NONE,
                node=home.number,
                err=why,
                t_inv=begun,
                t_ret=time.monotonic_ns(),
            )

        self._producer.produce(TOPIC, encode_value(value, RECORD_BYTES), partition=partition, on_delivery=report)
        self._producer.poll(0)

    def _leave(self, home: Home, *, is_lost: bool) -> None:
        """Wait for what is under way, or give it up."""
        if is_lost:
            self._producer.purge()
        if self._producer.flush(FLUSHED_WITHIN_S):
            self._producer.purge()
            self._producer.flush(FLUSHED_WITHIN_S)
        del self._producer


class GroupReader(Client):
    """The only member of a group: it polls, and commits now and then what it has polled."""

    def __init__(self, journal: Journal, group: int, name: str, commits_every_s: float) -> None:
        self._journal = journal
        self.group, self.name, self._commits_every_s = group, name, commits_every_s
        self._lives = 0
        self._positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        """The positions of the commit that is under way."""
        self._asked_ns = 0
        self.until: Mapping[int, int] | None = None
        """By partition the offset up to which it is to read; None: on and on."""
        super().__init__(f"group {name}")

    @property
    def has_read_all(self) -> bool:
        """Returns whether it has come as far as `until`."""
        wanted = self.until or {}
        return all(self._positions.get(partition, 0) >= end for partition, end in wanted.items())

    def _enter(self, home: Home) -> None:
        self._lives += 1
        self._positions, self._committed, self._asked = {}, {}, {}
        self._consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": home.servers,
                "group.id": self.name,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 6,
                "fetch.wait.max.ms": 50,
                "on_commit": lambda error, places: self._note_commit(home, error, places),
            }
        )
        self._consumer.subscribe([TOPIC], on_assign=lambda consumer, given: self._begin(home, consumer, given))
        self._commit_at = time.monotonic() + self._commits_every_s

    @property
    def _process(self) -> int:
        return 1000 * self.group + self._lives

    def _begin(self, home: Home, consumer: Consumer, given: list[TopicPartition]) -> None:
        """Begin where the group has committed at this cluster, else with the first record."""
        begun = time.monotonic_ns()
        places = consumer.committed(given, timeout=ANSWER_WITHIN_S)
        for place in places:
            start = max(0, place.offset)
            place.offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            self._positions[place.partition] = self._committed[place.partition] = start
            about = {"object": place.partition, "process": self._process, "a": self.group, "node": home.number}
            self._journal.record(Action.ASSIGN, offset=start, t_inv=begun, t_ret=time.monotonic_ns(), **about)
        consumer.assign(places)

    def _work(self, home: Home) -> None:
        begun = time.monotonic_ns()
        try:
            messages = self._consumer.consume(RECORDS_MAX, timeout=POLL_S)
        except KafkaException:
            return
        ended = time.monotonic_ns()
        got: dict[int, list[Message]] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:
                continue
            if message.error() is None:
                got.setdefault(partition, []).append(message)
                self._positions[partition] = offset + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._positions[partition] = max(self._positions.get(partition, 0), offset)
        for partition, of_partition in got.items():
            values = [decode_value(message.value() or b"")[0] for message in of_partition]
            offsets = [message.offset() or 0 for message in of_partition]
            about = {"object": partition, "process": self._process, "b": self.group, "node": home.number}
            self._journal.record_polled(values, offsets, t_inv=begun, t_ret=ended, **about)
        if time.monotonic() >= self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + self._commits_every_s

    def _commit(self) -> None:
        """Ask for a commit, unless one is under way. A blocking one would wait for a city that is gone."""
        moved = {at: offset for at, offset in self._positions.items() if self._committed.get(at) != offset}
        if self._asked or not moved:
            return
        self._asked, self._asked_ns = moved, time.monotonic_ns()
        places = [TopicPartition(TOPIC, partition, offset) for partition, offset in moved.items()]
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)

    def _note_commit(self, home: Home, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """Record the answer to a commit."""
        asked, self._asked = self._asked, {}
        codes = {place.partition: place.error.code() for place in places if place.error is not None}
        for partition, offset in asked.items():
            code = error.code() if error is not None else codes.get(partition, 0)
            outcome, why = outcome_of_commit(code)
            about = {"object": partition, "process": self._process, "a": self.group, "node": home.number, "err": why}
            times = {"t_inv": self._asked_ns, "t_ret": time.monotonic_ns()}
            self._journal.record(Action.COMMIT, type=outcome, offset=offset, **about, **times)
            if outcome is Outcome.OK:
                self._committed[partition] = offset

    def _leave(self, home: Home, *, is_lost: bool) -> None:
        """Commit and leave the group; from a city that is gone there is no answer to wait for."""
        consumer, deadline = self._consumer, time.monotonic() + FLUSHED_WITHIN_S
        if is_lost:
            if self._asked:
                self._note_commit(home, KafkaError(KafkaError._TIMED_OUT), [])
            threading.Thread(target=consumer.close, daemon=True).start()
            return
        while self._asked and time.monotonic() < deadline:
            self._work(home)
        self._commit()
        while self._asked and time.monotonic() < deadline:
            self._consumer.poll(POLL_S)
        consumer.close()


# -------------------------------------------------------------------- what the operator asks


def create_topic(home: Home, partitions: int, copies: int) -> None:
    """Make the topic. Raises `KafkaException`."""
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({**COMMON, "bootstrap.servers": home.servers})
    made = client.create_topics([NewTopic(TOPIC, num_partitions=partitions, replication_factor=copies)])
    made[TOPIC].result(FLUSHED_WITHIN_S)


def read_ends(home: Home, partitions: int) -> dict[int, int]:
    """Returns where each partition ends. Raises `KafkaException`."""
    consumer = Consumer({**COMMON, "bootstrap.servers": home.servers, "group.id": "operator"})
    try:
        ends = {}
        for partition in range(partitions):
            marks = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=ANSWER_WITHIN_S)
            if marks is None:
                raise NotSettled(f"{TOPIC}-{partition} of {home.servers} does not tell its end")
            ends[partition] = marks[1]
        return ends
    finally:
        consumer.close()


def read_positions(home: Home, group: str, partitions: int) -> dict[int, int]:
    """Returns the position that a group has in each partition of a cluster, where it has one. Raises `KafkaException`."""
    consumer = Consumer({**COMMON, "bootstrap.servers": home.servers, "group.id": group})
    try:
        places = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
        found = consumer.committed(places, timeout=ANSWER_WITHIN_S)
        return {place.partition: place.offset for place in found if place.error is None and place.offset >= 0}
    finally:
        consumer.close()


def read_whole(home: Home, partitions: int) -> dict[int, list[tuple[int, int]]]:
    """Returns every committed record of each partition: offsets and values. Raises `KafkaException` and `NotSettled`."""
    config: dict[str, Any] = {**COMMON, "bootstrap.servers": home.servers, "group.id": "final"}
    consumer = Consumer({**config, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(partitions)}
        left, deadline = set(found), time.monotonic() + SETTLES_WITHIN_S
        while left:
            if time.monotonic() > deadline:
                raise NotSettled(f"{home.servers} was not read to its end within {SETTLES_WITHIN_S:g} s")
            for message in consumer.consume(RECORDS_MAX, timeout=POLL_S):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if partition is None or offset is None:
                    continue
                if error is None:
                    found[partition].append((offset, decode_value(message.value() or b"")[0]))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
        return found
    finally:
        consumer.close()
