"""The vocabulary of verdicts: every object is ok, violated or unknown, and each violation is a handful of operations.

A verdict never claims more than was decided. One violated object makes the whole invalid; otherwise one unknown object
makes the whole unknown. A violation is at most `WITNESS_OPS_MAX` operations and one sentence: evidence that can be read.
"""

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from jepsen_like.checker.allowance import AllowedLoss
from jepsen_like.history.ops import NEVER, NONE, CallOp, ListOp, Op

T = TypeVar("T")
WITNESS_OPS_MAX: Final = 6
EXAMPLES_MAX: Final = 5
"""Sentences kept per check in `Verdict.checks`."""
VALUES_TOLD_MAX: Final = 100
"""Values of one operation that are told."""
VIOLATIONS_KEPT_MAX: Final = 50
"""Violations kept with their operations; all of them are counted."""


class Model(enum.Enum):
    """The kinds of objects that a history can be about."""

    LOG = "log"
    REGISTER = "register"
    QUEUE = "queue"
    """Partitions of topics with producers, consumers and their groups."""
    TRANSACTIONS = "transactions"
    """Partitions that transactional producers write to, several in one transaction."""
    COMPACTED = "compacted"
    """Partitions that keep the newest record of each key."""
    MIRRORED = "mirrored"
    """Partitions that a mirror copies from one cluster to another, and the switch between these."""
    KAFKA = "kafka"
    """Partitions of any Kafka, by what its clients sent and polled alone."""
    UNORDERED_QUEUE = "unordered-queue"
    """Elements that are each taken out at most once, in any order."""
    FIFO_QUEUE = "fifo-queue"
    """The same, first in, first out."""
    TOTAL_QUEUE = "total-queue"
    """Elements that are each taken out at least once, in any order."""
    SET = "set"
    """Elements that are added and stay; a read may not know of the newest."""
    LINEARIZABLE_SET = "linearizable-set"
    """The same, and every read knows of all that had been added."""
    KEY_VALUE = "key-value"
    """Keys whose values are lists: append, put, get."""
    LIST_APPEND = "list-append"
    """Lists that transactions of several operations append to and read."""
    RW_REGISTER = "rw-register"
    """Registers that transactions of several operations write and read."""
    CUSTOM = "custom"
    """A class of the user's."""


class Engine(enum.Enum):
    """The engines that run the kernels."""

    SPARK = "spark"
    LOCAL = "local"


