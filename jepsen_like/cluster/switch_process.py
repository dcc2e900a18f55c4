"""The process that carries the frames of a run between its network namespaces, as its `Switch` decides.

It is given one TAP device for each port and a socket for requests. One request is one packet of JSON, answered by one;
what it asks for holds for every frame read after the answer. The process ends with the socket's other end, and its
parent's death kills it; so nothing of the network outlives a run.

    python -m jepsen_like.cluster.switch_process SEED REQUESTS_FD PORT=TAP_FD ...
"""

import gc
import json
import math
import os
import select
import socket
import sys
import time
from typing import Any

import attrs

from jepsen_like.cluster.switch import Sent, Switch
from jepsen_like.port.wires import Condition, Route

FRAME_BYTES_MAX = 64 * 1024
BURST = 64
"""Frames taken from one port before the others have their turn."""
REQUEST_BYTES_MAX = 128 * 1024


def answer(switch: Switch, request: dict[str, Any], now: float) -> tuple[Any, Sent]:
    """Carry out one request. Returns what to answer, and the frames that leave because of it."""
    ways = [(int(sender), int(receiver)) for sender, receiver in request.get("pairs", ())]
    clients = [int(node) for node in request.get("clients", ())]
    match request["do"]:
        case "lay":
            switch.lay(Route(**{**each, "ways": tuple(map(tuple, each["ways"]))}) for each in request["routes"])
            return None, []
        case "impose":
            switch.impose(now, Condition(**request["condition"]), ways, clients)
            return None, []
        case "reset":
            return switch.reset(now, ways, clients)
        case "heal":
            return None, switch.heal()
        case "evidence":
            return [attrs.asdict(each) for each in switch.evidence(now)], []
        case other:
            raise ValueError(f"no request {other!r}")


def serve(switch: Switch, requests: socket.socket, taps: dict[int, int]) -> None:
    """Carry frames until the other end of `requests` is closed; `taps` are descriptors by port."""
    ports = {descriptor: port for port, descriptor in taps.items()}
    ready = select.epoll()
    for descriptor in (*ports, requests.fileno()):
        ready.register(descriptor, select.EPOLLIN)

    def send(frames: Sent) -> None:
        for port, frame in frames:
            try:
                os.write(taps[port], frame)
            except (OSError, KeyError):
                continue  # an interface that is down or full loses frames, as any does

    while True:
        wait_s = -1 if switch.next_due == math.inf else max(0.0, switch.next_due - time.monotonic())
        for descriptor, _ in ready.poll(wait_s):
            if descriptor == requests.fileno():
                request = requests.recv(REQUEST_BYTES_MAX)
                if not request:
                    return
                said, frames = answer(switch, json.loads(request), time.monotonic())
                send(frames)
                requests.send(json.dumps(said).encode())
                continue
            port = ports[descriptor]
            for _ in range(BURST):
                try:
                    frame = os.read(descriptor, FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                send(switch.take(time.monotonic(), port, frame))
        if switch.next_due != math.inf:
            send(switch.due(time.monotonic()))


def main() -> None:
    """Serve what the arguments name."""
    seed, requests_fd, *named = sys.argv[1:]
    taps = {int(port): int(descriptor) for port, _, descriptor in (each.partition("=") for each in named)}
    gc.freeze()
    with socket.socket(fileno=int(requests_fd)) as requests:
        serve(Switch(int(seed)), requests, taps)


if __name__ == "__main__":
    main()
