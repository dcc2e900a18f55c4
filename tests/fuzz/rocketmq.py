"""Fuzzed frames against a real RocketMQ-compatible group: each may end its own connection, and nothing else.

`python -m tests.fuzz.rocketmq --frames 100000 --seed 1` starts a name server, a synchronous master and its slave, sends that many frames to
all of their ports, each on a connection of its own, and in between behaves badly in longer ways: as a client (`rocketmq_clients`), as a slave and
as a master (`rocketmq_peers`). It prints what came of them, and fails unless

- every frame that is a request is answered (only pulls may wait), and every frame that is none ends its connection, with a logged reason,
- a healthy client's messages are acknowledged within a bounded time, or refused, and all that were acknowledged are on the master and on the
  slave afterwards,
- no send is acknowledged with SEND_OK because of a peer that claims what it was not sent,
- a slave keeps every byte, whatever a master tells it (unless that its log begins behind the slave's end: that is believed),
- the processes' logs on stderr stay empty, and they stop cleanly,
- at least half of the frames reached a handler,
- the memory of each process grew by less than 256 MiB, and nothing was written outside of their directories.

All processes have a secret. Half of the frames come from strangers, half from a process that has proven to be of the cluster.

What cannot be promised: a member is believed. One that proves to be a slave, was sent bytes, and reports them without having kept them, counts as
a copy; it can keep the true slave away; and one that shows another history stops the master's taking of messages, until it shows none.
"""

import argparse
import contextlib
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rocketmq_compat.broker.broker import OF_BROKERS, OF_OPERATORS, OF_TOOLS
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.errors import MalformedFrame
from rocketmq_compat.remoting.frame import Command, decode
from tests.fuzz.rocketmq_clients import BadClients
from tests.fuzz.rocketmq_group import (
    HealthyClient,
    Process,
    await_route,
    broker_flags,
    connect,
    create_topic,
    prove_to_broker,
    prove_to_names,
    read_command,
    read_exactly,
    running,
)
from tests.fuzz.rocketmq_peers import (
    RogueMaster,
    RogueSlaves,
    check_that_liars_are_no_copies,
    fuzzed_message,
    in_background,
    send_message,
)
from tests.fuzz.rocketmq_requests import (
    BROKER,
    HEALTHY,
    NAMES,
    PULLS,
    QUIET,
    TARGET,
    WAITED,
    Frame,
    fuzzed_frame,
    json_frame,
)

MEMORY_GROWTH_MAX = 256 * 1024 * 1024
MEMORY_EVERY = 100
WARM_UP = 100
EPISODE_EVERY = 20
EPISODES_MAX = 250
LONG = 10_000
"""With so many frames, what takes seconds is included, and a rogue master tells every lie that it knows."""
ROUNDS = 16
HA_SHARE = 0.06
MEMBERS_SHARE = 0.5
"""So many of the frames come from a process that has proven to be of the cluster, the others from strangers."""
LATENCY_S_MAX = 5.0
WAIT_S = 0.02
PROVE = RequestCode.PROVE_MEMBERSHIP
OF_MEMBERS = {
    *(PROVE, *OF_BROKERS, *OF_TOOLS, *OF_OPERATORS),
    *(RequestCode.REGISTER_BROKER, RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.UNREGISTER_BROKER),
    *(RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION),
}
"""A member that asks for what is another's loses its connection; a stranger is refused, unless its proof is bad."""
MARKER = 0x5AFE5AFE
"""The opaque of a request that follows each fuzzed one: its answer tells that the server goes on with the connection."""
MARKER_CODE = 46


def send_fuzzed(process: Process, frame: Frame, *, proves: bool) -> str:
    """One fuzzed frame on a connection of its own, of a member if `proves`, and its fate.

    "answered", "not supported" (answered without a handler), "no answer" (one-way, or an answer itself), "waiting" (still, when the client left),
    "not allowed" (a member that asks for what is another's is ended),
    "closed" by the server, and "left": the frame was not whole, and the connection ended when the client did not send the rest.
    """
    expected = _parse_frame(frame)
    with connect(process.address) as connection:
        if proves:
            prove_to(process, connection)
        try:
            connection.sendall(frame.data)
            if not frame.whole:
                with contextlib.suppress(OSError):  # closed already
                    connection.shutdown(socket.SHUT_WR)
                while True:
                    read_exactly(connection, 1)
            connection.sendall(json_frame(MARKER_CODE, {}, opaque=MARKER))
            fate = _answer(connection, expected)
        except (EOFError, ConnectionError):
            if not frame.whole:
                return "left"
            if expected is not None and (expected.code == PROVE or (proves and expected.code in OF_MEMBERS)):
                return "not allowed"
            assert expected is None, f"a request was not answered: {frame}"
            return "closed"
        except TimeoutError:
            raise AssertionError(f"no answer to {frame}") from None
    assert expected is not None, f"what is no frame was {fate}: {frame}"
    return fate


