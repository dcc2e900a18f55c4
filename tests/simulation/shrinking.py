"""`python -m tests.simulation.shrinking NAME ...`: the first seed that kills each named bug, made small.

Prints a line for each: what was left of it; with `--keep` the small worlds are written to `tests/simulation/scenarios`,
where a test plays them from then on, with the bug and without. Each bug has a process of its own.
"""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import ROOT, install

if TYPE_CHECKING:
    from jepsen_like.simulation.kernel.model import SystemModel

SCENARIOS = Path(__file__).parent / "scenarios"
SEEDS_MAX = 1500
NOT_ORACLES = frozenset({"crash", "V-storm"})
JUDGED = {"simulation": "raft"}
"""The system that a judge plays, where it has another name."""


def model_of(system: str) -> "SystemModel[Any]":
    """The model of this name; called after a bug is in place, since it imports what may have one."""
    from jepsen_like.simulation.command import MODELS

    return MODELS[system]


def system_of(scenario: str) -> str:
    """The system of which a kept scenario is."""
    return next((line.split()[1] for line in scenario.splitlines() if line.startswith("system ")), "raft")


def shrink_one(name: str) -> tuple[str, str]:
    """The line to print, and the scenario; in a process that has not imported the core yet."""
    mutant = by_name(name)
    install(mutant)
    from jepsen_like.simulation.kernel.scenario import Scenario  # after the bug is in place
    from jepsen_like.simulation.kernel.shrink import shrink

    model = model_of(JUDGED.get(mutant.judge, mutant.judge))
    for seed in range(SEEDS_MAX):
        spoke = [v.oracle for v in model.play(seed, stop_at_first=False).violations if v.oracle not in NOT_ORACLES]
        if spoke:
            break
    else:
        raise click.ClickException(f"{name} survives {SEEDS_MAX} seeds")
    shrunk = shrink(model, Scenario(spoke[0], model.draw(seed)))
    before, after = shrunk.before, shrunk.after
    line = (
        f"{name:<34} seed {seed:>4} {shrunk.oracle:<10} steps {before.steps:>6,} -> {after.steps:>5,}  "
        f"faults {len(before.knobs.faults):>2} -> {len(after.knobs.faults):>2}  "
        f"messages {len(before.messages):>6,} -> {len(after.messages):>5,}  re-runs {shrunk.reruns:>5,}"
    )
    head = f"# {mutant.bug}\n# {after.violation}\n# bug {name}\n"
    return line, head + model.scenarios.write(shrunk.scenario)


def bug_of(path: Path) -> str:
    """The deliberate bug that a kept scenario shows."""
    return next(line.split()[2] for line in path.read_text().splitlines() if line.startswith("# bug "))


def play_kept(name: str, bug: str) -> str | None:
    """Returns the violation that a kept scenario finds with this bug in place, or None. Runs in a process of its own."""
    install(by_name(bug))
    from jepsen_like.simulation.kernel.shrink import play_scenario  # after the bug is in place

    text = (SCENARIOS / name).read_text()
    model = model_of(system_of(text))
    outcome = play_scenario(model, model.scenarios.read(text))
    return None if outcome is None else str(outcome.violation)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True)
@click.option("--keep", is_flag=True, help="Write the scenarios down.")
def main(names: tuple[str, ...], keep: bool) -> None:
    """Make the first killing seed of each bug small."""
    for name in names:
        if len(names) > 1:
            flags = ["--keep"] if keep else []
            subprocess.run([sys.executable, "-m", "tests.simulation.shrinking", name, *flags], cwd=ROOT, check=True)
            continue
        line, scenario = shrink_one(name)
        click.echo(line)
        if keep:
            SCENARIOS.mkdir(exist_ok=True)
            (SCENARIOS / f"{name.replace('-', '_')}.txt").write_text(scenario)


if __name__ == "__main__":
    main()
