"""Administers a cluster by Kafka's protocol, as an operator does: past no fault network, from any of its brokers.

Versions are those that Apache's brokers serve as well. A change is sent to one broker at a time, and to another one only
if the first was certainly not asked, or refused because the controller was elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import attrs
import trio

from jepsen_like.operate.access import OPEN, BrokerAccess
from jepsen_like.operate.addresses import text_of_cluster
from jepsen_like.operate.administration import Silent, TopicPlan
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.operate.reassignment import Assignment, Partition
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.kafka.control import ClusterView
from jepsen_like.systems.kafka.wire import NoAnswer, NotAsked, NotLoggedIn, ask
from jepsen_like.systems.reports import ask_each
from kafka_compat.model import NO_LEADER, TopicPartition
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_compat.protocol.apis.delete_topics import (
    DELETE_TOPICS,
    DeleteTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_compat.protocol.apis.describe_cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_compat.protocol.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataResponse
from kafka_compat.protocol.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

CLIENT: Final = -1
END, START = -1, -2
BROKER_DEFAULT: Final = -1
RETRY_EVERY_S: Final = 0.2
ANSWERS_WITHIN_S: Final = 3.0
UNKNOWN_OUTCOMES: Final = frozenset({KafkaErrorCode.REQUEST_TIMED_OUT, KafkaErrorCode.UNKNOWN_SERVER_ERROR})
DENIALS: Final = frozenset(
    {
        KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        KafkaErrorCode.GROUP_AUTHORIZATION_FAILED,
        KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
ELSEWHERE: Final = frozenset({KafkaErrorCode.NOT_CONTROLLER, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE})
_DESCRIBE: Final = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)


@attrs.frozen
class _Group:
    """A group, and the broker that coordinates it."""

    listed: ListedGroup
    coordinator: int


class KafkaAdministration:
    """Asks the brokers of one cluster."""

    system: ClassVar[str] = "kafka"

    def __init__(
        self, cluster: DescribeClusterResponse, named: Sequence[Address], within_s: float, access: BrokerAccess = OPEN
    ) -> None:
        """Use `open`."""
        self.notes: list[str] = []
        self._flags = f"--cluster {text_of_cluster(named)}"
        self._within_s = within_s
        self._access = access
        self._answers_s = min(ANSWERS_WITHIN_S, within_s)
        self._controller = cluster.controller_id
        self._brokers: dict[int, DescribeClusterBroker] = {each.broker_id: each for each in cluster.brokers}

    @classmethod
    async def open(cls, addresses: Sequence[Address], within_s: float, access: BrokerAccess) -> Self:
        """See `Administration`."""
        reasons: dict[str, str] = {}

        async def describe(at: int) -> DescribeClusterResponse | None:
            try:
                within = min(ANSWERS_WITHIN_S, within_s)
                answer = await _ask(addresses[at], DESCRIBE_CLUSTER, 2, _DESCRIBE, within, access)
            except NotLoggedIn as error:
                raise NotDone(f"{text_of(addresses[at])}: {error}; check --command-config") from error
            except NoAnswer as error:
                reasons[text_of(addresses[at])] = str(error)
                return None
            assert isinstance(answer, DescribeClusterResponse)
            return answer

        answers = list((await ask_each(range(len(addresses)), describe)).values())
        if not answers:
            raise Silent(reasons)
        # Who knows a controller and more brokers has been with the cluster for longer.
        return cls(
            max(answers, key=lambda each: (each.controller_id >= 0, len(each.brokers))), addresses, within_s, access
        )

    # ---------------------------------------------------------------- asking

    def _address(self, broker: int) -> Address:
        return self._brokers[broker].host, self._brokers[broker].port

    async def _try(self, broker: int, api: Api[Any, Any], version: int, request: Any) -> Any | None:
        """Returns a broker's answer; None, with a note, if there is none."""
        if broker not in self._brokers:
            return None
        try:
            answer = await _ask(self._address(broker), api, version, request, self._answers_s, self._access)
        except NoAnswer as error:
            note = f"broker {broker} at {text_of(self._address(broker))} does not answer ({error})"
            if not any(each.startswith(f"broker {broker} ") for each in self.notes):
                self.notes.append(f"{note}: what it alone knows is left out")
            return None
        self._note_denied(api, answer)
        return answer

    def _note_denied(self, api: Api[Any, Any], answer: Any) -> None:
        """Note that this user may not ask; the answer is then empty, or lacks a part."""
        parts = (answer, *getattr(answer, "groups", ()))
        for code in sorted({getattr(part, "error_code", 0) for part in parts} & DENIALS):
            note = f"{api.name}: {_error_name(code)}; what this user may not see is left out"
            if note not in self.notes:
                self.notes.append(note)

    async def _ask_all(self, api: Api[Any, Any], version: int, request: Any) -> dict[int, Any]:
        return await ask_each(self._brokers, lambda broker: self._try(broker, api, version, request))

    async def _view(self) -> ClusterView:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answers: dict[int, MetadataResponse] = await self._ask_all(METADATA, 12, request)
        return ClusterView.of(answers)

    async def _offsets(self, view: ClusterView, names: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Returns the start or the end of partitions, by their leaders; without those that have none."""
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for name in names:
            state = view.partitions.get(name)
            if state is not None and state.leader_id != NO_LEADER:
                asked = ListOffsetsPartition(partition_index=name.partition, timestamp=at)
                by_leader.setdefault(state.leader_id, {}).setdefault(name.topic, []).append(asked)

        async def of(leader: int) -> ListOffsetsResponse | None:
            topics = tuple(ListOffsetsTopic(name=name, partitions=tuple(of)) for name, of in by_leader[leader].items())
            return await self._try(leader, LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=CLIENT, topics=topics))

        answers = (await ask_each(by_leader, of)).values()
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for answer in answers
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == KafkaErrorCode.NONE
        }

    # ---------------------------------------------------------------- brokers

    async def brokers(self) -> list[Row]:
        """Each broker with the partitions that it leads and copies. Epochs are in `topic`, since each leader has its own."""
        view = await self._view()
        request = DescribeLogDirsRequest(topics=None)
        disks: dict[int, DescribeLogDirsResponse] = await self._ask_all(DESCRIBE_LOG_DIRS, 4, request)
        self.notes = [note for note in self.notes if not note.startswith("broker ")]  # the rows have those
        return [self._broker_row(broker, view, disks.get(broker)) for broker in sorted(self._brokers)]

    def _broker_row(self, broker: int, view: ClusterView, disk: DescribeLogDirsResponse | None) -> Row:
        states = list(view.partitions.values())
        copies = [state for state in states if broker in state.replica_nodes]
        logs = [log for result in disk.results for topic in result.topics for log in topic.partitions] if disk else None
        free = [result.usable_bytes for result in disk.results if result.usable_bytes >= 0] if disk else []
        state = "silent" if disk is None else "fenced" if self._brokers[broker].is_fenced else "serving"
        return {
            "broker": broker,
            "address": text_of(self._address(broker)),
            "role": "controller" if broker == self._controller else "broker",
            "state": state,
            "leads": sum(state.leader_id == broker for state in states),
            "replicas": len(copies),
            "in_sync": sum(broker in state.isr_nodes for state in copies),
            "behind": None if logs is None else sum(max(0, log.offset_lag) for log in logs),
            "log_bytes": None if logs is None else sum(log.partition_size for log in logs),
            "free_bytes": min(free, default=None),
        }

    # ---------------------------------------------------------------- topics

    async def topics(self) -> list[Row]:
        """See `Administration`. `in_sync` is the least number of copies in sync of a partition."""
        view = await self._view()
        rows: list[Row] = []
        for topic in sorted({name.topic for name in view.partitions}):
            states = list(view.of_topic(topic).values())
            rows.append(
                {
                    "topic": topic,
                    "partitions": len(states),
                    "replicas": max(len(state.replica_nodes) for state in states),
                    "in_sync": min(len(state.isr_nodes) for state in states),
                    "under_replicated": sum(len(state.isr_nodes) < len(state.replica_nodes) for state in states),
                    "leaderless": sum(state.leader_id == NO_LEADER for state in states),
                }
            )
        return rows

    async def topic(self, name: str) -> list[Row]:
        """See `Administration`. `end` is the high watermark."""
        view = await self._view()
        states = view.of_topic(name)
        if not states:
            raise self._no_topic(name)
        starts, ends = await self._offsets(view, states, START), await self._offsets(view, states, END)
        return [
            {
                "partition": at.partition,
                "leader": None if state.leader_id == NO_LEADER else state.leader_id,
                "epoch": state.leader_epoch,
                "replicas": list(state.replica_nodes),
                "in_sync": list(state.isr_nodes),
                "start": starts.get(at),
                "end": ends.get(at),
            }
            for at, state in states.items()
        ]

    def _no_topic(self, name: str) -> NotDone:
        return NotDone(f"there is no topic {name}; see which there are: quorumlog topics {self._flags}")

    async def create_topic(self, plan: TopicPlan) -> list[Row]:
        """See `Administration`."""
        wanted = CreateTopic(
            name=plan.name,
            num_partitions=plan.partitions or BROKER_DEFAULT,
            replication_factor=plan.replicas or BROKER_DEFAULT,
            assignments=(),
            configs=tuple(CreateTopicConfig(name=name, value=value) for name, value in plan.settings.items()),
        )
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=self._timeout_ms)

        def outcome(answer: CreateTopicsResponse) -> tuple[int, str | None]:
            (result,) = answer.topics
            return result.error_code, result.error_message

        answer = await self._change(CREATE_TOPICS, 5, request, outcome, plan.name)
        (made,) = answer.topics
        row = {"topic": plan.name, "outcome": "created"}
        return [{**row, "partitions": made.num_partitions, "replicas": made.replication_factor}]

    async def delete_topic(self, name: str) -> list[Row]:
        """See `Administration`."""
        request = DeleteTopicsRequest(topics=(DeleteTopic(name=name, topic_id=bytes(16)),), timeout_ms=self._timeout_ms)

        def outcome(answer: DeleteTopicsResponse) -> tuple[int, str | None]:
            (result,) = answer.responses
            return result.error_code, result.error_message

        await self._change(DELETE_TOPICS, 6, request, outcome, name)
        return [{"topic": name, "outcome": "deleted"}]

    # ---------------------------------------------------------------- reassignments

    async def assignment(self) -> Assignment:
        """See `Administration`."""
        view, moving = await self._view(), await self._moving()
        leaving = {each: state.removing_replicas for each, state in moving.items()}
        return {
            (at.topic, at.partition): tuple(
                [each for each in state.replica_nodes if each not in leaving.get((at.topic, at.partition), ())]
            )
            for at, state in view.partitions.items()
        }

    async def reassign(self, wanted: Mapping[Partition, tuple[int, ...] | None]) -> None:
        """See `Administration`."""
        by_topic: dict[str, list[ReassignablePartition]] = {}
        for (topic, partition), replicas in sorted(wanted.items(), key=lambda item: item[0]):
            by_topic.setdefault(topic, []).append(ReassignablePartition(partition_index=partition, replicas=replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=tuple(ReassignableTopic(name=name, partitions=tuple(each)) for name, each in by_topic.items()),
        )

        def outcome(answer: AlterPartitionReassignmentsResponse) -> tuple[int, str | None]:
            return answer.error_code, answer.error_message

        where = f"quorumlog topics reassign {self._flags}"
        answer: AlterPartitionReassignmentsResponse = await self._change(
            ALTER_PARTITION_REASSIGNMENTS, 0, request, outcome, "", where
        )
        refused = [
            f"{topic.name}-{each.partition_index}: {_error_name(each.error_code)}: {each.error_message or ''}".rstrip(
                ".: "
            )
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code != KafkaErrorCode.NONE
        ]
        if refused:
            others = len(wanted) - len(refused)
            taken = f"the other {others} were taken; see them: {where}" if others else "nothing was changed"
            raise NotDone(f"{'; '.join(refused)}; {taken}")

    async def moving(self) -> list[Row]:
        """See `Administration`. `behind` are the records that the slowest of the new copies lacks."""
        moving = await self._moving()
        if not moving:
            return []
        view = await self._view()
        disks: dict[int, DescribeLogDirsResponse] = await self._ask_all(
            DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)
        )
        lags = {
            (broker, topic.name, log.partition_index): log.offset_lag
            for broker, disk in disks.items()
            for result in disk.results
            for topic in result.topics
            for log in topic.partitions
        }
        rows: list[Row] = []
        for (topic, partition), state in sorted(moving.items()):
            known = view.partitions.get(TopicPartition(topic, partition))
            behind = [lags.get((broker, topic, partition)) for broker in state.adding_replicas]
            rows.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "replicas": list(state.replicas),
                    "adds": list(state.adding_replicas),
                    "removes": list(state.removing_replicas),
                    "in_sync": [] if known is None else list(known.isr_nodes),
                    "behind": None if None in behind else max(map(int, filter(None, behind)), default=0),
                }
            )
        return rows

    async def _moving(self) -> dict[Partition, OngoingPartitionReassignment]:
        """Returns what is moving by the word of any broker: one that lags knows too little, or of what is over."""
        answers: dict[int, ListPartitionReassignmentsResponse] = await self._ask_all(
            LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=None)
        )
        if not answers:
            raise NotDone(f"no broker answers; see which serve: quorumlog brokers {self._flags}")
        moving: dict[Partition, OngoingPartitionReassignment] = {}
        for broker in sorted(answers, key=lambda broker: broker == self._controller):
            answer = answers[broker]
            if answer.error_code != KafkaErrorCode.NONE:
                raise NotDone(f"{_error_name(answer.error_code)}: {answer.error_message or 'nothing is shown'}")
            moving.update(
                ((topic.name, each.partition_index), each) for topic in answer.topics for each in topic.partitions
            )
        return moving

    # ---------------------------------------------------------------- changes

    @property
    def _timeout_ms(self) -> int:
        return round(self._within_s * 1000)

    async def _change(
        self, api: Api[Any, Any], version: int, request: Any, outcome: Any, name: str, see: str = ""
    ) -> Any:
        """Returns the answer to a change that was made; `see` shows what has become of one of unknown outcome.

        Raises `NotDone` and `PerhapsDone`.
        """
        see = see or f"quorumlog topics describe {name} {self._flags}"
        refusal = "no broker can be reached"
        deadline = trio.current_time() + self._within_s
        while True:
            for broker in sorted(self._brokers, key=lambda broker: (broker != self._controller, broker)):
                try:
                    answer = await _ask(self._address(broker), api, version, request, self._within_s + 1, self._access)
                except NotLoggedIn as error:
                    raise NotDone(f"broker {broker}: {error}; check --command-config") from error
                except NotAsked as error:
                    refusal = f"broker {broker}: {error}"
                    continue
                except NoAnswer as error:
                    raise _perhaps(f"broker {broker} was asked: {error}", see) from error
                try:
                    code, message = outcome(answer)
                except ValueError:
                    raise _perhaps(f"broker {broker} answered about another topic", see) from None
                if code == KafkaErrorCode.NONE:
                    return answer
                refusal = f"{_error_name(code)}{f': {message}' if message else ''}".rstrip(".")
                if code in UNKNOWN_OUTCOMES:
                    raise _perhaps(refusal, see)
                if code not in ELSEWHERE:
                    raise self._refusal(code, refusal, name)
            if trio.current_time() + RETRY_EVERY_S >= deadline:
                raise NotDone(f"{refusal}; see which brokers serve: quorumlog brokers {self._flags}")
            await trio.sleep(RETRY_EVERY_S)

    def _refusal(self, code: int, reason: str, name: str) -> NotDone:
        match code:
            case KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return self._no_topic(name)
            case KafkaErrorCode.TOPIC_ALREADY_EXISTS:
                advice = f"see it: quorumlog topics describe {name} {self._flags}"
            case KafkaErrorCode.INVALID_REPLICATION_FACTOR:
                advice = f"see which brokers serve: quorumlog brokers {self._flags}"
            case _:
                advice = "nothing was changed"
        return NotDone(f"{reason}; {advice}")

    # ---------------------------------------------------------------- groups

    async def groups(self) -> list[Row]:
        """See `Administration`."""
        view = await self._view()
        found = await self._all_groups()
        rows: list[Row] = []
        for name, group in sorted(found.items()):
            committed = await self._fetch_committed(name, group.coordinator)
            ends = await self._offsets(view, committed, END)
            lags = [max(0, ends[at] - offset) for at, offset in committed.items() if at in ends]
            rows.append(
                {
                    "group": name,
                    "state": group.listed.group_state,
                    "type": group.listed.group_type or group.listed.protocol_type,
                    "coordinator": group.coordinator,
                    "members": await self._members(name, group.coordinator),
                    "partitions": len(committed),
                    "lag": sum(lags) if len(lags) == len(committed) else None,
                }
            )
        return rows

    async def group(self, name: str) -> list[Row]:
        """See `Administration`."""
        group = (await self._all_groups()).get(name)
        if group is None:
            raise NotDone(f"there is no group {name}; see which there are: quorumlog groups {self._flags}")
        view = await self._view()
        committed = await self._fetch_committed(name, group.coordinator)
        ends = await self._offsets(view, committed, END)
        return [
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": offset,
                "end": ends.get(at),
                "lag": max(0, ends[at] - offset) if at in ends else None,
            }
            for at, offset in sorted(committed.items(), key=lambda each: (each[0].topic, each[0].partition))
        ]

    async def _all_groups(self) -> Mapping[str, _Group]:
        answers: dict[int, ListGroupsResponse] = await self._ask_all(LIST_GROUPS, 5, ListGroupsRequest())
        return {each.group_id: _Group(each, broker) for broker, answer in answers.items() for each in answer.groups}

    async def _members(self, name: str, coordinator: int) -> int | None:
        request = DescribeGroupsRequest(groups=(name,))
        answer: DescribeGroupsResponse | None = await self._try(coordinator, DESCRIBE_GROUPS, 5, request)
        found = [] if answer is None else [each for each in answer.groups if each.error_code == KafkaErrorCode.NONE]
        return len(found[0].members) if found else None

    async def _fetch_committed(self, name: str, coordinator: int) -> dict[TopicPartition, int]:
        request = OffsetFetchRequest(groups=(OffsetFetchGroup(group_id=name, topics=None),))
        answer: OffsetFetchResponse | None = await self._try(coordinator, OFFSET_FETCH, 8, request)
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for group in (answer.groups if answer is not None else ())
            for topic in group.topics
            for each in topic.partitions
            if each.error_code == KafkaErrorCode.NONE and each.committed_offset >= 0
        }


def _perhaps(reason: str, see: str) -> PerhapsDone:
    return PerhapsDone(f"{reason}; it may have been done, or may still: see by {see}")


async def _ask(
    address: Address, api: Api[Any, Any], version: int, request: Any, within_s: float, access: BrokerAccess
) -> Any:
    return await ask(address, api, version, request, within_s=within_s, tls=access.tls, login=access.login)


def _error_name(code: int) -> str:
    """Returns Kafka's name of an error."""
    try:
        return KafkaErrorCode(code).name
    except ValueError:
        return f"error {code}"
