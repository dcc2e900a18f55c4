"""The state that request handlers share: the broker's identity, its view of the cluster, its link to the controller."""

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.controller_link import ControllerLink
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings, TopicSettings
from kafka_compat.config_keys import SILENCE_TIMEOUT
from kafka_compat.controller.image import ClusterImage
from kafka_compat.model import NO_EPOCH, BrokerRegistration, Endpoint
from kafka_compat.protocol.schema import NO_UUID
from raft.disk_thread import Done, Work
from raft.net.errors import WireError


class DiskWork(Protocol):
    """Carries out slow work: a `DiskThread`."""

    def submit(self, work: Work, done: Done) -> None:
        """See `DiskThread`."""


@attrs.define(kw_only=True)
class Context:
    """One broker, for its handlers. The image changes in place as commands of the controller are applied."""

    cluster_id: str
    broker_id: int
    address: tuple[str, int]
    """The address to which clients and other brokers connect."""
    data: str
    """The directory of the broker's logs, as DescribeLogDirs names it."""
    image: ClusterImage
    controller: ControllerLink
    settings: Settings
    clock: Callable[[], float]
    wall_ms: Callable[[], int]
    rng: random.Random
    turns: LongWork
    stopwatch: Callable[[], float] = time.perf_counter
    """Measures the work of one round, which ends when it has taken too long."""
    held_up: Callable[[], float] = lambda: -math.inf
    """Returns the time of `clock` at which this process was held up last: it has not seen who was silent before."""
    broker_epoch: int = -1
    endpoints: tuple[Endpoint, ...] = ()
    """The addresses for clients by listener, if there are several."""
    knows_members: bool = False
    """True if brokers prove who they are. Without a secret, what a request claims is believed."""

    def is_confirmed(self) -> bool:
        """Returns True if this broker surely leads what its image states: a paused or cut off one may not know better."""
        now = self.clock()  # which notices a stall, and that ends the session
        return now <= self.controller.confirmed_until

    def may_speak_for(self, call: ClientCall, broker: int) -> bool:
        """Returns True if the other end of this connection is that broker, False if it has proven nothing.

        Raises `WireError` if it is another broker, which ends the connection.
        """
        if not self.knows_members:
            return True
        member = call.caller.member
        if member not in (None, broker):
            raise WireError(f"broker {member} speaks for broker {broker}")
        return member is not None

    @property
    def silence_s(self) -> float:
        """The seconds without a word after which witnesses have a leader fenced."""
        return self.settings.seconds(SILENCE_TIMEOUT)

    @property
    def unclean_default(self) -> bool:
        """unclean.leader.election.enable where no topic sets it, for commands that may elect."""
        return self.settings.flag("unclean.leader.election.enable")

    @property
    def eligible(self) -> bool:
        """True if eligible leader replicas are enabled, for commands that take brokers out of ISRs."""
        return self.settings.number("eligible.leader.replicas.version") >= 1

    def topic_settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        """Returns the settings in force for a topic with these overrides."""
        return self.settings.topic(overrides)

    def new_id(self) -> bytes:
        """Returns 16 random bytes with the marks of a UUID of version 4."""
        drawn = bytearray(self.rng.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    def live_brokers(self) -> list[BrokerRegistration]:
        """Returns the brokers that clients may use, by id: the unfenced ones, or else all, at least this one.

        A client drops the addresses that an answer omits. Without any, librdkafka would have none left.
        """
        known = [each for _, each in sorted(self.image.brokers.items())]
        own = BrokerRegistration(self.broker_id, NO_EPOCH, NO_UUID, *self.address, endpoints=self.endpoints)
        return [each for each in known if not each.fenced] or known or [own]

    def controller_id(self) -> int:
        """Returns the broker that clients should ask for the work of a controller.

        Any broker can do it, since each forwards.
        """
        leader = self.controller.leader
        live = self.live_brokers()
        if leader is not None and any(each.id == leader for each in live):
            return leader
        return live[0].id
