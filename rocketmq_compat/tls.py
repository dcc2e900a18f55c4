"""TLS of brokers and name servers, by RocketMQ's properties (`TlsSystemConfig`, where they are system properties).

By default a port takes both TLS and plain text if there is a certificate (`permissive`), as RocketMQ's does: the first
byte of a connection tells them apart. `tls.enable` is about the connections that this process dials.
"""

from typing import Final

import attrs

from raft.net.certificates import Certificates, ClientCertificates, TlsFiles
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import TLS_DISABLED, TLS_ENFORCING, TLS_PERMISSIVE

_CLIENTS: Final = {
    "none": ClientCertificates.NONE,
    "optional": ClientCertificates.REQUESTED,
    "require": ClientCertificates.REQUIRED,
}


@attrs.frozen(kw_only=True)
class Tls:
    """The TLS of one process."""

    server: Certificates | None = None
    """For connections that it accepts; None for plain text."""
    takes_plain: bool = False
    """True if it accepts plain text as well."""
    client: Certificates | None = None
    """For connections that it dials; None for plain text."""


def tls_of(properties: Properties) -> Tls:
    """Returns the TLS of a process with these properties. Reads files.

    Raises `InvalidProperty` for properties that contradict each other, and `UnusableFiles`.
    """
    mode = properties.words("tls.server.mode")
    server = _server_files(properties)
    if mode == TLS_ENFORCING and server is None:
        raise InvalidProperty("tls.server.certPath", "tls.server.mode=enforcing needs tls.server.certPath.")
    accepts = server is not None and mode != TLS_DISABLED
    return Tls(
        server=Certificates(server) if server is not None and accepts else None,
        takes_plain=mode == TLS_PERMISSIVE,
        client=Certificates(_client_files(properties)) if properties.flag("tls.enable") else None,
    )


def _server_files(properties: Properties) -> TlsFiles | None:
    certificate = properties.text("tls.server.certPath")
    if certificate is None:
        return None
    return TlsFiles(
        certificate=certificate,
        key=properties.text("tls.server.keyPath"),
        authority=properties.text("tls.server.trustCertPath"),
        clients=_CLIENTS[properties.words("tls.server.need.client.auth")],
    )


def _client_files(properties: Properties) -> TlsFiles:
    return TlsFiles(
        certificate=properties.text("tls.client.certPath"),
        key=properties.text("tls.client.keyPath"),
        authority=properties.text("tls.client.trustCertPath"),
        checks_host=False,
        checks_authority=properties.flag("tls.client.authServer"),
    )
