"""Peers that misbehave on the HA stream: slaves of a true master, and a master of a true slave.

The layouts of the messages are written here again: what is under test reads them.
"""

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import crc32c

from rocketmq_compat.membership import HA, broker_named
from rocketmq_compat.records import encode_record
from tests.fuzz.rocketmq_group import (
    HANG_S,
    STORED,
    Process,
    ask,
    broker_flags,
    connect,
    create_topic,
    credentials,
    read_exactly,
    running,
    send_fields,
)
from tests.fuzz.rocketmq_requests import BROKER_NAME, QUIET
from tests.fuzz.wire import HEADER, frame

HANDSHAKE, WELCOME, REFUSED, PUSH, REPORT, HEARTBEAT = range(96, 102)
PROOF = 107
OFFSET_MAX = 2**62
TRUE_SLAVE = 1
STRANGE_SLAVE = 77
OPEN_MAX = 40
READERS = 100

Epochs = list[tuple[int, int]]


def handshake(
    slave_id: int, end: int = 0, epochs: Epochs | None = None, *, start: int = 0, name: str = BROKER_NAME
) -> bytes:
    """Returns the first frame that a slave sends."""
    told = epochs or []
    body = struct.pack("!BIQQHB", 1, slave_id, start, end, len(told), len(name)) + name.encode()
    return frame(HANDSHAKE, body + b"".join(struct.pack("!QQ", *each) for each in told))


def report(end: int) -> bytes:
    return frame(REPORT, struct.pack("!Q", end))


def push(offset: int, epoch: int, payload: bytes, *, crc: int | None = None) -> bytes:
    """Bytes of a log; with a checksum that is right unless told otherwise."""
    known = crc32c.crc32c(payload) if crc is None else crc
    return frame(PUSH, struct.pack("!QQQI", offset, epoch, 0, known) + payload)


def welcome(push_from: int) -> bytes:
    return frame(WELCOME, struct.pack("!QQ", push_from, 0))


def read_message(connection: socket.socket) -> tuple[int, bytes]:
    """The type and the body of the next message; `EOFError` if the other side closed."""
    try:
        length, _, kind, _, crc = HEADER.unpack(read_exactly(connection, HEADER.size))
        body = read_exactly(connection, length)
    except ConnectionError:
        raise EOFError from None
    assert crc == crc32c.crc32c(body), "the other side itself sent a bad frame"
    return kind, body


def prove_to_master(connection: socket.socket, slave_id: int, name: str = BROKER_NAME) -> None:
    """Prove to the master to be this slave."""
    dialer = credentials(broker_named(name, slave_id, None)).dial(HA, broker_named(BROKER_NAME, 0, None))
    message = dialer.opening
    while message:
        connection.sendall(frame(PROOF, message))
        kind, body = read_message(connection)
        assert kind == PROOF, (kind, body)
        message = dialer.step(body).reply


def prove_to_slave(connection: socket.socket) -> None:
    """Prove to the slave that dialled this connection to be its master."""
    acceptor = credentials(broker_named(BROKER_NAME, 0, None)).accept(HA, time.monotonic())
    admitted = None
    while admitted is None:
        kind, body = read_message(connection)
        assert kind == PROOF, (kind, body)
        step = acceptor.step(time.monotonic(), body)
        connection.sendall(frame(PROOF, step.reply))
        admitted = step.admitted


