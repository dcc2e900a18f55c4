"""A client among nodes that fail in every way they may, and whose log is the truth.

Two nodes share one log. The one that leads takes an append and answers, or takes it and closes the connection, or refuses it, or
does not answer; leadership moves. Whatever the client reports must fit the log:

- C1 what it calls appended stands at the offset it names;
- C2 what it calls certainly not done is in the log at no time;
- C3 nothing stands twice: it repeats nothing of which it cannot know;
- C4 a tail is not before what was appended earlier.
"""

import random
from typing import Any

import trio

from raft import client_codec
from raft.client import Client
from raft.errors import Busy, NotLeader, OutcomeUnknown, RaftError
from raft.record_batch import count_batch
from raft.results import RecordBatch
from tests.jepsen_like.fake_node import SILENCE, FakeNode, HangUp, fake_node

TASKS = 5
CALLS = 12
CLUSTER_ID = "quorumlog"


class Broken(Exception):
    """The client's report contradicts the log."""


class Truth:
    """The log, who leads, and what a node does with a request."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"client {seed}")
        self.log: list[bytes] = []
        self.nodes: list[FakeNode] = []
        self.leader = 0
        self._held: dict[int, list[bytes]] = {0: [], 1: []}

    def answer(self, node: int, message_type: int, fields: list[Any]) -> bytes:
        """Serve as node `node`; the answers to several requests come in any order."""
        said = self._decide(node, message_type, fields)
        held = self._held[node]
        if said:
            held.append(said)
        if self.rng.random() < 0.3 and len(held) < 3:
            return SILENCE
        self.rng.shuffle(held)
        frames = b"".join(held)
        held.clear()
        return frames

    def _decide(self, node: int, message_type: int, fields: list[Any]) -> bytes:
        request_id = fields[0]
        if self.rng.random() < 0.05:
            self.leader = 1 - self.leader
        if node != self.leader:
            host, port = self.nodes[self.leader].address
            return client_codec.encode_error(request_id, NotLeader(self.leader + 1, f"{host}:{port}"))
        if message_type == client_codec.TAIL:
            return client_codec.encode_tail_reply(request_id, len(self.log), 1)
        assert message_type == client_codec.APPEND
        fate = self.rng.choices(
            ("take", "take and hang up", "hang up", "busy", "take and shrug", "shrug", "take and forget"),
            (70, 6, 4, 8, 4, 4, 2),
        )[0]
        base_offset = len(self.log)
        if fate.startswith("take"):
            self.log += RecordBatch(0, 1, count_batch(fields[1]), fields[1]).records()
        match fate:
            case "take":
                return client_codec.encode_appended(request_id, base_offset, len(self.log) - base_offset, 1)
            case "busy":
                return client_codec.encode_error(request_id, Busy())
            case "take and shrug" | "shrug":
                return client_codec.encode_error(request_id, OutcomeUnknown("who knows"))
            case "take and forget":
                return SILENCE
            case _:
                self._held[node].clear()
                raise HangUp


async def _task(client: Client, truth: Truth, name: int, refused: list[bytes]) -> None:
    for turn in range(CALLS):
        records = [f"{name}.{turn}.{at}".encode() for at in range(truth.rng.choice((1, 1, 3)))]
        before = len(truth.log)
        try:
            if turn % 4 == 3:
                tail = await client.tail()
                if tail.committed_end < before:
                    raise Broken(f"C4: the tail is {tail.committed_end}, {before} was there before")
                continue
            appended = await client.append(records)
        except RaftError as error:
            if error.definite and turn % 4 != 3:
                refused += records
            continue
        there = truth.log[appended.base_offset : appended.base_offset + appended.count]
        if there != records:
            raise Broken(f"C1: {records} is reported at {appended.base_offset}, where {there} stands")


async def play(seed: int) -> None:
    """Play one seed. `Broken` names the promise."""
    truth = Truth(seed)
    refused: list[bytes] = []
    async with (
        fake_node(lambda kind, fields: truth.answer(0, kind, fields)) as one,
        fake_node(lambda kind, fields: truth.answer(1, kind, fields)) as two,
    ):
        truth.nodes = [one, two]
        addresses = [f"{host}:{port}" for host, port in (one.address, two.address)]
        client = Client(addresses, CLUSTER_ID, deadline_s=0.15, retry_pause_s=0.002)
        async with client, trio.open_nursery() as nursery:
            for name in range(TASKS):
                nursery.start_soon(_task, client, truth, name, refused)
    twice = {record for record in truth.log if truth.log.count(record) > 1}
    if twice:
        raise Broken(f"C3: {sorted(twice)} stand more than once")
    there = set(refused) & set(truth.log)
    if there:
        raise Broken(f"C2: {sorted(there)} were refused for certain and are there")
