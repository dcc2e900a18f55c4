"""A name server and brokers that speak RocketMQ's protocol, Apache's or ours, as a client sees them."""

import contextlib
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.guard import OPEN, PLAIN, Guard, Protection
from jepsen_like.bench.processes import BenchProcess, DidNotAnswer, running, until
from jepsen_like.bench.rocketmq.apache import apache_broker, apache_nameserver
from jepsen_like.bench.rocketmq.loads import RocketBenchMode
from jepsen_like.bench.rocketmq.own import own_broker, own_nameserver
from jepsen_like.bench.rocketmq.places import BrokerPlace, NameServerPlace, Places, reserved_ports
from jepsen_like.bench.rocketmq.senders import MasterLink
from jepsen_like.bench.rocketmq.wire import QUEUES, SendConversation, ask
from jepsen_like.bench.systems import BenchCluster, Contender, lend_directory
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.systems.archives.catalogue import APACHE_ROCKETMQ
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader, MalformedFrame
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader, QueueRequestHeader

WHOLE_WITHIN_S = 90.0
"""A JVM takes its time on a busy machine, and DLedger its own for an election."""
COPIED_WITHIN_S = 3.0
"""DLedger's followers learn in an idle second what is committed."""
LOG_END = "commitLogMaxOffset"
UNANSWERED = (OSError, MalformedFrame, BadBody, BadHeader, KeyError)


class RocketCluster(BenchCluster):
    """Started brokers; `members` and `ports` are in the same places, and `topic` is what is written to."""

    def __init__(
        self, places: Places, nameserver: BenchProcess, members: Sequence[BenchProcess], guard: Guard = OPEN
    ) -> None:
        super().__init__([each.port for each in places.brokers], members, guard)
        self.topic = "bench"
        self.masters = places.masters
        """Of fixed roles, as places among the members."""
        self._is_group = bool(places.group)
        self._nameserver = nameserver
        self._written_until_s = -math.inf

    # ---------------------------------------------------------------- as the failover client needs it

    def converse(self, load: LoadShape, lane: int) -> SendConversation:
        """A producer's connection."""
        return SendConversation(self.topic, load.record_bytes, load.batch)

    def leader(self) -> int | None:
        """Returns who acknowledges a message, as its place."""
        for place in range(len(self.ports)) if self._is_group else self.masters:
            if self.takes(place):
                return place
        return None

    def takes(self, place: int) -> bool:
        """Returns True if a broker acknowledges a message to each queue, which makes the topic if need be."""
        link = MasterLink(self.ports[place], lambda: SendConversation(self.topic, 1))
        try:
            return all(link.send() for _ in range(QUEUES))
        finally:
            link.close()

    def count_written(self) -> int:
        """Returns the number of messages that the topic holds on all masters."""
        places = [self.led_by()] if self._is_group else self.masters
        try:
            return sum(self.end_of(place, queue) for place in places for queue in range(QUEUES))
        except UNANSWERED:
            return 0

    def ready(self) -> bool:
        """Returns True if messages are taken, and every broker has in its log what its master has."""
        try:
            ends = [self.log_end(place) for place in range(len(self.ports))]
        except UNANSWERED:
            return False
        groups = [ends] if self._is_group else [ends[place : place + 2] for place in self.masters]
        are_level = all(0 < min(group) == max(group) for group in groups)
        if not are_level and time.monotonic() < self._written_until_s:
            return False  # what was written a moment ago is on its way
        takes = self.leader() is not None if self._is_group else all(map(self.takes, self.masters))
        self._written_until_s = time.monotonic() + COPIED_WITHIN_S
        return takes and are_level

    # ---------------------------------------------------------------- questions

    def end_of(self, place: int, queue_id: int) -> int:
        """Returns the end of a queue of the topic, as a broker reports it. Raises `OSError` or `BadHeader`."""
        header = QueueRequestHeader(topic=self.topic, queue_id=queue_id)
        answer = ask(self.ports[place], Command(RequestCode.GET_MAX_OFFSET, ext=header.ext()))
        return OffsetResponseHeader.read(answer.ext).offset if answer.code == ResponseCode.SUCCESS else 0

    def log_end(self, place: int) -> int:
        """Returns the end of a broker's commit log. Raises `OSError`, `BadBody` or `KeyError`."""
        answer = ask(self.ports[place], Command(RequestCode.GET_BROKER_RUNTIME_INFO))
        return int(KVTable.decode(answer.body).table[LOG_END])

    def cpu_s(self) -> float:
        """See `BenchCluster`."""
        return self._nameserver.cpu_s() + super().cpu_s()


def listens(port: int) -> bool:
    """Returns True if a process takes connections."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
        return True
    return False


@attrs.frozen(kw_only=True)
class RocketSystem(Contender):
    """One kind of broker."""

    promise: str = "as the mode has it; ASYNC_FLUSH"
    nameserver: Callable[[Path, NameServerPlace], BenchProcess]
    broker: Callable[[Path, BrokerPlace, Sequence[BrokerPlace], Mapping[str, str]], BenchProcess]
    settings: Callable[[RocketBenchMode], Mapping[str, str] | None]
    """Of a mode; None if there is no such mode."""
    protection: Protection = PLAIN
    """Of the processes. Loads speak TLS where they do; questions speak plain text, which they take, too."""

    @contextlib.contextmanager
    def cluster(self, directory: Path, mode: RocketBenchMode) -> Iterator[RocketCluster]:
        """A cluster that is whole; afterwards its processes and their data are gone. Raises `DidNotAnswer`."""
        settings = self.settings(mode)
        if settings is None:
            raise DidNotAnswer(f"{self.title} has no mode {mode.key}")
        with lend_directory(directory), reserved_ports(mode.layout) as reserved:
            places = Places.of(mode.layout, reserved.ports)
            nameserver = self.nameserver(directory, places.nameserver)
            members = [self.broker(directory, each, places.group, settings) for each in places.brokers]
            cluster = RocketCluster(places, nameserver, members, self.protection.guard(directory))
            with running([nameserver]):
                until(lambda: listens(places.nameserver.port), "name server", members=[nameserver])
                with running(members):
                    until(cluster.ready, "whole cluster", within_s=WHOLE_WITHIN_S, every_s=0.1, members=members)
                    yield cluster


OWN = RocketSystem(
    key="quorumlog", title="quorumlog", nameserver=own_nameserver, broker=own_broker, settings=lambda mode: mode.own
)
APACHE = RocketSystem(
    key="apache",
    title="Apache RocketMQ",
    nameserver=apache_nameserver,
    broker=apache_broker,
    settings=lambda mode: mode.apache,
    missing=APACHE_ROCKETMQ.missing,
    version=lambda: APACHE_ROCKETMQ.version,
    warm_up_s=8.0,
)
ROCKET_SYSTEMS: Mapping[str, RocketSystem] = {system.key: system for system in (OWN, APACHE)}
