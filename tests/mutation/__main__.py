"""`python -m tests.mutation [MODULE ...]`: change the rules mechanically, one place at a time, and count what is noticed.

For each module: how many mutations its quick tests, the golden scripts, a handful of simulated seeds or the comparison with
the definition killed, and each survivor as a difference. A survivor that changes nothing anybody can see stands, with the
reason, in `equivalent.toml`. Exit status 1 if less than `KILLED_MIN` of what is not equivalent was killed.
"""

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from tests.mutants.mutant import ROOT
from tests.mutation import trial
from tests.mutation.modules import SUBJECTS, Subject, by_module
from tests.mutation.mutator import Mutation, mutations
from tests.mutation.trial import End, Outcome

KILLED_MIN = 0.9
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@attrs.frozen
class Equivalent:
    """A mutation that changes nothing that can be seen; `reason` is why."""

    module: str
    function: str
    before: str
    after: str
    reason: str

    def is_(self, mutation: Mutation) -> bool:
        """Returns True if this is that mutation."""
        mine = (self.module, self.function, self.before, self.after)
        return mine == (mutation.module, mutation.function, mutation.before, mutation.after)


def equivalents() -> list[Equivalent]:
    """All that are known."""
    return [Equivalent(**row) for row in tomllib.loads(EQUIVALENT.read_text())["equivalent"]]


def mutations_of(subject: Subject) -> list[Mutation]:
    """Every mutation of a subject as its source stands."""
    return mutations(subject.module, source_of(subject), subject.functions)


def keep_source(subject: Subject) -> Mutation:
    """Returns the source as it stands, as if it were a mutation."""
    return Mutation(subject.module, "", 0, "", "", source_of(subject), is_in_body=True)


def source_of(subject: Subject) -> str:
    """The source of a subject's module."""
    return ROOT.joinpath(*subject.module.split(".")).with_suffix(".py").read_text()


@attrs.define
class Score:
    """One module's."""

    module: str
    mutations: int = 0
    killed: int = 0
    timeouts: int = 0
    equivalent: int = 0
    survivors: list[Mutation] = attrs.field(factory=list)

    def add(self, outcome: Outcome, known: Sequence[Equivalent]) -> None:
        """One more."""
        self.mutations += 1
        self.timeouts += outcome.end is End.TIMEOUT
        if outcome.end is not End.SURVIVED:
            self.killed += 1
        elif any(each.is_(outcome.mutation) for each in known):
            self.equivalent += 1
        else:
            self.survivors.append(outcome.mutation)

    @property
    def share(self) -> float:
        """Killed, of what is not equivalent; 1.0 of nothing."""
        judged = self.mutations - self.equivalent
        return self.killed / judged if judged else 1.0

    def __str__(self) -> str:
        return (
            f"{self.module:<36} {self.mutations:>9} {self.killed:>7} {self.timeouts:>8} {self.equivalent:>11} "
            f"{len(self.survivors):>9}  {100 * self.share:5.1f} %"
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("modules", nargs=-1)
@click.option("--jobs", type=click.IntRange(1), default=len(os.sched_getaffinity(0)), show_default=True)
@click.option("--all-known", is_flag=True, help="Try those in equivalent.toml as well, instead of believing it.")
def main(modules: Sequence[str], jobs: int, all_known: bool) -> None:
    """Mutate the named modules, or all; see the list in tests/mutation/modules.py."""
    try:
        subjects = [by_module(name) for name in modules] or list(SUBJECTS)
    except KeyError as unknown:
        names = ", ".join(subject.module for subject in SUBJECTS)
        raise click.UsageError(f"{unknown} is not mutated; there are {names}") from None
    known = equivalents()
    scores = {subject.module: Score(subject.module) for subject in subjects}
    work = [(subject, mutation) for subject in subjects for mutation in mutations_of(subject)]
    if not all_known:
        for _, mutation in work:
            if any(each.is_(mutation) for each in known):
                scores[mutation.module].add(Outcome(mutation, End.SURVIVED, 0.0), known)
        work = [(subject, one) for subject, one in work if not any(each.is_(one) for each in known)]
    _must_be_sound(subjects, jobs)
    for done, outcome in enumerate(trial.outcomes(work, jobs), start=1):
        scores[outcome.mutation.module].add(outcome, known)
        if outcome.end is End.SURVIVED:
            click.echo(f"survived: {outcome.mutation}")
        if done % 50 == 0:
            click.echo(f"{done} of {len(work)}", err=True)
    click.echo(
        f"{'module':<36} {'mutations':>9} {'killed':>7} {'timeouts':>8} {'equivalent':>11} {'survivors':>9}  score"
    )
    for score in scores.values():
        click.echo(str(score))
    if any(score.share < KILLED_MIN for score in scores.values()):
        raise click.exceptions.Exit(1)


def _must_be_sound(subjects: Sequence[Subject], jobs: int) -> None:
    """Tests that fail without a mutation would kill every one, and prove nothing."""
    for subject in subjects:
        if (found := trial.warm_up(subject)) is not None:
            raise click.ClickException(f"{subject.module} is not sound without a mutation: {found}")
    unchanged = [(subject, keep_source(subject)) for subject in subjects]
    for outcome in trial.outcomes(unchanged, jobs):
        if outcome.end is not End.SURVIVED:
            raise click.ClickException(f"the tests of {outcome.mutation.module} fail without a mutation")


if __name__ == "__main__":
    main()
