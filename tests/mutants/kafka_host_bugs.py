"""Deliberate bugs of Kafka's brokers around the deciders: their replicas, fetchers, coordinators and disks.

Three that were tried cannot matter, and are left out. A high watermark that a fetch session does not repeat comes with
the next record. A store flushes as it closes, also if the broker did not ask it to. Snapshots of producers that outlive
a reset lie below the new start of the log, where they are true.

Two are for the tests of the store, which make what they take: a log that is cut between its checkpoint of what is durable
and its high watermark, without a power cut, and a start that ends between a repair and its note. In 600 worlds neither
struck a copy that counted.
"""

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
COORDINATORS = "kafka_compat.broker.coordinator_host"
LINK = "kafka_compat.broker.controller_link"
LIVENESS = "kafka_compat.controller.liveness"
FETCHES = "kafka_compat.broker.requests.fetch"
LISTS = "kafka_compat.broker.requests.logs"
PARTS = "kafka_compat.broker.parts"
PRODUCERS = "kafka_compat.broker.producers"
REPORTS = "kafka_compat.broker.log_reports"
RETENTION = "kafka_compat.storage.retention"
SNAPSHOTS = "kafka_compat.storage.producer_snapshots"

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
        ("        kept = hosted.log.producers_on_disk()\n", "        kept = KeptProducers()\n"),
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
        ("        replay_into(producers, self.walk(at))\n", ""),
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
        ("        self.newest[key] = offset\n", "        self.newest.setdefault(key, offset)\n"),
        oracles=["K1", "K6", "K8"],
    ),
    kafka_bug(
        "host-followers-do-not-flush",
        "a follower does not flush what it fetches",
        REPLICAS,
        (
            "        if self._flush_before_ack:\n            self._unflushed[hosted] = None\n        for",
            "        if self._flush_before_ack and order.leader_epoch >= 0:\n"
            "            self._unflushed[hosted] = None\n        for",
        ),
        oracles=["V-liveness"],
    ),
    kafka_bug(
        "host-keeps-deleted-logs",
        "the log of a deleted topic stays",
        REPLICAS,
        ("            self._doomed[partition] = topic_id\n", "            pass\n"),
        oracles=["K7"],
    ),
    kafka_bug(
        "host-serves-before-its-doubts-are-known",
        "a broker may be unfenced before the controller knows its doubts",
        PARTS,
        ("is_ready=lambda: reports.ready", "is_ready=lambda: True"),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-forgets-its-doubts-too-soon",
        "doubts are cleared before the controller has them",
        REPORTS,
        ("        self._store.doubt(reasons)\n", "        self._store.doubts_known()\n"),
        oracles=["K1", "K11", "script"],
    ),
    kafka_bug(
        "host-reports-a-log-at-once-or-never",
        "a log that is made after its end was asked for is never reported",
        REPORTS,
        (
            "            self.deadline = now + RETRY_S if self._find_wanted() else NEVER\n",
            "            self.deadline = NEVER\n",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "host-trusts-a-torn-end",
        "a log whose end was torn is not doubtful",
        STORE,
        ("        if reason is None and found.torn_bytes_cut:", "        if False:"),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-snapshots-outlive-a-truncation",
        "a truncation leaves the snapshots of producers above it",
        PARTITION_LOG,
        ("            self._snapshots.remove_after(self._start_of_batch(offset))\n", ""),
        oracles=["K5"],
    ),
    kafka_bug(
        "host-reads-producers-of-earlier-epochs",
        "a producer's batches of an earlier epoch are read with those of its present one",
        SNAPSHOTS,
        ("            kept = ()\n", "            pass\n"),
        oracles=["K5"],
    ),
    kafka_bug(
        "host-sequences-do-not-wrap",
        "the first offset of a batch whose sequences wrap is wrong after a restart",
        PRODUCERS,
        ("last_offset - (last - first) % SEQUENCES", "last_offset - (last - first)"),
        oracles=["K5"],
    ),
    kafka_bug(
        "host-compacts-for-what-is-not-committed",
        "an uncommitted record lets compaction remove a committed one of its key",
        COMPACTION,
        ("        end = min(self.high_watermark, self.log.durable_offset)\n", "        end = self.log.end_offset\n"),
        oracles=["K1", "K6", "K8"],
    ),
    kafka_bug(
        "host-compacts-for-what-is-not-durable",
        "compaction removes a record for one that a loss of power can take",
        COMPACTION,
        (
            "        end = min(self.high_watermark, self.log.durable_offset)\n",
            "        end = min(self.high_watermark, self.log.end_offset)\n",
        ),
        oracles=["K8"],
    ),
    kafka_bug(
        "host-retains-compacted-topics-by-age",
        "a compacted topic loses its old records",
        RETENTION,
        ("    if not settings.deletes:\n        return log.start_offset\n", ""),
        oracles=["K8"],
    ),
    kafka_bug(
        "host-coordinates-before-all-is-loaded",
        "a coordinator loads what was committed as its leadership began, and not all of the log",
        COORDINATORS,
        ("max(news.log_end, hosted.log.start_offset)", "max(hosted.high_watermark, hosted.log.start_offset)"),
        oracles=["K8", "K10"],
    ),
    kafka_bug(
        "host-coordinates-what-is-not-committed",
        "a coordinator serves before what it has loaded is committed",
        COORDINATORS,
        (" and coordinator.hosted.high_watermark >= end:", ":"),
        oracles=["K8", "K10"],
    ),
    kafka_bug(
        "host-answers-before-it-has-applied",
        "a command's result is handed out before this broker has applied it",
        LINK,
        ("waiting.at_once or response.index <= self.applied()", "True"),
        oracles=["K7"],
    ),
    kafka_bug(
        "host-lists-what-is-not-committed",
        "a consumer that asks for a time gets an offset above the high watermark",
        LISTS,
        ("            if found is not None and found[0] < latest.offset:", "            if found is not None:"),
        oracles=["K3"],
    ),
    kafka_bug(
        "host-takes-an-unknown-outcome-for-a-refusal",
        "a command without an answer is taken for one that was certainly not carried out",
        LINK,
        (
            'the controller did not answer: {response.reason}", definite=False',
            'the controller did not answer: {response.reason}", definite=True',
        ),
        oracles=["K12"],
    ),
    kafka_bug(
        "host-repeats-a-command-of-unknown-outcome",
        "a command without an answer is sent again",
        LINK,
        ("            if response.was_sent:\n", "            if False:\n"),
        oracles=["K12"],
    ),
    kafka_bug(
        "host-does-not-see-an-older-disk",
        "a disk that is older than the registration that served from it last is trusted",
        REPORTS,
        ("        if registration.served_epoch > store.broker_epoch:\n", "        if False:\n"),
        oracles=["K1", "K11"],
    ),
    kafka_bug(
        "host-trusts-a-log-that-ends-too-soon",
        "a log that ends before its own high watermark is not doubtful",
        STORE,
        ("        elif reason is None and log.end_offset < reached:", "        elif False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "host-trusts-what-was-being-opened",
        "an end during the opening of logs, which may have repaired them, is no reason to doubt them",
        RUN,
        ("        if self.stage is Stage.OPENING:", "        if False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "host-takes-a-late-answer-for-that-to-its-order",
        "an answer to an earlier order of a fetch ends the present one",
        FETCHER,
        ("        if self._wanted.get(key) == position:\n", "        if key in self._wanted:\n"),
        oracles=["V-liveness"],
    ),
    kafka_bug(
        "host-misses-a-leader-whose-heartbeat-is-late",
        "a leader is missed as soon as a heartbeat is late, whoever has answers from it",
        LIVENESS,
        (
            "            expired = min(expired, self._missed_at(contact))\n",
            "            expired = min(expired, self._missed_at(contact) - 0.8 * self.settings.silence_timeout)\n",
        ),
        (
            "        if not any(broker in each.silent for each in self._contacts.values()):\n            return False\n",
            "        return True\n",
        ),
        oracles=["K17", "script"],
    ),
    kafka_bug(
        "host-believes-one-follower-that-misses-a-leader",
        "one follower is enough to have a leader fenced",
        LIVENESS,
        ("return bool(followers - {self.own}) and all(", "return bool(followers - {self.own}) and any("),
        oracles=["script"],
    ),
    kafka_bug(
        "host-fetch-looks-before-it-waits",
        "a fetch is not woken by what is appended while it looks",
        FETCHES,
        ("        session.waiting = fetch\n        self._waiting[fetch] = None\n", ""),
        (
            "        if self._try(fetch, now, last_chance=request.max_wait_ms <= 0):\n            self._over(fetch)\n",
            "        if not self._try(fetch, now, last_chance=request.max_wait_ms <= 0):\n"
            "            session.waiting = fetch\n            self._waiting[fetch] = None\n",
        ),
        oracles=["K18", "script"],
    ),
    kafka_bug(
        "host-answer-forgets-what-came-meanwhile",
        "an answer takes the news along that came while its records were read",
        FETCHES,
        ("        session.news.update(dict.fromkeys(left))\n", "        session.news = dict.fromkeys(left)\n"),
        oracles=["K18", "script"],
    ),
)