class Check(enum.StrEnum):
    """The ways in which a history can be wrong, each under one name."""

    LINEARIZABLE = "linearizable"
    """No order of the operations explains what they saw (given where no closer name fits; in a summary: any of these)."""
    LOST = "lost"
    """Acknowledged or read, and not in the final logs."""
    DUPLICATED = "duplicated"
    """Appended once, there twice."""
    PHANTOM = "phantom"
    """Seen, though no client wrote it."""
    ABORTED_READ = "aborted_read"
    """Seen, though its only writers were told that it did not happen."""
    DIVERGENT_OFFSET = "divergent_offset"
    """Two values at one place of one log, or one at another place than it was acknowledged at."""
    ORDER = "order"
    """An operation that began after another had ended was put before it, or was seen before it began."""
    STALE = "stale"
    """An older state was seen after a newer one had been."""
    LOST_UPDATE = "lost_update"
    """Two compare-and-sets replaced one and the same value."""
    GAP = "gap"
    """A length that too few appends can explain."""
    TORN = "torn"
    """A part of a batch, or its records apart or in another order than they were sent."""
    EPOCH = "epoch"
    """A record of two epochs, or one of a lower epoch than a record before it."""
    REPLICAS = "replicas"
    """Replicas of a partition that are not the same in the end."""
    NONMONOTONIC_POLL = "nonmonotonic_poll"
    """A consumer got a record at or before the place of one it had got, without a seek or a new assignment."""
    SKIPPED_POLL = "skipped_poll"
    """A consumer, or a group, passed over a record that is there."""
    SEND_ORDER = "send_order"
    """Of one producer's messages to a partition, one sent later stands before one sent earlier."""
    COMMIT_REGRESS = "commit_regress"
    """A group found, or went on from, an offset before the one that it had committed."""
    TWO_OWNERS = "two_owners"
    """A partition belonged to two members of a group at once."""
    UNDELIVERED = "undelivered"
    """There in the end, and never given to any member of a group."""
    COMMIT_AHEAD = "commit_ahead"
    """A group's position lay behind a message that no member had been given yet."""
    KEY_ORDER = "key_order"
    """Of one sharding key's messages, one that was sent later was given first."""
    DIRTY_READ = "dirty_read"
    """A record of an open transaction was read as committed."""
    FENCED = "fenced"
    """A producer whose transactional id another one had taken wrote a record, or ended a transaction."""
    STABLE_END = "stable_end"
    """The end up to which transactions are decided went back."""
    RESURRECTED = "resurrected"
    """An older record of a key is there, and a newer one is gone."""
    DELETION_GONE = "deletion_gone"
    """A deletion left earlier than `delete.retention.ms` allows."""
    COMPACTED_EARLY = "compacted_early"
    """A record left while it was younger than `min.compaction.lag.ms`."""
    LAG = "lag"
    """A record stands in the target of a link, though the recorded end of the link lies before it."""
    FOREIGN = "foreign"
    """A record of the old primary reached the new one after the switch."""
    LATE_WRITE = "late_write"
    """The old primary acknowledged a record after the switch."""
    TRANSLATION = "translation"
    """A group's position at the other cluster is not the one that it had."""
    PRECOMMITTED_READ = "precommitted_read"
    """A transaction polled a record that it had sent itself, and so before it was committed."""
    INTERNAL_POLL_SKIP = "internal_poll_skip"
    """One transaction polled two records in turn, and passed over one between them."""
    INTERNAL_NONMONOTONIC_POLL = "internal_nonmonotonic_poll"
    """One transaction polled a record at or before the place of the one before."""
    INTERNAL_SEND_SKIP = "internal_send_skip"
    """Between two records that one transaction sent in turn stands another one."""
    INTERNAL_SEND_ORDER = "internal_send_order"
    """Of two records that one transaction sent in turn the second does not stand behind the first."""
    INTERNAL = "internal"
    """A transaction did not see what it had written or read itself, or saw what it had yet to write."""
    INTERMEDIATE_READ = "intermediate_read"
    """A value was seen that its own transaction had replaced (G1b)."""
    INCOMPATIBLE_ORDER = "incompatible_order"
    """Two reads of a list, none of which is the beginning of the other."""
    DIRTY_UPDATE = "dirty_update"
    """A transaction that happened wrote behind what a refused one had left."""
    CYCLIC_VERSIONS = "cyclic_versions"
    """The versions of a register come before each other."""
    G0 = "g0"
    """A cycle of transactions whose writes follow each other."""
    G1C = "g1c"
    """The same, if one also read what another wrote."""
    G_SINGLE = "g_single"
    """A cycle in which one transaction, and no other, read a version that the next one replaced."""
    G_NONADJACENT = "g_nonadjacent"
    """A cycle with several such reads, none of which leads to another."""
    G2 = "g2"
    """A cycle with several such reads, of which one leads to another."""
    G0_PROCESS = "g0_process"
    """Such cycles that the order of one process closes."""
    G1C_PROCESS = "g1c_process"
    G_SINGLE_PROCESS = "g_single_process"
    G_NONADJACENT_PROCESS = "g_nonadjacent_process"
    G2_PROCESS = "g2_process"
    G0_REALTIME = "g0_realtime"
    """Such cycles that are closed because one transaction had ended before another began."""
    G1C_REALTIME = "g1c_realtime"
    G_SINGLE_REALTIME = "g_single_realtime"
    G_NONADJACENT_REALTIME = "g_nonadjacent_realtime"
    G2_REALTIME = "g2_realtime"


