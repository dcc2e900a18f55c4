"""Deliberate bugs of what judges compaction in runs, and of the brokers' compaction as that judge sees it."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import KAFKA_HAPPY
from tests.mutants.mutant import HAPPY_PATH, Mutant, plant

JUDGE = "jepsen_like.checker.compaction.partition"
TASKS = "jepsen_like.checker.compaction.tasks"
KEYED = "jepsen_like.workload.keyed"
FINAL_LOG = "jepsen_like.systems.kafka.final_log"
COMPACTION = "kafka_compat.storage.compaction"


def misjudge(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """Returns the mutant in which `new` stands in place of `old`, for the judge of compacted partitions."""
    happy = KAFKA_HAPPY if module == COMPACTION else HAPPY_PATH
    about = {"oracles": ["compacted"], "judge": "compacted", "happy": happy}
    return plant(f"compacted-{name}", bug, module, old, new, **about)  # type: ignore[arg-type]


COMPACTION_JUDGE_BUGS: Sequence[Mutant] = (
    misjudge(
        "brokers-know-no-lag",
        "min.compaction.lag.ms has no effect",
        COMPACTION,
        "_young_from(log, now_ms - rule.min_lag_ms) if rule.min_lag_ms else high_watermark)",
        "high_watermark)",
    ),
    misjudge(
        "brokers-drop-deletions",
        "a deletion leaves with the pass that finds it",
        COMPACTION,
        "        return self.now_ms + self.delete_retention_ms if known is None else known\n",
        "        return self.now_ms - 1 if known is None else known\n",
    ),
    misjudge(
        "brokers-forget-keys",
        "a key that is not written again leaves with the second pass",
        COMPACTION,
        "self._keys.newest.get(record.key, record.offset) != record.offset",
        "self._keys.newest.get(record.key) != record.offset",
    ),
    misjudge(
        "brokers-keep-the-oldest",
        "of each key the oldest record of a pass stays",
        COMPACTION,
        "        self.newest[key] = offset\n",
        "        self.newest.setdefault(key, offset)\n",
    ),
    misjudge(
        "brokers-never-compact",
        "no pass is ever due",
        COMPACTION,
        "        if not compaction.segments() or not self._is_due(compaction, before, rule):",
        "        if compaction.segments() or not self._is_due(compaction, before, rule):",
    ),
    misjudge(
        "lost-values-are-deletions",
        "the last value of a key may leave like a deletion",
        JUDGE,
        "    is_old = records.is_deletion[lacking] & _is_aged(",
        "    is_old = _is_aged(",
    ),
    misjudge(
        "deleted-values-come-back",
        "an old deletion may leave before what it deleted",
        JUDGE,
        "    wrong = ~is_old | (has_older & is_quick)\n",
        "    wrong = ~is_old\n",
    ),
    misjudge(
        "unknown-records-explain-all",
        "a record of unknown outcome explains that a final log lacks what was acknowledged",
        JUDGE,
        "    if view.end == NEVER:\n",
        "    if view.end < NONE:\n",
    ),
    misjudge(
        "scans-are-not-judged",
        "what a scan lacks is nothing",
        JUDGE,
        "    for tail in np.flatnonzero(rows.f == Action.TAIL).tolist():",
        "    for tail in np.flatnonzero(rows.f == Action.COMMIT).tolist():",
    ),
    misjudge(
        "young-records-may-leave",
        "a record may leave at any age",
        JUDGE,
        "terms.min_lag_ns - SLACK_NS)]",
        "-SLACK_NS)]",
    ),
    misjudge(
        "empty-logs-are-no-logs",
        "a log of which nothing is left is not judged",
        TASKS,
        "logs_in(self.dump, number, self.nodes.get(number))",
        "logs_in(self.dump, number, None)",
    ),
    misjudge(
        "nothing-was-removed",
        "a run in which compaction removed nothing is valid",
        TASKS,
        "    elif acked and not facts.removed:\n",
        "    elif acked and facts.removed < 0:\n",
    ),
    misjudge(
        "gaps-close",
        "the dump of a compacted log has its records at consecutive offsets",
        FINAL_LOG,
        "values[place][0] != values[place - 1][0] + 1",
        "values[place][0] < 0",
    ),
    misjudge(
        "keys-may-change",
        "a record is taken for whole whatever its key is",
        KEYED,
        "    if is_whole and key == encode_key(key_of(value)):\n",
        "    if is_whole and key is not None:\n",
    ),
)
