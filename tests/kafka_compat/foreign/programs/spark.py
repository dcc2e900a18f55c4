"""Apache Spark's source and sink: a batch is written and read, and a stream copies one topic to another.

Every broker is killed once while the stream runs.
"""

from collections import Counter
from pathlib import Path

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.processes import LoadWorker, running
from tests.brought import bring, bring_jars, cache
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept, read, send, strike_each

VERSION = "4.2.0"
JOB = Path(__file__).with_name("spark_job.py")
BATCH, INPUT, OUTPUT = "batch", "stream-input", "stream-output"
PARTITIONS = 3
RECORDS = 200
ROUNDS = 7


def bring_spark() -> str:
    """Returns the directory for PYTHONPATH; the connector exists for other versions than the newest of PyPI."""
    home = cache(f"pyspark-{VERSION}")
    if not home.is_dir():
        bring(home, "pip", "install", "-q", "--no-deps", "--target", "{home}", f"pyspark=={VERSION}", "py4j==0.10.9.9")
    return str(home)


def prove_copies(cluster: KafkaCluster, home: Path) -> str:
    """Write, read and stream. Raises `NotKept` if a record is lost in one of them."""
    jars = bring_jars(f"spark-kafka-{VERSION}", Path(__file__).with_name("spark.xml"))
    library = bring_spark()
    for topic in (BATCH, INPUT, OUTPUT):
        cluster.create(topic, PARTITIONS)
    job = LoadWorker(JOB, home / "job", cluster.bootstrap, jars.removesuffix("/*"), str(home / "checkpoint"), library)
    sent: list[bytes] = []

    def work(number: int) -> None:
        values = [b"record %d" % (number * RECORDS + each) for each in range(RECORDS)]
        send(cluster, INPUT, values)
        sent.extend(values)
        job.check()

    with running([job]):
        count = job.ask({"ask": "batch", "topic": BATCH, "records": RECORDS})["found"]
        if count != RECORDS:
            raise NotKept(f"{RECORDS} records written in a batch, {count} read")
        job.ask({"ask": "stream", "from": INPUT, "to": OUTPUT})
        strike_each(cluster, [(INPUT, PARTITIONS), (OUTPUT, PARTITIONS)], work)
        records = read(cluster, OUTPUT, PARTITIONS, lambda so_far: {each.value() for each in so_far} >= set(sent))
        job.ask({"ask": "stop"})
    copied = Counter(each.value() for each in records)
    if lost := set(sent) - set(copied):
        raise NotKept(f"{len(sent)} records sent, {len(lost)} lost in the stream")
    return f"batch {count}; {len(sent)} records streamed, 0 lost, {copied.total() - len(copied)} doubled"


PROGRAMS = (
    ForeignProgram(
        "Apache Spark, source and sink",
        VERSION,
        "a batch written and read; every record streamed, through three kills",
        prove_copies,
    ),
)