def fuzzed_message(rng: random.Random) -> bytes:
    """A frame of the HA stream with strange values, or a damaged one; its slave is none that counts, or of another name."""
    end = rng.choice([0, 1, 2**40, OFFSET_MAX, OFFSET_MAX + 1, 2**64 - 1])
    epochs = rng.choice(
        [
            [],
            [(0, 0)],
            [(1, 0)],
            [(2**64 - 1, 0)],
            [(5, 0), (4, 1)],
            [(1, 5), (2, 5)],
            [(each, each) for each in range(1, 5_000)],
        ]
    )
    name = rng.choice(["another", "", "x" * 255, BROKER_NAME])
    slave_id = 0 if name == BROKER_NAME else rng.choice([0, 1, 2**32 - 1])
    data = rng.choice(
        [
            handshake(slave_id, end, epochs, start=rng.choice([0, end, OFFSET_MAX]), name=name),
            report(end),
            welcome(end),
            push(end, rng.choice([0, 1, 2**64 - 1]), rng.randbytes(rng.choice([0, 1, 300]))),
            frame(REFUSED, struct.pack("!q", rng.choice([-2, -1, 0, 2**63 - 1])) + rng.randbytes(20)),
            frame(HEARTBEAT, struct.pack("!Q", end)),
            frame(rng.choice([0, 95, 102, 255]), rng.randbytes(8)),
            frame(HANDSHAKE, rng.randbytes(rng.randrange(60))),
            frame(HANDSHAKE, handshake(slave_id, end, name="n")[HEADER.size :], version=rng.choice([0, 2, 255])),
            HEADER.pack(2**32 - 1, 1, HANDSHAKE, 0, 0),
        ]
    )
    if rng.random() < 0.3:
        damaged = bytearray(data)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    return data if rng.random() < 0.8 else data[: rng.randrange(1, len(data))]


def send_message(address: tuple[str, int], data: bytes, *, proves: bool) -> str:
    """One message on a connection of its own: "refused" in words, or "closed" without. If `proves`, of a member."""
    with connect(address) as connection:
        if proves:
            prove_to_master(connection, STRANGE_SLAVE)
        try:
            connection.sendall(data)
            if len(data) < 8 or len(data) < HEADER.size + int.from_bytes(data[:4], "big"):
                connection.shutdown(socket.SHUT_WR)
            while True:
                if read_message(connection)[0] == REFUSED:
                    return "refused"
        except (EOFError, OSError):
            return "closed"


