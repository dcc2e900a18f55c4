"""The answers of the figures: ours compared with Apache Kafka under every load and fault."""

from jepsen_like.bench.broker_tables import MEGABYTES, P50, P99, BrokerTables, LoadRows, Measure
from jepsen_like.bench.failover import KILL, PAUSE
from jepsen_like.bench.figures import Document, describe
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, KafkaWork

SHOWN = {
    KafkaWork.STREAM: (MEGABYTES,),
    KafkaWork.ONE: (P50, P99, Measure("records_s", "records/s")),
    KafkaWork.TRANSACTIONS: (
        Measure("requests_s", "transactions/s"),
        P50._replace(unit="p50 ms of a commit"),
        P99._replace(unit="p99 ms of a commit"),
    ),
    KafkaWork.READ: (MEGABYTES,),
}
"""The figures of each kind of work: operations and latencies of what is waited for, megabytes of a stream."""


def remarks(document: Document) -> list[str]:
    """Returns what the tables need to be read: the machine and other load on it, and what was not measured."""
    loads = ", ".join(f"{run.load_average:.1f}" for run in document.runs)
    return [
        f"Machine: {describe(document.machine)}. Load average before: {loads}. Brokers and client share the cores over loopback.",
        *(f"Not measured, {one.section} of {one.system}: {one.why}" for one in document.not_measured),
    ]


TABLES = BrokerTables(
    loads_title="Three brokers, one client process of confluent-kafka, acks=all, three replicas",
    titles_head=("",),
    unit="record",
    rows=[LoadRows([load.title], load.key, SHOWN[load.work]) for load in KAFKA_LOADS],
    faults_title="Longest time between two acknowledgements, s",
    faults_words={
        KILL: "leader killed (kill -9), client's defaults",
        PAUSE: "leader paused, client waits 3 s for an answer",
    },
    remarks=remarks,
)
