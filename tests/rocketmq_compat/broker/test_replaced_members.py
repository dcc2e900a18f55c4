"""Real processes: all brokers of a raft group are replaced, while producers send by a name server and brokers are killed.

Little stays in the raft log, so new brokers copy what they have from the others. One of them loses its directory.
"""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from jepsen_like.operate.members import Operator
from jepsen_like.testing.rocketmq.producer import RocketMqProducer, SendFailed
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import ResponseCode
from tests.ports import free_ports
from tests.raft.shell.nodes import until
from tests.raft.shell.replaced import Processes
from tests.raft.shell.test_node import ROOT
from tests.rocketmq_compat.broker.pairs import bodies, pull

GROUP = "broker-a"
PROPERTIES = ("raftElectionTimeout=300", "registerNameServerPeriod=1000", "enableDLegerCommitLog=true")
NAMES = ("brokerChannelExpiredTime=3000", "scanNotActiveBrokerInterval=200")
FOUNDERS = (1, 2, 3)
QUEUES = 4
PRODUCERS = 3
BODY_BYTES = 4_000
SECONDS_MAX = 300
PUSHED = 100
WORKER = ROOT / "tests" / "rocketmq_compat" / "clients" / "worker.py"


@attrs.define
class Brokers(Processes):
    """Broker processes of one group, and a name server."""

    names: str = ""

    def command(self, node_id: int, members: Sequence[int], *, joins: bool) -> list[str]:
        ever = range(1, max(node_id, *FOUNDERS) + 1)
        peers = ";".join(f"n{node - 1}-127.0.0.1:{self.ports[node]}" for node in ever)
        own = (f"dLegerPeers={peers}", f"dLegerSelfId=n{node_id - 1}", f"namesrvAddr={self.names}")
        place = ["--listen", f"127.0.0.1:{self.ports[node_id]}", "--data", f"{self.directory / str(node_id)}"]
        settings = [f"--set={each}" for each in (*PROPERTIES, *own)]
        more = ["--joins"] if joins else []
        return ["tests.rocketmq_compat.broker.small_broker", "broker", *place, *settings, *more]

    async def replace(self, old: int, new: int) -> None:
        self.first_start(new, (), joins=True)
        await self.operate(Operator.add, new, ("127.0.0.1", self.ports[new]), counts=True)
        await self.operate(Operator.remove, old)
        self.remove(old)

    async def wipe(self, node_id: int) -> None:
        if node_id in self.running:
            self.kill(node_id)
        shutil.rmtree(self.directory / str(node_id))
        self.start(node_id)
        await self.operate(Operator.add, node_id, None, counts=True)


def start_name_server(names: str) -> "subprocess.Popen[bytes]":
    flags = ["nameserver", "--listen", names, *(f"--set={each}" for each in NAMES)]
    command = [sys.executable, "-m", "rocketmq_compat.process", *flags]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


Acknowledged = dict[tuple[int, int], bytes]
"""Bodies by queue and offset."""


async def produce(names: str, number: int, acknowledged: Acknowledged) -> None:
    def note(topic: str, queue_id: int, queue_offset: int, body: bytes, **more: Any) -> None:
        assert acknowledged.setdefault((queue_id, queue_offset), body) == body, "two messages at one place"

    async with RocketMqProducer.open(names, note, lambda: 0) as producer:
        count = 0
        while True:
            count += 1
            try:
                await producer.send("T", b"%d/%d " % (number, count) + b"." * BODY_BYTES, within_s=2)
            except SendFailed:
                continue


def consume_some(names: str) -> set[str]:
    """The bodies that RocketMQ's C++ client is given, unmodified."""
    command = [sys.executable, "-W", "ignore", str(WORKER), "consume", names, "T", "g", "concurrent", "*", str(PUSHED)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return {line["body"] for line in map(json.loads, printed.splitlines()) if "body" in line}


async def read_all(brokers: Brokers) -> Acknowledged:
    """The messages of all queues, from the master."""
    found: Acknowledged = {}
    async with brokers.client() as client:
        leader = (await client.status())["leader"]
    assert isinstance(leader, int)
    async with connected_client(("127.0.0.1", brokers.ports[leader])) as master:
        for queue in range(QUEUES):
            offset = 0
            while (pulled := await pull(master, offset, queue_id=queue)).code == ResponseCode.SUCCESS:
                for body in bodies(pulled):
                    found[queue, offset] = body
                    offset += 1
    return found


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize(("seed", "calm_s"), [(0, 1.5), (1, 0.3)])
async def test_no_acknowledged_message_is_lost_while_all_brokers_are_replaced_under_load_and_kills(
    tmp_path: Path, seed: int, calm_s: float
) -> None:
    *ports, names_port = free_ports(7)
    names = f"127.0.0.1:{names_port}"
    name_server = start_name_server(names)
    brokers = Brokers(tmp_path, dict(enumerate(ports, 1)), random.Random(seed), calm_s, cluster_id=GROUP, names=names)
    acknowledged: Acknowledged = {}
    try:
        for node_id in FOUNDERS:
            brokers.first_start(node_id, (), joins=False)
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for number in range(PRODUCERS):
                    nursery.start_soon(produce, names, number, acknowledged)
                await until(lambda: len(acknowledged) > 200)
                nursery.start_soon(brokers.kill_now_and_then)
                for old, new in ((1, 4), (2, 5), (3, 6)):
                    await brokers.replace(old, new)
                await brokers.wipe(5)
                before = len(acknowledged)
                await until(lambda: len(acknowledged) > before + 50)
                nursery.cancel_scope.cancel()
            for node_id in set(brokers.commands) - set(brokers.running):
                brokers.start(node_id)
            await brokers.operate(Operator.transfer, 4)
            found = await read_all(brokers)
            pushed = await trio.to_thread.run_sync(consume_some, names)
    finally:
        for node_id in list(brokers.running):
            brokers.kill(node_id)
        name_server.kill()
        name_server.wait()
    assert brokers.kills > 2
    assert not {place for place, body in acknowledged.items() if found.get(place) != body}, "lost"
    assert len(set(found.values())) == len(found), "twice"
    assert pushed <= {body.decode() for body in found.values()}
    assert len(pushed) >= PUSHED
