"""Clients that misbehave for longer than one frame. Each episode ends with proof that the server still serves, this client too."""

import contextlib
import json
import random
import socket
import struct
import time
from collections.abc import Callable

import attrs

from tests.fuzz.rocketmq_group import STORED, ask, connect, read_command, send_fields
from tests.fuzz.rocketmq_requests import MESSAGE_BYTES_MAX, QUIET, WAITED, binary_frame, json_frame

FLOOD = 2_000
OPEN_MAX = 40
FRAME_BYTES_MAX = 16 * 1024 * 1024 - 4
_INNER = struct.Struct(">iIIiI")
_RECORD = struct.Struct(">IIIiiqqiq8sq8siqI")


@attrs.define
class BadClients:
    """Against a broker and a name server; connections that are left open are closed by `close`."""

    broker: tuple[str, int]
    names: tuple[str, int]
    rng: random.Random
    _open: list[socket.socket] = attrs.field(factory=list)

    @property
    def episodes(self) -> tuple[Callable[[], None], ...]:
        """All that they do, in turn."""
        return (
            self.flood_without_answers,
            self.answer_to_nothing,
            self.send_slowly,
            self.never_read,
            self.wait_in_thousands,
            self.nest_deeply,
            self.name_many_things,
            self.send_a_batch_of_crumbs,
            self.look_into_bodies,
            self.commit_everywhere,
            self.be_many_brokers,
        )

    def close(self) -> None:
        """Leave."""
        for each in self._open:
            each.close()

    def _keep(self, connection: socket.socket) -> None:
        self._open.append(connection)
        if len(self._open) > OPEN_MAX:
            self._open.pop(0).close()

    def _is_served(self, connection: socket.socket, code: int = 46) -> None:
        answer = ask(connection, code, {}, opaque=77)
        assert answer.code in (0, 3), answer

    # ---------------------------------------------------------------- floods

    def flood_without_answers(self) -> None:
        """One-way sends as fast as the socket takes them; the last request is answered, and nothing else."""
        frame = binary_frame(10, send_fields(QUIET), b"flood", flag=2)
        with connect(self.broker) as connection:
            connection.sendall(frame * FLOOD)
            connection.sendall(json_frame(46, {}, opaque=5))
            answer = read_command(connection)
            assert answer.opaque == 5, f"a one-way request was answered: {answer}"

    def answer_to_nothing(self) -> None:
        """Answers that are waited for nowhere are dropped."""
        for address in (self.broker, self.names):
            with connect(address) as connection:
                connection.sendall(b"".join(json_frame(0, {}, b"", opaque=each, flag=1) for each in range(FLOOD)))
                self._is_served(connection)

    def send_slowly(self) -> None:
        """The beginnings of large frames, and of ordinary ones byte by byte."""
        for address in (self.broker, self.names):
            connection = connect(address)
            connection.sendall(struct.pack(">I", FRAME_BYTES_MAX) + b"\0\0\0\x10" + bytes(self.rng.randrange(100_000)))
            self._keep(connection)
            with connect(address) as connection:
                for byte in json_frame(46, {}, opaque=9):
                    connection.sendall(bytes((byte,)))
                assert read_command(connection).opaque == 9

    def never_read(self) -> None:
        """Requests with long answers, which are left in the socket until it is full."""
        connection = connect(self.broker)
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            connection.sendall(json_frame(21, {}) * 20_000)
        self._keep(connection)

    def wait_in_thousands(self) -> None:
        """Pulls that are held as long as possible; other requests of the same connection are served meanwhile."""
        ext = {
            "consumerGroup": "g", "topic": WAITED, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "6", "subVersion": "0",
            "commitOffset": "0", "suspendTimeoutMillis": str(2**63 - 1), "subscription": "a||b", "expressionType": "TAG",
        }  # fmt: skip
        connection = connect(self.broker)
        connection.sendall(b"".join(json_frame(11, ext, opaque=1_000 + each) for each in range(FLOOD)))
        self._is_served(connection)
        self._keep(connection)

    # ---------------------------------------------------------------- bodies

    def nest_deeply(self) -> None:
        """JSON that is nothing but brackets, or as large as a frame may be: refused, or closed, within a moment."""
        size = FRAME_BYTES_MAX - 1_000
        bodies = [
            b"[" * size,
            b"[" * 400 + b"]" * 400,
            b'{"a":' * 100_000,
            b"[" + b"{}," * (size // 3 - 1) + b"{}]",
            b"{" + b"1:1," * 60_000 + b"1:1}",
            b'{"clientID":"' + b"x" * (size - 20) + b'"}',
        ]
        body = self.rng.choice(bodies)
        self._ask_large(34, body)

    def name_many_things(self) -> None:
        """Valid JSON with as many members as have room."""
        rng = self.rng
        queues = [{"brokerName": "b", "queueId": each, "topic": "t"} for each in range(rng.choice([1_000, 250_000]))]
        subscriptions = [{"topic": f"t{each}", "subString": "*"} for each in range(rng.choice([10_001, 300_000]))]
        consumers = [
            {"groupName": f"g{each}", "subscriptionDataSet": []} for each in range(rng.choice([1_001, 100_000]))
        ]
        code, body = rng.choice(
            [
                (41, {"consumerGroup": "many", "clientId": "c", "mqSet": queues}),
                (
                    34,
                    {"clientID": "c", "consumerDataSet": [{"groupName": "many", "subscriptionDataSet": subscriptions}]},
                ),
                (34, {"clientID": "c", "consumerDataSet": consumers, "producerDataSet": consumers}),
            ]
        )
        self._ask_large(code, json.dumps(body).encode())

    def _ask_large(self, code: int, body: bytes) -> None:
        began = time.monotonic()
        with connect(self.broker) as connection:
            answer = ask(connection, code, {}, body)
            assert answer.is_response
            self._is_served(connection)
        seconds = time.monotonic() - began
        assert seconds < 5, (
            f"request {code} with a body of {len(body)} bytes kept the broker busy for {seconds} s: {body[:60]!r}"
        )

    def send_a_batch_of_crumbs(self) -> None:
        """As many messages in a batch as have room: stored and so answered, or certainly not stored."""
        count = self.rng.choice([1, 3_000, 9_000, 60_000])
        count = min(count, MESSAGE_BYTES_MAX // (_INNER.size + 2))
        inner = _INNER.pack(_INNER.size + 2, 0, 0, 0, 0) + b"\0\0"
        letters = dict(
            zip("abcdefghijkl", ["p", QUIET, "TBW102", "1", "0", "0", "1", "0", "", "0", "false", "1"], strict=True)
        )
        with connect(self.broker) as connection:
            before = int(ask(connection, 30, {"topic": QUIET, "queueId": "0"}).ext["offset"])
            answer = ask(connection, 320, letters, inner * count)
            after = int(ask(connection, 30, {"topic": QUIET, "queueId": "0"}).ext["offset"])
        stored = 0 <= after - before - count < count if count > 1 else after > before
        assert stored == (answer.code in STORED), (
            f"{count} messages, from {before} to {after}: {answer.code} {answer.remark}"
        )

    def look_into_bodies(self) -> None:
        """A body that contains what looks like a record of that very place; it is asked for, and sent back, by its offset."""
        rng, offset = self.rng, 0
        with connect(self.broker) as connection:
            for _ in range(40):
                learnt = ask(connection, 10, send_fields(QUIET), b"x" * 100)
                if learnt.code not in STORED:
                    return
                last = int(learnt.ext["msgId"][-16:], 16)
                offset = last + _RECORD.size + 100 + 1 + len(QUIET) + 2 + _RECORD.size
                answer = ask(connection, 10, send_fields(QUIET), forged_record(offset, rng))
                if answer.code not in STORED:
                    return
                if int(answer.ext["msgId"][-16:], 16) + _RECORD.size == offset:
                    break
            for code, ext in (
                (33, {"offset": str(offset)}),
                (36, {"offset": str(offset), "group": "g", "delayLevel": "0"}),
            ):
                answer = ask(connection, code, ext)
                assert answer.is_response, answer

    def commit_everywhere(self) -> None:
        """Offsets of queues that a topic does not have."""
        frames = [
            json_frame(
                15,
                {
                    "consumerGroup": "g",
                    "topic": QUIET,
                    "queueId": str(2**31 - 1 - self.rng.getrandbits(30)),
                    "commitOffset": "0",
                },
                flag=2,
            )
            for _ in range(FLOOD)
        ]
        with connect(self.broker) as connection:
            connection.sendall(b"".join(frames))
            self._is_served(connection)

    def be_many_brokers(self) -> None:
        """Registrations of brokers with topics that do not exist; they go with the connection."""
        with connect(self.names) as connection:
            for each in range(200):
                topics = {f"rogue{each}-{topic}": {"topicName": f"rogue{each}-{topic}"} for topic in range(20)}
                body = json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": topics}}).encode()
                ext = {
                    "clusterName": "rogue",
                    "brokerName": f"rogue-{each}",
                    "brokerAddr": "127.0.0.1:1",
                    "brokerId": "0",
                }
                answer = ask(connection, 103, ext, body)
                assert answer.is_response, answer
            assert ask(connection, 106, {}).code == 0


def forged_record(physical: int, rng: random.Random) -> bytes:
    """Returns bytes that resemble the record at a physical offset."""
    topic, properties = (
        rng.choice([b"fuzz-target", b"\xff\xfe", b"..", b"t" * 127]),
        rng.choice([b"", b"DELAY\x013\2", b"\xff"]),
    )
    body = rng.randbytes(rng.choice([0, 20]))
    size = _RECORD.size + len(body) + 1 + len(topic) + 2 + len(properties)
    size = rng.choice([size, size, size - 1, size + 1, _RECORD.size + 3, 2**31 - 1, 2**32 - 1])
    told = rng.choice([len(body), len(body), 2**31 - 1, 2**32 - 1])
    times = rng.choice([0, -1, 2**31 - 1])
    head = _RECORD.pack(
        size, 0xDAA320A7, 0, 0, 0, 0, physical, rng.choice([0, 0, 16, 32]), 0, bytes(8), 0, bytes(8), times, 0, told
    )
    return head + body + bytes((len(topic),)) + topic + struct.pack(">H", len(properties)) + properties