@attrs.define
class RogueSlaves:
    """Against a master: at its HA port and at the port of its clients. `is_long` includes what takes the true slave seconds to mend."""

    master: Process
    rng: random.Random
    is_long: bool
    _ids: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1_000))
    _open: list[socket.socket] = attrs.field(factory=list)

    @property
    def episodes(self) -> tuple[Callable[[], None], ...]:
        """All that they do, in turn."""
        short = (
            self.be_of_another_name,
            self.report_too_much,
            self.speak_for_the_true_slave,
            self.report_less,
            self.shake_hands_twice,
            self.be_a_master,
            self.be_silent,
            self.have_another_history,
            self.have_many_other_histories,
            self.read_nothing,
            self.claim_all_of_it,
        )
        return (*short, self.be_the_true_slave) if self.is_long else short

    def close(self) -> None:
        """Leave."""
        for each in self._open:
            each.close()
        self._open.clear()

    def _keep(self, connection: socket.socket) -> None:
        self._open.append(connection)
        while len(self._open) > OPEN_MAX:
            self._open.pop(0).close()

    def _connect(self, slave_id: int, name: str = BROKER_NAME) -> socket.socket:
        """Returns a connection to either port of the master, which knows who is there."""
        connection = connect(self.rng.choice([self.master.address, self.master.ha_address]))
        prove_to_master(connection, slave_id, name)
        return connection

    def _join_as_slave(self, slave_id: int | None = None, end: int = 0, epochs: Epochs | None = None) -> socket.socket:
        """Returns the connection of a slave that the master has welcomed."""
        number = next(self._ids) if slave_id is None else slave_id
        connection = self._connect(number)
        connection.sendall(handshake(number, end, epochs))
        kind, body = read_message(connection)
        assert kind == WELCOME, f"not taken: {body!r}"
        return connection

    def _is_closed(self, connection: socket.socket) -> None:
        """Expects that the master ends the connection; pushes may come before."""
        try:
            while True:
                read_message(connection)
        except EOFError:
            connection.close()
        except TimeoutError:
            raise AssertionError("the master keeps a peer that breaks the rules") from None

    # ---------------------------------------------------------------- one at a time

    def be_of_another_name(self) -> None:
        """And of broker id 0: refused, and pushed nothing."""
        for slave_id, name in ((7, "another"), (0, BROKER_NAME)):
            with self._connect(slave_id, name) as connection:
                connection.sendall(handshake(slave_id, name=name))
                kind, body = read_message(connection)
                assert kind == REFUSED, (kind, body)
                self._is_closed(connection)

    def report_too_much(self) -> None:
        """More than was pushed, and a report without a handshake."""
        connection = self._join_as_slave()
        connection.sendall(report(self.rng.choice([OFFSET_MAX, 2**40])))
        self._is_closed(connection)
        for proves in (False, True):
            connection = connect(self.master.ha_address)
            if proves:
                prove_to_master(connection, next(self._ids))
            connection.sendall(report(0))
            self._is_closed(connection)

    def speak_for_the_true_slave(self) -> None:
        """Without the secret, or as another member; so the true slave keeps its place."""
        for proves in (False, True):
            connection = connect(self.rng.choice([self.master.address, self.master.ha_address]))
            if proves:
                prove_to_master(connection, next(self._ids))
            connection.sendall(handshake(TRUE_SLAVE, OFFSET_MAX))
            self._is_closed(connection)

    def report_less(self) -> None:
        """Less than before."""
        connection = self._join_as_slave()
        kind, body = read_message(connection)
        while kind != PUSH:
            kind, body = read_message(connection)
        end = len(body) - 28
        connection.sendall(report(end) + report(end - 1))
        self._is_closed(connection)

    def shake_hands_twice(self) -> None:
        """On one connection."""
        connection = self._join_as_slave()
        connection.sendall(handshake(next(self._ids)))
        self._is_closed(connection)

    def be_a_master(self) -> None:
        """Messages of a master, sent to one; and damage."""
        damaged = bytearray(report(0))
        damaged[-1] ^= 1
        for data in (
            push(0, 1, b"bytes"),
            welcome(0),
            frame(REFUSED, struct.pack("!q", 0)),
            frame(HEARTBEAT, bytes(8)),
            bytes(damaged),
        ):
            connection = self._join_as_slave()
            connection.sendall(data)
            self._is_closed(connection)

    def be_silent(self) -> None:
        """Before and after a handshake."""
        for _ in range(4):
            self._keep(connect(self.master.ha_address))
            self._keep(self._join_as_slave())

    def have_another_history(self) -> None:
        """Refused, and the master takes no messages until this slave has none."""
        slave_id = next(self._ids)
        epochs = self.rng.choice([[], [(1, 0)], [(2**61, 0)], [(1, 0), (2, 1), (3, 2)]])
        self._diverge(slave_id, self.rng.choice([10, 2**40, OFFSET_MAX]), epochs)
        with connect(self.master.address) as client:
            answer = ask(client, 10, send_fields(QUIET), b"blocked")
            assert answer.code == 14, answer
            self._join_as_slave(slave_id).close()
            answer = ask(client, 10, send_fields(QUIET), b"free")
            assert answer.code in STORED, answer

    def _diverge(self, slave_id: int, end: int, epochs: Epochs) -> None:
        with self._connect(slave_id) as connection:
            connection.sendall(handshake(slave_id, end, epochs))
            kind, body = read_message(connection)
            assert kind == REFUSED and struct.unpack_from("!q", body)[0] >= 0, (kind, body)
            self._is_closed(connection)

    def have_many_other_histories(self) -> None:
        """As many slaves as do not exist; what the master remembers of them is bounded, and ends with them."""
        ids = [next(self._ids) for _ in range(80)]
        for each in ids:
            self._diverge(each, 2**40, [])
        for each in ids:
            self._join_as_slave(each).close()
        with connect(self.master.address) as client:
            answer = ask(client, 10, send_fields(QUIET), b"free")
            assert answer.code in STORED, answer

    def read_nothing(self) -> None:
        """Many slaves that lack everything, and leave what they are pushed in the socket: bounded in number, and so in memory."""
        connections = []
        for _ in range(READERS):
            connection, slave_id = connect(self.master.address), next(self._ids)
            with contextlib.suppress(EOFError):  # too many
                prove_to_master(connection, slave_id)
                connection.sendall(handshake(slave_id))
            connections.append(connection)
        with connect(self.master.address) as client:
            assert ask(client, 46, {}).is_response
        self.master.watch(warming_up=False)
        for connection in connections:
            connection.close()

    def claim_all_of_it(self) -> None:
        """The master's own end, with epochs that are not its own."""
        with connect(self.master.address) as client:
            end = log_end(client)
        slave_id = next(self._ids)
        self._diverge(slave_id, end, [])
        self._join_as_slave(slave_id).close()

    def be_the_true_slave(self) -> None:
        """Takes its place; the true one has it back within seconds."""
        self._keep(self._join_as_slave(TRUE_SLAVE))
        with connect(self.master.address) as client:
            deadline = time.monotonic() + HANG_S
            while (answer := ask(client, 10, send_fields(QUIET), b"waits")).code != 0:
                assert answer.code in STORED, answer
                assert time.monotonic() < deadline, "the true slave does not come back"


