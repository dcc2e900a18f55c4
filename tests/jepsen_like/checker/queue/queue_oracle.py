"""Judges one partition of a queue straight from the definitions, by looking at every pair; shares no code with the checker.

For histories of a few dozen operations. `judge_queue` returns how many violations of each check there are.
"""

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import Action, Op, Outcome

FOREVER = 10**30
Log = tuple[int, list[tuple[int, int]]]
"""The start of a final log, and its values with their epochs."""


@attrs.define
class Fault:
    """A fault, with the losses that it excuses."""

    since: int
    begun: int
    injected: int
    node: int | None = None
    epoch_max: int | None = None
    reads: bool = True
    commits: bool = False
    tail: bool = True


@attrs.define
class Held:
    """The promises that the run is held to."""

    acks: str = "all"
    ordered: bool = False
    doubles: bool = False
    expelled_after: int = 0


@attrs.define
class Judged:
    """Violations by the name of their check, and what else is counted."""

    counts: dict[str, int]
    lost_acked: int
    allowed: list[set[int]]
    unseen: int
    expired: int
    doubled: int


def end_of(op: Op) -> int:
    return FOREVER if op.type is Outcome.INFO else op.t_ret


class Case:
    """One partition."""

    def __init__(self, ops: Sequence[Op], logs: Mapping[int, Log], held: Held, faults: Sequence[Fault]) -> None:
        self.ops, self.logs, self.held = ops, dict(sorted(logs.items())), held
        self.faults = sorted(faults, key=lambda fault: fault.begun)
        self.sends = collections.defaultdict[int, list[Op]](list)
        for op in ops:
            if op.f is Action.SEND:
                self.sends[op.a].append(op)
        self.polls = [op for op in ops if op.f is Action.POLL and op.a != -1]
        tails = [op for op in ops if op.f is Action.TAIL and op.b == 1]
        self.tail = max(tails, key=lambda op: op.t_inv) if tails else None
        self.final = [op for op in ops if self.tail and op.f is Action.POLL and op.process == self.tail.process]
        self.in_logs = {value for _, records in self.logs.values() for value, _ in records if value != -1}
        self.counts: dict[str, int] = collections.defaultdict(int)

    def of(self, value: int, outcome: Outcome) -> Op | None:
        return next((op for op in self.sends.get(value, ()) if op.type is outcome), None)

    # ---------------------------------------------------------------- losses

    @property
    def passed(self) -> int:
        return max((op.offset + 1 for op in self.final), default=self.tail.seen if self.tail else -1)

    def is_there(self, value: int, told: Op) -> bool:
        is_passed = self.tail is not None and 0 <= told.offset < self.passed
        return value in {op.a for op in self.final} or (value in self.in_logs and not is_passed)

    def others_read(self, value: int) -> Op | None:
        return next(
            (op for op in self.polls if op.a == value and not (self.tail and op.process == self.tail.process)), None
        )

    def fate(self, value: int, told: Op) -> str:
        if (not self.tail and not self.logs) or self.is_there(value, told):
            return "there"
        start = self.tail.seen if self.tail else min(first for first, _ in self.logs.values())
        if 0 <= told.offset < start:
            return "expired"
        passed = self.passed
        if self.tail and 0 <= told.offset < passed:
            return "lost"
        if self.tail and told.t_ret > self.tail.t_inv:
            return "unseen"
        if self.logs:
            return "lost"
        assert self.tail is not None
        if self.held.acks == "all" and told.offset >= self.tail.offset:
            return "lost"
        if told.offset < 0 and passed >= self.tail.offset:
            return "lost"
        return "unseen"

    def explains(self, fault: Fault, told: Op, began: int, ended: int) -> bool:
        if began > fault.injected or ended < fault.since:
            return False
        if fault.node is not None and told.node not in (-1, fault.node):
            return False
        if fault.epoch_max is not None and told.epoch != -1 and told.epoch > fault.epoch_max:
            return False
        survivors = [
            op.offset
            for value in self.sends
            if (op := self.of(value, Outcome.OK)) and end_of(op) < fault.begun and self.is_there(value, op)
        ]
        return not fault.tail or told.offset == -1 or told.offset > max(survivors, default=-1)

    def judge_losses(self) -> tuple[set[int], set[int], list[set[int]], int, int]:
        """The lost, the forgiven, what each fault cost, and how many are unseen and expired."""
        lost, forgiven, unseen, expired = set[int](), set[int](), 0, 0
        allowed: list[set[int]] = [set() for _ in self.faults]
        for value in self.sends:
            acked, read = self.of(value, Outcome.OK), self.others_read(value)
            if acked is not None:
                fate = self.fate(value, acked)
                unseen += fate == "unseen"
                expired += fate == "expired"
                if fate != "lost":
                    continue
                lost.add(value)
                for number, fault in enumerate(self.faults):
                    if (fault.reads or not read) and self.explains(fault, acked, acked.t_inv, acked.t_ret):
                        allowed[number].add(value)
                        forgiven.add(value)
                        break
                else:
                    self.counts["lost"] += 1
            elif read is not None and any(op.type is Outcome.INFO for op in self.sends[value]):
                if self.fate(value, read) != "lost":
                    continue
                began = min(op.t_inv for op in self.sends[value])
                if any(fault.reads and self.explains(fault, read, began, FOREVER) for fault in self.faults):
                    forgiven.add(value)
                else:
                    self.counts["lost"] += 1
        return lost, forgiven, allowed, unseen, expired

    # ---------------------------------------------------------------- records

    def judge_records(self, lost: set[int], forgiven: set[int]) -> tuple[set[tuple[int, int]], int]:
        """Returns the values that were seen with their offsets, and the number of values that stand twice."""
        gone = lost | forgiven
        acked = [
            op
            for op in self.ops
            if op.f is Action.SEND and op.type is Outcome.OK and op.offset >= 0 and op.a not in gone
        ]
        seen = {(op.offset, op.a) for op in acked} | {(op.offset, op.a) for op in self.polls if op.a not in forgiven}
        if not self.tail:
            covered = set[int]()
            for first, records in self.logs.values():
                for place, (value, _) in enumerate(records):
                    if first + place not in covered and value != -1:
                        seen.add((first + place, value))
                        covered.add(first + place)
        offsets, values = {offset for offset, _ in seen}, {value for _, value in seen}
        self.counts["divergent_offset"] += sum(len({v for o, v in seen if o == offset}) > 1 for offset in offsets)
        doubled = sum(len({o for o, v in seen if v == value}) > 1 for value in values)
        if not self.held.doubles:
            self.counts["duplicated"] += doubled
        polled = {op.a for op in self.polls} | self.in_logs
        self.counts["phantom"] += sum(value not in self.sends for value in polled)
        self.counts["phantom"] += len({op.offset for op in self.ops if op.f is Action.POLL and op.a == -1})
        self.counts["aborted_read"] += sum(
            value in self.sends and all(op.type is Outcome.FAIL for op in self.sends[value]) for value in polled
        )
        early = {
            op.a for op in self.polls if op.a in self.sends and all(op.t_ret < send.t_inv for send in self.sends[op.a])
        }
        facts = [*acked, *(op for op in self.polls if op.a not in gone)]
        self.counts["order"] += len(early) + sum(
            any(fact.t_ret < send.t_inv and fact.offset > send.offset for fact in facts) for send in acked
        )
        if self.held.ordered:
            self.counts["send_order"] += sum(
                any(
                    other.process == send.process and other.t_inv < send.t_inv and other.offset > send.offset
                    for other in acked
                )
                for send in acked
            )
        return seen, doubled

    def judge_replicas(self) -> None:
        at: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        for first, records in self.logs.values():
            for place, record in enumerate(records):
                at[first + place].append(record)
        ends = [first + len(records) for first, records in self.logs.values()]
        differ = {offset for offset, records in at.items() if len(set(records)) > 1}
        differ |= {op.offset for op in self.final if op.offset in at and op.a != at[op.offset][0][0]}
        self.counts["replicas"] += len(differ) + sum(one < max(ends) for one in ends)
        falls = {
            first + place
            for first, records in self.logs.values()
            for place in range(1, len(records))
            if records[place][1] < records[place - 1][1]
        }
        unlike = {
            op.offset
            for op in self.ops
            if op.f is Action.SEND and op.type is Outcome.OK and op.epoch != -1 and op.offset in at
            if at[op.offset][0][0] == op.a and at[op.offset][0][1] not in (-1, op.epoch)
        }
        self.counts["epoch"] += len(falls) + len(unlike)

    # ---------------------------------------------------------------- consumers

    def find_known(self, seen: set[tuple[int, int]]) -> set[int]:
        known = {offset for offset, _ in seen} | {op.offset for op in self.final}
        for first, records in self.logs.values():
            known |= {first + place for place, (value, _) in enumerate(records) if value != -1}
        start = max(self.tail.seen, 0) if self.tail else min((first for first, _ in self.logs.values()), default=0)
        return {offset for offset in known if offset >= start}

    def turns(self) -> list[tuple[Op, Op]]:
        """Returns each operation of a consumer with its next one."""
        moves = [op for op in self.ops if op.f in (Action.POLL, Action.ASSIGN, Action.REVOKE, Action.SEEK)]
        found = []
        for process in {op.process for op in moves}:
            own = [op for op in moves if op.process == process]
            found += list(itertools.pairwise(own))
        return found

    def judge_polls(self, known: set[int]) -> None:
        bad = []
        for one, other in self.turns():
            if one.f is Action.POLL and other.f is Action.POLL:
                if other.offset <= one.offset:
                    bad.append(("nonmonotonic_poll", other))
                elif any(one.offset < offset < other.offset for offset in known):
                    bad.append(("skipped_poll", other))
        for fault in self.faults:
            if fault.reads:
                excused = set[int]()
                kept = []
                for name, op in bad:
                    if op.t_ret >= fault.begun and op.process not in excused:
                        excused.add(op.process)
                    else:
                        kept.append((name, op))
                bad = kept
        for name, _ in bad:
            self.counts[name] += 1

    def judge_groups(self, known: set[int]) -> None:
        groups = {op.a for op in self.ops if op.f in (Action.COMMIT, Action.COMMITTED, Action.ASSIGN) and op.a != -1}
        for group in groups:
            commits = [op for op in self.ops if op.f is Action.COMMIT and op.a == group]
            acked = [op for op in commits if op.type is Outcome.OK]
            started = [op for op in commits if op.type is not Outcome.FAIL]
            looks = [(op.t_inv, op) for op in self.ops if op.f is Action.COMMITTED and op.a == group]
            firsts = [
                (one.t_inv, other)
                for one, other in self.turns()
                if one.f is Action.ASSIGN and one.a == group and other.f is Action.POLL
            ]
            costs_reads = any(fault.reads for fault in self.faults)
            safe = [
                op
                for op in acked
                if not any(f.commits and op.t_inv <= f.injected and op.t_ret >= f.since for f in self.faults)
            ]
            for since, look in [*looks, *([] if costs_reads else firsts)]:
                self.counts["commit_regress"] += any(
                    commit.t_ret < since
                    and commit.offset > look.offset
                    and not any(
                        lower.offset <= look.offset and lower.t_inv <= look.t_ret and end_of(lower) >= commit.t_inv
                        for lower in started
                    )
                    for commit in safe
                )
            self.counts["phantom"] += sum(
                look.offset != -1 and not any(op.offset == look.offset and op.t_inv <= look.t_ret for op in started)
                for _, look in looks
            )
            for _, first in firsts if not costs_reads else ():
                before = [op.offset for op in started if op.t_inv <= first.t_ret]
                if before and any(max(before) <= offset < first.offset for offset in known):
                    self.counts["skipped_poll"] += 1
            self.judge_owners(group, acked)

    def judge_owners(self, group: int, acked: list[Op]) -> None:
        tenures: list[tuple[Op, int]] = []
        for process in {op.process for op in self.ops}:
            moves = [op for op in self.ops if op.process == process and op.f in (Action.ASSIGN, Action.REVOKE)]
            for place, op in enumerate(moves):
                if op.f is Action.ASSIGN and op.a == group:
                    tenures.append((op, moves[place + 1].t_inv if place + 1 < len(moves) else FOREVER))
        for generation in {op.b for op, _ in tenures if op.b != -1}:
            self.counts["two_owners"] += len({op.process for op, _ in tenures if op.b == generation}) - 1
        for commit in acked:
            if commit.b != -1:
                is_late = any(
                    op.b > commit.b and op.process != commit.process and op.t_inv < commit.t_inv for op, _ in tenures
                )
            else:
                is_late = any(
                    mine.process == commit.process
                    and any(
                        other.process != mine.process and mine.t_inv < other.t_inv < min(commit.t_inv, end)
                        for other, _ in tenures
                    )
                    and commit.t_inv < end
                    for mine, end in tenures
                )
            self.counts["two_owners"] += is_late
        for mine, end in tenures if self.held.expelled_after else ():
            later = [op.t_inv for op, _ in tenures if op.process != mine.process and mine.t_inv < op.t_inv < end]
            if not later:
                continue
            alive = [op.t_inv for op in acked if op.process == mine.process and mine.t_inv <= op.t_inv <= min(later)]
            self.counts["two_owners"] += bool(alive) and min(later) - max(alive) < self.held.expelled_after


def judge_queue(ops: Sequence[Op], logs: Mapping[int, Log], held: Held, faults: Sequence[Fault] = ()) -> Judged:
    """See above. `ops` in the order recorded."""
    case = Case(ops, logs, held, faults)
    lost, forgiven, allowed, unseen, expired = case.judge_losses()
    seen, doubled = case.judge_records(lost, forgiven)
    case.judge_replicas()
    known = case.find_known(seen)
    case.judge_polls(known)
    case.judge_groups(known)
    counts: dict[str, Any] = {name: count for name, count in case.counts.items() if count}
    return Judged(counts, len(lost), allowed, unseen, expired, doubled)
