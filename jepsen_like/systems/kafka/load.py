"""Clients at work on a Kafka cluster: confluent-kafka in processes of its own, their reports as rows of the history.

A message is one operation, from before `produce()` to its delivery report, with a value of its own; a slot of a
producer is one client.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.worker_plan import (
    FEEDER,
    KEYED_SENDER,
    MEMBER,
    READER,
    SCANNER,
    SENDER,
    STABLE_READER,
    TRANSFORMER,
    WORKER,
    WorkerPlan,
)
from jepsen_like.workload.client_process import FINAL, STOP, STOPPED, ClientProcess
from jepsen_like.workload.client_sinks import ClientSink, LogSink, QueueSink
from jepsen_like.workload.keyed import KeyedRecorder, KeyedSink
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder
from jepsen_like.workload.transactions import TransactionRecorder, TransactionSink

SENDERS: Final = 2
REQUEST_WITHIN_MS: Final = 2000
FINAL_WITHIN_S: Final = 20.0
LOG_WORKLOAD, GROUP_WORKLOAD, GROUPS_WORKLOAD, TXN_WORKLOAD = "log", "group", "groups", "txn"
COMPACT_WORKLOAD: Final = "compact"
MIN_LAG_MS: Final = 1000
DELETE_RETENTION_MS: Final = 4000
COMPACTED_TOPIC: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(MIN_LAG_MS),
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}
"""The settings of a topic of keys, besides `KafkaMode.short_segments`."""
GROUPS: Final[Mapping[str, Mapping[str, int]]] = {
    GROUP_WORKLOAD: {"readers": 3},
    GROUPS_WORKLOAD: {"readers": 2, "auditors": 2},
}
"""By workload: each group, by its number, with its members. With several, a consumer without a group reads on."""
SESSION_MS: Final = 3000
REBALANCE_MS: Final = 10_000
TRANSACTION_WITHIN_MS: Final = 8000
FEEDERS, TWINS = 16, 2
"""Producers of transactions that read nothing, each with a transactional id, and transformers that share one, of each input."""
LAST_ACTS: Final = (SENDER, KEYED_SENDER, FEEDER, TRANSFORMER, READER, STABLE_READER, SCANNER)
"""The roles in the order of their last writes and reads."""

COMMON: Final[Mapping[str, Any]] = {
    "socket.timeout.ms": 2500,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "log_level": 0,
}
"""Short times: a client that waits long for a broker that is gone measures its own patience."""


def bootstrap(addresses: Mapping[int, Address]) -> str:
    """`bootstrap.servers` of a cluster."""
    return ",".join(text_of(address) for _, address in sorted(addresses.items()))


def producer_config(mode: KafkaMode, servers: str) -> dict[str, Any]:
    """The configuration of a producer. Without a producer id nothing is sent twice, so nothing is stored twice."""
    config = {
        **COMMON,
        "bootstrap.servers": servers,
        "acks": mode.acks,
        "enable.idempotence": mode.is_idempotent,
        "linger.ms": 1,
        "message.timeout.ms": mode.message_within_ms,
        "request.timeout.ms": REQUEST_WITHIN_MS,
    }
    return config if mode.is_idempotent else {**config, "retries": 0}


def transactional_config(mode: KafkaMode, servers: str) -> dict[str, Any]:
    """Returns the configuration of a producer of transactions: librdkafka refuses to wait longer for a record than for its transaction."""
    within_ms = min(mode.message_within_ms, TRANSACTION_WITHIN_MS)
    timeouts = {"transaction.timeout.ms": TRANSACTION_WITHIN_MS, "message.timeout.ms": within_ms}
    return {**producer_config(mode, servers), **timeouts}


def consumer_config(mode: KafkaMode, servers: str, group: str) -> dict[str, Any]:
    """The configuration of a consumer that commits nothing by itself."""
    return {
        **COMMON,
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 50,
        **({"client.rack": mode.client_rack} if mode.client_rack else {}),
    }


def member_config(mode: KafkaMode, servers: str, group: str) -> dict[str, Any]:
    """The configuration of a member of a group. By KIP-848 the broker decides on sessions and heartbeats."""
    if mode.group_protocol == "consumer":
        return {
            **consumer_config(mode, servers, group),
            "group.protocol": "consumer",
            "max.poll.interval.ms": REBALANCE_MS,
        }
    return {
        **consumer_config(mode, servers, group),
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": SESSION_MS // 6,
        "max.poll.interval.ms": REBALANCE_MS,
    }


class ClientLoad:
    """All clients of a run (`workload.load.RunningLoad`): producers and a consumer, which live past the final reads."""

    def __init__(self, plans: Sequence[WorkerPlan], sink: ClientSink) -> None:
        self.plans = tuple(plans)
        self._sink = sink
        self.workers: list[ClientProcess] = []
        self._is_stopping = False
        self._ends: dict[int, int] = {}
        self._unanswered = 0

    async def run(self) -> None:
        """Drive all until `stop` and the last report. Raises `NotServing`, in a group, if a client ends."""
        try:
            self.workers += [ClientProcess.start(WORKER, plan, stopped=self._is_stopping) for plan in self.plans]
            async with trio.open_nursery() as nursery:
                for worker in self.workers:
                    nursery.start_soon(worker.listen, STOPPED, self._sink.take)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Start no more operations."""
        self._is_stopping = True
        for worker in self.workers:
            worker.tell(STOP)

    async def final_reads(self) -> bool:
        """A last message to each partition, then its end and newest records. Returns False if not all was answered."""
        try:
            with trio.move_on_after(FINAL_WITHIN_S * 2):
                for role in LAST_ACTS:
                    told = [worker for worker in self.workers if worker.plan.role == role]
                    for worker in told:
                        worker.tell(FINAL)
                    self._unanswered = len(told)
                    async with trio.open_nursery() as nursery:
                        for worker in told:
                            nursery.start_soon(self._await_final, worker)
                    if self._unanswered:
                        return False
                return True
            return False
        finally:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for worker in self.workers:
                        nursery.start_soon(worker.end)

    def claimed_ends(self) -> Mapping[int, int]:
        """By partition: the end that the consumer was told after everything."""
        return dict(self._ends)

    def kill(self) -> None:
        """End every client process now; for a load whose final reads are not wanted."""
        for worker in self.workers:
            worker.kill()

    async def _await_final(self, worker: ClientProcess) -> None:
        answered, ends = await worker.listen(FINAL, self._sink.take)
        self._unanswered -= answered
        self._ends |= ends


