"""The files of TLS of a cluster that the harness starts, as our own processes and clients take them."""

import ssl

import trio

from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import Address
from raft.net.certificates import Certificates, ClientCertificates, TlsFiles, client_context

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def certificates_in(
    paths: TlsPaths | None, clients: ClientCertificates = ClientCertificates.NONE
) -> Certificates | None:
    """Returns the certificates in these files; None without files. Raises `UnusableFiles`."""
    return None if paths is None else Certificates(_files(paths, clients))


def context_in(paths: TlsPaths | None) -> ssl.SSLContext | None:
    """Returns the context of a client with these files; None without files. Raises `UnusableFiles`."""
    return None if paths is None else client_context(_files(paths, ClientCertificates.NONE))


async def open_stream(address: Address, context: ssl.SSLContext | None) -> Stream:
    """Returns a connection, with a `context` over TLS. Raises `OSError`, and the errors of Trio's streams."""
    plain = await trio.open_tcp_stream(*address)
    if context is None:
        return plain
    sealed = trio.SSLStream(plain, context, server_hostname=address[0], https_compatible=True)
    try:
        await sealed.do_handshake()
    except BaseException:
        plain.socket.close()
        raise
    return sealed


def _files(paths: TlsPaths, clients: ClientCertificates) -> TlsFiles:
    return TlsFiles(
        certificate=str(paths.certificate), key=str(paths.key), authority=str(paths.authority), clients=clients
    )
