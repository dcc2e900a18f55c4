"""A work queue that loses no job: three nodes in one Trio program, jobs put by one task and done by another.

A queue is the log and a place in it. The worker remembers how far it came, here in the replicated register
`done`: after a crash it goes on there, so that a job is done at least once.

    python examples/work_queue.py
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgpack
import trio

from raft import Client, RaftGroup

MEMBERS = {1: ("127.0.0.1", 4001), 2: ("127.0.0.1", 4002), 3: ("127.0.0.1", 4003)}
DONE = "done"


@asynccontextmanager
async def nodes(home: str) -> AsyncIterator[list[str]]:
    """All three nodes in this program; on machines of their own each would open one."""
    async with AsyncExitStack() as stack:
        for node in MEMBERS:
            await stack.enter_async_context(RaftGroup.open(node_id=node, members=MEMBERS, directory=f"{home}/{node}"))
        yield [f"{host}:{port}" for host, port in MEMBERS.values()]


async def put(client: Client, jobs: list[str]) -> None:
    """Put jobs into the queue; when this returns, they are on the disks of two nodes."""
    await client.append([job.encode() for job in jobs])


async def do_all(client: Client) -> None:
    """Do what is in the queue, from the first job that is not known to be done."""
    offset = msgpack.unpackb((await client.query(msgpack.packb(["r", DONE]))).result) or 0
    while True:
        found = await client.read(offset)
        if not found.batches:
            return
        for batch in found.batches:
            for job in batch.records()[max(0, offset - batch.base_offset) :]:
                print(f"{offset}: {job.decode()}")
                offset += 1
            await client.apply(msgpack.packb(["w", DONE, offset]))


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        async with nodes(home) as addresses, Client(addresses, "quorumlog") as client:
            await put(client, ["wash", "dry"])
            await do_all(client)
            await put(client, ["fold"])
            await do_all(client)


if __name__ == "__main__":
    trio.run(main)
