"""Judges the records of one mirrored partition: what a switch lost, and what came twice, late, or in another order.

The loss of a switch is the lag of the mirror, exactly: of the records that the old primary acknowledged, the new one lacks
those from the fence on, and has all below it. So a loss below the fence is a hole of the mirror. A record from the fence
on that stands in the target came after the switch, then it is foreign, or the recorded fence is wrong.
"""

from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.mirror.rows import ClusterSwitch, MirroredPartition
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.checker.transactions.partition import Breaches, FinalRecords
from jepsen_like.checker.verdict import Check, MirrorCounts
from jepsen_like.history.ops import NONE, Op, Outcome

EXAMPLES_MAX: Final = 5
KIND: Final = "switch"


@attrs.frozen(eq=False)
class RecordFacts:
    """The evidence of one partition about its records."""

    counts: MirrorCounts
    losses: tuple[AllowedLoss, ...]
    lost: int
    """Acknowledged records that the last primary lacks, allowed or not."""
    is_left: Bools
    """By entry: it was left behind by a switch, as the lag of its link."""


def judge_records(one: MirroredPartition, found: Breaches) -> RecordFacts:
    """Returns what the switches of a partition cost. What is wrong goes to `found`."""
    counts, losses = MirrorCounts(switches=len(one.switches)), list[AllowedLoss]()
    is_left, is_hole = np.zeros(len(one.sends), np.bool_), np.zeros(len(one.sends), np.bool_)
    for number, switch in enumerate(one.switches):
        mine = (one.term == number) & ~one.is_stray
        if switch.target not in one.logs:
            is_left |= mine  # any of them may have been
            continue
        place, position = one.place[switch.target], one.position(switch.source, switch.begun_ns)
        is_behind, is_there = mine & (position >= switch.fence), place != NONE
        acked = mine & one.is_acked
        is_hole |= acked & ~is_behind & ~is_there
        is_left |= mine & ~is_there & (is_behind | ~one.is_acked)
        lost = np.flatnonzero(acked & is_behind & ~is_there)
        if len(lost):
            losses.append(_loss(one, switch, lost))
        is_foreign = (one.term == number) & is_there & (place >= switch.end)
        _report_foreign(one, switch, np.flatnonzero(is_foreign), found)
        _report_lag(one, switch, np.flatnonzero(is_behind & is_there & ~is_foreign), found)
        counts = counts.plus(
            MirrorCounts(
                acked=int(acked.sum()),
                lag=int((acked & is_behind).sum()),
                lost=int((acked & ~is_there).sum()),
                foreign=int(is_foreign.sum()),
            )
        )
    _report_lost(one, is_hole, is_left, found)
    late = np.flatnonzero(one.is_stray & one.is_acked)
    _report_late(one, late, found)
    counts = counts.plus(
        MirrorCounts(late=len(late), doubled=_check_doubled(one, found), reordered=_check_order(one, found))
    )
    _check_origins(one, found)
    _check_places(one, found)
    lost_in_all = sum(loss.records for loss in losses) + found.counts.get(Check.LOST, 0)
    return RecordFacts(counts, tuple(losses), lost_in_all, is_left)


def _loss(one: MirroredPartition, switch: ClusterSwitch, lost: Ints) -> AllowedLoss:
    position = one.position(switch.source, switch.begun_ns)[lost]
    acked = one.rows.t_ret[one.sends[lost]]
    in_turn = lost[np.argsort(acked, kind="stable")]
    says = (
        f"the link to {one.names.cluster(switch.target)} had copied up to offset {switch.fence:,} when it was fenced "
        f"(link epoch {switch.link_epoch})"
    )
    return AllowedLoss(
        allowance=Allowance(
            fault=NONE, kind=KIND, promise=says, since_ns=NONE, begun_ns=switch.begun_ns, injected_ns=switch.ended_ns
        ),
        records=len(lost),
        first_offset=int(position.min()),
        last_offset=int(position.max()),
        first_acked_ns=int(acked.min()),
        last_acked_ns=int(acked.max()),
        examples=tuple(one.rows.a[one.sends[in_turn[:EXAMPLES_MAX]]].tolist()),
        of=one.names.partition(one.number),
        object=one.number,
    )


def _report_foreign(one: MirroredPartition, switch: ClusterSwitch, foreign: Ints, found: Breaches) -> None:
    def show(entry: int) -> tuple[str, list[Op]]:
        op, target = one.op(entry), one.names.cluster(switch.target)
        said = f"{op.a}, sent to {one.names.cluster(switch.source)}, stands at offset {one.place[switch.target][entry]}"
        return f"{said} of {target}, which was the primary from offset {switch.end} on", [one.rows.op(switch.row), op]

    found.add(Check.FOREIGN, foreign, show)


def _report_lag(one: MirroredPartition, switch: ClusterSwitch, copied: Ints, found: Breaches) -> None:
    position = one.position(switch.source, switch.begun_ns)

    def show(entry: int) -> tuple[str, list[Op]]:
        op = one.op(entry)
        said = f"{op.a}, at offset {position[entry]} of {one.names.cluster(switch.source)}, was copied"
        return f"{said}, though the fence is at {switch.fence}", [one.rows.op(switch.row), op]

    found.add(Check.LAG, copied, show)


