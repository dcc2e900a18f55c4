"""`python -m tests.simulation.marks`: every branch of the pure ring, shown visited by seeds of the simulator.

A *mark* is one way out of one decision: the condition held or it did not, a case was taken, a loop ran or did not run.
They are found in the source, so none can be forgotten, and named by the source's own words: module, function, condition,
outcome. The modules are compiled with a counter at each mark; the files themselves have no trace of it.

Prints each mark with its visits and the first seed that came by, rarest first. Exit status 1 if one was never visited that
`UNVISITED` does not excuse, or if one was visited that it does.
"""

import ast
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType

import attrs
import click

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "raft.changes",
    "raft.core",
    "raft.interruptions",
    "raft.log_view",
    "raft.membership",
    "raft.outbox",
    "raft.progress",
    "raft.quorum",
    "raft.read_index",
    "raft.recall",
)
COUNTERS = "__visits__"
"""The name under which an instrumented module finds its counters."""
CHUNK_SEEDS = 8

UNVISITED: Mapping[str, str] = {
    "core.step: isinstance(self.role, Leader): no": "a driver asks only a leader to step down",
    "core.step: sender != self.node_id and objection_to(self, sender, message) is None: no": "nonsense from the wire",
    "core._on_snapshot_received: reply.received < len(start.snapshot): no": (
        "nonsense from the wire: the last part of a snapshot is answered by AppendAccepted"
    ),
    "core._on_message: message.term > self.term + TERM_STEP_MAX and self._learns_term_from(message): yes": (
        "after years without a node, or after nonsense; a_term_far_ahead_is_approached_by_one_step_a_message shows it"
    ),
    "core._learns_term_from": "likewise",
    "recall.receive: message: is AppendEntries": (
        "a simulated node has a standing before any leader sends it entries; tests/raft/test_peers.py shows it"
    ),
    "core.hurry": "for programs, which know when a group is to begin",
    "core._begin_after: recall.campaigns_next: yes": "likewise",
    "core._on_loaded: self.log.matches(entries[-1].index, entries[-1].term): no": (
        "a driver loads at once; entries_loaded_for_an_earlier_leadership_are_dropped shows it"
    ),
    "core._on_loaded: not isinstance(leader, Leader) or peer not in leader.progress: yes": "likewise",
    "core._on_loaded: progress.next_index <= self.log.start.index: yes": (
        "a driver loads at once; entries_trimmed_while_they_are_loaded_are_not_sent shows it"
    ),
    "log_view.of": "for searches and scripts; a node restores its view",
    "membership._as_frozenset: not isinstance(ids, set | frozenset | list | tuple): yes": "refuses a wrong call",
    "membership.__attrs_post_init__: not self.voters or min(self.nodes) < 1: yes": "refuses a wrong setting",
    "membership.decode: _unpack(data): is _": "nonsense from the wire",
    "membership.decode: not voters or len(members) != len(rows) or set(learners) & {*voters, *outgoing}: yes": "likewise",
    "membership._is_member: row: is _": "likewise",
    "membership.decode_stored: not isinstance(rows, list) or not rows: yes": "likewise",
    "membership.decode_stored: row: is _": "likewise",
    "membership.make_change: not 1 <= node < 2 ** 31 or len(address) > ADDRESS_LENGTH_MAX or len(present.nodes | {node}) > MEMBERS_MAX: yes": (
        "refuses a wrong call"
    ),
}
"""Marks, or functions with all their marks, that no seed can visit, and why the source has them."""


def insert_marks(module: str, source: str) -> tuple[ast.Module, list[str]]:
    """Returns the syntax tree of `source` with a counter at each mark, and the names of the marks in that order."""
    marker = _Marker(module)
    tree = marker.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), marker.names


