"""Deliberate bugs of Kafka's brokers around the deciders: their replicas, fetchers and disks."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import kafka_bug
from tests.mutants.mutant import Mutant

REPLICAS = "kafka_compat.broker.replicas"
FETCHER = "kafka_compat.broker.fetcher"
HOSTING = "kafka_compat.broker.hosting"
PARTITION_LOG = "kafka_compat.storage.partition_log"
STORE = "kafka_compat.storage.broker_store"
COMPACTION = "kafka_compat.storage.compaction"
RUN = "kafka_compat.storage.run_record"

KAFKA_HOST_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "host-flush-covers-what-came-later",
        "a flush counts for what was appended while it ran",
        REPLICAS,
        (
            "                self.step(hosted, Flushed(end))",
            "                self.step(hosted, Flushed(hosted.log.end_offset))",
        ),
        oracles=["K2"],
    ),
    kafka_bug(
        "host-truncates-without-producers",
        "a truncation does not tell the replica which producers are left",
        REPLICAS,
        (" if shorter else None\n        self.step", " if False else ()\n        self.step"),
        oracles=["K5"],
    ),
    kafka_bug(
        "host-checkpoints-the-log-end",
        "the checkpoint of high watermarks holds the ends of the logs",
        REPLICAS,
        (
            "{each.partition: each.high_watermark for each in self.hosted.values()}",
            "{each.partition: each.log.end_offset for each in self.hosted.values()}",
        ),
        oracles=["K3", "K6"],
    ),
    kafka_bug(
        "host-proposes-without-epochs",
        "a leader proposes ISRs without the epochs of their brokers (KIP-903)",
        REPLICAS,
        ("ProposedMember(broker, epoch) for", "ProposedMember(broker, -1) for"),
        oracles=["K1", "V-liveness"],
    ),
    kafka_bug(
        "host-fetches-without-its-last-epoch",
        "a follower does not state the epoch of its last batch",
        FETCHER,
        ("                last_fetched_epoch=position.last_fetched_epoch,\n", ""),
        oracles=["K1", "K3"],
    ),
    kafka_bug(
        "host-fetches-without-its-log-start",
        "a follower does not state where its log begins",
        FETCHER,
        ("                log_start_offset=position.log_start_offset,\n", ""),
        oracles=["K1", "V-liveness"],
    ),
    kafka_bug(
        "host-makes-missing-logs-first",
        "a broker makes its missing logs before it looks for what is missing",
        HOSTING,
        (
            "        if is_first:\n",
            "        self._update(states)\n        self._replicas.make_all()\n        if is_first:\n",
        ),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-reads-producers-from-snapshots-alone",
        "the producers behind the newest snapshot are not read at a start",
        PARTITION_LOG,
        ("        replay_into(producers, self.headers(at))\n", ""),
        oracles=["K5"],
    ),
    kafka_bug(
        "host-changes-are-not-counted",
        "a truncation does not count as a change of the log",
        PARTITION_LOG,
        (
            "        elif offset < self.end_offset:\n            self.changes += 1\n",
            "        elif offset < self.end_offset:\n",
        ),
        oracles=["K2"],
    ),
    kafka_bug(
        "host-misses-no-log",
        "a log that is missing is not doubtful",
        STORE,
        (
            'return "its log is missing" if doubt is None and not self.has(partition, topic_id) else doubt',
            "return doubt",
        ),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-trusts-page-caches-over-a-power-cut",
        "an unclean end with a power cut is no reason to doubt what was not flushed",
        RUN,
        ("and not self.flushed and (not boot or self.boot != boot):", "and False:"),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-compacts-the-newest-away",
        "compaction keeps the oldest record of a key",
        COMPACTION,
        (
            "                        self._newest[record.key] = record.offset\n",
            "                        self._newest.setdefault(record.key, record.offset)\n",
        ),
        oracles=["K1", "K6", "K8"],
    ),
)
