"""`quorumlog secret`: makes the file by which the members of a cluster know each other."""

from pathlib import Path

import click

from raft.secret_file import make_secret


@click.command("secret", short_help="Make the secret of a cluster.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def secret(file: Path) -> None:
    """Write a fresh secret to FILE, which its owner alone may read.

    Copy FILE to every member of the cluster by a safe way, and start each with --secret-file FILE.
    """
    try:
        make_secret(file)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; remove it, or name another file") from None
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror or error}; name another file") from error
    click.echo(f"{file}: copy it to every member, and start each with --secret-file {file}")
