"""A machine with an index that counts, and short words for the commands of the tests."""

from typing import TypeVar

from attrs import define, field

from kafka_compat.controller.answers import fits
from kafka_compat.controller.commands import (
    Acknowledged,
    AlterConfigs,
    AlterPartition,
    BeginShutdown,
    Command,
    CommandResult,
    ConfigsAltered,
    ConfigSetting,
    CreateTopics,
    FenceBroker,
    IsrChange,
    LogReport,
    NewTopic,
    PartitionAltered,
    PartitionsAltered,
    ProposedMember,
    RegisterBroker,
    Registered,
    ReportLogs,
    ResourceChange,
    ResourceKind,
    ResourceName,
    TopicCreated,
    TopicsCreated,
    UnfenceBroker,
    decode_result,
    encode_command,
)
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode

Result = TypeVar("Result")


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


@define
class World:
    """A machine that commands are applied to by way of their bytes."""

    machine: MetadataMachine = field(factory=MetadataMachine)
    index: int = 0
    incarnations: int = 0
    topics: int = 0
    eligible: bool = False

    def do(self, command: Command, kind: type[Result] = Acknowledged) -> Result:  # type: ignore[assignment]
        result: CommandResult = decode_result(self.apply(encode_command(command)))
        assert isinstance(result, kind), result
        assert fits(command, result), f"a broker would refuse {result}"
        return result

    def apply(self, command: bytes) -> bytes:
        self.machine.check(command, read_only=False)
        self.index += 1
        return self.machine.apply(self.index, command)

    def register(self, broker: int, rack: str | None = None, incarnation: int | None = None) -> Registered:
        if incarnation is None:
            self.incarnations += 1
            incarnation = self.incarnations
        return self.do(
            RegisterBroker(broker, uuid(incarnation), f"host{broker}", 9000 + broker, rack, False, self.eligible),
            Registered,
        )

    def start(self, *brokers: int, rack: str | None = None) -> None:
        for broker in brokers:
            assert self.register(broker, rack).error is KafkaErrorCode.NONE
            self.unfence(broker)

    def epoch(self, broker: int) -> int:
        return self.machine.image.brokers[broker].epoch

    def unfence(self, broker: int) -> None:
        assert self.do(UnfenceBroker(broker, self.epoch(broker))).error is KafkaErrorCode.NONE

    def fence(self, broker: int) -> None:
        assert self.do(FenceBroker(broker, self.epoch(broker), False, self.eligible)).error is KafkaErrorCode.NONE

    def shut_down(self, broker: int) -> None:
        assert self.do(BeginShutdown(broker, self.epoch(broker), False, self.eligible)).error is KafkaErrorCode.NONE

    def create(self, name: str, *assignment: tuple[int, ...], **configs: str) -> TopicCreated:
        """A topic with these replicas, partition by partition; `_` in the names of configs stands for a dot."""
        self.topics += 1
        settings = tuple((config.replace("_", "."), value) for config, value in configs.items())
        topic = NewTopic(name, uuid(self.topics), assignment=tuple(enumerate(assignment)), configs=settings)
        (created,) = self.do(CreateTopics((topic,)), TopicsCreated).topics
        return created

    def state(self, topic: str = "t", partition: int = 0) -> PartitionState:
        state = self.machine.image.partition(TopicPartition(topic, partition))
        assert state is not None
        return state

    def report(
        self,
        broker: int,
        last_epoch: int = 0,
        end: int = 0,
        *,
        doubtful: bool = False,
        topic: str = "t",
        seen: int | None = None,
        epoch: int | None = None,
    ) -> KafkaErrorCode:
        """A report of one log of a broker that has seen the present leader epoch, unless `seen` is another."""
        state = self.state(topic)
        log = LogReport(state.topic_id, 0, state.leader_epoch if seen is None else seen, doubtful, last_epoch, end)
        return self.do(ReportLogs(broker, self.epoch(broker) if epoch is None else epoch, (log,))).error

    def change(
        self, *isr: int, topic: str = "t", partition: int = 0, recovering: bool = False, keeps_eligible: bool = False
    ) -> IsrChange:
        """The change to this ISR that a leader which knows everything would ask for."""
        state = self.state(topic, partition)
        members = tuple(ProposedMember(broker, self.epoch(broker)) for broker in isr)
        epochs = (state.leader_epoch, state.partition_epoch)
        return IsrChange(state.topic_id, partition, *epochs, members, recovering, keeps_eligible)

    def alter(self, change: IsrChange, sender: int | None = None) -> PartitionAltered:
        if sender is None:
            state = self.machine.image.partition_by_id(change.topic_id, change.partition)
            assert state is not None
            sender = state.leader
        result = self.do(AlterPartition(sender, self.epoch(sender), (change,)), PartitionsAltered)
        assert result.error is KafkaErrorCode.NONE
        (altered,) = result.partitions
        return altered

    def configure(self, kind: ResourceKind, name: str, config: str, value: str | None) -> KafkaErrorCode:
        change = ResourceChange(ResourceName(kind, name), (ConfigSetting(config, value),))
        (altered,) = self.do(AlterConfigs((change,)), ConfigsAltered).resources
        return altered.error


def three_brokers(*assignment: tuple[int, ...], **configs: str) -> World:
    """Brokers 1 to 3 and the topic t, by default with one partition on all of them."""
    world = World()
    world.start(1, 2, 3)
    assert world.create("t", *(assignment or ((1, 2, 3),)), **configs).error is KafkaErrorCode.NONE
    world.machine.drain_changes()
    return world


def three_eligible(*assignment: tuple[int, ...]) -> World:
    """The same with eligible leader replicas."""
    world = three_brokers(*assignment)
    world.eligible = True
    return world
