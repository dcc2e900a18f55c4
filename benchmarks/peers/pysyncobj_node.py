"""One PySyncObj node that serves TCP clients: `python pysyncobj_node.py SETTING PORT OWN OTHER...`.

PySyncObj has no wire for clients, so this is the least that a service around it needs, in its own poll loop and thread:
a connection announces the length of its requests and how many records each holds, sends requests, and gets
`ANSWER_BYTES` for each that was applied. Questions of the measurement come as lines of JSON on stdin.

`at-once` sends every command on its own, `batches` what came within `PERIOD_S`; the latter was the quickest of all that
were tried with many clients, and the slowest with one. Nothing is on disk, and nothing is compacted: the replicated
method only counts, for the records rest in PySyncObj's own log.
"""

import json
import os
import socket
import struct
import sys
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated
from pysyncobj.poller import POLL_EVENT_TYPE

from jepsen_like.bench.own_wire import EchoConversation
from jepsen_like.cluster.ports import LOOPBACK

NEVER = 10**12
PERIOD_S = 0.0002
TICK_S = 0.01
HELLO = struct.Struct("!QQ")
ANSWER = bytes(EchoConversation.ANSWER_BYTES)
STDIN = 0
SETTINGS: dict[str, dict[str, Any]] = {
    "at-once": {"appendEntriesUseBatch": False},
    "batches": {"appendEntriesUseBatch": True, "appendEntriesPeriod": PERIOD_S},
}


class InMemoryLog(SyncObj):  # type: ignore[misc] # it ships no types
    """A log that is all in memory."""

    def __init__(self, setting: str, own: str, others: list[str]) -> None:
        settings = SyncObjConf(
            autoTick=False,
            logCompactionMinEntries=NEVER,
            logCompactionMinTime=NEVER,
            useFork=False,
            **SETTINGS[setting],
        )
        super().__init__(own, others, settings)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator] # nor this
    def append(self, records: bytes, span: int) -> None:
        """Count a batch, which is in the log by now."""
        self.count += span


class Door:
    """The listener and its connections."""

    def __init__(self, log: InMemoryLog, port: int) -> None:
        self._log = log
        self._listener = socket.create_server((LOOPBACK, port), backlog=256)
        log._poller.subscribe(self._listener.fileno(), self._accept, POLL_EVENT_TYPE.READ)

    def _accept(self, descriptor: int, mask: int) -> None:
        stream, _ = self._listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        length, span = HELLO.unpack(stream.recv(HELLO.size, socket.MSG_WAITALL))
        Served(self._log, stream, length, span)


class Served:
    """One client's connection."""

    def __init__(self, log: InMemoryLog, stream: socket.socket, length: int, span: int) -> None:
        self._log, self._stream, self._length, self._span = log, stream, length, span
        self._arrived = b""
        self._descriptor = stream.fileno()
        log._poller.subscribe(self._descriptor, self._readable, POLL_EVENT_TYPE.READ | POLL_EVENT_TYPE.ERROR)

    def _readable(self, descriptor: int, mask: int) -> None:
        chunk = self._stream.recv(1024 * 1024)
        if not chunk:
            self._close()
            return
        self._arrived += chunk
        while len(self._arrived) >= self._length:
            request, self._arrived = self._arrived[: self._length], self._arrived[self._length :]
            self._log.append(request, self._span, callback=self._answer)

    def _answer(self, result: object, error: int) -> None:
        if self._stream.fileno() < 0:
            return
        if error:
            self._close()
        else:
            self._stream.send(ANSWER)

    def _close(self) -> None:
        self._log._poller.unsubscribe(self._descriptor)
        self._stream.close()


def main(setting: str, port: str, own: str, *others: str) -> None:
    """Serve until stdin ends."""
    log = InMemoryLog(setting, own, list(others))
    door = Door(log, int(port))
    asked = b""
    open_to_questions = True

    def question(descriptor: int, mask: int) -> None:
        nonlocal asked, open_to_questions
        chunk = os.read(STDIN, 65536)
        open_to_questions = bool(chunk)
        *lines, asked = (asked + chunk).split(b"\n")
        for line in lines:
            sys.stdout.write(json.dumps(answer(log, json.loads(line)["ask"])) + "\n")
            sys.stdout.flush()

    log._poller.subscribe(STDIN, question, POLL_EVENT_TYPE.READ | POLL_EVENT_TYPE.ERROR)
    while open_to_questions:
        log.doTick(PERIOD_S if log._isLeader() else TICK_S)
    del door


def answer(log: InMemoryLog, ask: str) -> dict[str, Any]:
    """Returns the answer to a question of the measurement."""
    return {"leads": log.isReady() and log._isLeader()} if ask == "leads" else {"count": log.count}


if __name__ == "__main__":
    main(*sys.argv[1:])