def load_of(
    mode: KafkaMode,
    workload: str,
    recorder: Recorder,
    servers: str,
    topic: str,
    plan: LoadPlan,
    tls: TlsPaths | None = None,
) -> ClientLoad:
    """The load of a workload: producers that share concurrency and rate, and a reader, or a group and a late reader."""
    if workload == TXN_WORKLOAD:
        assert isinstance(recorder, TransactionRecorder)
        return ClientLoad(transaction_plans(mode, servers, topic, plan, tls), TransactionSink(recorder))
    is_keyed = workload == COMPACT_WORKLOAD
    reader = WorkerPlan(
        role=SCANNER if is_keyed else READER,
        client=consumer_config(mode, servers, f"readers-{plan.seed}"),
        authority=None if tls is None else str(tls.authority),
        keystore=None if tls is None else str(tls.keystore),
        topic=topic,
        partitions=mode.partitions,
        may_retry=mode.is_idempotent,
        seed=plan.seed,
        reads_whole=workload in GROUPS,
    )
    senders = min(SENDERS, plan.concurrency)
    producers = [
        attrs.evolve(
            reader,
            role=KEYED_SENDER if is_keyed else SENDER,
            client=producer_config(mode, servers),
            index=number,
            workers=senders,
            slots=plan.concurrency // senders + (number < plan.concurrency % senders),
            rate=plan.rate / senders,
        )
        for number in range(senders)
    ]
    if is_keyed:
        assert isinstance(recorder, KeyedRecorder)
        return ClientLoad([*producers, reader], KeyedSink(recorder))
    if workload not in GROUPS:
        return ClientLoad([*producers, reader], LogSink(recorder))
    assert isinstance(recorder, QueueRecorder)
    consumers = [
        attrs.evolve(reader, role=MEMBER, client=member_config(mode, servers, f"{name}-{plan.seed}"), group=group)
        for group, (name, members) in enumerate(GROUPS[workload].items())
        for _ in range(members)
    ]
    if len(GROUPS[workload]) > 1:
        consumers.append(attrs.evolve(reader, role=MEMBER))
    consumers = [attrs.evolve(each, index=number, workers=len(consumers)) for number, each in enumerate(consumers)]
    return ClientLoad([*producers, *consumers, reader], QueueSink(recorder))


def transactional_ids(mode: KafkaMode) -> list[str]:
    """Returns the transactional ids of the producers of a run."""
    return [f"txn-{number}" for number in range(FEEDERS + inputs_of(mode))]


def inputs_of(mode: KafkaMode) -> int:
    """Returns how many partitions are inputs of transformers; the others are their outputs."""
    return max(1, mode.partitions // 2)


def transaction_plans(
    mode: KafkaMode, servers: str, topic: str, plan: LoadPlan, tls: TlsPaths | None
) -> list[WorkerPlan]:
    """Returns the clients of a run of transactions: feeders, twins for each input, and a reader."""
    inputs = inputs_of(mode)
    consumer = consumer_config(mode, servers, f"transformers-{plan.seed}")
    reader = WorkerPlan(
        role=STABLE_READER,
        client=consumer,
        authority=None if tls is None else str(tls.authority),
        keystore=None if tls is None else str(tls.keystore),
        topic=topic,
        partitions=mode.partitions,
        may_retry=True,
        seed=plan.seed,
        inputs=inputs,
    )
    producer = transactional_config(mode, servers)
    producers = [attrs.evolve(reader, role=FEEDER, client=producer, transactional_id=each) for each in range(FEEDERS)]
    producers += [
        attrs.evolve(
            reader,
            role=TRANSFORMER,
            client=producer,
            consumer={**consumer, "isolation.level": "read_committed"},
            transactional_id=FEEDERS + each,
            input=each,
        )
        for each in range(inputs)
        for _ in range(TWINS)
    ]
    count = len(producers)
    numbered = [
        attrs.evolve(each, index=number, workers=count, first_number=number, numbers_step=count)
        for number, each in enumerate(producers)
    ]
    return [*numbered, reader]
