"""The file of a cluster's secret: one line of text that its owner alone may read.

    secret = make_secret("cluster.secret")  # or read_secret, where it is there already
    async with RaftGroup.open(..., secret=secret): ...

Processes get the path of the file, never the secret, so that it stands on no command line.
"""

import os
import secrets
import stat

from raft.trust import INCARNATION_BYTES, Credentials, Secret

MODE = 0o600
FILE_BYTES_MAX = 4096
SECRET_BYTES = 32


class UnusableSecret(ValueError):
    """The file of the secret cannot be used; the text names the correction."""


def fresh_secret() -> Secret:
    """Returns a secret that was never used before."""
    return Secret(secrets.token_hex(SECRET_BYTES))


def make_secret(path: str | os.PathLike[str]) -> Secret:
    """Returns a fresh secret, which is in the file from now on. Raises `OSError`, also if there is such a file."""
    secret = fresh_secret()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret.text}\n")
        file.flush()
        os.fsync(descriptor)
    return secret


def read_secret(path: str | os.PathLike[str]) -> Secret:
    """Returns the secret in a file. Raises `UnusableSecret` if there is none that others cannot read or guess."""
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UnusableSecret(f"others may read or write {path}; run: chmod 600 {path}")
            content = file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise UnusableSecret(f"cannot read the secret in {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnusableSecret(f"{path} holds no text; make one with: quorumlog secret FILE") from None
    try:
        return Secret(content.strip())
    except ValueError:
        raise UnusableSecret(f"the secret in {path} is too short; make one with: quorumlog secret FILE") from None


def credentials_of(secret: Secret, cluster_id: str, name: str) -> Credentials:
    """Returns the credentials of a process that begins now."""
    return Credentials(
        secret=secret,
        cluster_id=cluster_id,
        name=name,
        incarnation=secrets.token_bytes(INCARNATION_BYTES),
        draw=secrets.token_bytes,
    )