def log_end(client: socket.socket) -> int:
    """Returns the end of a broker's commit log, as a physical offset."""
    facts = bytes(ask(client, 28, {}).body).decode()
    return int(facts.split('"commitLogMaxOffset":"')[1].split('"')[0])


def check_that_liars_are_no_copies(directory: Path) -> int:
    """A synchronous master without a slave: none of its answers is SEND_OK because of what a peer claims without having been sent it.

    Returns how many answers were looked at. The limit: a peer that was sent bytes and reports them is believed.
    """
    # A synchronous master whose disk is new waits for a slave. This one has had its disk for a while.
    flags = broker_flags(directory / "alone", None, brokerRole="ASYNC_MASTER")
    with running("alone", directory / "stderr-before", *flags) as master:
        create_topic(master.address, QUIET)
    flags = broker_flags(directory / "alone", None, brokerRole="SYNC_MASTER", slaveTimeout=50)
    with running("alone", directory / "stderr-alone", *flags) as master, connect(master.address) as client:
        create_topic(master.address, QUIET)
        rogue = RogueSlaves(master, random.Random(1), is_long=False)
        statuses: list[int] = []

        def send() -> None:
            statuses.append(ask(client, 10, send_fields(QUIET), b"alone").code)

        for _ in range(3):
            send()
        rogue.claim_all_of_it()
        send()
        reader = rogue._join_as_slave(5)
        learnt: Epochs = []
        held, end = 0, log_end(client)
        while held < end:
            kind, body = read_message(reader)
            if kind == PUSH:
                offset, epoch, _, _ = struct.unpack_from("!QQQI", body)
                learnt += [] if learnt and learnt[-1][0] == epoch else [(epoch, offset)]
                held = offset + len(body) - 28
        reader.close()
        size = end // len(statuses)
        for ahead in (1, size, 2 * size, 2**40):
            liar = rogue._join_as_slave(5, log_end(client), learnt)  # a history that is true, and nothing to be pushed
            liar.sendall(report(log_end(client)) + report(log_end(client) + ahead))
            rogue._is_closed(liar)
            send()
        deaf = rogue._join_as_slave(6)
        send()
        deaf.close()
        for connection in (rogue._join_as_slave(5, log_end(client), learnt), connect(master.ha_address)):
            send()  # a peer that holds all that was before, and is silent
            connection.close()
        assert 0 not in statuses, f"SEND_OK without a copy: {statuses}"
    return len(statuses)


