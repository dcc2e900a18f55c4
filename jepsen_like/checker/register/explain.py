"""Findings about registers: the scan decides, the search takes the registers that the scan cannot, both explain.

Every explanation names the operations that cannot be put in order, with the writes that they depend on. Where a chain of
compare-and-sets links two of them and is longer than a witness may be, its middle is left out and the sentence states that.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs
import numpy as np

from jepsen_like.checker.register import scan as register_scan
from jepsen_like.checker.register.scan import LINK, Flaw, FlawFound, RegisterScan
from jepsen_like.checker.rows.columns import Bools, Columns, Ints, count_operations
from jepsen_like.checker.rows.segments import group_starts, ordering
from jepsen_like.checker.search import SEARCHED_OPS_MAX, Register, SearchBounds, search, smallest_contradiction
from jepsen_like.checker.sentences import describe, format_value, unshown
from jepsen_like.checker.verdict import WITNESS_OPS_MAX, Check, Findings, Undecided, Violation, in_order
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

EXPLAINED_MAX: Final = 20
"""Violations explained per call; the others are counted."""
SHRUNK_OPS_MAX: Final = 2000
"""A contradiction found by search in more operations than this is not shrunk further than to its end."""


def check_registers(rows: Columns, bounds: SearchBounds | None = None) -> Findings:
    """Returns everything that is wrong with the registers in `rows`, which hold all operations of each of them."""
    bounds = bounds or SearchBounds()
    outcome = register_scan.scan(rows)
    violated, counts, violations = flaws_explained(outcome)
    undecided: list[Undecided] = []
    by_object = ordering(rows.object)
    begins = np.searchsorted(rows.object[by_object], outcome.objects[outcome.ambiguous], side="left")
    ends = np.searchsorted(rows.object[by_object], outcome.objects[outcome.ambiguous], side="right")
    ends_s = bounds.clock() + bounds.seconds
    for at in np.argsort(ends - begins, kind="stable").tolist():
        name = int(outcome.objects[outcome.ambiguous[at]])
        if ends[at] - begins[at] > SEARCHED_OPS_MAX:
            reason = f"it has to be searched, and it has {ends[at] - begins[at]:,} operations, of {SEARCHED_OPS_MAX:,} at most"
            undecided.append(Undecided(name, reason))
            continue
        of_this = rows.where(by_object[begins[at] : ends[at]])
        left = attrs.evolve(bounds, seconds=max(0.0, ends_s - bounds.clock()))
        match _search(name, of_this, left, explained=len(violations) < EXPLAINED_MAX):
            case Violation() as violation:
                violated.add(name)
                counts[violation.check] = counts.get(violation.check, 0) + 1
                if len(violations) < EXPLAINED_MAX:
                    violations.append(violation)
            case Undecided() as open_question:
                undecided.append(open_question)
            case None:
                pass
            case other:
                assert_never(other)
    changed = acknowledged_changes(rows)
    unread = unexamined = 0
    if len(rows):
        _, looked, ended = looked_and_changed(rows, by_object, changed)
        unread, unexamined = int((ended > looked).sum()), int((looked == -NEVER).sum())
    return attrs.evolve(
        count_operations(rows.type),
        objects=len(outcome.objects),
        violated=frozenset(violated),
        counts=counts,
        violations=tuple(violations),
        undecided=tuple(undecided),
        acked=int(changed.sum()),
        t_first=int(rows.t_inv.min()) if len(rows) else NEVER,
        unread=unread,
        unexamined=unexamined,
    )


def flaws_explained(outcome: RegisterScan) -> tuple[set[int], dict[Check, int], list[Violation]]:
    """Returns what the scan found: the registers, how often each check failed, and the first of them explained."""
    counts: dict[Check, int] = {}
    violations: list[Violation] = []
    for flaw in outcome.found:
        check = check_of(outcome, flaw)
        counts[check] = counts.get(check, 0) + 1
        if len(violations) < EXPLAINED_MAX:
            violations.append(explain(outcome, flaw))
    return {int(outcome.objects[found.object]) for found in outcome.found}, counts, violations


def acknowledged_changes(rows: Columns) -> Bools:
    """Returns which operations changed a register and were acknowledged."""
    changed: Bools = (rows.type == Outcome.OK) & (
        (rows.f == Action.WRITE) | ((rows.f == Action.CAS) & (rows.seen == rows.a))
    )
    return changed


def looked_and_changed(rows: Columns, by_object: Ints, changed: Bools) -> tuple[Ints, Ints, Ints]:
    """Returns the registers, when the last operation that asked after each began, and when its last acknowledged change ended.

    `by_object` sorts the rows, of which there is at least one. Without such an operation it is `-NEVER`.
    """
    denied = (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE) & (rows.f == Action.CAS)
    looks = denied | ((rows.type == Outcome.OK) & ((rows.f == Action.READ) | (rows.f == Action.CAS)))
    objects = rows.object[by_object]
    starts = group_starts(objects)
    looked = np.maximum.reduceat(np.where(looks, rows.t_inv, -NEVER)[by_object], starts)
    ended = np.maximum.reduceat(np.where(changed, rows.t_ret, -NEVER)[by_object], starts)
    return objects[starts], looked, ended


def _search(name: int, rows: Columns, bounds: SearchBounds, *, explained: bool) -> Violation | Undecided | None:
    ops = [rows.op(row) for row in range(len(rows))]
    near = possible = _possible(ops)
    if (unwritten := _never_written(name, ops, possible)) is not None:
        return unwritten
    answer = search(ops, Register(), seconds_max=bounds.seconds, memory_mib_max=bounds.memory_mib, clock=bounds.clock)
    if answer.linearizable:
        return None
    if answer.failed is None:
        return Undecided(name, f"it had to be searched, and the search reached its bound: {answer.reason}")
    if explained and len(ops) <= SHRUNK_OPS_MAX:
        near = list(
            smallest_contradiction(possible, Register(), answer.failed, seconds_max=bounds.seconds, clock=bounds.clock)
        )
    before = sorted((op for op in near if op.t_inv <= answer.failed.t_ret), key=lambda op: op.t_inv)
    kept = [answer.failed, *[op for op in reversed(before) if op != answer.failed]]
    kept[1:1] = _written_later(possible, kept)
    return Violation(
        Check.LINEARIZABLE,
        name,
        f"register {name}: no order explains the {describe(answer.failed)} together with these operations{unshown(kept)}",
        in_order(kept),
    )


def _never_written(name: int, ops: Sequence[Op], possible: Sequence[Op]) -> Violation | None:
    """Returns what is wrong if an operation saw a value that none which may have happened wrote: the first one."""
    put = {NONE, None} | {Register().put(op) for op in possible if op.type is not Outcome.FAIL}
    seers = [op for op in ops if op.type is Outcome.OK and Register().value_seen(op) not in put]
    if not seers:
        return None
    seer = min(seers, key=lambda op: op.t_inv)
    value = Register().value_seen(seer)
    writers = [op for op in ops if _would_write(op) == value]
    refused = [op for op in writers if op.type is Outcome.FAIL]
    if refused:
        said = f"{describe(seer)}, though the {describe(refused[0])} was answered as certainly not done"
        return Violation(Check.ABORTED_READ, name, f"register {name}: {said}", in_order([refused[0], seer]))
    if writers:
        said = f"{describe(seer)}, but the {describe(writers[0])} cannot have happened: nothing wrote what it expected"
    else:
        said = f"{describe(seer)}, but no client ever wrote {value}"
    return Violation(Check.PHANTOM, name, f"register {name}: {said}", in_order([*writers[:1], seer]))


def _possible(ops: Sequence[Op]) -> list[Op]:
    """Without swaps of unknown outcome that cannot have happened, because nothing wrote what they expected to replace."""
    left = list(ops)
    while True:
        put = {NONE} | {Register().put(op) for op in left if op.type is not Outcome.FAIL}
        kept = [op for op in left if op.f is not Action.CAS or op.type is not Outcome.INFO or op.a in put]
        if len(kept) == len(left):
            return left
        left = kept


def _written_later(ops: Sequence[Op], kept: Sequence[Op]) -> list[Op]:
    """Returns who wrote what these saw, and none of these wrote: operations that began when the contradiction was complete."""
    missing = {Register().value_seen(op) for op in kept} - {Register().put(op) for op in kept} - {None, NONE}
    writers = [op for op in ops if op.type is not Outcome.FAIL and Register().put(op) in missing]
    return list({Register().put(op): op for op in sorted(writers, key=lambda op: -op.t_inv)}.values())


def _would_write(op: Op) -> int | None:
    """The value that it puts if it happens, whether it did or not; None if it changes nothing."""
    return Register().put(attrs.evolve(op, type=Outcome.INFO) if op.type is Outcome.FAIL else op)


def check_of(outcome: RegisterScan, found: FlawFound) -> Check:
    """Returns the name under which a flaw is reported."""
    match found.flaw:
        case Flaw.UNWRITTEN:
            return Check.ABORTED_READ if outcome.refused_writers(found.where) else Check.PHANTOM
        case Flaw.REPLACED_TWICE:
            return Check.LOST_UPDATE
        case Flaw.CYCLE:
            return Check.ORDER
        case Flaw.INSIDE_CHAIN:
            early, late = _inside_pair(outcome, found)
            future = outcome.entries.block[early] == outcome.entries.block[late]
            return Check.ORDER if future else Check.STALE
        case Flaw.CHAINS_OVERLAP:
            return Check.STALE
        case _:
            assert_never(found.flaw)


def explain(outcome: RegisterScan, found: FlawFound) -> Violation:
    """Returns a flaw as a violation: its operations and its sentence."""
    name = int(outcome.objects[found.object])
    match found.flaw:
        case Flaw.UNWRITTEN:
            sentence, ops = _unwritten(outcome, found)
        case Flaw.REPLACED_TWICE:
            sentence, ops = _replaced_twice(outcome, found)
        case Flaw.CYCLE:
            sentence, ops = _cycle(outcome, found)
        case Flaw.INSIDE_CHAIN:
            sentence, ops = _inside_chain(outcome, found)
        case Flaw.CHAINS_OVERLAP:
            sentence, ops = _chains_overlap(outcome, found)
        case _:
            assert_never(found.flaw)
    return Violation(check_of(outcome, found), name, f"register {name}: {sentence}", in_order(ops))


def _entries_of(outcome: RegisterScan, block: int) -> Ints:
    """The entries of one block, by start."""
    mine = outcome.entries_of_block(block)
    return mine[np.argsort(outcome.entries.start[mine], kind="stable")]


def _op(outcome: RegisterScan, entry: int) -> Op:
    return outcome.rows.op(int(outcome.entries.row[entry]))


def _writer(outcome: RegisterScan, block: int) -> list[Op]:
    row = int(outcome.blocks.writer[block])
    return [] if row == NONE else [outcome.rows.op(row)]


def _successors(outcome: RegisterScan, block: int) -> list[Op]:
    """The compare-and-sets that replaced a block's value."""
    blocks = outcome.blocks
    children = np.flatnonzero((blocks.parent == block) & (np.arange(len(blocks.parent)) != block))
    return [op for child in children for op in _writer(outcome, int(child))]


