"""Deliberate bugs of what judges two clusters: each lets a mirror, a switch or a translated position be wrong unseen."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

ROWS = "jepsen_like.checker.mirror.rows"
RECORDS = "jepsen_like.checker.mirror.partition"
READERS = "jepsen_like.checker.mirror.readers"
TASKS = "jepsen_like.checker.mirror.tasks"


def misjudge(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """Returns the mutant in which `new` stands in place of `old`."""
    return plant(f"mirrored-{name}", bug, module, old, new, oracles=["mirrored"], judge="mirrored")


MIRROR_JUDGE_BUGS: Sequence[Mutant] = (
    misjudge(
        "holes-are-lag",
        "what a mirror dropped below the fence counts as its lag",
        RECORDS,
        "is_hole |= acked & ~is_behind & ~is_there",
        "is_left |= acked & ~is_behind & ~is_there",
    ),
    misjudge(
        "fence-is-inclusive",
        "the record at the fence counts as copied",
        RECORDS,
        "mine & (position >= switch.fence), place != NONE",
        "mine & (position > switch.fence), place != NONE",
    ),
    misjudge(
        "foreign-may-come",
        "the first record of the old primary that arrives after the switch is none of those",
        RECORDS,
        "is_there & (place >= switch.end)",
        "is_there & (place > switch.end + 1)",
    ),
    misjudge(
        "foreign-of-strays-unseen",
        "what the old primary took after the switch may flow into the new one",
        RECORDS,
        "is_foreign = (one.term == number) & is_there",
        "is_foreign = mine & is_there",
    ),
    misjudge(
        "lag-is-any",
        "records behind the fence may stand in the target",
        RECORDS,
        "np.flatnonzero(is_behind & is_there & ~is_foreign), found)",
        "np.flatnonzero(is_behind & is_there & ~is_foreign)[:0], found)",
    ),
    misjudge(
        "late-writes-unseen",
        "the old primary may acknowledge after the switch",
        ROWS,
        "is_stray = cluster != primaries[term]",
        "is_stray = (cluster != primaries[term]) & ~(cluster == switches[0].source)",
    ),
    misjudge(
        "early-writes-unseen",
        "the standby may acknowledge before the switch",
        ROWS,
        "term < len(switches)) & (sent >= begun[np.minimum(term, len(switches) - 1)])",
        "term < len(switches))",
    ),
    misjudge(
        "doubles-count-once",
        "a value may stand twice in the log of the new primary",
        RECORDS,
        "again = np.setdiff1d(np.arange(len(log.value)), first)",
        "again = np.setdiff1d(np.arange(len(log.value)), first)[1:]",
    ),
    misjudge(
        "order-of-neighbours",
        "records out of order are those that stand behind none but the newest of all",
        RECORDS,
        "newest = np.maximum.accumulate(sent)",
        "newest = np.minimum.accumulate(sent)",
    ),
    misjudge(
        "translated-late",
        "a position may be translated one record too late",
        READERS,
        "(had > newest) & (had <= oldest)",
        "(had > newest - 1) & (had <= oldest)",
    ),
    misjudge(
        "translated-early",
        "a position may be translated one record too early",
        READERS,
        "(had > newest) & (had <= oldest)",
        "(had > newest) & (had <= oldest + 1)",
    ),
    misjudge(
        "translated-behind-new",
        "a translated position may lie behind records that the new primary took itself",
        READERS,
        "if not passed.any() and (",
        "if (",
    ),
    misjudge(
        "resumes-anywhere",
        "a group may go on from another position than its translated one",
        READERS,
        "wrong = begun[rows.offset[begun] != rows.offset[row]]",
        "wrong = begun[rows.offset[begun] > rows.offset[row]]",
    ),
    misjudge(
        "skips-of-one-group",
        "what one group got counts for every group",
        READERS,
        "got = one.written.entry(one.rows.a[one.polls_of(group)])",
        "got = one.written.entry(one.rows.a[one.written.polls])",
    ),
    misjudge(
        "tail-is-skipped",
        "records that a switch left behind count as skipped",
        READERS,
        "np.flatnonzero(before & ~was_given & ~is_left)",
        "np.flatnonzero(before & ~was_given)",
    ),
    misjudge(
        "committed-at-any-time",
        "what a group got again counts as committed without a commit",
        READERS,
        "np.where(before > 0, greatest[np.maximum(before - 1, 0)], np.int64(NONE))",
        "greatest[np.maximum(before - 1, 0)]",
    ),
    misjudge(
        "replaced-logs-count",
        "a log that was made again is held to the offsets of its former life",
        ROWS,
        "if place is None or self.latest_begin(cluster) > since_ns:",
        "if place is None:",
    ),
    misjudge(
        "end-unchecked",
        "records of the last term may be missing at the last primary",
        RECORDS,
        "    if one.primary in one.logs:\n",
        "    if one.primary in one.logs and not one.switches:\n",
    ),
    misjudge(
        "half-a-history-is-valid",
        "a cluster without a final log is no reason for doubt",
        TASKS,
        "missing = sorted(clusters - set(one.logs))",
        "missing = sorted(set(one.logs) - clusters)",
    ),
)
