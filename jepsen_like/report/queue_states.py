"""Reads what the page shows of a queue: who led each partition, who was in sync, how far it was committed; and who of each group owned it.
Of broker groups: the copies of their logs (`copy_states`).

The first three are what brokers told (`partitions.parquet`), the last what members did (the history). Times are seconds since the
load began. Bounded: of points and commits that share a pixel one is kept.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.files import HistoryReader, UnreadableHistory, read_part
from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.history.partition_states import StateKind, brokers_of, read_states
from jepsen_like.report.copy_states import CopyGroup, groups_of, read_copies
from jepsen_like.report.findings import UnreadableRun

HISTORY: Final = "history.parquet"
POINTS_MAX: Final = 500
"""High watermarks and commits kept per partition."""
PARTITIONS_MAX: Final = 24
"""Partitions drawn; the others are counted."""
SPANS_MAX: Final = 400
"""Owners drawn per partition; the newest are left out."""


@attrs.frozen
class LeaderSpan:
    """A broker leads, from when to when (None: until the end)."""

    begin_s: float
    end_s: float | None
    broker: int
    epoch: int


MembersOverTime = tuple[tuple[float, tuple[int, ...]], ...]
"""From when on which brokers belong to a set, oldest first; neighbours differ."""


@attrs.frozen
class PartitionLane:
    """One partition over time."""

    name: str
    leaders: tuple[LeaderSpan, ...]
    in_sync: MembersOverTime
    eligible: MembersOverTime
    """Those that might lead although they were not in sync (KIP-966)."""
    high_watermarks: tuple[tuple[float, int], ...]
    unclean_s: tuple[float, ...]
    """The moment when a leader was elected that had not been in sync."""


@attrs.frozen
class OwnerSpan:
    """A member owns a partition, from when to when (None: until the end)."""

    begin_s: float
    end_s: float | None
    member: int
    generation: int
    was_lost: bool
    """True if it did not give it up by itself."""


@attrs.frozen
class OwnedPartition:
    """The history of a group in one partition."""

    name: str
    owners: tuple[OwnerSpan, ...]
    commits: tuple[tuple[float, int, bool], ...]
    """The moment when one ended, of which offset, and whether it was acknowledged."""


@attrs.frozen
class GroupLanes:
    """One group: its partitions, and when its members were assigned some."""

    name: str
    partitions: tuple[OwnedPartition, ...]
    rebalances_s: tuple[float, ...]


@attrs.frozen
class QueueStates:
    """All of it; `left_out` partitions are not among them."""

    partitions: tuple[PartitionLane, ...]
    groups: tuple[GroupLanes, ...]
    left_out: int = 0
    copies: tuple[CopyGroup, ...] = ()
    """The commit logs of broker groups."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """Every broker that led or was in sync, in order."""
        led = {span.broker for lane in self.partitions for span in lane.leaders}
        return tuple(sorted(led | {broker for lane in self.partitions for _, mask in lane.in_sync for broker in mask}))


def read_queue_states(run_directory: Path, test: Mapping[str, Any]) -> QueueStates | None:
    """Returns the partitions and groups to show; None if none are recorded. Raises `UnreadableRun` for a bad file."""
    said = test.get("queue")
    about: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    try:
        states = read_states(run_directory)
        if states is None and not about:
            return None
        history = run_directory / HISTORY
        reader = HistoryReader.open(history) if history.is_dir() else None
        origin_ns = reader.began_ns() if reader is not None else _first_of(states)
        moves = _moves(reader) if reader is not None and about else {}
    except UnreadableHistory as error:
        raise UnreadableRun(Path(error.path), error.reason) from error
    names = _names(about.get("partitions"))
    lanes = _lanes(states, names, origin_ns) if states is not None else ()
    groups = _groups(moves, names, _names(about.get("groups")), origin_ns)
    copies = read_copies(states, origin_ns) if states is not None else ()
    if not lanes and not groups and not copies:
        return None
    return QueueStates(lanes[:PARTITIONS_MAX], groups, max(0, len(lanes) - PARTITIONS_MAX), copies)


def _first_of(states: Mapping[str, Any] | None) -> int:
    return int(states["t_ns"].min()) if states is not None and len(states["t_ns"]) else 0


def _names(said: Any) -> dict[int, str]:
    return {int(number): str(name) for number, name in said.items()} if isinstance(said, Mapping) else {}


def _lanes(states: Mapping[str, Any], names: Mapping[int, str], origin_ns: int) -> tuple[PartitionLane, ...]:
    found = []
    order = np.argsort(states["t_ns"], kind="stable")
    columns = {name: np.asarray(column)[order] for name, column in states.items()}
    at_s = (columns["t_ns"] - origin_ns) / 1e9
    for obj in np.setdiff1d(columns["object"], groups_of(states)).tolist():
        mine = columns["object"] == obj

        def rows(kind: StateKind, mine: Any = mine) -> Ints:
            return np.flatnonzero(mine & (columns["kind"] == kind))

        def members(kind: StateKind, rows: Callable[[StateKind], Ints] = rows) -> MembersOverTime:
            found = [(float(at_s[row]), brokers_of(int(columns["value"][row]))) for row in rows(kind)]
            return tuple(one for at, one in enumerate(found) if at == 0 or one[1] != found[at - 1][1])

        marks = rows(StateKind.HIGH_WATERMARK)
        marks = marks[np.unique(np.linspace(0, len(marks) - 1, min(len(marks), POINTS_MAX)).astype(np.int64))]
        found.append(
            PartitionLane(
                name=names.get(obj, f"partition {obj}"),
                leaders=_leaders(columns, rows(StateKind.LEADER), at_s),
                in_sync=members(StateKind.ISR),
                eligible=members(StateKind.ELIGIBLE),
                high_watermarks=tuple((float(at_s[row]), int(columns["value"][row])) for row in marks),
                unclean_s=tuple(float(at_s[row]) for row in rows(StateKind.UNCLEAN)),
            )
        )
    return tuple(found)


def _leaders(columns: Mapping[str, Any], rows: Ints, at_s: Any) -> tuple[LeaderSpan, ...]:
    spans: list[LeaderSpan] = []
    newest = NONE
    for row in rows.tolist():
        broker, epoch = int(columns["value"][row]), int(columns["epoch"][row])
        if epoch < newest or (spans and (broker, epoch) == (spans[-1].broker, spans[-1].epoch)):
            continue  # told late, or again
        newest = max(newest, epoch)
        if spans and spans[-1].end_s is None:
            spans[-1] = attrs.evolve(spans[-1], end_s=float(at_s[row]))
        if broker != NONE:
            spans.append(LeaderSpan(float(at_s[row]), None, broker, epoch))
    return tuple(spans)


_COLUMNS: Final = ("object", "process", "f", "type", "a", "b", "offset", "t_inv", "t_ret")


def _moves(reader: HistoryReader) -> dict[str, Ints]:
    """Returns what groups did: assignments, revocations, commits, in the order recorded."""
    parts: list[list[Ints]] = []
    for path in reader.files():
        table = read_part(path, _COLUMNS)
        f = table.column("f").to_numpy()
        chosen = np.flatnonzero(np.isin(f, (Action.ASSIGN, Action.REVOKE, Action.COMMIT)))
        if len(chosen):
            parts.append([np.asarray(table.column(name).to_numpy())[chosen].astype(np.int64) for name in _COLUMNS])
    return dict(zip(_COLUMNS, map(np.concatenate, zip(*parts, strict=True)), strict=True)) if parts else {}


def _groups(
    moves: Mapping[str, Ints], names: Mapping[int, str], group_names: Mapping[int, str], origin_ns: int
) -> tuple[GroupLanes, ...]:
    found = []
    groups = np.unique(moves["a"][moves["a"] != NONE]).tolist() if moves else []
    for group in groups:
        of_group = np.flatnonzero(moves["a"] == group)
        partitions = np.unique(moves["object"][of_group]).tolist()[:PARTITIONS_MAX]
        assigned = of_group[moves["f"][of_group] == Action.ASSIGN]
        found.append(
            GroupLanes(
                name=group_names.get(group, f"group {group}"),
                partitions=tuple(
                    OwnedPartition(
                        name=names.get(obj, f"partition {obj}"),
                        owners=_owners(moves, of_group[moves["object"][of_group] == obj], origin_ns),
                        commits=_commits(moves, of_group[moves["object"][of_group] == obj], origin_ns),
                    )
                    for obj in partitions
                ),
                rebalances_s=_apart((moves["t_inv"][assigned] - origin_ns) / 1e9),
            )
        )
    return tuple(found)


def _owners(moves: Mapping[str, Ints], rows: Ints, origin_ns: int) -> tuple[OwnerSpan, ...]:
    own: dict[int, OwnerSpan] = {}
    spans = []
    for row in rows[moves["f"][rows] != Action.COMMIT].tolist():
        member, at_s = int(moves["process"][row]), (int(moves["t_inv"][row]) - origin_ns) / 1e9
        ended = own.pop(member, None)
        is_assigned = moves["f"][row] == Action.ASSIGN
        if ended is not None:
            was_lost = not is_assigned and moves["type"][row] == Outcome.INFO
            spans.append(attrs.evolve(ended, end_s=at_s, was_lost=bool(was_lost)))
        if is_assigned:
            own[member] = OwnerSpan(at_s, None, member, int(moves["b"][row]), was_lost=False)
    return tuple(sorted([*spans, *own.values()], key=lambda span: span.begin_s)[:SPANS_MAX])


def _commits(moves: Mapping[str, Ints], rows: Ints, origin_ns: int) -> tuple[tuple[float, int, bool], ...]:
    rows = rows[moves["f"][rows] == Action.COMMIT]
    is_ok = moves["type"][rows] == Outcome.OK
    acked, others = rows[is_ok], rows[~is_ok]
    acked = acked[np.unique(np.linspace(0, len(acked) - 1, min(len(acked), POINTS_MAX)).astype(np.int64))]
    return tuple(
        (
            (int(moves["t_inv"][row]) - origin_ns) / 1e9,
            int(moves["offset"][row]),
            bool(moves["type"][row] == Outcome.OK),
        )
        for row in sorted([*acked.tolist(), *others[:POINTS_MAX].tolist()])
    )


def _apart(moments_s: Any, by_s: float = 0.5) -> tuple[float, ...]:
    """Moments that are apart: the first of those that follow each other closely."""
    found: list[float] = []
    last = -np.inf
    for moment in sorted(moments_s.tolist()):
        if moment - last > by_s:
            found.append(moment)
        last = moment
    return tuple(found)