def _unwritten(outcome: RegisterScan, found: FlawFound) -> tuple[str, list[Op]]:
    refused = [outcome.rows.op(row) for row in outcome.refused_writers(found.where)[:2]]
    witnesses = [_op(outcome, int(entry)) for entry in _entries_of(outcome, found.where)]
    witnesses += _successors(outcome, found.where)
    value = int(outcome.blocks.value[found.where])
    if refused:
        return (
            f"{describe(witnesses[0])}, though the {describe(refused[0])} was answered as certainly not done",
            [*refused[:1], witnesses[0], *_proofs(outcome, witnesses[0])],
        )
    return f"{describe(witnesses[0])}, but no client ever wrote {value}", [
        witnesses[0],
        *_proofs(outcome, witnesses[0]),
    ]


def _replaced_twice(outcome: RegisterScan, found: FlawFound) -> tuple[str, list[Op]]:
    both = _successors(outcome, found.where)[:2]
    value = int(outcome.blocks.value[found.where])
    proofs = [op for swap in both for op in _proofs(outcome, swap)]
    return (
        f"the {describe(both[0])} and the {describe(both[1])} both replaced {format_value(value)}, which was written once",
        [*_writer(outcome, found.where), *both, *proofs],
    )


def _proofs(outcome: RegisterScan, op: Op) -> list[Op]:
    """Returns what shows that an operation of unknown outcome happened: who saw its value, and what shows that this happened."""
    proofs: list[Op] = []
    while op.type is Outcome.INFO:
        blocks = outcome.blocks
        number = int(np.searchsorted(outcome.objects, op.object))
        value = op.b if op.f is Action.CAS else op.a
        block = int(np.flatnonzero((blocks.object == number) & (blocks.value == value))[0])
        reads = [entry for entry in _entries_of(outcome, block) if outcome.entries.place[entry] % 2]
        seers = [_op(outcome, int(entry)) for entry in reads] + _successors(outcome, block)
        seers.sort(key=lambda one: one.type is Outcome.INFO)
        if not seers or seers[0] in proofs or seers[0].process == LINK:
            break
        op = seers[0]
        proofs.append(op)
    return proofs


