"""`quorumlog secret`: makes the file by which the members of a cluster know each other, and replaces what it holds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from raft.secret_file import (
    UnusableSecret,
    add_secret,
    drop_secret,
    make_secret,
    require_members,
    secret_in,
    turn_secret,
)
from raft.trust import ROLES

_AND_START: Final = "copy it to every member, and start each with --secret-file {file}"
STEPS: Final[Mapping[str, tuple[Callable[[Path], object], str]]] = {
    "make": (make_secret, _AND_START),
    "add": (add_secret, "copy it to every member; then run: quorumlog secret --turn {file}"),
    "turn": (turn_secret, "copy it to every member; then run: quorumlog secret --drop {file}"),
    "drop": (drop_secret, "copy it to every member; the earlier secret is worth nothing where that is done"),
}


@click.command("secret", short_help="Make the secret of a cluster, or replace it.")
@click.option("--add", "step", flag_value="add", help="First step of a replacement: a second secret is accepted too.")
@click.option("--turn", "step", flag_value="turn", help="Second step: members prove themselves by the second secret.")
@click.option("--drop", "step", flag_value="drop", help="Last step: the earlier secret is accepted no more.")
@click.option("--role", type=click.Choice(ROLES), help="Make the secret of clients with this role, of that in --of.")
@click.option("--of", "cluster", type=click.Path(dir_okay=False, path_type=Path), help="The secret of the cluster.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def secret(file: Path, step: str | None, role: str | None, cluster: Path | None) -> None:
    """Write a fresh secret to FILE, which its owner alone may read.

    Copy FILE to every member of the cluster by a safe way, and start each with --secret-file FILE. To replace the secret
    of a running cluster, take the three steps one after the other, and copy FILE to every member after each.

    With --role and --of FILE is for clients of a raft group: a reader reads; a writer appends, too; an admin also
    changes members and leaders. Members need no copy.
    """
    act, then = STEPS[step or "make"] if role is None and cluster is None else _of_role(role, cluster, step)
    try:
        act(file)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; remove it, or name another file") from None
    except UnusableSecret as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror or error}; name another file") from error
    click.echo(f"{file}: {then.format(file=file)}")


def _of_role(role: str | None, cluster: Path | None, step: str | None) -> tuple[Callable[[Path], object], str]:
    """Returns how the secret of a role is made, and what to do with it."""
    if role is None or cluster is None or step is not None:
        raise click.UsageError(
            "--role and --of go together, and without a step: the secret of a role is made of another"
        )
    try:
        known = secret_in(cluster)
        require_members(known)
    except UnusableSecret as error:
        raise click.UsageError(f"--of: {error}") from None
    made = known.of_role(role)
    return lambda file: make_secret(
        file, made
    ), f"give it to {role}s of the group, who connect with --secret-file {{file}}"
