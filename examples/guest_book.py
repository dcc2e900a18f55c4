"""A guest book over HTTP, with asyncio: `POST /` writes a line and answers once it is safe, `GET /` shows all lines.

The three outcomes of an append are the three answers: 201 it is written, 503 it is not (try again), 504 it is unknown.

    python examples/guest_book.py 127.0.0.1:4001,127.0.0.1:4002,127.0.0.1:4003

Nodes with a secret, as `quorumlog up --system raft` starts them, want it from their clients: `--secret-file FILE`.
"""

import argparse
import asyncio
from contextlib import suppress

from raft import RaftError, SecretSource, read_secret
from raft.aio import Client

LINE_BYTES_MAX = 1000


async def answer(log: Client, method: str, body: bytes) -> tuple[str, bytes]:
    """Returns the status line and the body that answer one request."""
    try:
        if method == "POST":
            appended = await log.append([body])
            return "201 Created", b"%d\n" % appended.base_offset
        return "200 OK", b"\n".join([*await lines_of(log), b""])
    except RaftError as error:
        return ("503 Service Unavailable" if error.definite else "504 Gateway Timeout"), f"{error}\n".encode()


async def lines_of(log: Client) -> list[bytes]:
    """All that was written, in order."""
    lines: list[bytes] = []
    end = (await log.tail()).committed_end
    while len(lines) < end:
        for batch in (await log.read(len(lines))).batches:
            lines += batch.records()
    return lines


async def serve(log: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, one answer."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, _, _ = head.partition(" ")
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        body = await reader.readexactly(min(int(fields.get("content-length", "0")), LINE_BYTES_MAX))
        status, text = await answer(log, method, body)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the visitor left
    finally:
        writer.close()


async def main(addresses: list[str], cluster_id: str, port: int, secret: SecretSource | None) -> None:
    async with Client(addresses, cluster_id, deadline_s=5.0, secret=secret) as log:
        server = await asyncio.start_server(lambda reader, writer: serve(log, reader, writer), "127.0.0.1", port)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A guest book over HTTP.")
    parser.add_argument("addresses", metavar="ADDRESS[,ADDRESS...]", help="where the nodes listen, host:port")
    parser.add_argument("cluster_id", nargs="?", default="demo")
    parser.add_argument("port", nargs="?", type=int, default=8080)
    parser.add_argument("--secret-file", help="the secret of the cluster, where it has one")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        secret = read_secret(given.secret_file) if given.secret_file else None
        asyncio.run(main(given.addresses.split(","), given.cluster_id, given.port, secret))
