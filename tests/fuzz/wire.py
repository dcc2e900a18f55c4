"""Fuzzed frames against a real node process: each may end its own connection, and nothing else.

`python -m tests.fuzz.wire --frames 100000 --seed 1` starts one node of a cluster with a secret, sends that many damaged frames as
a client, as a peer and as a stranger, each on a connection of its own, and prints what came of them. It fails unless

- a second connection is answered throughout,
- a frame that no decoder may see is answered by an error,
- a stranger gets nothing but a challenge, once, and always the same refusal,
- every connection that was refused was closed with a logged reason,
- no damaged frame moved the node's term further than one message may, whatever term it named,
- at least half of the frames passed framing and CRC, and so reached a decoder,
- the node's memory grew by less than 64 MiB.

The frames come from the wire's description (a struct and msgpack), not from the code under test.
"""

import argparse
import contextlib
import hmac
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import crc32c
import msgpack

from jepsen_like.cluster.ports import ReservedPorts

HEADER = struct.Struct("!IBBHI")
CLUSTER = "fuzz"
HELLO, HELLO_REPLY, STATUS, STATUS_REPLY, ERROR = 1, 17, 6, 22, 31
TRUST, TRUST_REPLY = 7, 23
SECRET = "what-the-node-knows-and-a-stranger-does-not"
CHALLENGE_BYTES = 41
MEMORY_GROWTH_MAX = 64 * 1024 * 1024
STATUS_EVERY = 250
TERM_STEP_MAX = 2**20
HOPELESS = ("version", "crc", "oversized", "check")
"""Flaws of a frame that are found before its body is decoded."""

LIES = (68, 71)
"""Messages with entries or a snapshot: with a flipped bit they may be a lie instead of garbage."""

RECORDS = msgpack.packb([b"record"])
CLIENT_REQUESTS: list[tuple[int, list[Any]]] = [
    (2, [1, RECORDS]),
    (3, [1, 0, 4096]),
    (4, [1]),
    (5, [1, msgpack.packb(["w", 1, 2]), False]),
    (5, [1, msgpack.packb(["r", 1]), True]),
    (STATUS, [1]),
    (HELLO, [CLUSTER, "client", 0]),
]
BATCH_CRC = crc32c.crc32c(RECORDS)
PEER_MESSAGES: list[tuple[int, list[Any]]] = [
    (64, [1, 0, 0]),
    (65, [1, True]),
    (66, [1, 0, 0]),
    (67, [1, True]),
    (68, [1, 0, 0, 0, 0, 0, []]),
    (68, [1, 0, 0, 0, 0, 0, [[1, 1, 1, 0, BATCH_CRC, RECORDS]]]),
    (69, [1, 1, 1, 0]),
    (70, [1, 1, 0, 0, 0]),
    (71, [1, 0, 1, 1, 0, 1, 1, 0, 1, msgpack.packb([])]),
    (71, [1, 0, 1, 1, 0, 1, 1, 0, 9, b"part"]),
    (72, [1, 1, 1, 0]),
]
JUNK: list[Any] = [
    None,
    True,
    -1,
    2**62,
    2**63,
    2**64 - 1,
    -(2**63),
    1.5,
    "",
    "x" * 300,
    b"",
    b"\xff" * 300,
    [],
    [[[[[]]]]],
    {},
    {"a": 1},
    [0] * 1000,
    msgpack.ExtType(3, b"abc"),
]


def frame(kind: int, body: bytes, *, version: int = 1, check: int | None = None, crc: int | None = None) -> bytes:
    """A frame with a header that is right unless told otherwise."""
    check = header_check(len(body), version, kind) if check is None else check
    return HEADER.pack(len(body), version, kind, check, crc32c.crc32c(body) if crc is None else crc) + body


def header_check(length: int, version: int, kind: int) -> int:
    """Returns the check field of a header, which covers its other fields."""
    check: int = crc32c.crc32c(struct.pack("!IBB", length, version, kind)) & 0xFFFF
    return check


def deform(value: list[Any], rng: random.Random) -> Any:
    """One place of a nested array changed in kind, in range or in number."""
    copy = list(value)
    at = rng.randrange(len(copy)) if copy else 0
    if copy and isinstance(copy[at], list) and rng.random() < 0.7:
        copy[at] = deform(copy[at], rng)
        return copy
    match rng.randrange(4):
        case 0:
            copy.insert(at, rng.choice(JUNK))
        case 1 if copy:
            del copy[at]
        case 2:
            return rng.choice(JUNK)
        case _:
            copy[at : at + 1] = [rng.choice(JUNK)]
    return copy


def damaged_body(kind: int, values: list[Any], rng: random.Random) -> bytes:
    """A body that passes framing and CRC, and then is wrong in shape, in type, in range or as msgpack."""
    choice = rng.random()
    if choice < 0.55:
        deformed = deform(values, rng)
        if kind == 71 and isinstance(deformed, list) and deformed[:-1] == values[:-1]:
            deformed[-1] = "text"  # other bytes would be a lie that the state machine must believe
        return bytes(msgpack.packb(deformed))
    body = bytearray(msgpack.packb(values))
    if choice < 0.75 and body and kind not in LIES:
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    elif choice < 0.9:
        del body[rng.randrange(len(body)) :]
    else:
        body = bytearray(rng.randbytes(rng.randrange(200)))
    return bytes(body)


