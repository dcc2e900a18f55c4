"""The files of TLS of a cluster that the harness starts, as our own processes and clients take them."""

from jepsen_like.port.port import TlsPaths
from raft.net.certificates import Certificates, ClientCertificates, TlsFiles


def certificates_in(
    paths: TlsPaths | None, clients: ClientCertificates = ClientCertificates.NONE
) -> Certificates | None:
    """Returns the certificates in these files; None without files. Raises `UnusableFiles`."""
    if paths is None:
        return None
    return Certificates(
        TlsFiles(
            certificate=str(paths.certificate), key=str(paths.key), authority=str(paths.authority), clients=clients
        )
    )
