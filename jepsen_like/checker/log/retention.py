"""Judges whether a node let more of its log go than its rule of retention allows, and whether it said so where it had not.

Judged from what is certain: the records that its log still holds, when those that have left it were asked for, and what it
answered to those who asked for them. A rule by bytes counts all that the files hold except the one that left; what of it no
client sees is charged at its highest: terms and votes, which grow with the number of terms, what begins each file, and
entries that were replaced, which were losses that are allowed, or appends of unknown outcome that stand in no final log and
had a leader after their own. A rule by age counts by true time; where the nodes' clocks were set wrong, a record may leave
earlier by as much as they were (`clocks`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import AllowedLoss
from jepsen_like.checker.log.clocks import RIGHT_CLOCKS, ClockErrors
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.checker.verdict import Check, Findings, Violation
from jepsen_like.history.files import HistoryReader, KeepRule, Kept, read_part
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

SLACK_BYTES: Final = 16 * 1024
"""The most that a log holds apart from records, terms and starts of files: elections after the last record, membership, damage."""
TERM_BYTES: Final = 1024
"""The most that a term leaves in a log: the term and a vote, the first entry of a leadership, a cut, each a frame."""
FILE_FRAMES: Final = 2
"""A file begins with the newest state."""
REPLACED_BYTES: Final = 4096
"""The most that one record takes, where no record is left to tell."""
UNDER_WAY_NS: Final = 2 * 10**9
"""A request reaches a node no later than this after it was made: its client waits no longer."""
CLOCKS_APART_S: Final = 0.5
"""By so much the clock that dates records may have been set between two looks at it."""


@attrs.frozen(eq=False)
class _Asked:
    """Of a history: the acknowledged appends in the order of their offsets, those of unknown outcome, and what was refused."""

    offset: Ints
    t_inv: Ints
    epoch: Ints
    t_ret: Ints
    unknown_t_inv: Ints
    unknown_value: Ints
    refused: Columns

    @classmethod
    def read(cls, history: HistoryReader, rule: KeepRule, obj: int) -> "_Asked":
        """From the files of a run; where nothing may leave a log, only those in which something was said to have left."""
        acked, unknown, refused = [], [], []
        for path in history.files():
            errors = read_part(path, ("err",)).column("err").to_numpy()
            if not rule.may_expire and not (errors == ErrorCode.TRIMMED).any():
                continue
            rows = Columns.of_parts([path])
            rows = rows.where(rows.object == obj)
            append = rows.f == Action.APPEND
            acked.append(rows.where(append & (rows.type == Outcome.OK) & (rows.offset >= 0)))
            unknown.append(rows.where(append & (rows.type == Outcome.INFO)))
            refused.append(rows.where(rows.err == ErrorCode.TRIMMED))
        empty = Columns.of_ops(())
        offset, t_inv, epoch, t_ret = (
            np.concatenate([getattr(some, name) for some in (empty, *acked)])
            for name in ("offset", "t_inv", "epoch", "t_ret")
        )
        order = np.argsort(offset, kind="stable")
        return cls(
            offset[order],
            t_inv[order],
            epoch[order],
            t_ret[order],
            np.concatenate([some.t_inv for some in (empty, *unknown)]),
            np.concatenate([some.a for some in (empty, *unknown)]),
            Columns(*(np.concatenate([getattr(some, name) for some in (empty, *refused)]) for name in _NAMES)),
        )

    def below(self, offset: int) -> int:
        """Returns how many acknowledged records lie below it."""
        return int(np.searchsorted(self.offset, offset, side="left"))


_NAMES: Final = tuple(field.name for field in attrs.fields(Columns))


@attrs.frozen(kw_only=True, eq=False)
class RetentionCase:
    """The rule that the final logs of one object are held to, and what is known of them."""

    rule: KeepRule
    kept: Kept | None
    losses: Sequence[AllowedLoss] = ()
    is_lossless: bool = True
    """No fault of the run may cost what was acknowledged."""
    clocks: ClockErrors = RIGHT_CLOCKS
    """The nodes' clocks as far as faults set them."""
    held: Ints | None = None
    """The values in all final logs."""


