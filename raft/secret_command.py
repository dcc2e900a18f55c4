"""`quorumlog secret`: makes the file by which the members of a cluster know each other, and replaces what it holds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from raft.secret_file import UnusableSecret, add_secret, drop_secret, make_secret, turn_secret

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
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def secret(file: Path, step: str | None) -> None:
    """Write a fresh secret to FILE, which its owner alone may read.

    Copy FILE to every member of the cluster by a safe way, and start each with --secret-file FILE. To replace the secret
    of a running cluster, take the three steps one after the other, and copy FILE to every member after each.
    """
    act, then = STEPS[step or "make"]
    try:
        act(file)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; remove it, or name another file") from None
    except UnusableSecret as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror or error}; name another file") from error
    click.echo(f"{file}: {then.format(file=file)}")
