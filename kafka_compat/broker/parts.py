"""The parts of one broker and their order in a round, without sockets, tasks and the raft group that orders commands.

In a round requests and answers have arrived and were carried out, and commands were applied. Then `take_changes` hands
the changed metadata to the replicas, `work` lets every part do what is due, and `flushing` lets the disk begin. `Broker`
does so in a process, and the simulator in virtual time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafka_compat.broker.authentication import Authentication, Mechanisms
from kafka_compat.broker.calls import Gate, Handler
from kafka_compat.broker.context import Context, DiskWork
from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.broker.coordination import Coordination
from kafka_compat.broker.flushing import Flushing
from kafka_compat.broker.following import Following
from kafka_compat.broker.guards.table import guard_handlers
from kafka_compat.broker.hosting import Hosting
from kafka_compat.broker.housekeeping import Housekeeping
from kafka_compat.broker.log_reports import LogReports
from kafka_compat.broker.metrics import ISR_EXPANDS, ISR_SHRINKS, broker_figures, replica_figures
from kafka_compat.broker.peers import Peer
from kafka_compat.broker.registration import Registration
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.reporter import Reporter, Tell
from kafka_compat.broker.requests.acls import AclRequests
from kafka_compat.broker.requests.cluster import ClusterRequests
from kafka_compat.broker.requests.configs import ConfigRequests
from kafka_compat.broker.requests.fetch import FetchRequests
from kafka_compat.broker.requests.logs import LogRequests
from kafka_compat.broker.requests.metadata import MetadataRequests
from kafka_compat.broker.requests.produce import ProduceRequests
from kafka_compat.broker.requests.quorum import QuorumRequests
from kafka_compat.broker.requests.reassignments import ReassignmentRequests
from kafka_compat.broker.requests.topics import TopicRequests
from kafka_compat.broker.requests.users import UserRequests
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.controller.image import ImageDelta
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.partition.effects import PartitionRoleChanged
from kafka_compat.storage.broker_store import BrokerStore
from raft.metrics import Figure
from raft.net.handlers import marked_handlers
from raft.net.rounds import Part


class TimedPart(Part, Protocol):
    """A part with nothing to do before its deadline."""

    def tick(self, now: float) -> None:
        """Do what is due."""


class BrokerParts:
    """All parts of one broker. `context` names the image of `machine` and the link to the controller."""

    def __init__(
        self,
        context: Context,
        machine: MetadataMachine,
        store: BrokerStore,
        disk: DiskWork,
        peers: Mapping[int, Peer],
        *,
        incarnation: bytes,
        tell: Tell,
        on_serving: Callable[[], None],
        on_may_end: Callable[[], None],
        transaction_peers: Mapping[int, Peer],
        make_replicas: Callable[..., Replicas] = Replicas,
        mechanisms: Mechanisms | None = None,
    ) -> None:
        """`peers` are the connections for fetching, `transaction_peers` those for markers and verifications.

        `on_serving` is called once, when the broker is registered, up to date and not fenced for the first time;
        `on_may_end` when the controller consents to its shutdown.
        """
        self.context = context
        self.gate = Gate()
        context.controller.applied = lambda: context.image.index
        self._reporter = Reporter(context, tell)
        self._following = Following(context, peers, lambda: self.replicas)
        self.replicas = make_replicas(
            context, store, self._following, self._reporter.replica, self._role_changed, self._forget_replica
        )
        self.replicas.full_disk.tell = tell
        self.coordinators = Coordination(context, lambda: self.replicas, transaction_peers, tell)
        self.node = ControllerNode(context, lambda command, reason: tell("proposes", command=command, reason=reason))
        self._produces = ProduceRequests(context, self.replicas, self.coordinators.verification)
        self.fetches = FetchRequests(context, self.replicas, tell)
        reports = LogReports(context, store, self.replicas, tell)
        self._housekeeping = Housekeeping(context, store, self.replicas, disk)
        self.registration = Registration(
            context,
            self.node,
            incarnation=incarnation,
            is_ready=lambda: reports.ready,
            on_may_end=on_may_end,
            tell=tell,
            silent=lambda: self._following.silent,
        )
        self._following.on_silence = self.registration.report
        self.hosting = Hosting(
            context,
            machine,
            store,
            self.replicas,
            self.coordinators.groups,
            reports,
            self._reporter,
            incarnation=incarnation,
            on_serving=on_serving,
            tell=tell,
        )
        self.flushing = Flushing(store, self.replicas, disk)
        authentication = Authentication(
            mechanisms or {},
            context.clock,
            self.gate,
            lambda: context.settings.seconds("connections.max.reauth.ms"),
            context.turns,
        )
        timed = (
            self.registration,
            reports,
            self.node,
            self.replicas,
            self._housekeeping,
            self._reporter,
            authentication,
        )
        waiting = (*timed, context.controller, self.coordinators, self.fetches, self._following)
        self._due: tuple[Sequence[TimedPart], Sequence[Part]] = timed, waiting
        self.handlers = guard_handlers(self._all_handlers(authentication), context, tell)

    def _all_handlers(self, authentication: Authentication) -> Mapping[int, Handler]:
        context, creation = self.context, TopicCreation(self.context)
        return dict(
            marked_handlers(
                MetadataRequests(context, creation),
                TopicRequests(context),
                ReassignmentRequests(context),
                ConfigRequests(context),
                UserRequests(context),
                QuorumRequests(context),
                self._produces,
                self.fetches,
                LogRequests(context, self.replicas),
                *self.coordinators.handlers(creation),
                ClusterRequests(context, self.node),
                authentication,
                AclRequests(context),
            )
        )

    # ---------------------------------------------------------------- rounds

    def take_changes(self) -> Sequence[ImageDelta]:
        """Hand the changes of the image since the last call to the replicas. Returns them.

        Raises `BrokerReplaced`.
        """
        deltas = self.hosting.take_changes()
        if deltas:
            self.node.image_changed()
        if self.hosting.began and not self.gate.is_open:
            self.gate.open()
        return deltas

    def work(self, now: float) -> None:
        """Let every part do what is due."""
        for part in self._due[0]:
            if part.deadline <= now:
                part.tick(now)
        self.context.controller.pump(now)
        self.coordinators.pump(now)
        self._produces.pump()
        self.fetches.pump(now)
        self.context.turns.pump()
        self.replicas.work()
        self.replicas.send_changes()
        self._following.pump(now)

    def figures(self) -> list[Figure]:
        """Returns the figures of the broker and its replicas."""
        context = self.context
        return [
            *broker_figures(context.broker_id, context.image, is_controller=self.node.leads),
            *replica_figures(self.replicas.hosted, context.image),
            ISR_SHRINKS(self._reporter.shrinks),
            ISR_EXPANDS(self._reporter.expands),
        ]

    def obstacle(self) -> str | None:
        """Returns the reason why clients are not served at present; None if they are."""
        own = self.context.image.brokers.get(self.context.broker_id)
        if not self.hosting.is_serving or own is None:
            return "the broker has not been taken in by a controller"
        return "the controller fences the broker" if own.fenced else None

    @property
    def has_more(self) -> bool:
        """True if another round is needed at once."""
        return (
            bool(self.fetches.woken)
            or self.coordinators.is_loading
            or self._produces.has_more
            or self.replicas.has_more
            or self.context.turns.has_more
        )

    @property
    def deadline(self) -> float:
        """The time at which the next round is due."""
        return min([part.deadline for part in self._due[1]])

    def stop(self) -> None:
        """End the work under way. Work that the disk has begun goes on."""
        self._housekeeping.stop()
        self.context.turns.close()

    def _role_changed(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        self.fetches.role_changed()
        self.coordinators.role_changed(hosted, news)

    def _forget_replica(self, hosted: LocalReplica) -> None:
        self._housekeeping.forget(hosted)
        self._reporter.forget(hosted)