def prove_to(process: Process, connection: socket.socket) -> None:
    """Prove to be a member of the cluster that has no business with this process."""
    if process.name == "names":
        prove_to_names(connection)
    else:
        prove_to_broker(connection, 1 if process.name == "slave" else 0)


def _answer(connection: socket.socket, expected: Command | None) -> str:
    """Reads until both the fuzzed request and the marker are answered, and returns the fate of the request."""
    asks = expected is not None and not expected.is_response and not expected.is_oneway
    fate, is_marked = "no answer", False
    while not is_marked or (asks and fate == "no answer"):
        if is_marked and expected is not None and expected.code in PULLS:
            connection.settimeout(WAIT_S)
        try:
            command = read_command(connection)
        except TimeoutError:
            if is_marked and expected is not None and expected.code in PULLS:
                return "waiting"
            raise
        if not command.is_response:
            continue  # a notice
        if command.opaque == MARKER:
            is_marked = True
        else:
            assert asks and expected is not None and command.opaque == expected.opaque, (
                f"another request was answered: {command}"
            )
            assert command.serialization == expected.serialization, f"answered in another serialization: {command}"
            fate = "not supported" if command.code == 3 else "answered"
    return fate


def _parse_frame(frame: Frame) -> Command | None:
    """Returns the command in a frame, None for a frame that holds none."""
    try:
        return decode(frame.data[4:])
    except MalformedFrame:
        return None