def judge_retention(history: HistoryReader, case: RetentionCase, findings: Findings, obj: int = 0) -> Findings:
    """Returns violations: nodes let go what their rule keeps, or denied what they had; `findings` are of `obj`."""
    rule, kept, losses, held = case.rule, case.kept, case.losses, case.held
    asked = _Asked.read(history, rule, obj)
    if held is not None:
        absent = ~np.isin(asked.unknown_value, held)
        asked = attrs.evolve(
            asked, unknown_t_inv=asked.unknown_t_inv[absent], unknown_value=asked.unknown_value[absent]
        )
    found = _refusals(asked, case)
    # A log that has lost its end holds less than its rule kept, and a loss that nothing allows is told anyway.
    if kept is not None and rule.may_expire and findings.lost_acked <= sum(loss.records for loss in losses):
        late = [node for node, start in sorted(kept.starts.items()) if start > 0]
        found += [_let_go(node, obj, kept) for node in late if _is_overdone(node, asked, kept, case)]
    unjudged = frozenset(_find_unjudged(asked, rule, kept, losses))
    if not found:
        return Findings(unjudged=unjudged)
    return Findings(
        unjudged=unjudged, violated=frozenset([obj]), counts={Check.LOST: len(found)}, violations=tuple(found)
    )


def _find_unjudged(asked: _Asked, rule: KeepRule, kept: Kept | None, losses: Sequence[AllowedLoss]) -> Iterator[str]:
    """Yields what left the logs without a word on whether it may have, a line each."""
    trimmed = [node for node, start in sorted(kept.starts.items()) if start > 0] if kept is not None else []
    if rule.retention_s and not rule.judges_age and (trimmed or len(asked.refused)):
        yield "retention: whether what left the logs was old enough is not judged, for its age is not known here"
    if kept is None or not rule.retention_bytes:
        return
    certain = attrs.evolve(asked, unknown_t_inv=asked.unknown_t_inv[:0], unknown_value=asked.unknown_value[:0])
    for node in trimmed:
        of_all, of_certain = (
            kept.bytes_kept[node] + _unseen_bytes(node, each, rule, kept, losses) for each in (asked, certain)
        )
        if of_certain < rule.retention_bytes <= of_all:
            yield (
                f"retention: the log of node {node} let more go than it may, unless appends of unknown outcome "
                f"({len(asked.unknown_t_inv):,} in this history) had been in it"
            )


# ---------------------------------------------------------------- what is left


def _is_overdone(node: int, asked: _Asked, kept: Kept, case: RetentionCase) -> bool:
    """Returns True if no rule that there is lets this log begin where it does."""
    rule, start = case.rule, kept.starts[node]
    if rule.retention_bytes:
        held = kept.bytes_kept[node] + _unseen_bytes(node, asked, rule, kept, case.losses)
        if held >= rule.retention_bytes:
            return False
    if rule.retention_s:
        return rule.judges_age and _was_young(node, start, kept.dumped_ns, asked, case)
    return True


def _was_young(node: int, start: int, now_ns: int, asked: _Asked, case: RetentionCase) -> bool:
    """Returns True if an acknowledged record below `start` was too young to leave this node's log by `now_ns`."""
    rule, kept, clocks = case.rule, case.kept, case.clocks
    taken_ns = asked.t_inv[: asked.below(start)]
    # A node that lacks what another one has let go begins where that one does, by its clock.
    others = kept.starts if kept is not None else {one.node: NEVER for one in clocks.jumps}
    whose = {node, *(other for other, begins in others.items() if begins >= start or not rule.starts_stay)}
    age_s = (now_ns - taken_ns) / 1e9 + CLOCKS_APART_S
    wrong_s = clocks.behind_s(taken_ns, UNDER_WAY_NS) + clocks.ahead_s(whose, taken_ns, now_ns)
    return bool((age_s + wrong_s < rule.retention_s).any())


