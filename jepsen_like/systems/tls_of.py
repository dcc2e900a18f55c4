"""The files of TLS of a cluster that the harness starts, as our own processes and clients take them."""

import trio

from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import Address
from raft.net.certificates import Certificates, ClientCertificates, TlsFiles

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def certificates_in(
    paths: TlsPaths | None, clients: ClientCertificates = ClientCertificates.NONE
) -> Certificates | None:
    """Returns the certificates in these files; None without files. Raises `UnusableFiles`."""
    if paths is None:
        return None
    # One file has both, so that they fit together whenever it is read.
    return Certificates(TlsFiles(certificate=str(paths.keystore), authority=str(paths.authority), clients=clients))


async def open_stream(address: Address, tls: Certificates | None) -> Stream:
    """Returns a connection, with `tls` over TLS. Raises `OSError`, and the errors of Trio's streams."""
    plain = await trio.open_tcp_stream(*address)
    if tls is None:
        return plain
    sealed = trio.SSLStream(plain, tls.of_client(), server_hostname=address[0], https_compatible=True)
    try:
        await sealed.do_handshake()
    except BaseException:
        plain.socket.close()
        raise
    return sealed
