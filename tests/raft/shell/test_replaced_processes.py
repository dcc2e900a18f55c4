"""Real processes: all members of a group are replaced, one after another, while clients append and nodes are killed.

The checker judges what clients saw, and the logs that the last members hold.
"""

import itertools
import random
import shutil
import time
from pathlib import Path

import attrs
import pytest
import trio

from jepsen_like.operate.members import Operator
from jepsen_like.simulation.raft.blackbox import ClientRequest, NodeLog, RequestOutcome
from jepsen_like.simulation.raft.histories import check
from raft.client import Client, Connection
from raft.errors import RaftError
from raft.membership import AddLearner, Change, ChangeVoters, Promote
from tests.ports import free_ports
from tests.raft.shell.nodes import CLUSTER_ID, until
from tests.raft.shell.replaced import Processes

CLIENTS = 4
SECONDS_MAX = 240


async def change(processes: Processes, step: Change) -> None:
    """Ask for the change until it is made: killed nodes make outcomes unknown, and repeating it does no harm."""
    while True:
        async with processes.client() as client:
            try:
                await client.change_members(step)
            except RaftError:
                continue
            return


@attrs.define
class History:
    """All that clients asked for, and saw."""

    requests: list[ClientRequest] = attrs.field(factory=list)
    values: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1))

    @property
    def acknowledged(self) -> int:
        return sum(each.outcome is RequestOutcome.OK and not each.is_read for each in self.requests)

    def begin(self, client: int, *values: int) -> ClientRequest:
        request = ClientRequest(client, 0, values, time.monotonic_ns())
        self.requests.append(request)
        return request


async def append(processes: Processes, client: Client, history: History, number: int) -> None:
    value = next(history.values)
    request = history.begin(number, value)
    try:
        appended = await client.append([value.to_bytes(8, "big")])
    except RaftError as error:
        request.outcome = RequestOutcome.FAIL if error.definite else RequestOutcome.UNKNOWN
        raise
    finally:
        request.returned = time.monotonic_ns()
    request.outcome, request.base_offset, request.term = RequestOutcome.OK, appended.base_offset, appended.epoch


async def look(processes: Processes, client: Client, history: History, number: int) -> None:
    request = history.begin(number)
    try:
        end = (await client.tail()).committed_end
        if end:
            (batch, *_) = (await client.read(end - 1, 1)).batches
            request.last_value = int.from_bytes(list(batch.records())[end - 1 - batch.base_offset], "big")
    except RaftError:
        request.outcome = RequestOutcome.FAIL
        raise
    finally:
        request.returned = time.monotonic_ns()
    request.outcome, request.end_offset = RequestOutcome.OK, end


async def load(processes: Processes, history: History, number: int) -> None:
    """One client after another, each with the addresses of its time: three appends, then a read."""
    while True:
        async with processes.client() as client:
            for turn in range(20):
                try:
                    await (look if turn % 4 == 3 else append)(processes, client, history, number)
                except RaftError:
                    break


async def log_of(processes: Processes, node_id: int, end: int) -> NodeLog:
    """The log of a node, once it serves and knows that all up to `end` is committed."""
    values: list[int] = []
    terms: list[int] = []
    while len(values) < end:
        try:
            async with Connection.open("127.0.0.1", processes.ports[node_id], CLUSTER_ID) as connection:
                found = await connection.read(len(values))
        except RaftError:
            await trio.sleep(0.02)
            continue
        for batch in found.batches:
            values += [int.from_bytes(record, "big") for record in batch.records()]
            terms += [batch.epoch] * (len(values) - len(terms))
    return NodeLog(node_id, 0, values[:end], terms[:end])


async def replace_all(processes: Processes) -> None:
    """Each of three members by a new one, then two at once, then a directory that is lost."""
    for old, new in ((1, 4), (2, 5), (3, 6)):
        processes.first_start(new, [node for node in processes.commands if node != new], joins=True)
        address = ("127.0.0.1", processes.ports[new])
        await processes.operate(Operator.add, new, address, counts=True)
        await processes.operate(Operator.remove, old)
        processes.remove(old)
    for new in (7, 8):
        processes.first_start(new, [node for node in processes.commands if node != new], joins=True)
        await change(processes, AddLearner(new, f"127.0.0.1:{processes.ports[new]}"))
    await change(processes, ChangeVoters(frozenset({6, 7, 8})))
    for old in (4, 5):
        processes.remove(old)
    if 7 in processes.running:
        processes.kill(7)
    shutil.rmtree(processes.directory / "7")
    processes.start(7)
    await change(processes, AddLearner(7))
    await change(processes, Promote(7))


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize(("seed", "calm_s"), [(0, 0.8), (1, 0.8), (2, 0.3), (3, 0.05)])
async def test_no_acknowledged_record_is_lost_while_all_members_are_replaced_under_load_and_kills(
    tmp_path: Path, seed: int, calm_s: float
) -> None:
    processes = Processes(tmp_path, dict(enumerate(free_ports(8), 1)), random.Random(seed), calm_s)
    history = History()
    try:
        for node_id in (1, 2, 3):
            processes.first_start(node_id, [1, 2, 3], joins=False)
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for number in range(CLIENTS):
                    nursery.start_soon(load, processes, history, number)
                await until(lambda: history.acknowledged > 50)
                nursery.start_soon(processes.kill_now_and_then)
                await replace_all(processes)
                nursery.cancel_scope.cancel()
            for node_id in set(processes.commands) - set(processes.running):
                processes.start(node_id)
            async with processes.client() as client:
                await append(processes, client, history, CLIENTS)
                assert (await client.status())["voters"] == [6, 7, 8]
                end = (await client.tail()).committed_end
            ends = [await log_of(processes, node_id, end) for node_id in (6, 7, 8)]
    finally:
        for node_id in list(processes.running):
            processes.kill(node_id)
    assert processes.kills > 3
    assert len(set(ends[0].values)) == end, "twice"
    assert not check(history.requests, ends)