@attrs.define
class RogueMaster:
    """A slave's master that lies, one way a connection; before each, the slave must hold all that it ever took. Run in a thread."""

    directory: Path
    rounds: int
    failure: str = ""
    dials: int = 0
    _records: list[bytes] = attrs.field(factory=list)

    def run(self) -> None:
        """All rounds; whatever fails is kept in `failure`."""
        try:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                listening.settimeout(HANG_S)
                at = f"127.0.0.1:{listening.getsockname()[1]}"
                flags = broker_flags(
                    self.directory / "victim", None, brokerRole="SLAVE", brokerId=2, haMasterAddress=at
                )
                with running("victim", self.directory / "stderr-victim", *flags) as victim:
                    for number in range(self.rounds + 1):
                        with listening.accept()[0] as connection:
                            connection.settimeout(HANG_S)
                            self._round(victim, connection, number)
        except Exception as error:  # noqa: BLE001 - told by the thread that asks
            self.failure = f"{type(error).__name__}: {error}"

    @property
    def _end(self) -> int:
        return sum(map(len, self._records))

    def _round(self, victim: Process, connection: socket.socket, number: int) -> None:
        prove_to_slave(connection)
        kind, body = read_message(connection)
        assert kind == HANDSHAKE, kind
        _, slave_id, start, end, _, _ = struct.unpack_from("!BIQQHB", body)
        assert (slave_id, start, end) == (2, 0, self._end), (
            f"after {number} lies the slave holds {start} to {end}, not {self._end}"
        )
        self.dials += 1
        self._check(victim)
        if number == self.rounds:
            return
        lies = self._lies()
        name, is_welcome, lie = lies[number % len(lies)]
        if is_welcome:
            connection.sendall(welcome(end))
            self._push_some(connection)
            lies = self._lies()  # behind what was just pushed
            name, is_welcome, lie = lies[number % len(lies)]
        connection.sendall(lie)
        try:
            while True:
                read_message(connection)
        except EOFError:
            pass
        except TimeoutError:
            raise AssertionError(f"the slave stays with a master that tells it {name}") from None
        victim.watch(warming_up=number == 0)

    def _push_some(self, connection: socket.socket) -> None:
        for _ in range(3):
            at = self._end
            self._records.append(some_record(len(self._records), at))
            connection.sendall(push(at, 10, self._records[-1]))
        reported = -1
        while reported < self._end:
            kind, body = read_message(connection)
            assert kind == REPORT, kind
            (reported,) = struct.unpack("!Q", body)
        assert reported == self._end, f"reports {reported} of {self._end}"

    def _check(self, victim: Process) -> None:
        at = 0
        with connect(victim.address) as client:
            for each in self._records:
                assert bytes(ask(client, 33, {"offset": str(at)}).body) == each, (
                    f"the record at {at} is not what it was"
                )
                at += len(each)

    def _lies(self) -> list[tuple[str, bool, bytes]]:
        """Returns each lie with its name, its bytes and True if a welcome precedes it; those that would overwrite come first."""
        end = self._end
        record = some_record(len(self._records), end)
        damaged = bytearray(push(end, 10, record))
        damaged[-1] ^= 1
        return [
            ("to write again from the start", True, push(0, 10, some_record(0, 0))),
            ("to begin earlier", False, welcome(max(0, end - 1))),
            ("to begin at the start", False, welcome(0)),
            ("that it diverges from the start", False, frame(REFUSED, struct.pack("!q", 0) + b"drop it")),
            ("what lies before its end", True, push(max(0, end - 1), 10, record)),
            ("what leaves a gap", True, push(end + 1, 10, record)),
            ("what is of an older epoch", True, push(end, 9, record)),
            ("a wrong checksum", True, push(end, 10, record, crc=1)),
            ("a damaged frame", True, bytes(damaged)),
            ("a second welcome", True, welcome(end)),
            ("a push before a welcome", False, push(end, 10, record)),
            ("a handshake", True, handshake(3)),
            ("a report", True, report(0)),
            ("an offset out of range", True, push(2**64 - 1, 10, record)),
            ("an epoch out of range", True, push(end, 2**64 - 1, record)),
            ("noise", True, b"\xff" * 100),
        ]


def some_record(number: int, physical: int) -> bytes:
    """The record of a message, as a master would push it."""
    values: dict[str, Any] = {"queue_id": 0, "born_ms": 1, "store_ms": 1, "born_host": bytes(8), "store_host": bytes(8)}
    return encode_record(
        topic="T", body=b"true %d" % number, properties="", queue_offset=number, physical_offset=physical, **values
    )


def in_background(master: RogueMaster) -> threading.Thread:
    """The thread that runs it, started."""
    thread = threading.Thread(target=master.run)
    thread.start()
    return thread
