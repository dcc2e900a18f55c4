"""The rows of one mirrored partition: what was sent in which term of which cluster, and where the final logs have it.

A *term* is the time in which one cluster is the primary. A *switch* ends a term: it fences the link from the old primary,
its *source*, to the new one, its *target*. The fence is the first offset of the source that the link had not copied, and
the end is the first offset of the target that a new record could get.
"""

import itertools
from collections.abc import Mapping

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.transactions.partition import FinalRecords, WrittenPartition
from jepsen_like.history.ops import NONE, Action, Op, Outcome


@attrs.frozen
class MirrorNames:
    """The names of what a history numbers."""

    clusters: Mapping[int, str] = attrs.field(factory=dict)
    partitions: Mapping[int, str] = attrs.field(factory=dict)
    groups: Mapping[int, str] = attrs.field(factory=dict)

    def cluster(self, number: int) -> str:
        """Returns a cluster as sentences name it."""
        return f"cluster {self.clusters.get(number, number)}"

    def partition(self, number: int) -> str:
        """Returns a partition as sentences name it."""
        return f"partition {self.partitions.get(number, number)}"

    def group(self, number: int) -> str:
        """Returns a group as sentences name it."""
        return f"group {self.groups.get(number, number)}"


def names_of(test: Mapping[str, object]) -> MirrorNames:
    """Returns the names in a run's test.json. Raises `ValueError` if they make no sense."""
    said = test.get("mirror", {})
    if not isinstance(said, Mapping):
        raise ValueError(f"mirror: {said!r} is no object")
    names: dict[str, dict[int, str]] = {}
    for key in ("clusters", "partitions", "groups"):
        of_key = said.get(key, {})
        if not isinstance(of_key, Mapping):
            raise ValueError(f"mirror.{key}: {of_key!r} is no object")
        names[key] = {int(number): str(name) for number, name in of_key.items()}
    return MirrorNames(**names)


@attrs.frozen
class ClusterSwitch:
    """One switch, as the operator's command reported it for this partition."""

    row: int
    source: int
    target: int
    link_epoch: int
    fence: int
    end: int
    begun_ns: int
    ended_ns: int


@attrs.frozen(eq=False)
class MirroredPartition:
    """The rows of one partition. Arrays by entry are as long as `sends`: the sent records in the order of their values."""

    number: int
    names: MirrorNames
    written: WrittenPartition
    logs: Mapping[int, FinalRecords]
    """The final log of each cluster, in the order of offsets."""
    place: Mapping[int, Ints]
    """By cluster and entry: the first offset at which the final log has it; `NONE` for nowhere."""
    switches: tuple[ClusterSwitch, ...]
    term: Ints
    """By entry: the term in which it was sent; of a stray the last one of its cluster that had ended, `NONE` for none."""
    is_stray: Bools
    """By entry: its cluster was not the primary when it was sent."""

    @classmethod
    def of(cls, number: int, rows: Columns, logs: tuple[FinalRecords, ...], names: MirrorNames) -> "MirroredPartition":
        """Sorts the rows out. Raises `ValueError` if its switches cannot have followed each other."""
        written = WrittenPartition.of(number, rows, logs)
        switches = _switches(rows)
        for before, after in itertools.pairwise(switches):
            if after.source != before.target or after.begun_ns < before.ended_ns:
                raise ValueError(f"a switch from {names.cluster(after.source)} follows one to another cluster")
        term, is_stray = _terms(rows, written.sends, switches)
        place = {log.node: _places(written, log) for log in logs}
        return cls(number, names, written, {log.node: log for log in logs}, place, switches, term, is_stray)

    @property
    def rows(self) -> Columns:
        """Returns all rows."""
        return self.written.rows

    @property
    def sends(self) -> Ints:
        """Returns the rows of the entries."""
        return self.written.sends

    @property
    def is_acked(self) -> Bools:
        """Returns which entries were acknowledged."""
        return np.asarray(self.rows.type[self.sends] == Outcome.OK)

    @property
    def primary(self) -> int:
        """Returns the cluster that was the primary in the end, `NONE` without a switch."""
        return self.switches[-1].target if self.switches else NONE

    def position(self, cluster: int, since_ns: int) -> Ints:
        """Returns by entry where a cluster had it at this moment: as acknowledged there, else as its final log has it.

        A cluster that became the primary later may have a new log since then, with other offsets.
        """
        rows = self.rows
        is_own = self.is_acked & (rows.node[self.sends] == cluster) & (rows.offset[self.sends] != NONE)
        place = self.place.get(cluster)
        if place is None or self.latest_begin(cluster) > since_ns:
            place = np.full(len(self.sends), NONE, np.int64)
        position: Ints = np.where(is_own, rows.offset[self.sends], place)
        return position

    def latest_begin(self, cluster: int) -> int:
        """Returns when the latest term of a cluster began; what it had before may have been replaced since."""
        return max((switch.begun_ns for switch in self.switches if switch.target == cluster), default=NONE)

    def op(self, entry: int) -> Op:
        """Returns the operation that sent an entry."""
        return self.rows.op(int(self.sends[entry]))

    def polls_of(self, group: int) -> Ints:
        """Returns the rows of what a group got, in the order recorded."""
        polls = self.written.polls
        mine: Ints = polls[self.rows.b[polls] == group]
        return mine


def _switches(rows: Columns) -> tuple[ClusterSwitch, ...]:
    found = np.flatnonzero(rows.f == Action.SWITCH)
    return tuple(
        ClusterSwitch(
            row=row,
            source=int(rows.node[row]),
            target=int(rows.b[row]),
            link_epoch=int(rows.epoch[row]),
            fence=int(rows.offset[row]),
            end=int(rows.seen[row]),
            begun_ns=int(rows.t_inv[row]),
            ended_ns=int(rows.t_ret[row]),
        )
        for row in found[np.argsort(rows.t_inv[found], kind="stable")].tolist()
    )


def _terms(rows: Columns, sends: Ints, switches: tuple[ClusterSwitch, ...]) -> tuple[Ints, Bools]:
    """Returns by entry its term, and whether its cluster was not the primary then.

    While a switch is under way records of both clusters are in their terms: clients may be sent on before it returns.
    """
    cluster, sent = rows.node[sends].astype(np.int64), rows.t_inv[sends]
    if not switches:
        return np.zeros(len(sends), np.int64), np.zeros(len(sends), np.bool_)
    ended = np.array([switch.ended_ns for switch in switches])
    begun = np.array([switch.begun_ns for switch in switches])
    primaries = np.array([switches[0].source, *(switch.target for switch in switches)])
    term = np.searchsorted(ended, sent, side="right")
    under_way = (term < len(switches)) & (sent >= begun[np.minimum(term, len(switches) - 1)])
    is_early = under_way & (cluster == primaries[np.minimum(term + 1, len(switches))])
    term = term + is_early
    is_stray = cluster != primaries[term]
    for number, switch in enumerate(switches):
        left = is_stray & (cluster == switch.source) & (sent >= switch.ended_ns)
        term = np.where(left, number, term)
    never_led = is_stray & (primaries[term] != cluster)
    return np.where(never_led, NONE, term).astype(np.int64), is_stray


def _places(written: WrittenPartition, log: FinalRecords) -> Ints:
    place = np.full(len(written.sends), NONE, np.int64)
    entry = written.entry(log.value)
    known = np.flatnonzero(entry != NONE)[::-1]
    place[entry[known]] = log.offset[known]  # the earliest is written last
    return place
