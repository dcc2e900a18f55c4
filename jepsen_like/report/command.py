"""`quorumlog report`: write the page of a run again, after an update or from a copy, or an index of many runs."""

from pathlib import Path

import click

from jepsen_like.report.beside import BESIDE, render_beside
from jepsen_like.report.comparison import SCENARIO, render_comparison
from jepsen_like.report.findings import UnreadableRun
from jepsen_like.report.index import render_index
from jepsen_like.report.matrix import MATRIX, render_matrix
from jepsen_like.report.page import render_report
from jepsen_like.report.rehearsal import REHEARSAL, render_rehearsal


@click.command()
@click.argument("run_directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--index", "of_all", is_flag=True, help="Write index.html: a page of all runs in the directory (default: runs)."
)
def report(run_directory: Path | None, *, of_all: bool) -> None:
    """Write report.html of RUN_DIRECTORY, or the page of a scenario, a pair, a matrix or a rehearsal, again (default: runs/latest) and print
    where it lies.
    """
    try:
        if of_all:
            click.echo(render_index(run_directory or Path("runs")))
            return
        run_directory = run_directory or Path("runs/latest")
        others = {
            SCENARIO: render_comparison,
            MATRIX: render_matrix,
            REHEARSAL: render_rehearsal,
            BESIDE: render_beside,
        }
        draw = next((draw for name, draw in others.items() if (run_directory / name).exists()), render_report)
        path = draw(run_directory)
    except UnreadableRun as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"cannot write the report: {error}") from error
    click.echo(path)
