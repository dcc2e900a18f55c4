"""The protection of a cluster under measurement: its secret and its certificates, and a client's side of both."""

import ssl
import sys
from pathlib import Path

import attrs

from jepsen_like.port.port import TlsPaths
from jepsen_like.systems.secret_of import keep_secret
from raft.net.certificates import TlsFiles, client_context
from raft.secret_file import SecretFile, read_secret

NAME = "bench"
TLS_DIRECTORY = "tls"


@attrs.frozen
class Guard:
    """The protection of one cluster. Without anything all processes are believed."""

    secret: Path | None = None
    """The file of its secret."""
    tls: TlsPaths | None = None
    """One certificate for all, clients too."""

    @classmethod
    def at(cls, directory: Path, *, tls: bool) -> "Guard":
        """Returns a secret, and with `tls` a certificate, whose files are in `directory`, made at the first call."""
        secret = keep_secret(directory.absolute())
        return cls(secret, _certificate_in(directory.absolute() / TLS_DIRECTORY) if tls else None)

    def secret_words(self) -> list[str]:
        """Returns the flags of our processes for the secret."""
        return [] if self.secret is None else ["--secret-file", str(self.secret)]

    def known_secret(self) -> SecretFile | None:
        """Returns the secret, as a client proves it."""
        return None if self.secret is None else read_secret(self.secret)

    def context(self) -> ssl.SSLContext | None:
        """Returns the context of a client; None without TLS."""
        if self.tls is None:
            return None
        return client_context(TlsFiles(certificate=str(self.tls.keystore), authority=str(self.tls.authority)))


OPEN = Guard()


@attrs.frozen
class Protection:
    """A way to run a measured cluster."""

    key: str
    title: str
    secret: bool = False
    tls: bool = False
    python: str = sys.executable
    """The interpreter of the processes: that of another installation measures that one."""

    def guard(self, directory: Path) -> Guard:
        """Returns the protection of the cluster in this directory."""
        return Guard.at(directory, tls=self.tls) if self.secret or self.tls else OPEN


PLAIN = Protection("plain", "plain")


def _certificate_in(directory: Path) -> TlsPaths:
    from jepsen_like.cluster.authority import Authority  # its package is an extra

    authority = Authority.at(directory)
    files = authority.files_of(NAME)
    return files if files.keystore.exists() else authority.issue_node(NAME)