def fuzz(frames: int, seed: int) -> dict[str, Any]:
    """Send the frames; what happened. `AssertionError` if more than single connections suffered."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        try:
            outcome = _fuzz(frames, random.Random(seed), directory)
        except BaseException as error:
            for each in directory.glob("stderr-*"):
                if each.read_text():
                    error.add_note(f"{each.name}: {each.read_text()[-8000:]}")
            raise
        for each in directory.glob("stderr-*"):
            assert not each.read_text(), f"{each.name}: {each.read_text()[-4000:]}"
        names = {each.name for each in directory.iterdir() if not each.name.startswith("stderr-")}
        assert names <= {"master", "slave", "alone", "victim", "secret", "kv.json", "kv.json.journal"}, (
            f"files outside of the directories: {names}"
        )
        for data in ("master", "slave"):
            inside = {each.name for each in (directory / data).iterdir()}
            assert inside <= {"commitlog", "consumequeue", "index", "config", "copy", "dispatched"}, (
                f"{data} holds {inside}"
            )
    return outcome


def _fuzz(frames: int, rng: random.Random, directory: Path) -> dict[str, Any]:
    looked_at = check_that_liars_are_no_copies(directory)
    rogue = RogueMaster(directory, ROUNDS if frames >= LONG else 1)
    thread = in_background(rogue)
    try:
        outcome = _attack(frames, rng, directory)
    finally:
        thread.join()
    assert not rogue.failure, f"of a slave with a rogue master: {rogue.failure}"
    return {**outcome, "answers_without_a_copy": looked_at, "lies_told_to_a_slave": rogue.dials - 1}


def _attack(frames: int, rng: random.Random, directory: Path) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        kv = f"--set=kvConfigPath={directory / 'kv.json'}"
        names = stack.enter_context(
            running("names", directory / "stderr-names", "nameserver", "--listen", "127.0.0.1:0", kv)
        )
        flags = broker_flags(directory / "master", names, brokerRole="SYNC_MASTER")
        master = stack.enter_context(running("master", directory / "stderr-master", *flags))
        at = "{}:{}".format(*master.ha_address)
        flags = broker_flags(directory / "slave", names, brokerRole="SLAVE", brokerId=1, haMasterAddress=at)
        slave = stack.enter_context(running("slave", directory / "stderr-slave", *flags))
        for topic in (HEALTHY, TARGET, WAITED, QUIET):
            create_topic(master.address, topic)
        await_route(names.address, HEALTHY)
        return Attack(names, master, slave, rng, is_long=frames >= LONG).run(frames)


class Attack:
    """All that is sent to one group."""

    def __init__(self, names: Process, master: Process, slave: Process, rng: random.Random, *, is_long: bool) -> None:
        self._names, self._master, self._slave = names, master, slave
        self._processes = (names, master, slave)
        self._rng = rng
        self._fates: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._healthy = HealthyClient(master.address, names.address)
        self._clients = BadClients(master.address, names.address, rng)
        self._peers = RogueSlaves(master, rng, is_long)
        self._episodes: Counter[str] = Counter()

    def run(self, frames: int) -> dict[str, Any]:
        """Send the frames, and tell what happened."""
        healthy = self._healthy
        thread = threading.Thread(target=healthy.run)
        thread.start()
        began = time.monotonic()
        try:
            every = max(EPISODE_EVERY, frames // EPISODES_MAX)
            for count in range(frames):
                self._one(count)
                if count % every == every - 1:
                    self._episode()
        finally:
            self._clients.close()
            self._peers.close()
            seconds = time.monotonic() - began
            healthy.stopped.set()
            thread.join()
        assert not healthy.failure, healthy.failure
        healthy.check(self._master.address)
        healthy.check(self._slave.address, within_s=30)
        return self._judge_attack(frames, seconds)

    def _one(self, count: int) -> None:
        rng = self._rng
        choice = rng.random()
        if choice < HA_SHARE:
            self._one_message(count)
            return
        process = self._names if choice < 0.25 else self._slave if choice < 0.35 else self._master
        frame = fuzzed_frame(NAMES if process is self._names else BROKER, rng)
        try:
            fate = send_fuzzed(process, frame, proves=rng.random() < MEMBERS_SHARE)
        except (OSError, AssertionError) as error:
            error.add_note(f"frame {count} to {process.name}, {frame}: exit {process.process.poll()} {process.news}")
            raise
        self._fates[fate] += 1
        self._kinds[frame.flaw] += 1
        self._watch(count)

    def _one_message(self, count: int) -> None:
        """Of the HA stream, at every port; only a master takes any."""
        process = self._rng.choice(self._processes)
        address = process.ha_address if process is self._master and self._rng.random() < 0.5 else process.address
        proves = process is self._master and self._rng.random() < MEMBERS_SHARE
        fate = send_message(address, fuzzed_message(self._rng), proves=proves)
        self._fates[f"ha {fate}"] += 1
        self._kinds["ha"] += 1
        self._watch(count)

    def _watch(self, count: int) -> None:
        if count % MEMORY_EVERY == 0:
            for each in self._processes:
                each.watch(warming_up=count <= WARM_UP)
            assert not self._healthy.failure, f"after frame {count}: {self._healthy.failure}"

    def _episode(self) -> None:
        """The next of those that take longer."""
        episodes = (*self._clients.episodes, *self._peers.episodes)
        episode = episodes[self._episodes.total() % len(episodes)]
        self._episodes[episode.__name__] += 1
        self._healthy.during = episode.__name__
        try:
            episode()
        except (OSError, EOFError, AssertionError) as error:
            error.add_note(f"{episode.__name__}: {[(each.process.poll(), each.news) for each in self._processes]}")
            raise
        self._healthy.during = "frames"
        for process in self._processes:
            process.watch(warming_up=False)

    def _judge_attack(self, frames: int, seconds: float) -> dict[str, Any]:
        healthy, fates = self._healthy, self._fates
        logged = sum(
            count for each in self._processes for reason, count in each.reasons.items() if "reset" not in reason.lower()
        )
        closed = fates["closed"] + fates["not allowed"]
        assert logged >= closed, f"{closed} connections were closed, {logged} with a logged reason"
        reached = fates["answered"] + fates["waiting"] + fates["not allowed"]
        assert reached * 2 >= frames, f"only {reached} frames reached a handler"
        assert healthy.longest_s < LATENCY_S_MAX, (
            f"a healthy send took {healthy.longest_s} s, during {healthy.longest_during}"
        )
        for each in self._processes:
            assert each.growth_bytes < MEMORY_GROWTH_MAX, f"the memory of {each.name} grew by {each.growth_bytes} bytes"
        return {
            "frames": frames,
            "frames_per_s": round(frames / seconds),
            "reached_handler": reached,
            "kinds": dict(self._kinds),
            "fates": dict(fates),
            "closed_with_reason": logged,
            "episodes": dict(self._episodes),
            "memory_peak_bytes": {each.name: each.peak_bytes for each in self._processes},
            "memory_growth_bytes": {each.name: each.growth_bytes for each in self._processes},
            "healthy_acknowledged": len(healthy.acknowledged),
            "healthy_statuses": dict(healthy.statuses),
            "healthy_longest_s": round(healthy.longest_s, 4),
            "healthy_longest_during": healthy.longest_during,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.stdout.write(json.dumps(fuzz(arguments.frames, arguments.seed), indent=2) + "\n")


if __name__ == "__main__":
    main()