class _Marker(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self.names: list[str] = []
        self._module = module.rpartition(".")[2]
        self._function: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Marks are named by their function."""
        self._function.append(node.name)
        self.generic_visit(node)
        self._function.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        """Held, did not hold."""
        if self._function:
            condition = ast.unparse(node.test)
            held, failed = self._mark(condition, "yes"), self._mark(condition, "no")
            self.generic_visit(node)
            node.body, node.orelse = [held, *node.body], [failed, *node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        """As `if`; the counter rides along in a tuple."""
        condition = ast.unparse(node.test)
        held, failed = self._number(condition, "yes"), self._number(condition, "no")
        self.generic_visit(node)
        node.body, node.orelse = _count_visit(held, node.body), _count_visit(failed, node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        """Ran; that it ended is no news."""
        body = self._mark(f"while {ast.unparse(node.test)}", "runs")
        self.generic_visit(node)
        node.body = [body, *node.body]
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        """Ran."""
        body = self._mark(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}", "runs")
        self.generic_visit(node)
        node.body = [body, *node.body]
        return node

    def visit_Match(self, node: ast.Match) -> ast.Match:
        """Each case, but for the one that cannot be."""
        subject = ast.unparse(node.subject)
        for case in node.cases:
            if "assert_never" not in ast.unparse(case):
                mark = self._mark(subject, f"is {ast.unparse(case.pattern).partition('(')[0]}")
                for statement in case.body:
                    self.visit(statement)
                case.body = [mark, *case.body]
        return node

    def _mark(self, what: str, outcome: str) -> ast.stmt:
        return ast.parse(f"{COUNTERS}[{self._number(what, outcome)}] += 1").body[0]

    def _number(self, what: str, outcome: str) -> int:
        name = f"{self._module}.{'.'.join(self._function)}: {what}: {outcome}"
        twins = sum(known == name or known.startswith(f"{name} #") for known in self.names)
        self.names.append(f"{name} #{twins + 1}" if twins else name)
        return len(self.names) - 1


def _count_visit(number: int, value: ast.expr) -> ast.expr:
    counting = ast.parse(f"({COUNTERS}.__setitem__({number}, {COUNTERS}[{number}] + 1), 0)[1]", mode="eval").body
    assert isinstance(counting, ast.Subscript)
    assert isinstance(counting.value, ast.Tuple)
    counting.value.elts[1] = value
    return counting


@attrs.frozen
class Instrumented:
    """One module under observation: the names of its marks and the live counters."""

    names: list[str]
    visits: list[int]
    code: CodeType


@functools.cache
def instrument_module(module: str) -> Instrumented:
    """Compiles a module with counters, once a process."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    tree, names = insert_marks(module, path.read_text())
    return Instrumented(names, [0] * len(names), compile(tree, str(path), "exec"))


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """The code with the counters in it."""
        return instrument_module(fullname).code

    def exec_module(self, module: ModuleType) -> None:
        """The counters first."""
        setattr(module, COUNTERS, instrument_module(module.__name__).visits)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only what is observed."""
        if fullname not in MODULES:
            return None
        file = str(ROOT.joinpath(*fullname.split(".")).with_suffix(".py"))
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file))


def install() -> None:
    """Let this process import the observed modules; it must not have imported the plain ones yet."""
    assert not any(module in sys.modules for module in MODULES), "raft is imported already"
    sys.meta_path.insert(0, _Finder())


# ---------------------------------------------------------------- counting


@attrs.define
class Visits:
    """The visits of one mark."""

    count: int = 0
    first_seed: int | None = None


def play_chunk(seeds: Sequence[int]) -> list[tuple[int, dict[str, int]]]:
    """Each seed with its visits, in a process that has called `install`."""
    from jepsen_like.simulation.raft.model import RAFT  # the observed modules come with it

    played: list[tuple[int, dict[str, int]]] = []
    for seed in seeds:
        before = {module: list(instrument_module(module).visits) for module in MODULES}
        violations = RAFT.play(seed).violations
        assert not violations, f"seed {seed}: {violations[0]}"
        played.append((seed, {name: visits for name, visits in _since(before) if visits}))
    return played


def _since(before: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    for module, old in before.items():
        seen = instrument_module(module)
        for name, earlier, now in zip(seen.names, old, seen.visits, strict=True):
            yield name, now - earlier


def count(seeds: range, jobs: int, *, until_visited: bool = False) -> tuple[dict[str, Visits], int]:
    """The visits of every mark in these seeds, and how many were played: all, or only until no mark is missed."""
    table = {name: Visits() for module in MODULES for name in instrument_module(module).names}
    missed = {name for name in table if not reason(name, UNVISITED)}
    chunks = [seeds[at : at + CHUNK_SEEDS] for at in range(0, len(seeds), CHUNK_SEEDS)]
    played = 0
    with multiprocessing.get_context("spawn").Pool(jobs, install) as pool:
        for chunk in pool.imap(play_chunk, chunks):
            for seed, visited in chunk:
                for name, visits in visited.items():
                    table[name].count += visits
                    if table[name].first_seed is None:
                        table[name].first_seed = seed
                missed -= visited.keys()
                played += 1
            if until_visited and not missed:
                break
    return table, played


def failings(table: Mapping[str, Visits], excused: Mapping[str, str]) -> list[str]:
    """Returns the faults of the table, as sentences."""
    wrong = [
        f"never visited: {name}" for name, visits in table.items() if not visits.count and not reason(name, excused)
    ]
    wrong += [
        f"excused, and visited: {name}" for name, visits in table.items() if visits.count and reason(name, excused)
    ]
    known = {*table, *(name.partition(":")[0] for name in table)}
    wrong += [f"excused, and not in the source: {name}" for name in excused if name not in known]
    return wrong


def reason(name: str, excused: Mapping[str, str]) -> str:
    """Why no seed need visit this mark; empty if one should."""
    return excused.get(name, excused.get(name.partition(":")[0], ""))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True, help="How many, from 0 on.")
@click.option("--until-visited", is_flag=True, help="No more than it takes to visit every mark that is not excused.")
@click.option("--jobs", type=click.IntRange(1), default=len(os.sched_getaffinity(0)), show_default=True)
def main(seeds: int, jobs: int, until_visited: bool) -> None:
    """Play seeds and print every mark, rarest first."""
    table, played = count(range(seeds), jobs, until_visited=until_visited)
    for name, visits in sorted(table.items(), key=lambda row: row[1].count):
        first = "-" if visits.first_seed is None else visits.first_seed
        excuse = reason(name, UNVISITED)
        click.echo(f"{visits.count:>12,}  first seed {first:>5}  {name}{f'  ({excuse})' if excuse else ''}")
    visited = sum(visits.count > 0 for visits in table.values())
    excused = sum(bool(reason(name, UNVISITED)) for name in table)
    click.echo(f"{visited} of {len(table)} marks visited by {played:,} seeds, {excused} excused")
    wrong = failings(table, UNVISITED)
    for sentence in wrong:
        click.echo(sentence)
    if wrong:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