LOG_CHECKS: Final = (
    Check.LINEARIZABLE,
    Check.LOST,
    Check.DUPLICATED,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.DIVERGENT_OFFSET,
    Check.ORDER,
    Check.STALE,
    Check.GAP,
    Check.TORN,
    Check.EPOCH,
)
QUEUE_CHECKS: Final = (
    Check.LOST,
    Check.DUPLICATED,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.DIVERGENT_OFFSET,
    Check.REPLICAS,
    Check.EPOCH,
    Check.ORDER,
    Check.SEND_ORDER,
    Check.NONMONOTONIC_POLL,
    Check.SKIPPED_POLL,
    Check.COMMIT_REGRESS,
    Check.TWO_OWNERS,
    Check.UNDELIVERED,
    Check.COMMIT_AHEAD,
    Check.KEY_ORDER,
)
TRANSACTION_CHECKS: Final = (
    Check.TORN,
    Check.LOST,
    Check.DUPLICATED,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.DIRTY_READ,
    Check.FENCED,
    Check.DIVERGENT_OFFSET,
    Check.REPLICAS,
    Check.SEND_ORDER,
    Check.NONMONOTONIC_POLL,
    Check.SKIPPED_POLL,
    Check.STABLE_END,
    Check.COMMIT_REGRESS,
)
COMPACTION_CHECKS: Final = (
    Check.LOST,
    Check.RESURRECTED,
    Check.DELETION_GONE,
    Check.COMPACTED_EARLY,
    Check.DUPLICATED,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.DIVERGENT_OFFSET,
    Check.SEND_ORDER,
    Check.NONMONOTONIC_POLL,
)
MIRROR_CHECKS: Final = (
    Check.LOST,
    Check.LAG,
    Check.FOREIGN,
    Check.LATE_WRITE,
    Check.DUPLICATED,
    Check.SEND_ORDER,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.DIVERGENT_OFFSET,
    Check.TRANSLATION,
    Check.SKIPPED_POLL,
    Check.NONMONOTONIC_POLL,
)
KAFKA_CHECKS: Final = (
    Check.LOST,
    Check.DUPLICATED,
    Check.DIVERGENT_OFFSET,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.PRECOMMITTED_READ,
    Check.SKIPPED_POLL,
    Check.NONMONOTONIC_POLL,
    Check.SEND_ORDER,
    Check.INTERNAL_POLL_SKIP,
    Check.INTERNAL_NONMONOTONIC_POLL,
    Check.INTERNAL_SEND_SKIP,
    Check.INTERNAL_SEND_ORDER,
    Check.COMMIT_REGRESS,
    Check.G0,
    Check.G1C,
    Check.G1C_PROCESS,
    Check.G1C_REALTIME,
)
CYCLE_CHECKS: Final = (
    Check.G0,
    Check.G1C,
    Check.G_SINGLE,
    Check.G_NONADJACENT,
    Check.G2,
    Check.G0_PROCESS,
    Check.G1C_PROCESS,
    Check.G_SINGLE_PROCESS,
    Check.G_NONADJACENT_PROCESS,
    Check.G2_PROCESS,
    Check.G0_REALTIME,
    Check.G1C_REALTIME,
    Check.G_SINGLE_REALTIME,
    Check.G_NONADJACENT_REALTIME,
    Check.G2_REALTIME,
)
OF_KEYS: Final = (Check.PHANTOM, Check.ABORTED_READ, Check.INTERMEDIATE_READ, Check.INTERNAL, Check.LOST_UPDATE)
LIST_CHECKS: Final = (*OF_KEYS, Check.DUPLICATED, Check.INCOMPATIBLE_ORDER, Check.DIRTY_UPDATE, *CYCLE_CHECKS)
RW_REGISTER_CHECKS: Final = (*OF_KEYS, Check.CYCLIC_VERSIONS, *CYCLE_CHECKS)
PUSHED_CHECKS: Final = frozenset([Check.UNDELIVERED, Check.COMMIT_AHEAD, Check.KEY_ORDER])
"""Of a queue whose messages are pushed; told only where they were made."""
REGISTER_CHECKS: Final = (
    Check.LINEARIZABLE,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.ORDER,
    Check.STALE,
    Check.LOST_UPDATE,
)
ELEMENT_CHECKS: Final = (
    Check.LINEARIZABLE,
    Check.LOST,
    Check.DUPLICATED,
    Check.PHANTOM,
    Check.ABORTED_READ,
    Check.ORDER,
    Check.STALE,
)
CHECKS_OF: Final = {
    Model.LOG: LOG_CHECKS,
    Model.REGISTER: REGISTER_CHECKS,
    Model.QUEUE: QUEUE_CHECKS,
    Model.TRANSACTIONS: TRANSACTION_CHECKS,
    Model.COMPACTED: COMPACTION_CHECKS,
    Model.MIRRORED: MIRROR_CHECKS,
    Model.KAFKA: KAFKA_CHECKS,
    Model.LIST_APPEND: LIST_CHECKS,
    Model.RW_REGISTER: RW_REGISTER_CHECKS,
    Model.UNORDERED_QUEUE: (*ELEMENT_CHECKS, Check.SEND_ORDER),
    Model.FIFO_QUEUE: (*ELEMENT_CHECKS, Check.SEND_ORDER),
    Model.TOTAL_QUEUE: (*ELEMENT_CHECKS[1:], Check.SEND_ORDER),
    Model.SET: ELEMENT_CHECKS[1:],
    Model.LINEARIZABLE_SET: ELEMENT_CHECKS,
    Model.KEY_VALUE: (*ELEMENT_CHECKS, Check.DIVERGENT_OFFSET),
    Model.CUSTOM: (Check.LINEARIZABLE,),
}
"""The checks of each model, in the order told."""
OF_PARTITIONS: Final = (Model.QUEUE, Model.TRANSACTIONS, Model.COMPACTED, Model.MIRRORED, Model.KAFKA)
"""Models of partitions, whose clients may do many things at a time."""
QUEUES_OF_ELEMENTS: Final = (Model.UNORDERED_QUEUE, Model.FIFO_QUEUE, Model.TOTAL_QUEUE)
SETS: Final = (Model.SET, Model.LINEARIZABLE_SET)
OF_ELEMENTS: Final = (*QUEUES_OF_ELEMENTS, *SETS, Model.KEY_VALUE)
NOUNS: Final = {
    Model.QUEUE: "partition",
    Model.TRANSACTIONS: "partition",
    Model.COMPACTED: "partition",
    Model.MIRRORED: "partition",
    Model.KAFKA: "partition",
    **dict.fromkeys(QUEUES_OF_ELEMENTS, "queue"),
    **dict.fromkeys(SETS, "set"),
    Model.KEY_VALUE: "key",
    Model.LIST_APPEND: "key",
    Model.RW_REGISTER: "key",
    Model.CUSTOM: "object",
}
"""The nouns of objects that are not called as their model."""
UNSEEN: Final = {
    **dict.fromkeys(QUEUES_OF_ELEMENTS, "nothing took them out, and the queue was not seen empty after them"),
    **dict.fromkeys(SETS, "no read began after they had been added"),
    Model.KEY_VALUE: "no get of their key began after them",
}
"""Why it is not known of some elements whether they were lost."""
LOOKS: Final = {
    Model.REGISTER: "read or compare-and-set",
    **dict.fromkeys(QUEUES_OF_ELEMENTS, "dequeue or drain"),
    **dict.fromkeys(SETS, "read"),
    Model.KEY_VALUE: "get",
}
"""The operations that look at what was acknowledged."""
UNTESTED_OF_QUEUE: Final = (
    (Check.REPLICAS, "replicas: no partition has the final logs of two of them"),
    (Check.SEND_ORDER, "order of sends: not promised, or nothing was sent twice by one producer"),
    (Check.NONMONOTONIC_POLL, "order of polls: no consumer got two records of a partition in turn"),
    (Check.COMMIT_REGRESS, "commits: no group's position was read, or resumed, after a commit"),
    (Check.TWO_OWNERS, "ownership: no partition went from one member of a group to another"),
)
"""The evidence that a queue's history may lack for a check, in words."""