def _unseen_bytes(node: int, asked: _Asked, rule: KeepRule, kept: Kept, losses: Sequence[AllowedLoss]) -> int:
    """Returns how much of what the files hold may be nothing that a client sees."""
    records = kept.ends[node] - kept.starts[node]
    record_bytes = rule.frame_bytes + -(-kept.bytes_kept[node] // records) if records else REPLACED_BYTES
    below = asked.below(kept.starts[node])
    # What stands behind the newest record that has left was asked for after it.
    since_ns = int(asked.t_inv[below - 1] - UNDER_WAY_NS) if below else -NEVER
    terms = int(asked.epoch.max(initial=0)) - int(asked.epoch[below - 1] if below else 0)
    # Only a later leader replaces what an earlier one has written: one whose epoch was named, or the last of all.
    led_until_ns = since_ns if terms > 0 else int(asked.t_ret.max(initial=-NEVER) - UNDER_WAY_NS)
    replaced = int((asked.unknown_t_inv >= max(since_ns, led_until_ns)).sum()) + sum(loss.records for loss in losses)
    files = 2 + kept.bytes_kept[node] // max(rule.segment_bytes_max, rule.frame_bytes, 1)
    return SLACK_BYTES + TERM_BYTES * terms + FILE_FRAMES * rule.frame_bytes * files + record_bytes * replaced


def _keeps(rule: KeepRule) -> str:
    keeps = [f"the newest {rule.retention_bytes:,} bytes"] if rule.retention_bytes else []
    keeps += [f"what is younger than {rule.retention_s:g} s"] if rule.retention_s else []
    return " and ".join(keeps)


def _let_go(node: int, obj: int, kept: Kept) -> Violation:
    start = kept.starts[node]
    sentence = (
        f"log {obj}: the final log of node {node} begins at {start} and holds {kept.bytes_kept[node]:,} bytes of records, "
        f"though it keeps {_keeps(kept.rule)}"
    )
    at = kept.dumped_ns
    begins = Op(f=Action.READ, type=Outcome.OK, t_inv=at, t_ret=at, process=NONE, offset=start, node=node, object=obj)
    return Violation(Check.LOST, obj, sentence, (begins,))


# ---------------------------------------------------------------- what was refused


def _refusals(asked: _Asked, case: RetentionCase) -> list[Violation]:
    """Answers that records had left where they cannot have."""
    rows = asked.refused
    found: list[Violation] = []
    for row in range(len(rows)):
        op = rows.op(row)
        why = _why_not(op, asked, case)
        if why is not None:
            sentence = f"log {op.object}: node {op.node} said that its log began at {op.seen} when process {op.process} asked for offset {op.offset}, {why}"
            found.append(Violation(Check.LOST, op.object, sentence, (op,)))
    return found


def _why_not(op: Op, asked: _Asked, case: RetentionCase) -> str | None:
    """Why this refusal cannot be right; None if it can."""
    rule, kept = case.rule, case.kept
    if not rule.may_expire:
        return "and nothing may leave it"
    if op.f is not Action.READ or op.offset >= op.seen:
        return "which is not below"
    if not case.is_lossless:
        return None  # places below may have held other records since
    if kept is not None and op.node in kept.starts:
        bound = kept.starts[op.node] if rule.starts_stay else kept.ends[op.node]
        if op.seen > bound:
            return f"and it {'begins' if rule.starts_stay else 'ends'} at {bound} in the end"
    by_age_alone = rule.retention_s and not rule.retention_bytes and rule.judges_age
    if by_age_alone and _was_young(op.node, op.seen, op.t_ret, asked, case):
        return f"though it keeps {_keeps(rule)}"
    return None
