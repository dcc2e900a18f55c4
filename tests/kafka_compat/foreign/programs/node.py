"""kafkajs: a group copies records from one topic to another, each in a transaction with its offset.

Some transactions are aborted on purpose. Every broker is killed once.
"""

from collections import Counter
from pathlib import Path

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.processes import BenchProcess, running
from tests.brought import bring_modules
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept, read, send, strike_each

VERSION = "2.2.4"
PROGRAM = Path(__file__).with_name("transact.js")
INPUT, OUTPUT = "copy-input", "copy-output"
RECORDS = 15
ROUNDS = 7


def prove_transactions(cluster: KafkaCluster, home: Path) -> str:
    """Copy through the kills. Raises `NotKept` if a record is lost or doubled, or an aborted one is read."""
    modules = bring_modules(f"kafkajs@{VERSION}")
    for topic in (INPUT, OUTPUT):
        cluster.create(topic)
    words = ["node", str(PROGRAM), cluster.bootstrap, INPUT, OUTPUT, str(RECORDS * ROUNDS)]
    copier = BenchProcess(words, home / "copier", {"NODE_PATH": modules})
    sent: list[bytes] = []

    def work(number: int) -> None:
        values = [b"record %d" % (number * RECORDS + each) for each in range(RECORDS)]
        send(cluster, INPUT, values)
        sent.extend(values)

    with running([copier]):
        strike_each(cluster, [(INPUT, 1), (OUTPUT, 1)], work)
        records = read(cluster, OUTPUT, 1, lambda so_far: {each.value() for each in so_far} >= set(sent))
    found = Counter(each.value() for each in records)
    wanted = Counter(sent)
    if found != wanted:
        lost, more = (wanted - found).total(), found - wanted
        raise NotKept(f"{len(sent)} records sent: {lost} lost, {more.total()} too many {list(more)[:3]}")
    return f"{len(sent)} records sent, {found.total()} copied, none of an aborted transaction"


PROGRAMS = (
    ForeignProgram(
        "kafkajs, transactions",
        VERSION,
        "every record copied exactly once with its offset, through three kills",
        prove_transactions,
    ),
)
