"""`quorumlog fetch`: brings programs of others into the user's cache, each checked against a committed hash."""

import difflib

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.tables import table_lines
from jepsen_like.systems.archives.catalogue import ARCHIVES, archives_by_name


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def fetch(names: tuple[str, ...]) -> ExitStatus:
    """Bring other systems into your cache, so that quorumlog can start them. Without a NAME: list them.

    Each file is checked against the hash that this version of quorumlog holds, and is not kept if it has another one.
    """
    known = archives_by_name()
    for name in names:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(known)}"
            raise click.BadParameter(f"no {name!r}; {hint}", param_hint="NAME")
    for name in names:
        home = known[name].fetch(lambda line: click.echo(line, err=True))
        click.echo(f"{known[name].title} {known[name].version} is in {home}", err=True)
    if not names:
        rows = [
            {"name": each.full_name, "system": each.title, "here": "yes" if not each.missing() else "-"}
            for each in ARCHIVES
        ]
        click.echo("\n".join(table_lines(rows)))
    return ExitStatus.VALID
