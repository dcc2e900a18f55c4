"""The limits of this machine, measured in the same run as the systems that are compared with them.

- `disk`: three processes at once, each appending one flush's worth of the load and flushing it. With all requests of a
  load in flight at once, no log on three copies can acknowledge more than one full flush at a time; the middle one of
  the three is a majority's pace. `disk-in-place` writes where blocks and pages are already there.
- `echo`: the same requests and acknowledgements over loopback, from the same generator, without a log.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.figures import Figures
from jepsen_like.bench.generator import Generator, Sample
from jepsen_like.bench.own_wire import EchoConversation, QuorumlogConversation
from jepsen_like.bench.processes import LoadWorker, running, until
from jepsen_like.bench.systems import NODES, lend_directory
from jepsen_like.bench.throughput import WARM_UP_S, figure_of_load
from jepsen_like.cluster.ports import ReservedPorts

FRAME_BYTES = 80
"""The bytes that a log writes in addition to the records of one flush."""
DISK = "disk"
IN_PLACE = "disk-in-place"
ECHO = "echo"
TITLES = {
    DISK: ("disk limit, growing file", "three processes write and fdatasync a full batch at once"),
    IN_PLACE: ("disk limit, in place", "the same into blocks that are there already"),
    ECHO: ("loopback limit", "the same generator and bytes, without a log"),
}


def disk(home: Path, seconds: float, loads: Sequence[LoadShape]) -> Figures:
    """Both ways of writing, for every load; half the time each."""
    with lend_directory(home):
        workers = [LoadWorker("workers", home / f"writer-{number}", "disk") for number in range(NODES)]
        with running(workers):
            for load in loads:
                size = load.connections * len(QuorumlogConversation(load).request()) + FRAME_BYTES
                for key in (DISK, IN_PLACE):
                    sample = of_majority(workers, size, seconds / 2, load, in_place=key == IN_PLACE)
                    yield figure_of_load(key, load, sample)


def of_majority(workers: Sequence[LoadWorker], size: int, seconds: float, load: LoadShape, *, in_place: bool) -> Sample:
    """All three at once; the middle one's flushes, each good for every connection of the load."""
    question: dict[str, Any] = {"ask": "prepare", "bytes": size, "seconds": seconds, "in_place": in_place}
    for worker in workers:
        worker.ask(question)
    for worker in workers:
        worker.tell({**question, "ask": "flush"})
    answers = sorted((worker.answer() for worker in workers), key=lambda answer: len(answer["latencies_ns"]))
    middle = answers[len(answers) // 2]
    return Sample([one for one in middle["latencies_ns"] for _ in range(load.connections)], middle["lasted_s"], 0.0)


def echo(home: Path, seconds: float, loads: Sequence[LoadShape]) -> Figures:
    """A server that only acknowledges."""
    with lend_directory(home), ReservedPorts(1) as reserved:
        (port,) = reserved.ports
        server = LoadWorker("workers", home, "echo", str(port))
        with running([server]):
            until(lambda: answers(port), "echo server", members=[server])
            for load in loads:
                with Generator(port, [EchoConversation(load) for _ in range(load.connections)]) as generator:
                    generator.run(WARM_UP_S)
                    cpu = server.cpu_s()
                    sample = generator.run(seconds)
                    yield figure_of_load(ECHO, load, sample, server.cpu_s() - cpu)


def answers(port: int) -> bool:
    """Returns whether a server listens on `port`."""
    try:
        Generator(port, [EchoConversation(LoadShape(1, 1))]).close()
    except OSError:
        return False
    return True
