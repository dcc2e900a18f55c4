"""Kafka Streams: the word count of Kafka's own examples, `WordCountDemo`, unmodified.

Every broker is killed once, and the program once, which loses its state and has to read it again from the changelog.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Message

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.processes import BenchProcess, running
from tests.brought import bring_jars
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept, read, send, strike_each

VERSION = "4.3.1"
DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
LINES = 200
"""For each kill, and as many between two."""
ROUNDS = 7


def properties(bootstrap: str, guarantee: str, state: Path) -> str:
    """Returns the program's settings."""
    return (
        f"bootstrap.servers={bootstrap}\nprocessing.guarantee={guarantee}\nstate.dir={state}\nreplication.factor=3\n"
        "commit.interval.ms=200\nconsumer.session.timeout.ms=6000\nconsumer.heartbeat.interval.ms=500\n"
    )


def lines(number: int) -> Sequence[bytes]:
    """Returns the lines of a round: each has the word of its turn, and one that all have."""
    return [f"{WORDS[(number + line) % len(WORDS)]} all".encode() for line in range(LINES)]


def count_sent() -> Mapping[str, int]:
    """Returns how often each word was sent."""
    counts: dict[str, int] = defaultdict(int)
    for number in range(ROUNDS):
        for line in lines(number):
            for word in line.decode().split():
                counts[word] += 1
    return counts


def group_counts(records: Sequence[Message]) -> Mapping[str, list[int]]:
    """Returns the counts of each word, in the order in which the program wrote them."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        found[(record.key() or b"").decode()].append(int.from_bytes(record.value() or b"", "big"))
    return found


def prove_counts(cluster: KafkaCluster, home: Path, guarantee: str) -> str:
    """Count words through the kills. Raises `NotKept` if a word was lost, or counted twice where that is promised."""
    jars = bring_jars(f"kafka-streams-{VERSION}", Path(__file__).with_name("streams.xml"))
    for topic in (INPUT, OUTPUT):
        cluster.create(topic)
    config, state = home / "streams.properties", home / "state"
    config.write_text(properties(cluster.bootstrap, guarantee, state))
    demo = BenchProcess(["java", "-XX:TieredStopAtLevel=1", "-cp", jars, DEMO, str(config)], home / "demo")

    def work(number: int) -> None:
        send(cluster, INPUT, lines(number))
        demo.check()
        if number == ROUNDS // 2:
            demo.kill()
            demo.reap()
            shutil.rmtree(state)
            demo.start()

    wanted = count_sent()
    with running([demo]):
        strike_each(cluster, [(INPUT, 1), (OUTPUT, 1)], work)
        records = read(cluster, OUTPUT, 1, lambda so_far: _holds_all(group_counts(so_far), wanted))
        demo.check()
    found = group_counts(records)
    if not _holds_all(found, wanted):
        raise NotKept(f"lost: {dict(wanted)} sent, {_last(found)} counted")
    if guarantee == "exactly_once_v2" and (wrong := [*_unlike(found, wanted)]):
        raise NotKept("; ".join(wrong))
    return f"{sum(wanted.values())} words sent, {sum(_last(found).values())} counted"


def _last(found: Mapping[str, list[int]]) -> Mapping[str, int]:
    return {word: counts[-1] for word, counts in found.items()}


def _holds_all(found: Mapping[str, list[int]], wanted: Mapping[str, int]) -> bool:
    """Returns True if no word was lost."""
    last = _last(found)
    return all(last.get(word, 0) >= count for word, count in wanted.items())


def _unlike(found: Mapping[str, list[int]], wanted: Mapping[str, int]) -> Iterator[str]:
    """Yields each word whose committed counts are not 1, 2, 3 to the number of times that it was sent."""
    for word, counts in found.items():
        if counts != [*range(1, wanted.get(word, 0) + 1)]:
            yield f"{word}: sent {wanted.get(word, 0)} times, counts {counts[:5]}...{counts[-5:]}"


PROGRAMS = tuple(
    ForeignProgram(
        f"Kafka Streams, {guarantee}",
        VERSION,
        shows,
        lambda cluster, home, guarantee=guarantee: prove_counts(cluster, home, guarantee),  # type: ignore[misc]
    )
    for guarantee, shows in (
        ("at_least_once", "every word counted, through four kills"),
        ("exactly_once_v2", "every word counted exactly once, through four kills"),
    )
)
