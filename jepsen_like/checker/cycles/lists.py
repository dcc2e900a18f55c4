"""Infers from one list how the transactions that append to it and read it depend on each other.

The longest read is the order of its versions: each version is a beginning of it. Elements that no read has come after all others, in an
order that is not known. From that order the dependencies follow, without any guess.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from jepsen_like.checker.cycles.graph import Edge, Edges, Kind
from jepsen_like.checker.cycles.reads import KeyFacts, KeyStep, KeySteps, findings_of
from jepsen_like.checker.found import Found
from jepsen_like.checker.sentences import format_values
from jepsen_like.checker.verdict import Check, Findings
from jepsen_like.history.ops import NONE, Op, Outcome


def judge_list(one: KeySteps, found: Found) -> tuple[Findings, KeyFacts]:
    """Returns what is wrong with one list, and what depends on what."""
    reads = [(steps, step) for steps in one.happened for step in steps if step.is_read]
    for steps in one.happened:
        _check_internal(one, found, steps)
    for steps, read in reads:
        _check_read(one, found, steps, read)
    longest = max((read for _, read in reads), key=lambda read: len(read.values), default=None)
    order = list(dict.fromkeys(longest.values)) if longest is not None else []
    if longest is not None:
        _check_orders(one, found, [read for _, read in reads], longest)
        _check_dirty(one, found, longest)
    _check_updates(one, found)
    edges = [] if one.twice else _dependencies(one, order)
    writers = [step.txn for step in one.writer.values() if step.type is Outcome.OK]
    return findings_of(one, found), KeyFacts(one.nodes(), Edges.of(edges), np.unique(np.array(writers, np.int64)))


def _read(one: KeySteps, step: KeyStep) -> Op:
    return one.op(step, f"read of {format_values(step.values)}")


def _append(one: KeySteps, step: KeyStep) -> Op:
    doubt = {Outcome.FAIL: " (refused)", Outcome.INFO: " (outcome unknown)"}.get(step.type, "")
    return one.op(step, f"append of {step.values[0]}{doubt}")


def _check_internal(one: KeySteps, found: Found, steps: Sequence[KeyStep]) -> None:
    """A transaction sees its own appends, what it has read does not change under it, and it sees nothing that it has yet to append."""
    seen: tuple[int, ...] | None = None
    own = list[int]()
    to_come = [step.values[0] for step in steps if not step.is_read]
    for step in steps:
        if not step.is_read:
            own.append(step.values[0])
            to_come.remove(step.values[0])
            continue
        tail = step.values[len(step.values) - len(own) :] if len(step.values) >= len(own) else ()
        expected = f"{format_values((*(seen or ()), *own))}" if seen is not None else f"a list that ends with {own}"
        process = int(one.rows.process[step.row])
        if ahead := set(step.values) & set(to_come):
            said = f"process {process} read {min(ahead)} in the transaction that appended it only later"
            found.add(Check.INTERNAL, said, [_read(one, step)])
        elif tail != tuple(own) or (seen is not None and step.values != (*seen, *own)):
            said = f"process {process} read {format_values(step.values)} in a transaction that had to see {expected}"
            found.add(Check.INTERNAL, said, [_read(one, step)])
        seen = step.values[: len(step.values) - len(own)] if tail == tuple(own) else seen


def _check_read(one: KeySteps, found: Found, steps: Sequence[KeyStep], read: KeyStep) -> None:
    """Each element was appended, by a transaction that may have happened, once, and as the last one of that."""
    if len(set(read.values)) < len(read.values):
        again = next(value for at, value in enumerate(read.values) if value in read.values[:at])
        writers = [_append(one, one.writer[again])] if again in one.writer else []
        said = f"{again} was appended once, and is there twice in {format_values(read.values)}"
        found.add(Check.DUPLICATED, said, [*writers, _read(one, read)])
    for value in dict.fromkeys(read.values):
        writer = one.writer.get(value)
        if writer is None:
            found.add(Check.PHANTOM, f"{value} was read, and no transaction appended it", [_read(one, read)])
        elif writer.type is Outcome.FAIL:
            said = f"{value} was read, and the transaction that appended it was refused"
            found.add(Check.ABORTED_READ, said, [_append(one, writer), _read(one, read)])
    if read.values and (last := one.writer.get(read.values[-1])) is not None and last.txn != read.txn:
        appended = [step for step in one.of[last.txn] if not step.is_read]
        if last.values != appended[-1].values:
            said = (
                f"a read ends with {last.values[0]}, after which the same transaction appended {appended[-1].values[0]}"
            )
            found.add(Check.INTERMEDIATE_READ, said, [_append(one, last), _append(one, appended[-1]), _read(one, read)])


def _check_orders(one: KeySteps, found: Found, reads: Sequence[KeyStep], longest: KeyStep) -> None:
    """Each list that was read is a beginning of the longest one."""
    told = set[tuple[int, ...]]()
    for read in reads:
        if read.values not in told and read.values != longest.values[: len(read.values)]:
            told.add(read.values)
            said = f"{format_values(read.values)} is no beginning of {format_values(longest.values)}"
            found.add(Check.INCOMPATIBLE_ORDER, said, [_read(one, read), _read(one, longest)])


def _check_dirty(one: KeySteps, found: Found, longest: KeyStep) -> None:
    """No transaction that happened appended to what a refused one had left."""
    refused: KeyStep | None = None
    for value in longest.values:
        writer = one.writer.get(value)
        if writer is not None and writer.type is Outcome.FAIL:
            refused = refused or writer
        elif writer is not None and writer.type is Outcome.OK and refused is not None:
            said = f"{value} was appended behind {refused.values[0]}, and the transaction of that was refused"
            ops = [_append(one, refused), _append(one, writer), _read(one, longest)]
            found.add(Check.DIRTY_UPDATE, said, ops)
            return


def _check_updates(one: KeySteps, found: Found) -> None:
    """Of transactions that read one version and append to it, one at most happened."""
    updates = dict[tuple[int, ...], list[KeyStep]]()
    for steps in one.happened:
        if steps[0].is_read and any(not step.is_read for step in steps):
            updates.setdefault(steps[0].values, []).append(steps[0])
    for values, reads in updates.items():
        if len(reads) > 1:
            said = f"{len(reads)} transactions read {format_values(values)} and appended to it"
            found.add(Check.LOST_UPDATE, said, [_read(one, read) for read in reads[:3]])


def _dependencies(one: KeySteps, order: Sequence[int]) -> list[Edge]:
    """Returns what depends on what, with `order` as the order of the versions."""
    key, edges = one.number, list[Edge]()
    chain = [step for value in order if (step := one.writer.get(value)) is not None and step.type is not Outcome.FAIL]
    place = {step.values[0]: at for at, step in enumerate(chain)}
    unseen = [step for value, step in one.writer.items() if value not in place and step.type is not Outcome.FAIL]

    def link(source: int, step: KeyStep, kind: Kind, old: int, new: int) -> None:
        if source != step.txn:
            edges.append(Edge(source, step.txn, kind, key, old, new))

    for before, after in itertools.pairwise(chain):
        link(before.txn, after, Kind.WW, before.values[0], after.values[0])
    for step in unseen if chain else ():
        link(chain[-1].txn, step, Kind.WW, chain[-1].values[0], step.values[0])
    for steps in one.happened:
        own = {step.values[0] for step in steps if not step.is_read}
        read = next((step for step in steps if step.is_read), None)
        if read is None:
            continue
        others = [value for value in read.values if value not in own]
        last = others[-1] if others else NONE
        if last in place:
            link(chain[place[last]].txn, read, Kind.WR, last, last)
        is_first = read is steps[0]
        if not is_first or read.values != tuple(order[: len(read.values)]):
            continue
        # Of what was refused nothing follows; the next version is that of the next transaction that may have happened.
        following = next((value for value in order[len(read.values) :] if value in place), None)
        for step in [chain[place[following]]] if following is not None else unseen:
            link(read.txn, step, Kind.RW, last, step.values[0])
    return edges
