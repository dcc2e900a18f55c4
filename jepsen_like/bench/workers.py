"""Small processes of a measurement: `python -m jepsen_like.bench.workers disk|echo|cpu|writer`.

`disk` appends and flushes, to learn what the disk can do; `echo` acknowledges without a log; `cpu` and `writer` are
other work on the machine, and do it until they are stopped. All but `echo` use nothing of ours.
"""

import hashlib
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jepsen_like.bench.own_wire import EchoConversation
from jepsen_like.cluster.ports import LOOPBACK

ZEROED_BYTES = 64 * 2**20
WARM_UP_SHARE = 0.2
OTHER_WRITE_BYTES = 256 * 1024
OTHER_WRITE_EVERY_S = 0.1


def main(part: str, *arguments: str) -> None:
    """Run one part."""
    PARTS[part](*arguments)


def say(answer: Mapping[str, object]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def disk() -> None:
    """Answer questions about the disk, each of a size and a time: latencies of write and flush together."""
    path = Path("growing-or-zeroed")
    for line in sys.stdin:
        question = json.loads(line)
        size, in_place = question["bytes"], question["in_place"]
        if question["ask"] == "prepare":
            write_zeros(path, max(ZEROED_BYTES, 8 * size)) if in_place else path.write_bytes(b"")
            say({})
        else:
            say(flushes(path, size, question["seconds"], in_place=in_place))
            path.unlink()


def write_zeros(path: Path, size: int) -> None:
    """A file whose blocks and pages are all there already."""
    with path.open("wb") as file:
        for _ in range(0, size, 2**20):
            file.write(bytes(2**20))
        file.flush()
        os.fsync(file.fileno())


def flushes(path: Path, size: int, seconds: float, *, in_place: bool) -> dict[str, Any]:
    """Write and fdatasync one batch over and over, once at least: at the file's end, or round in what is there."""
    batch = os.urandom(size)
    latencies: list[int] = []
    descriptor = os.open(path, os.O_WRONLY)
    room = path.stat().st_size - size if in_place else sys.maxsize
    clock, at = time.perf_counter_ns, 0
    warm = clock() + int(seconds * WARM_UP_SHARE * 1e9)
    end = clock() + int(seconds * 1e9)
    while (started := clock()) < end or not latencies:
        if at > room:
            at = 0
        os.pwrite(descriptor, batch, at)
        os.fdatasync(descriptor)
        at += size
        if started >= warm:
            latencies.append(clock() - started)
    os.close(descriptor)
    return {"latencies_ns": latencies, "lasted_s": sum(latencies) / 1e9}


def echo(port: str) -> None:
    """Read requests of the length that a connection announces first, and acknowledge each: a server without a log."""
    listener = socket.create_server((LOOPBACK, int(port)))
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    streams: dict[int, socket.socket] = {}
    lengths: dict[int, int] = {}
    arrived: dict[int, int] = {}
    answer = bytes(EchoConversation.ANSWER_BYTES)
    while True:
        for descriptor, _ in epoll.poll():
            if descriptor == listener.fileno():
                stream, _ = listener.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                streams[stream.fileno()] = stream
                lengths[stream.fileno()] = int.from_bytes(stream.recv(16, socket.MSG_WAITALL)[:8], "big")
                arrived[stream.fileno()] = 0
                epoll.register(stream, select.EPOLLIN)
                continue
            chunk = streams[descriptor].recv(1024 * 1024)
            if not chunk:
                streams.pop(descriptor).close()
                continue
            whole, arrived[descriptor] = divmod(arrived[descriptor] + len(chunk), lengths[descriptor])
            if whole:
                streams[descriptor].send(answer * whole)


def cpu() -> None:
    """Keep one core busy."""
    block = bytes(64 * 1024)
    while True:
        hashlib.sha256(block).digest()


def writer() -> None:
    """Write and flush now and then, on the disk that is measured."""
    block = os.urandom(OTHER_WRITE_BYTES)
    with Path("other-work").open("wb") as file:
        while True:
            file.seek(0)
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            time.sleep(OTHER_WRITE_EVERY_S)


PARTS: Mapping[str, Callable[..., None]] = {"disk": disk, "echo": echo, "cpu": cpu, "writer": writer}

if __name__ == "__main__":
    main(*sys.argv[1:])