def damaged_frame(messages: list[tuple[int, list[Any]]], rng: random.Random) -> tuple[bytes, str]:
    """A frame and what is wrong with it; three in four reach the decoder."""
    kind, values = rng.choice(messages)
    choice = rng.random()
    if choice < 0.70:
        return frame(kind, damaged_body(kind, values, rng)), "decoder"
    if choice < 0.75:
        return frame(rng.choice([0, 7, 31, 63, 72, 200, 255]), msgpack.packb(values)), "decoder"
    body = bytes(msgpack.packb(values))
    match rng.randrange(6):
        case 0:
            return frame(kind, body, version=rng.choice([0, 2, 255])), "version"
        case 1:
            return frame(kind, body, crc=rng.getrandbits(32)), "crc"
        case 2:
            length = rng.choice([2**32 - 1, 2**31, 65 * 2**20])
            return HEADER.pack(length, 1, kind, header_check(length, 1, kind), 0) + body, "oversized"
        case 3:
            return frame(kind, body)[: rng.randrange(1, HEADER.size + len(body))], "truncated"
        case 4:
            return frame(kind, body, check=header_check(len(body), 1, kind) ^ rng.randrange(1, 2**16)), "check"
        case _:
            return rng.randbytes(rng.randrange(1, 400)), "noise"


@attrs.define
class Node:
    """A node process and the reasons it logged for closing connections."""

    process: subprocess.Popen[str]
    port: int
    started: threading.Event = attrs.field(factory=threading.Event)
    reasons: Counter[str] = attrs.field(factory=Counter)
    dropped: int = 0
    """Lines for which its pipe had no room, because this process was slow to read them."""

    def listen(self) -> None:
        """Take in the node's events until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.dropped += int(event.get("dropped", 0))
            if event["event"] == "started":
                self.started.set()
            elif event["event"] == "connection_closed":
                self.reasons[str(event.get("reason"))] += int(event.get("count", 1))

    def memory_bytes(self) -> int:
        """Resident memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextlib.contextmanager
