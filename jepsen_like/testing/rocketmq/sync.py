"""RocketMQ clusters that a test can break, in plain Python: `cluster` by the same names, blocking, from any thread."""

from typing import TypeVar

from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.testing.faces import FaultyFace
from jepsen_like.testing.rocketmq import cluster, producer
from jepsen_like.testing.rocketmq.cluster import FIRST_GROUP, BreakableRocketMq
from raft.errors import ShuttingDown
from raft.loop_thread import Opener, in_loop, opening
from raft.sync import Face, blocking
from rocketmq_compat.replication.acks import SendStatus

RocketT_co = TypeVar("RocketT_co", bound=BreakableRocketMq, covariant=True)


class RocketMqProducer(Face[producer.RocketMqProducer]):
    """See `producer.RocketMqProducer`; use as `with`. Any number of threads may call at once."""

    def __init__(self, opener: Opener[producer.RocketMqProducer]) -> None:
        super().__init__(opener, ShuttingDown)

    send = blocking(producer.RocketMqProducer.send)


class _RocketMqFace(FaultyFace[RocketT_co]):
    """The common part of both kinds: see `cluster.BreakableRocketMq`."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers, without the name server."""
        return self._loop.living.brokers

    @property
    def name_server(self) -> int:
        """The name server, to which faults can happen as to brokers."""
        return self._loop.living.name_server

    @property
    def namesrv_addr(self) -> str:
        """As every client takes it: where it reaches the name server, behind the faults."""
        return self._loop.living.namesrv_addr

    def note_acknowledged(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        body: bytes,
        *,
        broker_name: str = FIRST_GROUP,
        status: int = SendStatus.SEND_OK,
    ) -> None:
        """Have `check` look for this acknowledged message; `status` is the number of RocketMQ's response code."""
        self._loop.living.note_acknowledged(topic, queue_id, queue_offset, body, broker_name=broker_name, status=status)

    def producer(self) -> RocketMqProducer:
        """Returns a producer, for a `with` block; `check` looks for everything that is acknowledged to it."""
        living = self._loop.living
        opener = producer.RocketMqProducer.open
        return RocketMqProducer(
            lambda: opener(
                living.namesrv_addr, living.note_acknowledged, lambda: living.ledger.now, certificates_in(living.tls)
            )
        )

    master = blocking(BreakableRocketMq.master)
    wait_until_serving = blocking(BreakableRocketMq.wait_until_serving)
    promote = blocking(BreakableRocketMq.promote)
    check = blocking(BreakableRocketMq.check)


class LocalRocketMq(_RocketMqFace[cluster.LocalRocketMq]):
    """See `cluster.LocalRocketMq`; use as `with`."""

    @staticmethod
    @opening(cluster.LocalRocketMq.open)
    def open(opener: Opener[cluster.LocalRocketMq]) -> "LocalRocketMq":
        """See `cluster.LocalRocketMq.open`."""
        return LocalRocketMq(opener, ShuttingDown)

    power = blocking(cluster.LocalRocketMq.power)
    wipe = blocking(cluster.LocalRocketMq.wipe)
    disk = blocking(in_loop(cluster.LocalRocketMq.disk))


class RocketMqProcesses(_RocketMqFace[cluster.RocketMqProcesses]):
    """See `cluster.RocketMqProcesses`; use as `with`."""

    @staticmethod
    @opening(cluster.RocketMqProcesses.open)
    def open(opener: Opener[cluster.RocketMqProcesses]) -> "RocketMqProcesses":
        """See `cluster.RocketMqProcesses.open`."""
        return RocketMqProcesses(opener, ShuttingDown)

    wipe = blocking(cluster.RocketMqProcesses.wipe)
