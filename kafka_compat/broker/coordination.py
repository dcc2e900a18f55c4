"""The coordinators of one broker, of groups and of transactions, with what they do in partitions of other brokers."""

from collections.abc import Callable, Iterable, Mapping

from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinators import Coordinators, is_offsets_partition
from kafka_compat.broker.marker_sender import MarkerSender
from kafka_compat.broker.marker_writer import MarkerWriter
from kafka_compat.broker.peers import Peer
from kafka_compat.broker.producer_ids import ProducerIds
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.reporter import Tell
from kafka_compat.broker.requests.groups import GroupApiRequests
from kafka_compat.broker.requests.transactions import TransactionRequests
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.broker.transaction_coordinators import TransactionCoordinators, is_transactions_partition
from kafka_compat.broker.verification import Verification
from kafka_compat.partition.effects import PartitionRoleChanged


class Coordination:
    """All coordinators of one broker. `pump` is to be called once a round."""

    def __init__(
        self, context: Context, replicas: Callable[[], Replicas], peers: Mapping[int, Peer], tell: Tell
    ) -> None:
        """`peers` are the connections to other brokers for markers and verifications."""
        self.groups = Coordinators(context, replicas)
        self.writer = MarkerWriter(context, replicas, self.groups)
        self.sender = MarkerSender(context, self.writer, peers)
        self._ids = ProducerIds(context)
        self.transactions = TransactionCoordinators(context, replicas, self.sender, self._ids, tell)
        self.verification = Verification(context, replicas, self.transactions, peers)
        self._context = context
        self._replicas = replicas

    def handlers(self, creation: TopicCreation) -> Iterable[object]:
        """Returns the handlers of requests to coordinators."""
        groups = GroupApiRequests(self._context, self.groups, creation)
        return (
            groups,
            TransactionRequests(
                self._context,
                self._replicas(),
                self.transactions,
                self.groups,
                groups,
                self.verification,
                self._ids,
                creation,
            ),
            self.writer,
        )

    def role_changed(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        """Take the new role of a replica."""
        if is_offsets_partition(hosted):
            self.groups.role_changed(hosted, news)
        elif is_transactions_partition(hosted):
            self.transactions.role_changed(hosted, news)

    def pump(self, now: float) -> None:
        """Let each part do what is due."""
        self.groups.pump(now)
        self.transactions.pump(now)
        self.verification.pump(now)
        self.sender.pump(now)

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due."""
        return min(self.groups.deadline, self.transactions.deadline, self.verification.deadline, self.sender.deadline)

    @property
    def is_loading(self) -> bool:
        """True if `pump` has more to do at once."""
        return self.groups.is_loading or self.transactions.is_loading

    @property
    def loads(self) -> int:
        """The logs that were loaded to their ends."""
        return self.groups.loads + self.transactions.loads
