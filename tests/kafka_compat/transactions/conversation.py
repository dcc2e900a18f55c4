"""Golden scripts: a line `> command`, and below it what the coordinator answered and ordered.

Commands; `p` is any name of a producer, whose id and epoch are remembered from its answers, and `x` the id unless `txn`
names another:

    config transaction_max_timeout_ms=9 ...     a new coordinator with these settings that has loaded an empty partition
    init p timeout=60 [go] [txn=x]              InitProducerId; with `go` it states the id and epoch that it has (KIP-360)
    add p t/0 t/1 [v=2]     verify p t/0        AddPartitionsToTxn
    commit p [v=2]      abort p [v=2]           EndTxn; v is the version of transactions
    describe x      list
    allocated 1 [1000 | ERROR]                  the producer id of an order
    written 3     failed 3 NOT_ENOUGH_REPLICAS     marked 2     refused 2 ERROR     wait 10     resign     show
    load        a new coordinator on what was written or is under way, still loading; `loaded` ends that
    state p 1000 5                              p has this id and epoch from now on
    have 32766 [t/0] [v=2]                      a new coordinator that has loaded x with producer 1000 in this epoch

`python -m tests.kafka_compat.transactions.conversation --rewrite` renews the answers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.coordinator.events import LoadFinished, Record, RecordsLoaded, Resigned, WriteFailed, Written
from kafka_compat.coordinator.writes import UNKNOWN_OUTCOMES
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.transactions.config import TransactionConfig
from kafka_compat.transactions.core import TransactionCoordinator
from kafka_compat.transactions.effects import (
    AllocateProducerId,
    NameAborted,
    SendMarkers,
    TransactionAnswer,
    TransactionEffect,
)
from kafka_compat.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    ProducerIdAllocated,
    TransactionEvent,
    TransactionRequest,
    TransactionRequestArrived,
    TransactionTimePassed,
    VerifyPartitions,
)
from kafka_compat.transactions.model import TransactionData, TransactionState
from kafka_compat.transactions.record_formats import decode_record, encode_key, encode_value
from tests.golden import renew_script, rewrite

SCRIPTS = Path(__file__).with_name("scripts")
EPOCH_MS = 1_000_000


class Conversation:
    """A coordinator, its log, and what its producers remember."""

    def __init__(self) -> None:
        self.config = TransactionConfig()
        self.now = 0.0
        self.log: dict[int, tuple[Record, ...]] = {}
        self.loaded: list[Record] = []
        self.clients: dict[int, tuple[str, str]] = {}
        """By token: who asked, and for what."""
        self.producers: dict[str, tuple[int, int]] = {}
        self.tokens = 0
        self.coordinator = TransactionCoordinator(self.config)
        self.coordinator.step(self.now, LoadFinished(self.time_ms))

    @property
    def time_ms(self) -> int:
        return EPOCH_MS + round(self.now * 1000)

    def say(self, command: str) -> list[str]:
        """Carries out one command; returns the lines that it leads to."""
        verb, *words = command.split()
        options = {key: value for key, sign, value in (word.partition("=") for word in words) if sign}
        plain = [word for word in words if "=" not in word]
        return list(self.lines(verb, plain, options))

    def lines(self, verb: str, plain: list[str], options: dict[str, str]) -> Iterator[str]:
        match verb:
            case "config":
                self.config = TransactionConfig(**{key: int(value) for key, value in options.items()})
                self.log.clear()
                self.loaded.clear()
                self.coordinator = TransactionCoordinator(self.config)
                yield from self.step(LoadFinished(self.time_ms))
            case "allocated":
                word = plain[1] if len(plain) > 1 else f"{1000 * int(plain[0])}"
                given = int(word) if word.isdigit() else -1
                error = KafkaErrorCode.NONE if word.isdigit() else KafkaErrorCode[word]
                yield from self.step(ProducerIdAllocated(int(plain[0]), given, error, self.time_ms))
            case "written":
                yield from self.step(Written(int(plain[0])))
            case "failed":
                error = KafkaErrorCode[plain[1]]
                if error not in UNKNOWN_OUTCOMES:
                    self.log.pop(int(plain[0]), None)
                yield from self.step(WriteFailed(int(plain[0]), error))
            case "marked":
                yield from self.step(MarkersWritten(int(plain[0]), self.time_ms))
            case "refused":
                yield from self.step(MarkersRefused(int(plain[0]), KafkaErrorCode[plain[1]]))
            case "wait":
                yield from self.wait(float(plain[0]))
            case "resign":
                yield from self.step(Resigned())
            case "load":
                self.loaded += [record for records in self.log.values() for record in records]
                self.log.clear()
                self.coordinator = TransactionCoordinator(self.config)
                yield from self.step(RecordsLoaded(tuple(self.loaded)))
            case "loaded":
                yield from self.step(LoadFinished(self.time_ms))
            case "have":
                partitions = frozenset(_partitions(plain))
                data = TransactionData(
                    1000,
                    int(plain[0]),
                    timeout_ms=60_000,
                    state=TransactionState.ONGOING if partitions else TransactionState.EMPTY,
                    partitions=partitions,
                    start_ms=self.time_ms,
                    updated_ms=self.time_ms,
                    version=int(options.get("v", 0)),
                )
                self.log.clear()
                self.loaded = [(encode_key("x"), encode_value(data))]
                self.coordinator = TransactionCoordinator(self.config)
                self.coordinator.step(self.now, RecordsLoaded(tuple(self.loaded)))
                yield from self.step(LoadFinished(self.time_ms))
            case "state":
                self.producers[plain[0]] = int(plain[1]), int(plain[2])
            case "show":
                yield from (data_text(name, entry.data) for name, entry in self.coordinator.ids.items())
            case _:
                self.tokens += 1
                self.clients[self.tokens] = plain[0] if plain else "op", verb
                request = self.request(verb, plain, options)
                yield from self.step(TransactionRequestArrived(self.tokens, request, self.time_ms))

    def wait(self, seconds: float) -> Iterator[str]:
        end = self.now + seconds
        while (due := self.coordinator.deadline) <= end:
            self.now = max(self.now, due)
            yield from (f"{self.now:g}s {line}" for line in self.step(TransactionTimePassed(self.time_ms)))
        self.now = end

    def request(self, verb: str, plain: list[str], options: dict[str, str]) -> TransactionRequest:
        name = options.get("txn", "x")
        producer = self.producers.get(plain[0], (-1, -1)) if plain else (-1, -1)
        version = int(options.get("v", 0))
        partitions = _partitions(plain)
        match verb:
            case "init":
                timeout_ms = round(float(options.get("timeout", 60)) * 1000)
                return InitProducer(name, timeout_ms, producer if "go" in plain else None)
            case "add":
                return AddPartitions(name, *producer, partitions, version)
            case "verify":
                return VerifyPartitions(name, *producer, partitions)
            case "commit" | "abort":
                return EndTransaction(name, *producer, verb == "commit", version)
            case "describe":
                return DescribeTransaction(plain[0])
            case "list":
                return ListTransactions()
            case _:
                raise ValueError(f"no command {verb}")

    def step(self, event: TransactionEvent) -> Iterator[str]:
        for effect in self.coordinator.step(self.now, event):
            yield self.text(effect)

    def text(self, effect: TransactionEffect) -> str:
        match effect:
            case AppendRecords(write_id=write_id, records=records):
                self.log[write_id] = records
                return f"write {write_id}: " + "; ".join(record_text(*record) for record in records)
            case AllocateProducerId(request=request):
                return f"allocate {request}"
            case SendMarkers():
                kind = "commit" if effect.commits else "abort"
                where = " ".join(f"{each.topic}/{each.partition}" for each in sorted(effect.partitions))
                return (
                    f"markers {effect.markers}: {kind} {effect.producer_id},{effect.producer_epoch}"
                    f" v{effect.version} to {where}"
                )
            case NameAborted(transactional_id=name):
                return f"{name} has timed out"
            case TransactionAnswer():
                return self.answer_text(effect)
            case _:
                assert_never(effect)

    def answer_text(self, answer: TransactionAnswer) -> str:
        client, verb = self.clients.pop(answer.token)
        outcome = "ok" if answer.error is KafkaErrorCode.NONE else answer.error.name
        if verb == "verify":
            outcome = " ".join(
                f"{each.topic}/{each.partition}={'ok' if error is KafkaErrorCode.NONE else error.name}"
                for each, error in answer.partitions.items()
            )
        if verb in ("describe", "list"):
            return "; ".join([f"{verb} {outcome}", *(data_text(*each) for each in answer.described.items())])
        if answer.producer_id >= 0:
            self.producers[client] = answer.producer_id, answer.producer_epoch
            outcome += f" {answer.producer_id},{answer.producer_epoch}"
        return f"{client}: {verb} {outcome}"


def _partitions(plain: list[str]) -> tuple[TopicPartition, ...]:
    parts = (each.partition("/") for each in plain)
    return tuple(TopicPartition(topic, int(number)) for topic, sign, number in parts if sign)


def data_text(name: str, data: TransactionData) -> str:
    partitions = " ".join(f"{each.topic}/{each.partition}" for each in sorted(data.partitions))
    rotates = f" next={data.next_producer_id}" if data.next_producer_id >= 0 else ""
    before = f" before={data.previous_producer_id}" if data.previous_producer_id >= 0 else ""
    return f"{name} {data.state.title} {data.producer_id},{data.producer_epoch} [{partitions}]{rotates}{before}"


def record_text(key: bytes, value: bytes | None) -> str:
    decoded = decode_record(key, value)
    assert decoded is not None
    name, data = decoded
    return f"{name} gone" if data is None else data_text(name, data)


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().say)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
