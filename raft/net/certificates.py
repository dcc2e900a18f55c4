"""The files of TLS: a process's certificate, its key and the authorities that it trusts, read again when they change.

Files are looked at when a connection begins (`watched_files`). New connections use what is there then; those that are
open go on with what they began with. If new files cannot be used, the earlier ones stay in use and the
reason is logged, once for each state of the files: while a certificate is there and its key is not yet, for example.
"""

import enum
import logging
import socket
import ssl
import time
from collections.abc import Callable

import attrs

from raft.net.tls_socket import EitherSocket, TlsSocket
from raft.net.watched_files import WatchedFiles

logger = logging.getLogger(__name__)


class ClientCertificates(enum.Enum):
    """The certificates that a server asks its clients for."""

    NONE = "none"
    REQUESTED = "requested"
    """One that is sent must be good."""
    REQUIRED = "required"


@attrs.frozen(kw_only=True)
class TlsFiles:
    """The files of TLS, as PEM, and how they are used."""

    certificate: str | None = None
    """This process's certificate, with those of authorities between it and the root behind it."""
    key: str | None = None
    """The private key of the certificate; None if it is in the same file."""
    authority: str | None = None
    """Certificates of the authorities that the other side's must come from; None for those of the system."""
    clients: ClientCertificates = ClientCertificates.NONE
    checks_host: bool = True
    """True if a client wants the certificate of a server to name the host that it dialled."""
    checks_authority: bool = True
    """False if a client takes any certificate: no one can listen then, but anyone can be the server."""

    @property
    def names(self) -> tuple[str, ...]:
        """All files."""
        return tuple(each for each in (self.certificate, self.key, self.authority) if each is not None)


class UnusableFiles(Exception):
    """The files cannot be used; the text states the reason."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the context of a server. Raises `UnusableFiles`."""
    if files.certificate is None:
        raise UnusableFiles("a server needs a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if files.clients is not ClientCertificates.NONE:
        required = files.clients is ClientCertificates.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return _load_into(context, files)


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the context of a client. Raises `UnusableFiles`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = files.checks_host and files.checks_authority
    if not files.checks_authority:
        context.verify_mode = ssl.CERT_NONE
    return _load_into(context, files)


def _load_into(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    at: str | None = files.certificate
    try:
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
        at = files.authority
        if files.authority is not None:
            context.load_verify_locations(files.authority)
        elif context.verify_mode is not ssl.CERT_NONE:
            context.load_default_certs()
    except ssl.SSLError as error:
        raise UnusableFiles(f"{at}: {(error.reason or str(error)).lower().replace('_', ' ')}") from None
    except (OSError, ValueError) as error:
        raise UnusableFiles(f"{at}: {getattr(error, 'strerror', None) or error}") from None
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not, in a file that only this user may read")


class Certificates:
    """The contexts of one process, made again when its files have changed."""

    def __init__(self, files: TlsFiles, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the files. Raises `UnusableFiles`."""
        self.files = files
        self._watched = WatchedFiles(files.names, clock)
        self._client = client_context(files)
        self._server = server_context(files) if files.certificate is not None else None

    def accept(self, accepted: socket.socket, *, either: bool = False) -> TlsSocket:
        """Returns the server's side on an accepted socket; with `either` it takes plain text as well."""
        self._look()
        assert self._server is not None, "who accepts has a certificate"
        return (EitherSocket if either else TlsSocket)(accepted, self._server)

    def wrap(self, connected: socket.socket, host: str) -> TlsSocket:
        """Returns the client's side on a socket connected to `host`."""
        return TlsSocket(connected, self.of_client(), host=host)

    def of_client(self) -> ssl.SSLContext:
        """Returns the context of a client by the files of this moment."""
        self._look()
        return self._client

    def _look(self) -> None:
        """Read the files again if they have changed."""
        if not self._watched.have_changed():
            return
        try:
            client = client_context(self.files)
            server = server_context(self.files) if self._server is not None else None
        except UnusableFiles as error:
            logger.error("the new files of TLS cannot be used, and the earlier ones stay in use: %s", error)
        else:
            self._client, self._server = client, server
            logger.warning("new connections use the new files of TLS: %s", ", ".join(self.files.names))
