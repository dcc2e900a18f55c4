"""Infers from one register how the transactions that write and read it depend on each other.

A read names its writer, but nothing names the version before it. An order of versions follows from what the level promises: the first
state comes before all others; a transaction that reads one version and writes another puts that behind it; a level that keeps
the order of processes, or of real time, keeps it for each register. Where these contradict each other, the level is violated.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from jepsen_like.checker.cycles.graph import Edge, Edges, Kind, components, precedence
from jepsen_like.checker.cycles.levels import KeptOrder
from jepsen_like.checker.cycles.reads import KeyFacts, KeyStep, KeySteps, findings_of
from jepsen_like.checker.found import Found
from jepsen_like.checker.sentences import format_value
from jepsen_like.checker.verdict import Check, Findings
from jepsen_like.history.ops import NONE, Op, Outcome

Versions = dict[int, dict[int, None]]
"""By version the versions that certainly come after it."""


def judge_register(one: KeySteps, found: Found, order: KeptOrder) -> tuple[Findings, KeyFacts]:
    """Returns what is wrong with one register, and what depends on what."""
    for steps in one.happened:
        _check_internal(one, found, steps)
    for steps in one.happened:
        for step in steps:
            if step.is_read:
                _check_read(one, found, step)
    _check_updates(one, found)
    versions = _versions(one, order)
    cyclic = components(list(versions), lambda version: list(versions.get(version, ())))
    for part in cyclic:
        _tell_cyclic(one, found, part)
    edges = [] if one.twice else list(_dependencies(one, {} if cyclic else versions))
    writers = [step.txn for step in one.writer.values() if step.type is Outcome.OK]
    return findings_of(one, found), KeyFacts(one.nodes(), Edges.of(edges), np.unique(np.array(writers, np.int64)))


def _value(step: KeyStep) -> int:
    return step.values[0] if step.values else NONE


def _op(one: KeySteps, step: KeyStep) -> Op:
    doubt = {Outcome.FAIL: " (refused)", Outcome.INFO: " (outcome unknown)"}.get(step.type, "")
    return one.op(step, f"{'read' if step.is_read else 'write'} of {format_value(_value(step))}{doubt}")


def _check_internal(one: KeySteps, found: Found, steps: Sequence[KeyStep]) -> None:
    """A transaction sees what it wrote, what it has read does not change under it, and it sees nothing that it has yet to write."""
    before: KeyStep | None = None
    for at, step in enumerate(steps):
        process = int(one.rows.process[step.row])
        later = {_value(each) for each in steps[at:] if not each.is_read}
        if step.is_read and before is not None and _value(step) != _value(before):
            did = "read" if before.is_read else "wrote"
            said = f"process {process} {did} {format_value(_value(before))} and then read {format_value(_value(step))} in one transaction"
            found.add(Check.INTERNAL, said, [_op(one, before), _op(one, step)])
        elif step.is_read and _value(step) in later and before is None:
            said = f"process {process} read {_value(step)} in the transaction that wrote it only later"
            found.add(Check.INTERNAL, said, [_op(one, step)])
        before = step


def _check_read(one: KeySteps, found: Found, read: KeyStep) -> None:
    """A value that is read was written by a transaction that may have happened, as its last word."""
    value = _value(read)
    writer = one.writer.get(value)
    if value == NONE:
        return
    if writer is None:
        found.add(Check.PHANTOM, f"{value} was read, and no transaction wrote it", [_op(one, read)])
    elif writer.type is Outcome.FAIL:
        said = f"{value} was read, and the transaction that wrote it was refused"
        found.add(Check.ABORTED_READ, said, [_op(one, writer), _op(one, read)])
    elif writer.txn != read.txn and (final := _last_write(one.of[writer.txn])) is not None and _value(final) != value:
        said = f"{value} was read, which the transaction that wrote it replaced by {_value(final)}"
        found.add(Check.INTERMEDIATE_READ, said, [_op(one, writer), _op(one, final), _op(one, read)])


def _check_updates(one: KeySteps, found: Found) -> None:
    """Of transactions that read one version and write another, one at most happened."""
    updates = dict[int, list[KeyStep]]()
    for steps in one.happened:
        if steps[0].is_read and _last_write(steps) is not None:
            updates.setdefault(_value(steps[0]), []).append(steps[0])
    for value, reads in updates.items():
        if len(reads) > 1:
            said = f"{len(reads)} transactions read {format_value(value)} and replaced it"
            found.add(Check.LOST_UPDATE, said, [_op(one, read) for read in reads[:3]])


def _last_write(steps: Sequence[KeyStep]) -> KeyStep | None:
    """Returns the last write of a transaction."""
    return next((step for step in reversed(steps) if not step.is_read), None)


def _tell_cyclic(one: KeySteps, found: Found, part: Sequence[int]) -> None:
    ops = [_op(one, one.writer[value]) for value in part if value in one.writer]
    shown = ", ".join(format_value(value) for value in sorted(part)[:5])
    found.add(Check.CYCLIC_VERSIONS, f"each of the versions {shown} comes before the others", ops)


# -------------------------------------------------------------------- the order of versions


def _versions(one: KeySteps, order: KeptOrder) -> Versions:
    """Returns which versions come before which, as far as it is certain."""
    found = Versions()
    visits = [
        (steps, _value(steps[0]), _value(_last_write(steps) or steps[0]))
        for steps in one.of.values()
        if steps[0].type is Outcome.OK
    ]

    def put(before: int, after: int) -> None:
        if before != after:
            found.setdefault(before, {})[after] = None

    for steps, came, left in visits:
        if steps[0].is_read:
            put(came, left)
    rows = one.rows
    begin = [int(rows.t_inv[steps[0].row]) for steps, _, _ in visits]
    end = [int(rows.t_ret[steps[0].row]) for steps, _, _ in visits]
    by_begin = sorted(range(len(visits)), key=lambda at: begin[at])
    if order is KeptOrder.REALTIME:
        for before, after in precedence(by_begin, begin, end):
            put(visits[before][2], visits[after][1])
    if order is not KeptOrder.NONE:
        last = dict[int, int]()
        for at in by_begin:
            process = int(rows.process[visits[at][0][0].row])
            if process in last:
                put(visits[last[process]][2], visits[at][1])
            last[process] = at
    return _with_initial(one, found)


def _with_initial(one: KeySteps, found: Versions) -> Versions:
    """Put the first state before every version that nothing else comes before."""
    there = dict.fromkeys(_value(final) for steps in one.of.values() if (final := _last_write(steps)) is not None)
    later = {after for some in found.values() for after in some}
    for version in there:
        if version not in later and one.writer[version].type is not Outcome.FAIL:
            found.setdefault(NONE, {})[version] = None
    return found


def _dependencies(one: KeySteps, versions: Versions) -> Iterator[Edge]:
    """Yields what depends on what."""
    key = one.number
    readers = dict[int, list[int]]()
    for steps in one.happened:
        if steps[0].is_read:
            readers.setdefault(_value(steps[0]), []).append(steps[0].txn)

    def writer_of(version: int) -> int | None:
        step = one.writer.get(version)
        if step is None or step.type is Outcome.FAIL:
            return None
        final = _last_write(one.of[step.txn])
        return step.txn if final is not None and _value(final) == version else None

    for version, some in readers.items():
        if (writer := writer_of(version)) is not None:
            yield from (Edge(writer, reader, Kind.WR, key, version, version) for reader in some if reader != writer)
    for before, after in ((before, after) for before, some in versions.items() for after in some):
        next_writer = writer_of(after)
        if next_writer is None:
            continue
        writer = writer_of(before)
        if writer is not None and writer != next_writer:
            yield Edge(writer, next_writer, Kind.WW, key, before, after)
        for reader in readers.get(before, ()):
            if reader != next_writer:
                yield Edge(reader, next_writer, Kind.RW, key, before, after)