@attrs.frozen
class Violation:
    """One broken promise: the operations that show it, in the order they began, and what they show.

    `ops` alone cannot be put in any order. The final log of a node appears as reads by process `NONE`, at the very end.
    """

    check: Check
    object: int
    sentence: str
    ops: tuple[Op, ...] = attrs.field(validator=attrs.validators.max_len(WITNESS_OPS_MAX))

    def as_json(self, origin_ns: int = 0) -> dict[str, Any]:
        """For `results.json`: times in seconds since `origin_ns` on the history's clock."""
        return {
            "check": str(self.check),
            "object": self.object,
            "sentence": self.sentence,
            "ops": [_op_as_json(op, origin_ns) for op in self.ops],
        }


def in_turn(found: Sequence[T], check_of: Callable[[T], Check], at_most: int) -> list[T]:
    """Returns `at_most` of `found`, the first of each check before the second of any: no kind crowds out a rare one."""
    seen: dict[Check, int] = {}
    rounds = []
    for place, item in enumerate(found):
        check = check_of(item)
        rounds.append((seen.get(check, 0), place))
        seen[check] = seen.get(check, 0) + 1
    return [found[place] for place in sorted(place for _, place in sorted(rounds)[:at_most])]


def _op_as_json(op: Op, origin_ns: int) -> dict[str, Any]:
    return {
        "f": op.f.name.lower(),
        "type": op.type.name.lower(),
        "a": op.a,
        "b": op.b,
        "seen": op.seen,
        **({"values": list(op.values[:VALUES_TOLD_MAX])} if isinstance(op, ListOp) else {}),
        **({"call": op.words} if isinstance(op, CallOp) else {}),
        "offset": op.offset,
        "epoch": op.epoch,
        "process": op.process,
        "node": op.node,
        "t_inv_s": round((op.t_inv - origin_ns) / 1e9, 9),
        "t_ret_s": None if op.t_ret == NEVER else round((op.t_ret - origin_ns) / 1e9, 9),
    }


