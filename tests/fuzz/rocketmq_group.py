"""The processes that RocketMQ's fuzzer attacks, and the healthy client that must not notice: a name server, a synchronous master, its slave."""

import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from raft.secret_file import credentials_of
from raft.trust import Credentials, Dialer, Secret
from rocketmq_compat.membership import ANY_CLUSTER, NAME_SERVER, NAMES, REMOTING, broker_named
from rocketmq_compat.records import read_heads
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import ANSWER_HEADER_BYTES_MAX, Command, decode
from tests.fuzz.rocketmq_requests import BROKER_NAME, CLUSTER, HEALTHY, MESSAGE_BYTES_MAX, json_frame

START_S = 30.0
HANG_S = 20.0
HEALTHY_PAUSE_S = 0.005
SLAVE_TIMEOUT_MS = 500
STORED = (0, 10, 11, 12)
"""SEND_OK, and the weaker statuses: the message is in the log."""
REFUSED = 14
"""The master takes no messages while a slave shows that it has lost some: they are definitely not stored."""
NEWS = ("failed", "stopping", "divergence", "divergence_ended", "checkpoint_failed")
ENDS = ("connection_closed", "ha_connection_closed", "ha_connection_lost")
SECRET = Secret("what-the-group-knows-and-a-stranger-does-not")
MEMBER = broker_named("member", 7, None)
"""A process of the cluster, which has the secret and no business here."""
BROKER_SETTINGS = {
    "brokerName": BROKER_NAME, "brokerClusterName": CLUSTER, "maxMessageSize": MESSAGE_BYTES_MAX, "slaveTimeout": SLAVE_TIMEOUT_MS,
    "haSendHeartbeatInterval": 500, "registerNameServerPeriod": 1_000, "slaveReadEnable": "true", "flushConsumerOffsetInterval": 1_000,
}  # fmt: skip


@attrs.define
class Process:
    """One process, its events and the reasons it gave for closing connections."""

    name: str
    process: subprocess.Popen[str]
    address: tuple[str, int] = ("", 0)
    ha_address: tuple[str, int] = ("", 0)
    listening: threading.Event = attrs.field(factory=threading.Event)
    reasons: Counter[str] = attrs.field(factory=Counter)
    news: list[str] = attrs.field(factory=list)
    first_bytes: int = 0
    peak_bytes: int = 0

    def listen(self) -> None:
        """Take in the events until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                self.address = _address(event["address"])
                self.ha_address = _address(event.get("ha_address") or ":0")
                self.listening.set()
            elif event["event"] in ENDS:
                self.reasons[str(event["reason"])] += 1
            elif event["event"] in NEWS:
                self.news.append(line)
                del self.news[:-10]

    def watch(self, *, warming_up: bool) -> None:
        """Look at the memory that it uses; it must be alive."""
        status = self.process.poll()
        assert status is None, f"{self.name} ended with {status}: {self.news}"
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        self.peak_bytes = max(self.peak_bytes, int(text.split("VmHWM:")[1].split()[0]) * 1024)
        if warming_up:
            self.first_bytes = self.peak_bytes

    @property
    def growth_bytes(self) -> int:
        """Returns the growth of its memory: the peak, less the use after the warm-up."""
        return self.peak_bytes - self.first_bytes


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def running(name: str, errors: Path, *flags: str) -> Iterator[Process]:
    """A process with the secret that listens, stopped at the end; it writes its log to `errors`."""
    secret = errors.with_name("secret")
    if not secret.exists():
        secret.touch(0o600)
        secret.write_text(SECRET.text)
    with errors.open("w") as log:
        command = [sys.executable, "-m", "rocketmq_compat.process", *flags, "--secret-file", str(secret)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = Process(name, process)
        listener = threading.Thread(target=found.listen)
        listener.start()
        try:
            assert found.listening.wait(START_S), f"{name} did not start"
            yield found
        finally:
            process.terminate()
            process.wait(START_S)
            listener.join()
            assert process.stdout is not None
            process.stdout.close()
    assert process.returncode == 0, f"{name} ended with {process.returncode}: {found.news}"


def broker_flags(data: Path, names: Process | None, **settings: Any) -> list[str]:
    """Returns the arguments that start a broker."""
    flags = ["broker", "--listen", "127.0.0.1:0", "--ha-listen", "127.0.0.1:0", "--data", str(data)]
    if names is not None:
        settings["namesrvAddr"] = "{}:{}".format(*names.address)
    return [*flags, *(f"--set={key}={value}" for key, value in {**BROKER_SETTINGS, **settings}.items())]


# What a client does


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=HANG_S)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def read_command(connection: socket.socket) -> Command:
    """The next command; `EOFError` if the server closed instead."""
    (length,) = struct.unpack(">I", read_exactly(connection, 4))
    assert length < 2**25, "the server sent an absurd length"
    return decode(read_exactly(connection, length), ANSWER_HEADER_BYTES_MAX)


def ask(connection: socket.socket, code: int, ext: dict[str, Any], body: bytes = b"", *, opaque: int = 7) -> Command:
    """The answer to a valid request; what the server asks meanwhile is ignored."""
    connection.sendall(json_frame(code, ext, body, opaque=opaque))
    while True:
        answer = read_command(connection)
        if answer.is_response and answer.opaque == opaque:
            return answer


def credentials(name: str) -> Credentials:
    """Returns what proves that a process of this name is of the cluster."""
    return credentials_of(SECRET, CLUSTER, name)


def prove_to_broker(connection: socket.socket, broker_id: int) -> None:
    """Prove to the broker of this id, or to the name server where there is none, to be `MEMBER`."""
    _prove(connection, credentials(MEMBER).dial(REMOTING, broker_named(BROKER_NAME, broker_id, None)))


def prove_to_names(connection: socket.socket) -> None:
    """Prove to a name server to be `MEMBER`."""
    _prove(connection, credentials_of(SECRET, ANY_CLUSTER, MEMBER).dial(NAMES, NAME_SERVER))


def _prove(connection: socket.socket, dialer: Dialer) -> None:
    message = dialer.opening
    while message:
        connection.sendall(json_frame(RequestCode.PROVE_MEMBERSHIP, {}, message))
        answer = read_command(connection)
        assert answer.code == ResponseCode.SUCCESS, f"a member is not admitted: {answer}"
        message = dialer.step(bytes(answer.body)).reply


def send_fields(topic: str) -> dict[str, Any]:
    """The fields of SEND_MESSAGE."""
    return {
        "producerGroup": "healthy", "topic": topic, "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "reconsumeTimes": "0",
        "defaultTopic": "TBW102", "defaultTopicQueueNums": "1",
    }  # fmt: skip


def create_topic(address: tuple[str, int], topic: str) -> None:
    """A topic with one queue, as soon as the master has compared its log with its slaves'."""
    deadline = time.monotonic() + START_S
    with connect(address) as connection:
        ext = {"topic": topic, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        while (answer := ask(connection, 17, ext)).code == ResponseCode.SERVICE_NOT_AVAILABLE:
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)
        assert answer.code == 0, answer


