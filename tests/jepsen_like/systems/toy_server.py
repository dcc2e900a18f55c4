"""One process of the toy system: a log with one leader, node 1, which acknowledges what its operating system has.

JSON lines over TCP. The others copy the leader's log; they learn its address from metadata and dial the override they were
given for it. `--switch lose` acknowledges records that are still in a buffer of the process; `--switch stale` answers reads
from a copy of the log that is up to a third of a second old.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import trio

LEADER = 1
BUFFERED_RECORDS = 500
OLD_S = 0.3


class Toy:
    """`entries` are [value, epoch] by offset; the file holds one a line."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.id, self.switch = arguments.id, arguments.switch
        self.overrides = {int(node): tuple(address) for node, address in json.loads(arguments.overrides).items()}
        self.advertised = json.loads(arguments.advertised)
        arguments.data.mkdir(parents=True, exist_ok=True)
        path = arguments.data / "00.log"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        self.entries = [json.loads(line) for line in lines if line.endswith("\n")]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries))
        self.file = path.open("a")
        starts = arguments.data / "starts"
        self.epoch = (int(starts.read_text()) if starts.exists() else 0) + 1
        starts.write_text(str(self.epoch))
        self.buffer: list[Any] = []
        self.old, self.old_since = list(self.entries), time.monotonic()

    def store(self, entries: list[Any], *, now: bool) -> None:
        self.entries += entries
        self.buffer += entries
        if now or len(self.buffer) >= BUFFERED_RECORDS:
            self.file.write("".join(json.dumps(entry) + "\n" for entry in self.buffer))
            self.file.flush()
            self.buffer.clear()

    def list_shown(self) -> list[Any]:
        if self.switch != "stale":
            return self.entries
        if time.monotonic() - self.old_since > OLD_S:
            self.old, self.old_since = list(self.entries), time.monotonic()
        return self.old

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["do"]:
            case "metadata":
                return {"leader": LEADER, "addresses": self.advertised}
            case "log":
                return {"end": len(self.entries), "entries": self.entries[asked["offset"] :], "epoch": self.epoch}
            case _ if self.id != LEADER:
                return {"error": "not_leader", "leader": LEADER}
            case "append":
                offset = len(self.entries)
                self.store([[value, self.epoch] for value in asked["values"]], now=self.switch != "lose")
                return {"offset": offset, "epoch": self.epoch}
            case "read":
                return {"entries": self.list_shown()[asked["offset"] :][:1], "end": len(self.list_shown())}
            case "tail":
                return {"end": len(self.list_shown()), "epoch": self.epoch}
            case _:
                return {"error": "unknown request"}

    async def serve(self, stream: trio.SocketStream) -> None:
        rest = b""
        try:
            async for chunk in stream:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await stream.send_all(json.dumps(self.answer(json.loads(line))).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def follow(self) -> None:
        while True:
            try:
                known = await ask(min(self.overrides.items())[1], do="metadata")
                address = self.overrides.get(known["leader"], known["addresses"][str(known["leader"])])
                while True:
                    found = await ask(address, do="log", offset=len(self.entries))
                    self.store(found["entries"], now=True)
                    await trio.sleep(0.02)
            except (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError):
                await trio.sleep(0.05)


async def ask(address: Any, **request: Any) -> Any:
    with trio.fail_after(1):
        stream = await trio.open_tcp_stream(*address)
        async with stream:
            await stream.send_all(json.dumps(request).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = await stream.receive_some()
                if not chunk:
                    raise trio.BrokenResourceError
                answer += chunk
    return json.loads(answer)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--overrides")
    parser.add_argument("--advertised")
    parser.add_argument("--switch")
    arguments = parser.parse_args()
    toy = Toy(arguments)
    listeners = await trio.open_tcp_listeners(arguments.port, host="127.0.0.1")
    role = "leader" if toy.id == LEADER else "follower"
    for event in ({"event": "up"}, {"event": "now", "role": role, "epoch": toy.epoch}):
        sys.stdout.write(json.dumps({"t_ns": time.monotonic_ns(), **event}) + "\n")
    sys.stdout.flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, toy.serve, listeners)
        if toy.id != LEADER:
            nursery.start_soon(toy.follow)


if __name__ == "__main__":
    trio.run(main)