def running_node() -> Iterator[Node]:
    """A node of a group of three, with a secret, whose peers never answer."""
    with ReservedPorts(3) as reserved, tempfile.TemporaryDirectory() as directory:
        port, *silent = reserved.ports
        command = [sys.executable, "-m", "raft.node", "--id", "1", "--cluster-id", CLUSTER]
        secret = Path(directory) / "secret"
        secret.touch(0o600)
        secret.write_text(SECRET)
        command += ["--listen", f"127.0.0.1:{port}", "--data", f"{directory}/data", "--secret-file", str(secret)]
        command += [f"--peer={peer}=127.0.0.1:{at}" for peer, at in enumerate(silent, start=2)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        node = Node(process, port)
        listener = threading.Thread(target=node.listen)
        listener.start()
        try:
            assert node.started.wait(20), "the node did not start"
            yield node
        finally:
            process.terminate()
            process.wait(20)
            listener.join()
            assert process.stdout is not None
            process.stdout.close()


def read_frame(connection: socket.socket) -> tuple[int, Any]:
    """The next whole frame, its body unpacked; `EOFError` if the node closed instead."""
    kind, body = read_bytes(connection)
    return kind, msgpack.unpackb(body)


def read_bytes(connection: socket.socket) -> tuple[int, bytes]:
    """The next whole frame; `EOFError` if the node closed instead."""
    header = read_exactly(connection, HEADER.size)
    length, version, kind, check, crc = HEADER.unpack(header)
    body = read_exactly(connection, length)
    assert (version, check) == (1, header_check(length, 1, kind)), "the node itself sent a bad header"
    assert crc == crc32c.crc32c(body), "the node itself sent a bad frame"
    return kind, body


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def prove(connection: socket.socket, name: str) -> None:
    """Prove to node 1 that this is the member or the client `name`, and see that it proves the same."""
    opening = b"\x01" + bytes(32) + bytes(8)
    connection.sendall(frame(TRUST, opening))
    kind, challenge = read_bytes(connection)
    assert (kind, len(challenge)) == (TRUST_REPLY, CHALLENGE_BYTES), challenge
    covered = (b"raft", CLUSTER.encode(), name.encode(), b"1", opening, challenge)
    names = b"".join(bytes((len(each),)) + each for each in (name.encode(), b"1"))
    key = SECRET.encode()
    if name == "admin":  # a role of clients has a secret of its own
        key = hmac.digest(key, b"quorumlog trust 1: role admin", "sha256").hex().encode()
    connection.sendall(frame(TRUST, b"\x03" + proof_of(key, b"dialer", *covered) + names))
    kind, consent = read_bytes(connection)
    assert (kind, consent) == (TRUST_REPLY, b"\x04" + proof_of(key, b"acceptor", *covered) + b"\x011"), consent


def proof_of(key: bytes, role: bytes, *covered: bytes) -> bytes:
    parts = (b"quorumlog trust 1: " + role, *covered)
    return hmac.digest(key, b"".join(struct.pack("!I", len(each)) + each for each in parts), "sha256")


def connect(port: int, role: str, node: int) -> socket.socket:
    """A connection that has proven who it is, said hello and was welcomed."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    prove(connection, str(node) if node else "admin")
    connection.sendall(frame(HELLO, msgpack.packb([CLUSTER, role, node])))
    kind, values = read_frame(connection)
    assert kind == HELLO_REPLY, values
    return connection


def unproven(rng: random.Random) -> tuple[bytes, str]:
    """Frames of a stranger, and what is wrong with them: any message without a proof, or one that proves nothing."""
    if rng.random() < 0.4:
        return damaged_frame(PEER_MESSAGES + CLIENT_REQUESTS, rng)
    opening = b"\x01" + rng.randbytes(40)
    claim = bytearray(b"\x03" + rng.randbytes(32) + b"\x012\x011")
    if rng.random() < 0.5:
        del claim[rng.randrange(len(claim)) :]
    if rng.random() < 0.3:
        claim += rng.randbytes(rng.randrange(1, 600))
    if rng.random() < 0.3:
        opening = opening[: rng.randrange(len(opening))] + rng.randbytes(rng.randrange(60))
    return frame(TRUST, opening) + frame(TRUST, bytes(claim)), "decoder"


def send_unproven(port: int, data: bytes) -> str:
    """The fate of a stranger, as `send_damaged` has it."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        answers: list[tuple[int, bytes]] = []
        with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while True:
                answers.append(read_bytes(connection))
    if answers and answers[0][0] == TRUST_REPLY:
        assert len(answers.pop(0)[1]) == CHALLENGE_BYTES, "a stranger got more than a challenge"
    if not answers:
        return "closed without a word"
    ((kind, body),) = answers
    assert kind == ERROR
    assert msgpack.unpackb(body)[:5] == [0, "not_admitted", True, 0, ""], f"a stranger got {body!r}"
    return "refused"


def send_damaged(port: int, data: bytes, greet: Callable[[int], socket.socket]) -> str:
    """One damaged frame on a connection of its own, and its fate.

    "refused": an error about the connection; "told no": an error about the request; "answered": it was a request after all;
    "closed without a word": the node had nothing to say, as to a peer's message or to an unfinished frame.
    """
    with greet(port) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            kind, values = read_frame(connection)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return "closed without a word"
        return "answered" if kind != ERROR else "refused" if values[1] == "protocol" else "told no"


def as_peer(port: int) -> socket.socket:
    return connect(port, "peer", 2)


def as_client(port: int) -> socket.socket:
    return connect(port, "client", 0)


def fuzz(frames: int, seed: int) -> dict[str, Any]:
    """Send the frames; what happened. `AssertionError` if more than single connections suffered."""
    rng = random.Random(seed)
    sent: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    with running_node() as node:
        second = connect(node.port, "client", 0)
        baseline, peak = node.memory_bytes(), 0
        for count in range(frames):
            if count % STATUS_EVERY == 0:
                second.sendall(frame(STATUS, msgpack.packb([count])))
                kind, values = read_frame(second)
                assert (kind, values[0]) == (STATUS_REPLY, count), "the second connection got a wrong answer"
                assert values[1]["term"] <= (count + 1) * TERM_STEP_MAX, f"the term is {values[1]['term']}"
                peak = max(peak, node.memory_bytes())
                if count <= 2 * STATUS_EVERY:
                    baseline = peak  # the first frames load code and fill caches
            role = rng.randrange(5)
            if role == 4:
                data, flaw = unproven(rng)
                fate = send_unproven(node.port, data)
            else:
                is_peer = role < 2
                data, flaw = damaged_frame(PEER_MESSAGES if is_peer else CLIENT_REQUESTS, rng)
                fate = send_damaged(node.port, data, as_peer if is_peer else as_client)
            sent[flaw] += 1
            fates[fate] += 1
            assert flaw not in HOPELESS or fate == "refused", f"a frame with a wrong {flaw} was {fate}"
        assert node.process.poll() is None, "the node ended"
        second.close()
    reasons = node.reasons
    growth = max(0, peak - baseline)
    assert sent["decoder"] * 2 >= frames, "too few frames reached the decoder"
    assert growth < MEMORY_GROWTH_MAX, f"memory grew by {growth} bytes"
    logged = sum(reasons.values())
    refused = fates["refused"]
    told = f"{refused} connections were refused, {logged} with a logged reason, {node.dropped} lines were dropped"
    assert logged <= refused <= logged + node.dropped, told
    assert node.process.returncode == 0, "the node did not stop cleanly"
    return {
        "frames": frames,
        "sent": dict(sent),
        "fates": dict(fates),
        "reasons": len(reasons),
        "lines_dropped": node.dropped,
        "memory_growth_bytes": growth,
        "memory_peak_bytes": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.stdout.write(json.dumps(fuzz(arguments.frames, arguments.seed), indent=2) + "\n")


if __name__ == "__main__":
    main()