def await_route(names: tuple[str, int], topic: str) -> None:
    """Until the name server knows the topic."""
    deadline = time.monotonic() + START_S
    with connect(names) as connection:
        while ask(connection, 105, {"topic": topic}).code != 0:
            assert time.monotonic() < deadline, f"the name server learns nothing of {topic}"
            time.sleep(0.01)


@attrs.define
class HealthyClient:
    """Sends all the time, on one connection, asks the name server for the route now and then, and reads everything at the end."""

    broker: tuple[str, int]
    names: tuple[str, int]
    acknowledged: dict[int, bytes] = attrs.field(factory=dict)
    statuses: Counter[int] = attrs.field(factory=Counter)
    longest_s: float = 0.0
    during: str = ""
    """Names the attack of the moment; the attacker sets it."""
    longest_during: str = ""
    failure: str = ""
    stopped: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        """Until `stopped`; whatever fails is kept in `failure`."""
        try:
            with connect(self.broker) as connection, connect(self.names) as names:
                number = 0
                while not self.stopped.wait(HEALTHY_PAUSE_S):
                    began = time.monotonic()
                    self._send(connection, number)
                    if number % 20 == 0:
                        self._ask_route(names)
                    seconds = time.monotonic() - began
                    if seconds > self.longest_s:
                        self.longest_s, self.longest_during = seconds, self.during
                    number += 1
        except Exception as error:  # noqa: BLE001 - told by the thread that asks
            self.failure = f"{type(error).__name__}: {error}"

    def _send(self, connection: socket.socket, number: int) -> None:
        body = b"healthy %d" % number
        answer = ask(connection, 10, send_fields(HEALTHY), body)
        self.statuses[answer.code] += 1
        assert answer.code in (*STORED, REFUSED), f"a healthy send got {answer.code}: {answer.remark}"
        if answer.code in STORED:
            self.acknowledged[int(answer.ext["queueOffset"])] = body

    def _ask_route(self, names: socket.socket) -> None:
        answer = ask(names, 105, {"topic": HEALTHY})
        assert answer.code == 0, f"the route of a healthy topic is gone: {answer.remark}"
        assert "{}:{}".format(*self.broker).encode() in bytes(answer.body), f"another route: {bytes(answer.body)!r}"

    def check(self, address: tuple[str, int], within_s: float = 0.0) -> None:
        """Everything that was acknowledged is there, and nothing else; a slave may need some time."""
        deadline = time.monotonic() + within_s
        while True:
            found = self._read_queue(address)
            if len(found) >= len(self.acknowledged) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert found == self.acknowledged, (
            f"{len(self.acknowledged)} messages were acknowledged, {len(found)} are there, or others"
        )

    def _read_queue(self, address: tuple[str, int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        with connect(address) as connection:
            while True:
                ext = {
                    "consumerGroup": "healthy", "topic": HEALTHY, "queueId": "0", "queueOffset": str(len(found)), "maxMsgNums": "32",
                    "sysFlag": "4", "subscription": "*", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
                }  # fmt: skip
                answer = ask(connection, 11, ext)
                content = bytes(answer.body)
                if answer.code != 0:
                    return found
                for at, head in read_heads(content):
                    found[head.queue_offset] = bytes(head.body(content[at : at + head.size]))
