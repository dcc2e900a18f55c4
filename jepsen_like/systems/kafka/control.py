"""Asks the brokers of a cluster for Metadata, ListOffsets and Fetch, on connections past the fault network.

Each broker's own log is read as a debugging consumer (replica id -2), which any replica answers, to its own end.
"""

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.operate.access import Login
from jepsen_like.port.port import Control, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.batch_values import BatchRecord, whole_batches
from jepsen_like.systems.kafka.final_log import FinalLogWriter, keyed_value, plain_value
from jepsen_like.systems.kafka.load import COMPACT_WORKLOAD, COMPACTED_TOPIC, TXN_WORKLOAD, transactional_ids
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.processes import CONTROLLER, coordinator_of, scope_of
from jepsen_like.systems.kafka.wire import NoAnswer, ask
from jepsen_like.systems.reports import ask_each
from kafka_compat.model import NO_LEADER, TopicPartition
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from kafka_compat.protocol.apis.describe_cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersTopic
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.metadata import (
    METADATA,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kafka_compat.protocol.batch_header import InvalidBatch
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.certificates import Certificates

TOPIC: Final = "log"
"""The topic of a run; its partitions are the objects of the history."""
ANSWERS_WITHIN_S: Final = 1.0
READS_WITHIN_S: Final = 30.0
READ_THROUGH_WITHIN_S: Final = 20.0
READ_BYTES: Final = 1024 * 1024
POLL_S: Final = 0.1
DEBUGGER: Final = -2
END, START = -1, -2
METADATA_VERSION, LIST_VERSION, FETCH_VERSION, CREATE_VERSION, ELECT_VERSION = 12, 7, 12, 7, 2
DESCRIBE_CLUSTER_VERSION = 2
CREATE_TIMEOUT_MS: Final = 5000

Ends = dict[TopicPartition, int]


@attrs.frozen
class ClusterView:
    """The newest state of each partition that a broker which answered knows, and the controller that most of them name."""

    controller: int
    partitions: Mapping[TopicPartition, MetadataPartition]
    brokers: frozenset[int]

    @classmethod
    def of(cls, answers: Mapping[int, MetadataResponse]) -> "ClusterView":
        """Of a partition the state of the highest leader epoch counts, and of those the leader's own."""
        best: dict[TopicPartition, tuple[tuple[int, bool], MetadataPartition]] = {}
        for node, answer in answers.items():
            for topic in answer.topics:
                for state in topic.partitions if topic.name is not None else ():
                    name = TopicPartition(topic.name or "", state.partition_index)
                    rank = (state.leader_epoch, state.leader_id == node)
                    if name not in best or rank > best[name][0]:
                        best[name] = (rank, state)
        votes = collections.Counter(answer.controller_id for answer in answers.values() if answer.controller_id >= 0)
        brokers = frozenset(broker.node_id for answer in answers.values() for broker in answer.brokers)
        controller = votes.most_common(1)[0][0] if votes else NO_LEADER
        return cls(controller, {name: state for name, (_, state) in sorted(best.items())}, brokers)

    def of_topic(self, topic: str) -> dict[TopicPartition, MetadataPartition]:
        """The partitions of one topic."""
        return {name: state for name, state in self.partitions.items() if name.topic == topic}


class KafkaControl(Control):
    """Asks the brokers of one cluster; every answer is of this moment."""

    def __init__(
        self,
        cluster_id: str,
        direct: Mapping[int, Address],
        can_answer: Callable[[int], bool] = lambda node: True,
        tls: Certificates | None = None,
        *,
        login: Login | None = None,
        load_topic: str = TOPIC,
    ) -> None:
        self.topic: str | None = None
        """The topic of the load, once `prepare` has made it."""
        self._coordinators = frozenset[Scope]()
        """The scopes of the transaction coordinators of the load."""
        self._value_of: Callable[[BatchRecord], int] = plain_value
        """Reads the value of a record of the load."""
        self._cluster_id = cluster_id
        self._direct = dict(direct)
        self._can_answer = can_answer
        self._tls = tls
        self._login = login
        self._load_topic = load_topic
        """The name of the topic that `prepare` makes."""

    # ---------------------------------------------------------------- what they know

    async def view(self) -> ClusterView:
        """The metadata of every broker that answers."""
        return ClusterView.of(await self.metadata())

    async def metadata(self, *topics: str) -> Mapping[int, MetadataResponse]:
        """Returns the answers of all brokers that have one, about these topics; without any, about all."""
        named = tuple(MetadataRequestTopic(name=topic) for topic in topics)
        request = MetadataRequest(topics=named or None, allow_auto_topic_creation=False)
        return await ask_each(self._direct, lambda node: self._try(node, METADATA, METADATA_VERSION, request))

    async def topic_names(self) -> dict[bytes, str]:
        """Returns the names of all topics by their ids, as far as a broker answers."""
        answers = await self.metadata()
        return {topic.topic_id: topic.name for answer in answers.values() for topic in answer.topics if topic.name}

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The leaders of what the load writes to, coordinators too; without a load all, and the controller."""
        view = await self.view()
        wanted = {
            name: state
            for name, state in view.partitions.items()
            if self.topic in (None, name.topic) or scope_of(*name) in self._coordinators
        }
        found = {
            scope_of(*name): Leadership(state.leader_id, state.leader_epoch)
            for name, state in wanted.items()
            if state.leader_id != NO_LEADER
        }
        if self.topic is None and (controller := await self.controller(view)) is not None:
            found[CONTROLLER] = controller
        return found

    async def controller(self, view: ClusterView) -> Leadership | None:
        """Returns who leads the controllers' group."""
        return None if view.controller == NO_LEADER else Leadership(view.controller, 0)

    async def leader_of(self, scope: Scope) -> Leadership | None:
        """Of any partition, those of the brokers' own topics too, and the controller."""
        if scope == CONTROLLER:
            return await self.controller(await self.view())
        state = await self._state_of(scope)
        return (
            None if state is None or state.leader_id == NO_LEADER else Leadership(state.leader_id, state.leader_epoch)
        )

    async def is_serving(self) -> bool:
        """Returns True if all that answer know a controller, and all unfenced; Metadata lists all if all are fenced."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        answers: Mapping[int, DescribeClusterResponse] = await ask_each(
            self._direct, lambda node: self._try(node, DESCRIBE_CLUSTER, DESCRIBE_CLUSTER_VERSION, request)
        )
        return bool(answers) and all(
            answer.controller_id != NO_LEADER and {broker.broker_id for broker in answer.brokers} == self._direct.keys()
            for answer in answers.values()
        )

    async def copies(self, scope: Scope) -> tuple[int, ...]:
        """The replicas of a partition."""
        state = await self._state_of(scope)
        return () if state is None else tuple(state.replica_nodes)

    async def in_sync(self, scope: Scope) -> tuple[int, ...]:
        """The ISR of a partition, as its leader knows it."""
        state = await self._state_of(scope)
        return () if state is None else tuple(sorted(state.isr_nodes))

    async def _state_of(self, scope: Scope) -> MetadataPartition | None:
        states = (await self.view()).partitions
        return next((state for name, state in states.items() if scope_of(*name) == scope), None)

    # ---------------------------------------------------------------- how far they are

    async def goal(self) -> Ends | None:
        """The end of every partition at its leader; None while one has no leader that answers."""
        view = await self.view()
        wanted: dict[int, list[TopicPartition]] = {}
        for name, state in view.partitions.items():
            if state.leader_id == NO_LEADER:
                return None
            wanted.setdefault(state.leader_id, []).append(name)
        goal: Ends = {}
        for node, names in wanted.items():
            ends = await self.ends(node, names)
            if ends is None:
                return None
            goal |= ends
        return goal if view.brokers else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if it is in the ISR of every partition that it has a copy of, and holds as much."""
        view = await self.view()
        mine = [name for name in goal if name in view.partitions and node in view.partitions[name].replica_nodes]
        if node not in view.brokers or any(node not in view.partitions[name].isr_nodes for name in mine):
            return False
        ends = await self.ends(node, mine)
        return ends is not None and all(ends[name] >= goal[name] for name in mine)

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until all replicas of the load's partitions end where their leader does, and all of that is committed."""
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                ends, why = await self._agree()
                if ends is not None:
                    return {name.partition: end for name, end in ends.items()}
                await trio.sleep(POLL_S)
        raise NotServing(f"the brokers do not agree {within_s:g} s after everything was healed: {why}")

    async def _agree(self) -> tuple[Ends | None, str]:
        """The ends on which all replicas agree; else None and why not."""
        states = (await self.view()).of_topic(self.topic or self._load_topic)
        if not states:
            return None, f"no broker knows the topic {self.topic or self._load_topic}"
        agreed: Ends = {}
        for name, state in states.items():
            if state.leader_id == NO_LEADER:
                return None, f"{name} has no leader"
            ends = {}
            for node in state.replica_nodes:
                found = await self.ends(node, [name])
                if found is None:
                    return None, f"n{node} does not tell where its {name} ends"
                ends[node] = found[name]
            end = ends[state.leader_id]
            if set(ends.values()) != {end}:
                told = ", ".join(f"n{node} at {of_node}" for node, of_node in sorted(ends.items()))
                return None, f"{name}, led by n{state.leader_id}: {told}"
            try:
                committed = (await self.read_own(state.leader_id, name, end)).high_watermark
            except NoAnswer as error:
                return None, f"n{state.leader_id}: {error}"
            if committed != end:
                return None, f"{name} ends at {end} on n{state.leader_id}, committed to {committed}"
            agreed[name] = end
        return agreed, ""

    async def ends(self, node: int, names: list[TopicPartition], what: int = END) -> Ends | None:
        """Returns the offsets at which a broker's own copies end (or begin); None if it does not answer."""
        if not names:
            return {}
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for name in names:
            asked = ListOffsetsPartition(partition_index=name.partition, timestamp=what)
            by_topic.setdefault(name.topic, []).append(asked)
        topics = tuple(ListOffsetsTopic(name=topic, partitions=tuple(asked)) for topic, asked in by_topic.items())
        request = ListOffsetsRequest(replica_id=DEBUGGER, topics=topics)
        answer = await self._try(node, LIST_OFFSETS, LIST_VERSION, request)
        if answer is None:
            return None
        found = {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == KafkaErrorCode.NONE
        }
        return found if found.keys() == set(names) else None

    # ---------------------------------------------------------------- what they hold

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """The log of every replica of the load's partitions; objects are the partitions."""
        states = (await self.view()).of_topic(self.topic or self._load_topic)
        async with trio.open_nursery() as nursery:
            for node in self._direct:
                held = [name for name, state in states.items() if node in state.replica_nodes]
                nursery.start_soon(self._dump_node, node, held, ends, writer)
        writer.dumped_ns = time.monotonic_ns()

    async def _dump_node(
        self, node: int, names: list[TopicPartition], ends: Mapping[int, int], writer: DumpWriter
    ) -> None:
        for name in names:
            starts = None
            with trio.move_on_after(READS_WITHIN_S):
                while (starts := await self.ends(node, [name], START)) is None:  # noqa: ASYNC110 - only the broker knows
                    await trio.sleep(POLL_S)
            if starts is None:
                raise NotServing(f"n{node} did not tell where its {name} begins within {READS_WITHIN_S:g} s")
            offset, end = starts[name], ends[name.partition]
            writer.begin(node, offset, name.partition)
            log = FinalLogWriter(writer, node, name.partition, offset, self._value_of)
            shown_by = trio.current_time() + READS_WITHIN_S
            while log.offset < end:
                offset = log.offset
                try:
                    records = (await self.read_own(node, name, offset)).records or b""
                    log.take(memoryview(b"".join(records) if isinstance(records, tuple) else records), end)
                except (NoAnswer, InvalidBatch) as error:
                    raise NotServing(f"n{node} did not give its {name} at {offset}: {error}") from error
                if log.offset > offset:
                    shown_by = trio.current_time() + READS_WITHIN_S
                elif trio.current_time() > shown_by:
                    raise NotServing(f"n{node} has {name} up to {end} and shows {offset}")
                else:
                    await trio.sleep(POLL_S)  # a follower learns from its next fetch up to where it may show its log
            log.close()

    async def read_own(self, node: int, name: TopicPartition, offset: int) -> FetchPartitionResponse:
        """Read a broker's own copy. Raises `NoAnswer`, also for an error of the partition."""
        wanted = FetchPartition(partition=name.partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            replica_id=DEBUGGER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            topics=(FetchTopic(topic=name.topic, partitions=(wanted,)),),
        )
        answer = await self._ask(self._direct[node], FETCH, FETCH_VERSION, request, within_s=READS_WITHIN_S)
        parts = [part for topic in answer.responses for part in topic.partitions]
        if len(parts) != 1 or answer.error_code != KafkaErrorCode.NONE:
            raise NoAnswer(f"a fetch of {name} was answered with {len(parts)} partitions, error {answer.error_code}")
        if parts[0].error_code != KafkaErrorCode.NONE:
            raise NoAnswer(f"a fetch of {name} at {offset} was refused with error {parts[0].error_code}")
        found: FetchPartitionResponse = parts[0]
        return found

    async def read_through(self, node: int) -> None:
        """Read all that a broker holds of the load's partitions, once it gives it."""
        with trio.move_on_after(READ_THROUGH_WITHIN_S):
            while not await self._is_read(node):  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(POLL_S)

    async def _is_read(self, node: int) -> bool:
        """Returns True if each copy that a broker holds was read to its end."""
        states = (await self.view()).of_topic(self.topic or self._load_topic)
        names = [name for name, state in states.items() if node in state.replica_nodes]
        starts, ends = await self.ends(node, names, START), await self.ends(node, names)
        if starts is None or ends is None:
            return False
        try:
            for name in names:
                offset = starts[name]
                while offset < ends[name]:
                    records = (await self.read_own(node, name, offset)).records or b""
                    data = memoryview(b"".join(records) if isinstance(records, tuple) else records)
                    following = [header.end_offset for _, header in whole_batches(data)]
                    if not following or following[-1] <= offset:
                        return False
                    offset = following[-1]
        except (NoAnswer, InvalidBatch):
            return False
        return True

    # ---------------------------------------------------------------- the rest

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the topic of the load, with a leader for each partition and every replica in sync."""
        assert isinstance(mode, KafkaMode)
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                view = await self.view()
                states = view.of_topic(self._load_topic)
                if len(states) == mode.partitions and all(
                    state.leader_id != NO_LEADER and len(state.isr_nodes) == len(state.replica_nodes)
                    for state in states.values()
                ):
                    self.topic = self._load_topic
                    self._value_of = keyed_value if workload == COMPACT_WORKLOAD else plain_value
                    if workload == TXN_WORKLOAD:
                        ids = transactional_ids(mode)
                        self._coordinators = frozenset(coordinator_of(one, mode.transaction_partitions) for one in ids)
                    return
                if states:
                    why = "not all replicas are in sync"
                elif len(view.brokers) == len(self._direct):  # replicas are placed on brokers that have registered
                    is_keyed = workload == COMPACT_WORKLOAD
                    configs = {**COMPACTED_TOPIC, **mode.short_segments} if is_keyed else {}
                    why = await self._create(view, mode, configs) or why
                await trio.sleep(POLL_S)
        raise NotServing(f"the topic {self._load_topic} was not ready within {within_s:g} s: {why}")

    async def place(self, replicas: Sequence[Sequence[int]], *, within_s: float) -> None:
        """Make the topic of the load with these replicas of each partition, the first of which leads. Raises `NotServing`."""
        assignments = tuple(
            CreateTopicAssignment(partition_index=number, broker_ids=tuple(brokers))
            for number, brokers in enumerate(replicas)
        )
        wanted = CreateTopic(
            name=self._load_topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=()
        )
        why: str | None = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                view = await self.view()
                states = view.of_topic(self._load_topic)
                led = [state.leader_id for _, state in sorted(states.items()) if len(state.isr_nodes) > 1]
                if states and led == [brokers[0] for brokers in replicas]:
                    self.topic = self._load_topic
                    return
                if states:
                    why = f"its leaders are {led}"
                    await self._elect_first_replicas(view, [partition.partition for partition in states])
                elif len(view.brokers) == len(self._direct):
                    why = await self._make(view, wanted)
                await trio.sleep(POLL_S)
        raise NotServing(f"the topic {self._load_topic} was not placed within {within_s:g} s: {why}")

    async def _elect_first_replicas(self, view: ClusterView, partitions: Sequence[int]) -> None:
        """Ask the controller for them: one that was fenced for a moment does not lead again by itself."""
        wanted = ElectLeadersTopic(topic=self._load_topic, partitions=tuple(partitions))
        request = ElectLeadersRequest(topic_partitions=(wanted,), timeout_ms=CREATE_TIMEOUT_MS)
        within_s = CREATE_TIMEOUT_MS / 1e3 + ANSWERS_WITHIN_S
        await self._try(view.controller, ELECT_LEADERS, ELECT_VERSION, request, within_s=within_s)

    async def _create(self, view: ClusterView, mode: KafkaMode, configs: Mapping[str, str]) -> str | None:
        """Returns why it was refused, by the last broker that was asked; None if it was made."""
        wanted = CreateTopic(
            name=self._load_topic,
            num_partitions=mode.partitions,
            replication_factor=mode.factor(len(self._direct)),
            assignments=(),
            configs=tuple(
                CreateTopicConfig(name=name, value=value) for name, value in {**mode.topic_configs, **configs}.items()
            ),
        )
        return await self._make(view, wanted)

    async def _make(self, view: ClusterView, wanted: CreateTopic) -> str | None:
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=CREATE_TIMEOUT_MS)
        why = "no broker answers"
        for node in sorted(self._direct, key=lambda node: node != view.controller):
            answer = await self._try(
                node, CREATE_TOPICS, CREATE_VERSION, request, within_s=CREATE_TIMEOUT_MS / 1e3 + ANSWERS_WITHIN_S
            )
            for result in answer.topics if answer is not None else ():
                if result.error_code in (KafkaErrorCode.NONE, KafkaErrorCode.TOPIC_ALREADY_EXISTS):
                    return None
                why = f"n{node} refused it with error {result.error_code} {result.error_message or ''}".strip()
        return why

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By ApiVersions."""
        try:
            await self._ask(address, API_VERSIONS, 0, ApiVersionsRequest(), within_s=within_s)
        except NoAnswer as error:
            return str(error)
        return None

    async def _try(
        self, node: int, api: Any, version: int, request: Any, *, within_s: float = ANSWERS_WITHIN_S
    ) -> Any | None:
        """A broker's response; None if it does not answer at once, or cannot."""
        if not self._can_answer(node):
            return None
        try:
            return await self._ask(self._direct[node], api, version, request, within_s=within_s)
        except NoAnswer:
            return None

    async def _ask(self, address: Address, api: Any, version: int, request: Any, *, within_s: float) -> Any:
        return await ask(address, api, version, request, within_s=within_s, tls=self._tls, login=self._login)
