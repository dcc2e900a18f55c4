"""Three brokers of one group that elects, and a name server, started by hand; and a client of their owner."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.rocketmq.apache import apache_broker, apache_nameserver
from jepsen_like.bench.rocketmq.loads import BrokerLayout
from jepsen_like.bench.rocketmq.own import own_broker, own_nameserver
from jepsen_like.bench.rocketmq.places import Places, reserved_ports
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.operate.access import OPEN
from jepsen_like.operate.administration import Silent, TopicPlan
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_rocketmq.processes import SMALL
from jepsen_like.systems.rocketmq.administration import RocketMqAdministration
from tests.jepsen_like.systems.target.by_hand import HandCluster, run_by_hand

BROKERS = 3
SERVES_WITHIN_S = 120.0
ANSWERS_WITHIN_S = 3.0
QUEUES = 2
T = TypeVar("T")


@attrs.frozen
class Owner:
    """An administrator of the cluster."""

    names: Address

    def _do(self, work: Callable[[RocketMqAdministration], Awaitable[T]]) -> T:
        async def open_and_work() -> T:
            return await work(await RocketMqAdministration.open((self.names,), ANSWERS_WITHIN_S, OPEN))

        return trio.run(open_and_work)

    def await_brokers(self) -> None:
        """Wait until all brokers are there, and one of them leads."""
        deadline = time.monotonic() + SERVES_WITHIN_S
        while time.monotonic() < deadline:
            try:
                rows = self._do(RocketMqAdministration.brokers)
                if len(rows) == BROKERS and any(row["id"] == 0 and row["role"] != "silent" for row in rows):
                    return
            except (NotDone, Silent):
                pass
            time.sleep(0.2)
        raise TimeoutError("the brokers do not serve")

    def topics(self) -> set[str]:
        """Returns the names of all topics."""
        return {str(row["topic"]) for row in self._do(RocketMqAdministration.topics)}

    def end(self, topic: str) -> int:
        """Returns how many messages a topic holds."""
        return sum(int(row["end"] or 0) for row in self._do(lambda on: on.topic(topic)))

    def make(self, topic: str) -> None:
        self._do(lambda on: on.create_topic(TopicPlan(topic, QUEUES, None, {})))

    def make_again(self, topic: str) -> None:
        """Delete a topic, and make one of the same name."""
        with suppress(PerhapsDone):  # Apache's brokers without timers fail after they have deleted it
            self._do(lambda on: on.delete_topic(topic))
        while True:
            try:
                return self.make(topic)
            except (NotDone, PerhapsDone, Silent):
                time.sleep(0.1)


def apache_processes(directory: Path, places: Places) -> tuple[BenchProcess, list[BenchProcess]]:
    brokers = sorted(places.brokers, key=lambda place: place.port)
    return apache_nameserver(directory, places.nameserver), [
        apache_broker(directory, place, places.group, SMALL) for place in brokers
    ]


def own_processes(directory: Path, places: Places) -> tuple[BenchProcess, list[BenchProcess]]:
    brokers = sorted(places.brokers, key=lambda place: place.port)
    return own_nameserver(directory, places.nameserver), [
        own_broker(directory, place, places.group, {}) for place in brokers
    ]


@contextmanager
def rocketmq_by_hand(
    directory: Path, processes: Callable[[Path, Places], tuple[BenchProcess, list[BenchProcess]]]
) -> Iterator[tuple[HandCluster, Owner]]:
    """A cluster that serves; the number of a broker is its place among their ports."""
    with reserved_ports(BrokerLayout.GROUP) as reserved:
        places = Places.of(BrokerLayout.GROUP, reserved.ports)
        names, brokers = processes(directory, places)
        servers = f"{LOOPBACK}:{places.nameserver.port}"
        with (
            run_by_hand(directory, servers, [command_of(names)], kind="names"),
            run_by_hand(directory, servers, [command_of(broker) for broker in brokers]) as cluster,
        ):
            owner = Owner((LOOPBACK, places.nameserver.port))
            owner.await_brokers()
            yield cluster, owner


def command_of(process: BenchProcess) -> list[str]:
    """Returns the command line; Apache's processes look for their home in the environment, and are to start quickly."""
    program, *words = process.command
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if program == "java" else []
    return ["env", f"ROCKETMQ_HOME={process.directory}", program, *quick, *(set_aside(words) if quick else words)]


def set_aside(words: Sequence[str]) -> list[str]:
    """Returns the words of a JVM without those that make it start slowly."""
    return [word for word in words if word not in ("-server", "-XX:+UseG1GC")]
