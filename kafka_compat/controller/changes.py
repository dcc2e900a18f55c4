"""One command's changes to the image, made and recorded in one go.

Every change goes through here, so that the report equals the changes.
"""

from attrs import define, field

from kafka_compat.acls import Acl
from kafka_compat.controller import invariants
from kafka_compat.controller.commands import LogReport, Reassignment, ResourceName
from kafka_compat.controller.elections import ElectionRule, elect, rule_for, settle, take_report, without
from kafka_compat.controller.image import ClusterImage, ImageDelta, TopicImage
from kafka_compat.controller.reassignment import check_kept, retarget
from kafka_compat.controller.refusal import Refused
from kafka_compat.model import BrokerRegistration, PartitionState, ScramCredential, ScramMechanism, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode


@define
class ImageChanges:
    """Changes an image and collects the delta."""

    image: ClusterImage
    _brokers: dict[int, BrokerRegistration] = field(factory=dict)
    _partitions: dict[TopicPartition, PartitionState] = field(factory=dict)
    _created: list[TopicImage] = field(factory=list)
    _deleted: list[TopicImage] = field(factory=list)
    _configs: dict[ResourceName, None] = field(factory=dict)
    _users: dict[str, None] = field(factory=dict)
    _acls: bool = False
    _removed: list[int] = field(factory=list)

    def delta(self, index: int) -> ImageDelta:
        """Returns the changes, as the effect of the command at `index`."""
        return ImageDelta(
            index,
            brokers=tuple(self._brokers.values()),
            partitions=self._partitions,
            topics_created=tuple(self._created),
            topics_deleted=tuple(self._deleted),
            configs=tuple(self._configs),
            users=tuple(self._users),
            acls=self._acls,
            brokers_removed=tuple(self._removed),
        )

    def put_broker(self, registration: BrokerRegistration) -> None:
        """Add or replace a registration."""
        self.image.brokers[registration.id] = self._brokers[registration.id] = registration

    def remove_broker(self, broker: int) -> None:
        """Remove the registration of a broker that has no copies, and its settings."""
        del self.image.brokers[broker]
        self.image.broker_configs.pop(broker, None)
        self._removed.append(broker)

    def put_partition(self, key: TopicPartition, state: PartitionState) -> None:
        """Replace the state of a partition, or add the next one of its topic. An equal object changes nothing."""
        before = self.image.partition(key)
        if before is not state:
            invariants.check(before, state)
            self.image.put_partition(key, state)
            self._partitions[key] = state

    def create_topic(self, topic: TopicImage) -> None:
        """Add a topic, with the partitions it has."""
        self.image.put_topic(topic)
        self._created.append(topic)
        for partition, state in enumerate(topic.partitions):
            invariants.check(None, state)
            self._partitions[TopicPartition(topic.name, partition)] = state

    def delete_topic(self, topic: TopicImage) -> None:
        """Remove a topic with all its partitions."""
        self.image.remove_topic(topic)
        self._deleted.append(topic)

    def set_config(self, resource: ResourceName, name: str, value: str | None) -> None:
        """Set or delete one config of a resource that exists."""
        if self.image.configs_of(resource).get(name) == value:
            return
        self._configs[resource] = None
        self.image.set_config(resource, name, value)

    def set_credential(self, user: str, mechanism: ScramMechanism, credential: ScramCredential | None) -> None:
        """Set a credential, or with None delete one that exists."""
        self._users[user] = None
        self.image.set_credential(user, mechanism, credential)

    def add_acl(self, acl: Acl) -> None:
        """Add an ACL that is not there."""
        self._acls = True
        self.image.acls.add(acl)

    def remove_acl(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        self._acls = True
        self.image.acls.remove(acl)

    def elect(self, key: TopicPartition, rule: ElectionRule) -> bool:
        """Hold an election by a rule. Returns True if it has changed the state."""
        state = self.image.topics[key.topic].partitions[key.partition]
        after = elect(state, rule, self.image)
        self.put_partition(key, after)
        return after is not state

    def reassign(self, wanted: Reassignment, *, allows_factor_change: bool) -> None:
        """Begin, replace or cancel a reassignment, and complete it if that is possible at once. Raises `Refused`."""
        key = TopicPartition(wanted.topic, wanted.partition)
        state = self.image.partition(key)
        if state is None:
            raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        retargeted = retarget(self.image, state, wanted, allows_factor_change=allows_factor_change)
        after = settle(state, retargeted, ElectionRule.ONLINE, self.image)
        check_kept(state, after)
        self.put_partition(key, after)

    def elect_leaderless(self, *, unclean_default: bool) -> None:
        """Hold elections for all partitions without leader, within the limits of each topic's rule."""
        for key in self.image.leaderless():
            self.elect(key, rule_for(self.image, self.image.topics[key.topic], unclean_default=unclean_default))

    def take_out(self, broker: int, *, unclean_default: bool, eligible: bool) -> None:
        """Remove an inactive broker from its ISRs; its leaderships move.

        With `eligible` it becomes an eligible leader replica. Without, it stays in an ISR that has no other member.
        """
        assert not self.image.active(broker)
        for key in self.image.with_member(broker):
            topic = self.image.topics[key.topic]
            rule = rule_for(self.image, topic, unclean_default=unclean_default)
            state = topic.partitions[key.partition]
            self.put_partition(key, without(state, broker, rule, self.image, eligible=eligible))

    def report(self, broker: int, report: LogReport, *, unclean_default: bool) -> None:
        """Take a registered broker's report of one log, and hold the election for which it may have been missing."""
        topic = self.image.topics_by_id.get(report.topic_id)
        if topic is None or not 0 <= report.partition < len(topic.partitions):
            return
        rule = rule_for(self.image, topic, unclean_default=unclean_default)
        state = topic.partitions[report.partition]
        key = TopicPartition(topic.name, report.partition)
        self.put_partition(key, take_report(state, broker, report, rule, self.image))