def _all_proofs(outcome: RegisterScan, ops: Sequence[Op]) -> list[Op]:
    return [proof for op in ops for proof in _proofs(outcome, op)]


def _shown_of_chain(outcome: RegisterScan, chain: int) -> Ints:
    """The entries of a chain that are operations."""
    mine = outcome.entries_of_chain(chain)
    operations: Ints = mine[outcome.rows.process[outcome.entries.row[mine]] != LINK]
    return operations


def _cycle(outcome: RegisterScan, found: FlawFound) -> tuple[str, list[Op]]:
    block, swaps = found.where, list[Op]()
    for _ in range(len(outcome.blocks.parent)):
        swaps += _writer(outcome, block)
        block = int(outcome.blocks.parent[block])
        if block == found.where:
            break
    swaps = [op for op in swaps if op.process != LINK]
    values = ", ".join(f"{format_value(op.a)} to {op.b}" for op in swaps[:WITNESS_OPS_MAX])
    swaps += _all_proofs(outcome, swaps)
    return f"these compare-and-sets replaced each other's value in a circle: {values}{unshown(swaps)}", swaps


def _inside_pair(outcome: RegisterScan, found: FlawFound) -> tuple[int, int]:
    """The entry that ended too early and the nearest entry put before it that had not begun."""
    entries = outcome.entries
    chain, place = outcome.place_chain[found.where], outcome.place[found.where]
    mine = _shown_of_chain(outcome, int(chain))
    here = mine[entries.place[mine] == place]
    early = int(here[np.argmin(entries.end[here])])
    put_before = mine[(entries.place[mine] < place) & (entries.start[mine] > entries.end[early])]
    late = int(put_before[np.argmax(entries.place[put_before])])
    return early, late