def _report_lost(one: MirroredPartition, is_hole: Bools, is_left: Bools, found: Breaches) -> None:
    """Each acknowledged record that no switch left behind is in the target of its link, and at the last primary."""
    missing = is_hole.copy()
    if one.primary in one.logs:
        missing |= one.is_acked & ~one.is_stray & ~is_left & (one.place[one.primary] == NONE)

    def show(entry: int) -> tuple[str, list[Op]]:
        op = one.op(entry)
        said = f"{op.a}, acknowledged at offset {op.offset} of {one.names.cluster(op.node)}"
        if not is_hole[entry]:
            return f"{said}, is not in the final log of {one.names.cluster(one.primary)}", [op]
        switch = one.switches[int(one.term[entry])]
        told = f"is missing in {one.names.cluster(switch.target)}, though the link had copied up to {switch.fence}"
        return f"{said}, {told}", [op, one.rows.op(switch.row)]

    found.add(Check.LOST, np.flatnonzero(missing), show)


def _report_late(one: MirroredPartition, late: Ints, found: Breaches) -> None:
    def show(entry: int) -> tuple[str, list[Op]]:
        op = one.op(entry)
        return f"{one.names.cluster(op.node)} acknowledged {op.a} while another one was the primary", [op]

    found.add(Check.LATE_WRITE, late, show)


def _check_doubled(one: MirroredPartition, found: Breaches) -> int:
    """Each value stands at one place of a log. Returns how many places are too many."""
    doubled = 0
    for cluster, log in one.logs.items():
        _, first = np.unique(log.value, return_index=True)
        again = np.setdiff1d(np.arange(len(log.value)), first)

        def show(at: int, cluster: int = cluster, log: FinalRecords = log) -> tuple[str, list[Op]]:
            (entry,) = one.written.entry(log.value[at : at + 1]).tolist()
            places = log.offset[log.value == log.value[at]].tolist()
            said = f"{one.names.cluster(cluster)} has {log.value[at]} at offsets {places[0]} and {log.offset[at]}"
            return said, [] if entry == NONE else [one.op(entry)]

        found.add(Check.DUPLICATED, again, show)
        doubled += len(again)
    return doubled


def _check_order(one: MirroredPartition, found: Breaches) -> int:
    """Of one producer's records those that were sent later stand behind. Returns how many of all logs do not."""
    rows, reordered = one.rows, 0
    for cluster, place in one.place.items():
        there = np.flatnonzero(place != NONE)
        there = there[np.argsort(place[there], kind="stable")]
        process = rows.process[one.sends[there]]
        for producer in np.unique(process).tolist():
            mine = there[process == producer]
            sent = rows.t_inv[one.sends[mine]]
            newest = np.maximum.accumulate(sent)
            wrong = np.flatnonzero(sent < newest)

            def show(at: int, mine: Ints = mine, newest: Ints = newest, cluster: int = cluster) -> tuple[str, list[Op]]:
                earlier, later = one.op(int(mine[at])), one.op(int(mine[np.flatnonzero(newest == newest[at])[0]]))
                said = f"{one.names.cluster(cluster)} has {later.a} before {earlier.a}, which process {earlier.process}"
                return f"{said} sent first", [earlier, later]

            found.add(Check.SEND_ORDER, wrong, show)
            reordered += len(wrong)
    return reordered


def _check_origins(one: MirroredPartition, found: Breaches) -> None:
    """Everything that is there, or was read, was sent, and did not certainly fail."""
    rows, polls = one.rows, one.written.polls
    is_refused = rows.type[one.sends] == Outcome.FAIL
    seen = [(one.names.cluster(cluster), log.value, log.offset) for cluster, log in one.logs.items()]
    seen.append(("a consumer", rows.a[polls], rows.offset[polls]))
    for where, values, offsets in seen:
        entry = one.written.entry(values)
        refused = np.flatnonzero((entry != NONE) & is_refused[np.maximum(entry, 0)]) if len(one.sends) else entry[:0]

        def show(at: int, where: str = where, values: Ints = values, offsets: Ints = offsets) -> tuple[str, list[Op]]:
            return f"{where} has {values[at]} at offset {offsets[at]}, which no one sent", []

        def show_refused(
            at: int, where: str = where, entry: Ints = entry, offsets: Ints = offsets
        ) -> tuple[str, list[Op]]:
            op = one.op(int(entry[at]))
            return f"{where} has {op.a} at offset {offsets[at]}, which its producer was told is not there", [op]

        found.add(Check.PHANTOM, np.flatnonzero(entry == NONE), show)
        found.add(Check.ABORTED_READ, refused, show_refused)


def _check_places(one: MirroredPartition, found: Breaches) -> None:
    """The final log of a cluster has at each offset what was acknowledged and read there in its latest term."""
    rows = one.rows
    told = np.concatenate([one.sends[one.is_acked], one.written.polls])
    for cluster, log in one.logs.items():
        mine = told[(rows.node[told] == cluster) & (rows.t_inv[told] >= one.latest_begin(cluster))]
        if not len(log.offset):
            continue
        at = np.minimum(np.searchsorted(log.offset, rows.offset[mine]), len(log.offset) - 1)
        wrong = (log.offset[at] == rows.offset[mine]) & (log.value[at] != rows.a[mine])

        def show(row: int, cluster: int = cluster, log: FinalRecords = log) -> tuple[str, list[Op]]:
            op = rows.op(row)
            stands = int(np.searchsorted(log.offset, op.offset))
            said = f"offset {op.offset} of {one.names.cluster(cluster)} has {log.value[stands]}, and had {op.a}"
            return said, [op, one.written.log_op(log, stands)]

        found.add(Check.DIVERGENT_OFFSET, mine[wrong], show)
