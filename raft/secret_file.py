"""The file of a cluster's secret: one line of text that its owner alone may read, or two while one replaces another.

    secret = make_secret("cluster.secret")  # or read_secret, where it is there already
    async with RaftGroup.open(..., secret=secret): ...

Processes get the path of the file, never the secret, so that it stands on no command line. A process proves itself by
the first line, and takes the proof of either. It reads a changed file again when a connection begins
(`net.watched_files`); open connections go on. A file that cannot be used is logged once, and the earlier secret stays.

The file of a role has its name before the secret: `reader 5f...`. Clients alone use one.

So a secret is replaced in three steps, each at every member before the next: `add_secret`, `turn_secret`, `drop_secret`.
"""

import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from raft.net.watched_files import WatchedFiles
from raft.trust import INCARNATION_BYTES, ROLES, Credentials, Secret, SecretSource

logger = logging.getLogger(__name__)

MODE = 0o600
FILE_BYTES_MAX = 4096
SECRET_BYTES = 32


class UnusableSecret(ValueError):
    """The file of the secret cannot be used; the text names the correction."""


class SecretFile:
    """The secret in a file. See the module."""

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raises `UnusableSecret`."""
        self.path = path
        self._watched = WatchedFiles([path], clock)
        self._secret = secret_in(path)

    def now(self) -> Secret:
        """See `SecretSource`."""
        if self._watched.have_changed():
            try:
                self._secret = secret_in(self.path)
            except UnusableSecret as error:
                logger.error("the new secret cannot be used, and the earlier one stays in use: %s", error)
            else:
                logger.warning("new connections use the new secret in %s", self.path)
        return self._secret


def fresh_secret() -> Secret:
    """Returns a secret that was never used before."""
    return Secret(secrets.token_hex(SECRET_BYTES))


def make_secret(path: str | os.PathLike[str], secret: Secret | None = None) -> SecretFile:
    """Returns a fresh secret, or the one given, which is in the file from now on.

    Raises `OSError`, also if there is such a file.
    """
    _write(path, secret or fresh_secret())
    return SecretFile(path)


def read_secret(path: str | os.PathLike[str]) -> SecretFile:
    """Returns the secret in a file. Raises `UnusableSecret` if there is none that others cannot read or guess."""
    return SecretFile(path)


def add_secret(path: str | os.PathLike[str]) -> None:
    """The first step: a fresh secret is accepted too, and proves no one yet. Raises `OSError` and `UnusableSecret`."""
    _replace(path, Secret(_one_in(path).text, fresh_secret().text))


def turn_secret(path: str | os.PathLike[str]) -> None:
    """The second step: the added secret proves, and the earlier one is accepted too. Raises as `add_secret`."""
    secret = _two_in(path)
    _replace(path, Secret(secret.other or "", secret.text))


def drop_secret(path: str | os.PathLike[str]) -> None:
    """The last step: only the first line is accepted. Raises as `add_secret`."""
    _replace(path, Secret(_two_in(path).text))


def secret_in(path: str | os.PathLike[str]) -> Secret:
    """Returns the content of the file. Raises `UnusableSecret`."""
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UnusableSecret(f"others may read or write {path}; run: chmod 600 {path}")
            lines = file.read(FILE_BYTES_MAX).split()
    except OSError as error:
        raise UnusableSecret(f"cannot read the secret in {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnusableSecret(f"{path} holds no text; make one with: quorumlog secret FILE") from None
    if len(lines) > 2:
        raise UnusableSecret(f"{path} holds {len(lines)} secrets, and at most two are used; remove the others")
    try:
        if lines and lines[0] in ROLES:
            return Secret("".join(lines[1:]), role=lines[0])
        return Secret(*lines or ("",))
    except ValueError:
        raise UnusableSecret(f"the secret in {path} is too short; make one with: quorumlog secret FILE") from None


def require_members(secret: SecretSource) -> None:
    """Raises `UnusableSecret` for the secret of a role, with which no member starts."""
    if role := secret.now().role:
        raise UnusableSecret(f"it is the secret of a {role}; members start with that of their cluster")


def credentials_of(secret: SecretSource, cluster_id: str, name: str) -> Credentials:
    """Returns the credentials of a process that begins now. Raises `UnusableSecret` for that of another role."""
    if secret.now().role != name:
        require_members(secret)
    return Credentials(
        secret=secret,
        cluster_id=cluster_id,
        name=name,
        incarnation=secrets.token_bytes(INCARNATION_BYTES),
        draw=secrets.token_bytes,
    )


def _one_in(path: str | os.PathLike[str]) -> Secret:
    secret = secret_in(path)
    require_members(secret)
    if secret.other is not None:
        raise UnusableSecret(
            f"{path} holds two secrets already; end the replacement that has begun, with --turn or --drop"
        )
    return secret


def _two_in(path: str | os.PathLike[str]) -> Secret:
    secret = secret_in(path)
    if secret.other is None:
        raise UnusableSecret(f"{path} holds one secret; begin with: quorumlog secret --add {path}")
    return secret


def _replace(path: str | os.PathLike[str], secret: Secret) -> None:
    """Let the file hold this from one moment to the next."""
    beside = f"{os.fspath(path)}.new"
    with suppress(FileNotFoundError):
        os.unlink(beside)  # of a replacement that was cut short
    _write(beside, secret)
    os.replace(beside, path)
    directory = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(path: str | os.PathLike[str], secret: Secret) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with open(descriptor, "w", encoding="ascii") as file:
        lines = (f"{secret.role} {secret.text}".lstrip(), secret.other)
        file.writelines(f"{line}\n" for line in lines if line is not None)
        file.flush()
        os.fsync(descriptor)