@attrs.frozen
class Undecided:
    """An object (`NONE`: the history as a whole) that could not be decided, and why, with how far the check came."""

    object: int
    reason: str

    def __str__(self) -> str:
        return self.reason if self.object == NONE else f"object {self.object}: {self.reason}"


@attrs.frozen(kw_only=True)
class Tolerated:
    """A deviation that a check found and the mode allows, because of a fault or a setting."""

    check: Check
    object: int
    count: int
    because: str
    """The sentence that allows it."""
    fault: int = NONE
    example: str

    def as_json(self) -> dict[str, Any]:
        """A row of results.json."""
        return {
            "check": str(self.check),
            "object": self.object,
            "count": self.count,
            "because": self.because,
            "fault": self.fault,
            "example": self.example,
        }


@attrs.frozen(kw_only=True)
class TransactionCounts:
    """The transactions by how they ended, and the number of times that a transactional id was taken from a producer."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    takeovers: int = 0


@attrs.frozen(kw_only=True)
class CompactionCounts:
    """Acknowledged records that compaction removed, keys, and those of which it left nothing."""

    removed: int = 0
    keys: int = 0
    deleted_keys: int = 0


@attrs.frozen(kw_only=True)
class MirrorCounts:
    """The figures of the switches between two clusters, all of them exact."""

    switches: int = 0
    """Counted by partition."""
    acked: int = 0
    """Records that were acknowledged before the primary was left, by all switches."""
    lag: int = 0
    """Those of them that lie behind the recorded end of the link."""
    lost: int = 0
    """Those of them that the new primary lacks."""
    foreign: int = 0
    late: int = 0
    """Records that the old primary acknowledged after the switch."""
    doubled: int = 0
    """Records of the final logs whose value stands at an earlier place, too."""
    reordered: int = 0
    """Records of the final logs that stand behind one which their producer sent later."""
    skipped: int = 0
    """Records that a group passed over and never got, by all groups."""
    read_again: int = 0
    """Records that a group got from both clusters."""
    committed_again: int = 0
    """Those of them that it had committed at the first: its translated position was older."""

    def plus(self, other: "MirrorCounts") -> "MirrorCounts":
        """Returns the figures of both."""
        names = [field.name for field in attrs.fields(MirrorCounts)]
        return MirrorCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


@attrs.frozen(kw_only=True)
class Findings:
    """The findings about one piece of a history; pieces add up."""

    ok: int = 0
    """Operations that happened; one of several records is one."""
    fail: int = 0
    info: int = 0
    objects: int = 0
    violated: frozenset[int] = frozenset()
    counts: Mapping[Check, int] = attrs.field(factory=dict)
    violations: tuple[Violation, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    acked: int = 0
    """Records appended, writes and swaps that were acknowledged."""
    lost_acked: int = 0
    """Acknowledged records that the final logs lack."""
    expired: int = 0
    """Acknowledged records that have left all logs by their rule of retention: these are not lost."""
    duplicated: int = 0
    """Places of the log whose value stands at an earlier place too."""
    t_first: int = NEVER
    """The moment when the earliest operation began."""
    unread: int = 0
    """Registers whose last acknowledged change no operation asked after; partitions with neither a final read nor final logs; logs
    without final logs, though other logs of the run have some."""
    unseen: int = 0
    """Acknowledged messages that no final read or log reaches: neither there nor lost."""
    unexamined: int = 0
    """Registers, queues of elements, sets and keys of which no operation looked at what had been acknowledged."""
    shown: frozenset[Check] = frozenset()
    """Of a queue: the checks that something in it could have failed."""
    tolerated: tuple[Tolerated, ...] = ()
    recovered: int = 0
    """Of queues of elements, sets and keys: elements of unknown outcome that were seen."""
    unjudged: frozenset[str] = frozenset()
    """The sentences about what left the logs and could not be judged."""
    given: int = 0
    """Of a pushed queue: messages given to each group, each counted once."""
    given_again: int = 0
    """And how often one was given again."""

    @classmethod
    def join(cls, parts: Iterable["Findings"]) -> "Findings":
        """Returns all of them together."""
        findings = cls()
        for part in parts:
            findings = findings.plus(part)
        return findings

    def plus(self, other: "Findings") -> "Findings":
        """Returns both together."""
        fields: dict[str, Any] = {}
        for name in (field.name for field in attrs.fields(Findings)):
            one, two = getattr(self, name), getattr(other, name)
            fields[name] = one | two if isinstance(one, frozenset) else one if name == "counts" else one + two
        checks = (*self.counts, *other.counts)
        fields["counts"] = {check: self.counts.get(check, 0) + other.counts.get(check, 0) for check in checks}
        fields["violations"] = tuple(in_turn(fields["violations"], lambda one: one.check, VIOLATIONS_KEPT_MAX))
        fields["t_first"] = min(self.t_first, other.t_first)
        return Findings(**fields)


@attrs.frozen(kw_only=True)
class Verdict:
    """The whole answer about one history."""

    model: Model
    engine: Engine
    findings: Findings
    unchecked: frozenset[Check] = frozenset()
    """Checks that this input cannot answer."""
    losses: tuple[AllowedLoss, ...] = ()
    """The losses that are allowed; they are counted in `findings.lost_acked`, and are no violations."""
    transactions: TransactionCounts | None = None
    compaction: CompactionCounts | None = None
    mirror: MirrorCounts | None = None

    @property
    def valid(self) -> bool | None:
        """True: every object is ok. False: some promise was broken. None: not decided."""
        if self.findings.violated:
            return False
        return None if self.findings.undecided else True

    @property
    def not_tested(self) -> tuple[str, ...]:
        """Returns what this history could not show, so that a verdict of True does not speak of it; a line each."""
        found = self.findings
        lines = []
        if not found.acked:
            lines.append("loss: nothing was acknowledged")
        elif self.model in (*OF_PARTITIONS, Model.LIST_APPEND, Model.RW_REGISTER) or self.model in OF_ELEMENTS:
            pass
        elif self.model is Model.LOG and found.unread:
            lines.append(f"loss: {found.unread:,} of {found.objects:,} logs have no final logs")
        elif Check.LOST in self.unchecked:
            lines.append("loss: the history has no final logs")
        if found.unseen and self.model in OF_ELEMENTS:
            lines.append(f"loss: {found.unseen:,} of {found.acked:,} acknowledged elements: {UNSEEN[self.model]}")
        if found.unread and self.model is Model.QUEUE:
            lines.append(
                f"loss: {found.unread:,} of {found.objects:,} partitions have neither a final read nor final logs"
            )
        elif found.unread and self.model is Model.REGISTER:
            lines.append(
                f"loss: the last acknowledged change of {found.unread:,} of {found.objects:,} registers was never read"
            )
        if self.model is Model.QUEUE:
            lines += [line for check, line in UNTESTED_OF_QUEUE if check not in found.shown]
        lines += sorted(found.unjudged)
        return tuple(lines)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Returns the violations kept, at most `VIOLATIONS_KEPT_MAX`."""
        return self.findings.violations

    @property
    def reasons(self) -> tuple[str, ...]:
        """Returns why objects, or the whole, are undecided, one line each."""
        return tuple(str(one) for one in self.findings.undecided)

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """Returns every check of this model: `{name: {valid, count, examples}}`; `linearizable` sums up the others."""
        summary: dict[str, dict[str, Any]] = {}
        for check in CHECKS_OF[self.model]:
            if check in PUSHED_CHECKS and check not in self.findings.shown:
                continue
            whole = check is Check.LINEARIZABLE
            count = sum(self.findings.counts.values()) if whole else self.findings.counts.get(check, 0)
            of_this = [one.sentence for one in self.violations if whole or one.check is check]
            valid = False if count else (None if self.findings.undecided or check in self.unchecked else True)
            summary[str(check)] = {"valid": valid, "count": count, "examples": of_this[:EXAMPLES_MAX]}
        if self.losses:
            summary[str(Check.LOST)]["reason"] = (
                f"{self.lost_allowed:,} lost in addition, as the promise of this mode allows"
            )
        for check, deviations in itertools.groupby(
            sorted(self.findings.tolerated, key=lambda one: one.check), lambda one: one.check
        ):
            of_check = list(deviations)
            causes = "; ".join(dict.fromkeys(one.because for one in of_check))
            summary[str(check)]["reason"] = f"{sum(one.count for one in of_check):,} in addition, as allowed: {causes}"
        return summary

    @property
    def lost_allowed(self) -> int:
        """Returns how many acknowledged records were lost and may have been."""
        return sum(loss.records for loss in self.losses)

    def _transactions(self) -> dict[str, Any]:
        """Returns the transactions by their ends, and what the worst findings about them come to; nothing without any."""
        if self.transactions is None:
            return {}
        worst = {"torn": Check.TORN, "aborted_reads": Check.ABORTED_READ, "duplicates": Check.DUPLICATED}
        counts = {name: self.findings.counts.get(check, 0) for name, check in worst.items()}
        return {"transactions": {**attrs.asdict(self.transactions), **counts}}

    def as_json(self) -> dict[str, Any]:
        """Returns the part of `results.json` that a check knows."""
        found = self.findings
        origin_ns = found.t_first if found.t_first != NEVER else 0
        unknown = {one.object for one in found.undecided} - found.violated - {NONE}
        return {
            "valid": self.valid,
            "model": self.model.value,
            "engine": self.engine.value,
            "checks": self.checks,
            "ops": {"ok": found.ok, "fail": found.fail, "info": found.info},
            "objects": {
                "ok": max(0, found.objects - len(found.violated) - len(unknown)),
                "violated": len(found.violated),
                "unknown": len(unknown),
                **self._transactions(),
                **({} if self.compaction is None else {"compaction": attrs.asdict(self.compaction)}),
                **({} if self.mirror is None else {"mirror": attrs.asdict(self.mirror)}),
            },
            "unknown": list(self.reasons[:EXAMPLES_MAX]),
            "not_tested": list(self.not_tested),
            "acked": found.acked,
            "lost_acked": found.lost_acked,
            "expired": found.expired,
            **({"unseen": found.unseen} if self.model is Model.QUEUE or self.model in OF_ELEMENTS else {}),
            **({"recovered": found.recovered} if self.model in OF_ELEMENTS else {}),
            "lost_allowed": [_loss_as_json(loss, origin_ns) for loss in self.losses],
            "lost_unexplained": found.lost_acked - self.lost_allowed,
            "duplicated": found.duplicated,
            **(
                {"given": {"messages": found.given, "again": found.given_again}}
                if Check.UNDELIVERED in found.shown
                else {}
            ),
            **({"tolerated": [one.as_json() for one in found.tolerated]} if found.tolerated else {}),
            "lost": [one.sentence for one in self.violations if one.check is Check.LOST][:EXAMPLES_MAX],
            "violations": [one.as_json(origin_ns) for one in self.violations],
        }


def _loss_as_json(loss: AllowedLoss, origin_ns: int) -> dict[str, Any]:
    cause = loss.allowance
    return {
        **({"object": loss.object, "of": loss.of} if loss.of else {}),
        "fault": cause.fault,
        "kind": cause.kind,
        "promise": cause.promise,
        "records": loss.records,
        "offsets": [loss.first_offset, loss.last_offset],
        "acked_s": [round((acked_ns - origin_ns) / 1e9, 4) for acked_ns in (loss.first_acked_ns, loss.last_acked_ns)],
        "reach_s": round(loss.reach_s, 4),
        "examples": list(loss.examples),
        "says": loss.says,
    }


def in_order(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Operations of a witness, each once, in the order they began, cut to what a witness may hold."""
    unique = list(dict.fromkeys(ops))
    return tuple(sorted(unique[:WITNESS_OPS_MAX], key=lambda op: (op.t_inv, op.t_ret)))