def _inside_chain(outcome: RegisterScan, found: FlawFound) -> tuple[str, list[Op]]:
    early, late = _inside_pair(outcome, found)
    entries = outcome.entries
    first, second = _op(outcome, early), _op(outcome, late)
    ops = [first, second, *_path(outcome, int(entries.block[late]), int(entries.block[early]))]
    ops += _all_proofs(outcome, ops)
    if entries.block[early] == entries.block[late]:
        return f"{describe(first)} had ended before the {describe(second)} began", ops
    return (
        f"the {describe(first)} had ended before the {describe(second)} began, but its value replaced the older one{unshown(ops)}",
        ops,
    )


def _path(outcome: RegisterScan, older: int, newer: int) -> list[Op]:
    """The writers from one block of a chain to a later one, both included."""
    block, writers = newer, _writer(outcome, newer)
    for _ in range(int(outcome.blocks.depth[newer] - outcome.blocks.depth[older])):
        block = int(outcome.blocks.parent[block])
        writers += _writer(outcome, block)
    return [op for op in writers if op.process != LINK]


def _chains_overlap(outcome: RegisterScan, found: FlawFound) -> tuple[str, list[Op]]:
    """One of each chain ended before one of the other began, both ways round; the operations nearest in their chains."""
    entries = outcome.entries
    one, other = (_shown_of_chain(outcome, chain) for chain in (found.where, found.other))
    other_ended, other_began = int(entries.end[other].min()), int(entries.start[other].max())
    late = one[entries.start[one] > other_ended]
    ended = one[entries.end[one] < other_began]
    first, last = _nearest(outcome, ended, late, found.where)
    last_start = int(entries.start[last])
    first_end = 0 if first == NONE else int(entries.end[first])
    other_last, other_first = _nearest(
        outcome, other[entries.start[other] > first_end], other[entries.end[other] < last_start], found.other
    )
    writers = _link(outcome, found.where, first, last)
    more = _link(outcome, found.other, other_last, other_first)
    began, before = _op(outcome, last), _op(outcome, other_first)
    cause = f"the {describe(before)} had ended before the {describe(began)} began"
    ops = [began, before]
    if first == NONE:
        ops += [*more, *writers]
        ops += _all_proofs(outcome, ops)
        return f"{cause}, but the former's value came later{unshown(ops)}", ops
    earlier, between = _op(outcome, first), _op(outcome, other_last)
    ops += [earlier, between, *writers, *more]
    ops += _all_proofs(outcome, ops)
    return (
        f"{cause}, and the {describe(earlier)} had ended before the {describe(between)} began, "
        f"so neither value can have come first{unshown(ops)}",
        ops,
    )


def _nearest(outcome: RegisterScan, some: Ints, others: Ints, chain: int) -> tuple[int, int]:
    """An entry of each whose blocks are nearest in their chain. Only the unseen first write of all has no entry: `NONE`."""
    depth = outcome.blocks.depth[outcome.entries.block]
    others = others[np.argsort(depth[others], kind="stable")]
    if outcome.blocks.value[chain] == NONE:
        return NONE, int(others[0])
    some = some[np.argsort(depth[some], kind="stable")]
    at = np.searchsorted(depth[others], depth[some])
    candidates = [(some, others[np.clip(at + shift, 0, len(others) - 1)]) for shift in (-1, 0)]
    pairs = np.concatenate([np.stack(pair, axis=1) for pair in candidates])
    gaps = np.abs(depth[pairs[:, 0]] - depth[pairs[:, 1]])
    best = pairs[int(np.argmin(gaps))]
    return int(best[0]), int(best[1])


def _link(outcome: RegisterScan, chain: int, some: int, other: int) -> list[Op]:
    """The writers between two entries of a chain (`NONE`: its root)."""
    ends = [chain if entry == NONE else int(outcome.entries.block[entry]) for entry in (some, other)]
    ends.sort(key=lambda block: int(outcome.blocks.depth[block]))
    return _path(outcome, ends[0], ends[1])
