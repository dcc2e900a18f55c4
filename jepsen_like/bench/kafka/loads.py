"""The loads of the brokers: streams of records in large and small batches, single records, transactions, and reading."""

import enum
from collections.abc import Mapping

import attrs

PARTITIONS = 6
TRANSACTION_RECORDS = 100
ALL_IN_SYNC: Mapping[str, str | int | bool] = {"acks": "all"}


class KafkaWork(enum.Enum):
    """The work of the client."""

    STREAM = "stream"
    """Hands over records as fast as the library takes them; it makes batches."""
    ONE = "one"
    """Waits for each acknowledgement before the next record."""
    TRANSACTIONS = "transactions"
    """Commits `TRANSACTION_RECORDS` at a time; a latency is that of a commit."""
    READ = "read"
    """Reads a topic from its beginning to its end, again and again."""


@attrs.frozen
class KafkaLoad:
    """One load of one client process on a topic of its own."""

    key: str
    title: str
    work: KafkaWork
    record_bytes: int
    settings: Mapping[str, str | int | bool] = attrs.field(factory=dict)
    """Of the producer, as librdkafka names them; all else is its default."""
    partitions: int = PARTITIONS


def streams() -> tuple[KafkaLoad, ...]:
    """Every size, batching and idempotence."""
    found = []
    for size, words in ((1024, "1 KiB"), (100, "100 B")):
        for batching, said, of_batches in (
            ("large", "default batching", {"linger.ms": 5}),
            ("small", "batches of 16 KiB", {"linger.ms": 5, "batch.size": 16384}),
        ):
            for idempotent in (True, False):
                kind = "idempotent" if idempotent else "plain"
                found.append(
                    KafkaLoad(
                        f"{size}-{batching}-{kind}",
                        f"{words}, {said}, {'idempotent' if idempotent else 'not idempotent'}",
                        KafkaWork.STREAM,
                        size,
                        {**ALL_IN_SYNC, **of_batches, "enable.idempotence": idempotent},
                    )
                )
    return tuple(found)


STREAMS = streams()
ONE_AT_A_TIME = tuple(
    KafkaLoad(
        f"{size}-one",
        f"{words}, one record in flight, idempotent",
        KafkaWork.ONE,
        size,
        {**ALL_IN_SYNC, "linger.ms": 0, "enable.idempotence": True},
        partitions=1,
    )
    for size, words in ((100, "100 B"), (1024, "1 KiB"))
)
TRANSACTIONS = tuple(
    KafkaLoad(
        f"{size}-transactions",
        f"{words}, transactions of {TRANSACTION_RECORDS} records",
        KafkaWork.TRANSACTIONS,
        size,
        {**ALL_IN_SYNC, "linger.ms": 5, "transactional.id": f"bench-{size}"},
    )
    for size, words in ((100, "100 B"), (1024, "1 KiB"))
)
READS = (
    KafkaLoad("1024-read", "1 KiB, consumer of 6 partitions", KafkaWork.READ, 1024, STREAMS[0].settings),
    KafkaLoad(
        "1024-read-one", "1 KiB, consumer of 1 partition", KafkaWork.READ, 1024, STREAMS[0].settings, partitions=1
    ),
)
KAFKA_LOADS = (*STREAMS, *ONE_AT_A_TIME, *TRANSACTIONS, *READS)
