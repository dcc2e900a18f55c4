"""Deliberate bugs of compaction, for a log that is written, compacted and copied at random."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import KAFKA_HAPPY
from tests.mutants.mutant import Mutant, plant

COMPACTION = "kafka_compat.storage.compaction"
RECORDS = "kafka_compat.records"


def _bug(name: str, bug: str, module: str, old: str, new: str, *oracles: str) -> Mutant:
    return plant(
        f"kafka-compaction-{name}", bug, module, old, new, oracles=oracles, judge="compaction", happy=KAFKA_HAPPY
    )


KAFKA_COMPACTION_BUGS: Sequence[Mutant] = (
    _bug(
        "drops-deletions-at-once",
        "a deletion leaves with the pass that finds it",
        COMPACTION,
        "        return self.now_ms + self.delete_retention_ms if known is None else known\n",
        "        return self.now_ms - 1 if known is None else known\n",
        "deletion",
    ),
    _bug(
        "counts-from-the-time-of-a-deletion",
        "delete.retention.ms counts from the time of the record, and not from the pass that finds it",
        COMPACTION,
        "        return self.now_ms + self.delete_retention_ms if known is None else known\n",
        "        return header.max_timestamp + self.delete_retention_ms if known is None else known\n",
        "deletion",
    ),
    _bug(
        "forgets-lagging-replicas",
        "a deletion leaves although a replica may lack it, and bring back its key",
        COMPACTION,
        "        return self.now_ms if self.may_end_deletions else NEVER_MS\n",
        "        return self.now_ms\n",
        "lagging",
    ),
    _bug(
        "knows-no-lag",
        "min.compaction.lag.ms has no effect",
        COMPACTION,
        "_young_from(log, now_ms - rule.min_lag_ms) if rule.min_lag_ms else high_watermark)",
        "high_watermark)",
        "lag",
    ),
    _bug(
        "lag-of-the-last-segment",
        "only the newest segment with a young record is spared",
        COMPACTION,
        "for each in facts if (each.newest_ms or 0) > since_ms",
        "for each in reversed(facts) if (each.newest_ms or 0) > since_ms",
        "lag",
    ),
    _bug(
        "forgets-what-earlier-passes-kept",
        "a key that is not written again leaves with the second pass",
        COMPACTION,
        "self._keys.newest.get(record.key, record.offset) != record.offset",
        "self._keys.newest.get(record.key) != record.offset",
        "last",
    ),
    _bug(
        "counts-aborted-records",
        "an aborted record takes the place of a committed one",
        COMPACTION,
        "            if self.aborted and transactions.is_aborted(",
        "            if not self.aborted and transactions.is_aborted(",
        "last",
    ),
    _bug(
        "keeps-aborted-records",
        "aborted records stay",
        COMPACTION,
        "        if records is None or transactions.is_aborted(header):\n            return []",
        "        if records is None:\n            return []",
        "aborted",
    ),
    _bug(
        "drops-the-last-batch-of-a-producer",
        "a new copy does not know the sequence of a producer whose records were all replaced",
        COMPACTION,
        "        return header.base_sequence >= 0 and self.producers.get(header.producer_id) == header.last_offset\n",
        "        return False\n",
        "producers",
    ),
    _bug(
        "ends-no-empty-transaction",
        "the marker leaves, and the empty batch that opens its transaction stays",
        COMPACTION,
        "max(len(left), self._is_last_of_producer(header))",
        "len(left)",
        "open",
    ),
    _bug(
        "moves-times-with-the-horizon",
        "the time until which a deletion stays shifts the times of its batch",
        RECORDS,
        "    shift = header.base_timestamp - base_ms\n",
        "    shift = 0\n",
        "content",
    ),
)
