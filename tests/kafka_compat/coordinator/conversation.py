"""Golden scripts: a line `> command`, and below it what the coordinator answered and ordered.

Commands; `a` is any name of a client, whose id and generation are remembered from its answers:

    config group_max_size=2 ...        a new coordinator with these settings that has loaded an empty partition
    join a v=5 static=i session=10 rebalance=60 type=consumer protocols=range:t,rr:t id= group=g owned=t/0-1
    sync a b:P0 a:t/0-1 v=5 id= gen= static= type= name=    assignments by client
    beat a      leave a b static=i     heartbeats; removes clients (or the static members alone)
    commit a t/0=5 t/1=6:note gen= id=      fetch a t/0 ...      fetch a *      fetch a t/0 stable=1
    txncommit a t/0=5 producer=7,0     marker 7 commit      the end of a producer's transaction is committed
    forget a t/0     list states=stable types=classic     describe g     delete g h     topics t
    known t=4 u=2     the topics of the cluster, for groups by KIP-848, whose members choose their own ids
    stay a topics=t+u owned=t/0-1 regex= rebalance=60 assignor= static= epoch= id=     a heartbeat by KIP-848
    quit a static=i epoch=-2     members g     leaves, and describes, by KIP-848
    written 3     failed 3 NOT_ENOUGH_REPLICAS     wait 10     resign     show
    load        a new coordinator on what was written or is under way, still loading; `loaded` ends that

`python -m tests.kafka_compat.coordinator.conversation --rewrite` renews the answers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, CoordinatorEffect, GroupAnswer
from kafka_compat.coordinator.events import (
    CoordinatorEvent,
    GroupRequest,
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    RecordsLoaded,
    Resigned,
    TopicsKnown,
    TopicsRemoved,
    TransactionEnded,
    WriteFailed,
    Written,
)
from kafka_compat.coordinator.record_formats import GroupMetadataValue, OffsetCommitKey, decode_record
from kafka_compat.coordinator.subscription import Subscription
from kafka_compat.coordinator.writes import UNKNOWN_OUTCOMES
from kafka_compat.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_compat.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_compat.protocol.apis.delete_groups import DeleteGroupsRequest
from kafka_compat.protocol.apis.describe_groups import DescribeGroupsRequest
from kafka_compat.protocol.apis.heartbeat import HeartbeatRequest
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_compat.protocol.apis.leave_group import LeaveGroupMember, LeaveGroupRequest
from kafka_compat.protocol.apis.list_groups import ListGroupsRequest
from kafka_compat.protocol.apis.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from kafka_compat.protocol.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteTopic
from kafka_compat.protocol.apis.offset_fetch import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.apis.sync_group import SyncGroupAssignment, SyncGroupRequest
from kafka_compat.protocol.apis.transactions import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve
from tests.golden import renew_script, rewrite
from tests.kafka_compat.coordinator.consumer_words import (
    assignment,
    assignment_text,
    consumer_record_text,
    encode_embedded,
    heartbeat,
    known_topics,
    named_partitions,
)
from tests.kafka_compat.coordinator.texts import response_text

SCRIPTS = Path(__file__).with_name("scripts")
EPOCH_MS = 1_000_000


class Conversation:
    """A coordinator, its log, and what its clients remember."""

    def __init__(self) -> None:
        self.config = CoordinatorConfig()
        self.now = 0.0
        self.log: dict[int, CoordinatorEvent] = {}
        self.loaded: list[CoordinatorEvent] = []
        self.clients: dict[int, str] = {}
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.tokens = 0
        self.members = 0
        self.coordinator = GroupCoordinator(self.config)
        self.coordinator.step(self.now, LoadFinished(self.time_ms))

    @property
    def time_ms(self) -> int:
        return EPOCH_MS + round(self.now * 1000)

    def say(self, command: str) -> list[str]:
        """Carries out one command; returns the lines that it leads to."""
        verb, *words = command.split()
        options = {
            key: value for key, sign, value in (word.partition("=") for word in words) if sign and "/" not in key
        }
        plain = [word for word in words if word.partition("=")[0] not in options]
        options = {key: "" if value == "-" else value for key, value in options.items()}
        return list(self.lines(verb, plain, options))

    def lines(self, verb: str, plain: list[str], options: dict[str, str]) -> Iterator[str]:
        match verb:
            case "config":
                self.config = evolve(CoordinatorConfig(), **{key: int(value) for key, value in options.items()})
                self.coordinator = GroupCoordinator(self.config)
                yield from self.step(LoadFinished(self.time_ms))
            case "written":
                yield from self.step(Written(int(plain[0])))
            case "failed":
                error = KafkaErrorCode[plain[1]]
                if error not in UNKNOWN_OUTCOMES:
                    self.log.pop(int(plain[0]), None)
                yield from self.step(WriteFailed(int(plain[0]), error))
            case "wait":
                yield from self.wait(float(plain[0]))
            case "known":
                yield from self.step(TopicsKnown(known_topics(options)))
            case "topics":
                yield from self.step(TopicsRemoved(tuple(plain)))
            case "resign":
                yield from self.step(Resigned())
            case "load":
                self.loaded += self.log.values()
                self.log.clear()
                self.coordinator = GroupCoordinator(self.config)
                for event in self.loaded:
                    yield from self.step(event)
            case "marker":
                ended = TransactionEnded(int(plain[0]), plain[1] == "commit")
                self.log[-len(self.log) - 1] = ended
                yield from self.step(ended)
            case "loaded":
                yield from self.step(LoadFinished(self.time_ms))
            case "show":
                yield from self.show()
            case _:
                yield from self.ask(verb, plain, options)

    def wait(self, seconds: float) -> Iterator[str]:
        end = self.now + seconds
        while (due := self.coordinator.deadline) <= end:
            self.now = max(self.now, due)
            yield from (f"{self.now:g}s {line}" for line in self.step(GroupTimePassed(self.time_ms)))
        self.now = end

    def ask(self, verb: str, plain: list[str], options: dict[str, str]) -> Iterator[str]:
        client = plain[0] if plain and verb not in ("list", "describe", "delete", "members") else "op"
        version, request = self.request(verb, client, plain, options)
        self.tokens += 1
        self.clients[self.tokens] = client
        self.members += verb == "join"
        event = GroupRequestArrived(
            token=self.tokens,
            version=int(options.get("v", version)),
            request=request,
            time_ms=self.time_ms,
            client_id=client,
            client_host="/h",
            member_suffix=str(self.members),
        )
        yield from self.step(event)

    def request(self, verb: str, client: str, plain: list[str], options: dict[str, str]) -> tuple[int, GroupRequest]:
        """The request with its usual version."""
        group, static = options.get("group", "g"), options.get("static")
        member_id = options.get("id", self.ids.get(client, ""))
        generation = int(options.get("gen", self.generations.get(client, -1)))
        match verb:
            case "join":
                return 5, JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=round(float(options.get("session", "10")) * 1000),
                    rebalance_timeout_ms=round(float(options.get("rebalance", "60")) * 1000),
                    member_id=member_id,
                    group_instance_id=static,
                    protocol_type=options.get("type", "consumer"),
                    protocols=tuple(
                        JoinGroupProtocol(name=name, metadata=subscription(topics, options.get("owned")))
                        for name, _, topics in (
                            protocol.partition(":")
                            for protocol in options.get("protocols", "range:t").split(",")
                            if protocol
                        )
                    ),
                )
            case "sync":
                given = (word.partition(":") for word in plain[1:])
                return 3, SyncGroupRequest(
                    group_id=group,
                    generation_id=generation,
                    member_id=member_id,
                    group_instance_id=static,
                    protocol_type=options.get("type"),
                    protocol_name=options.get("name"),
                    assignments=tuple(
                        SyncGroupAssignment(member_id=self.ids[name], assignment=assignment(what))
                        for name, _, what in given
                    ),
                )
            case "stay" | "quit":
                epoch = int(options.get("epoch", self.epochs.get(client, 0) if verb == "stay" else -1))
                return 1, heartbeat(options.get("id", client), epoch, options)
            case "members":
                return 1, ConsumerGroupDescribeRequest(group_ids=tuple(plain), include_authorized_operations=False)
            case "beat":
                return 3, HeartbeatRequest(
                    group_id=group, generation_id=generation, member_id=member_id, group_instance_id=static
                )
            case "leave":
                leaving = [LeaveGroupMember(member_id=self.ids.get(each, each)) for each in plain if not static]
                if static is not None:
                    leaving.append(LeaveGroupMember(member_id=options.get("id", ""), group_instance_id=static))
                return 3, LeaveGroupRequest(group_id=group, member_id=member_id, members=tuple(leaving))
            case _:
                return offset_request(verb, plain, options, member_id, generation)

    def step(self, event: CoordinatorEvent) -> Iterator[str]:
        for effect in self.coordinator.step(self.now, event):
            yield self.text(effect)

    def text(self, effect: CoordinatorEffect) -> str:
        match effect:
            case AppendRecords(write_id=write_id, records=records):
                self.log[write_id] = RecordsLoaded(records, effect.producer[0])
                producer = "" if effect.producer[0] < 0 else f" of {effect.producer[0]},{effect.producer[1]}"
                return f"write {write_id}{producer}: " + "; ".join(record_text(*record) for record in records)
            case GroupAnswer(token=token, response=response):
                client = self.clients.pop(token)
                if isinstance(response, JoinGroupResponse):
                    if response.error_code in (KafkaErrorCode.NONE, KafkaErrorCode.MEMBER_ID_REQUIRED):
                        self.ids[client] = response.member_id
                    if response.error_code == KafkaErrorCode.NONE:
                        self.generations[client] = response.generation_id
                if isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code:
                    self.epochs[client] = max(response.member_epoch, 0)
                return f"{client}: {response_text(response)}"

    def show(self) -> Iterator[str]:
        for group in self.coordinator.groups.values():
            members = " ".join(group.members)
            yield f"{group.id} {group.state} gen={group.generation} [{members}] pending=[{' '.join(group.pending_members)}]"


def subscription(topics: str, owned: str | None = None) -> bytes:
    """A consumer's subscription, from version 1 on with the partitions that it has; `!` is what no consumer sends."""
    if topics == "!":
        return b"opaque"
    if owned is not None:
        wanted = tuple(name for name in topics.split("+") if name)
        return encode_embedded(Subscription(topics=wanted, owned=named_partitions(owned)), 1)
    names = [name.encode() for name in topics.split("+") if name]
    array = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return b"\0\0" + len(names).to_bytes(4, "big") + array + b"\xff\xff\xff\xff"


def offset_request(
    verb: str, plain: list[str], options: dict[str, str], member_id: str, generation: int
) -> tuple[int, GroupRequest]:
    group = options.get("group", "g")
    parts = [(*word.partition("=")[0].partition("/")[::2], word.partition("=")[2]) for word in plain[1:] if "/" in word]
    topics = dict.fromkeys(topic for topic, _, _ in parts)
    match verb:
        case "commit":
            return 9, OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                group_instance_id=options.get("static"),
                retention_time_ms=int(options.get("retention", "-1")),
                topics=tuple(
                    OffsetCommitTopic(
                        name=topic,
                        partitions=tuple(
                            OffsetCommitPartition(
                                partition_index=int(partition),
                                committed_offset=int(value.partition(":")[0]),
                                committed_leader_epoch=int(options.get("epoch", "-1")),
                                committed_metadata=value.partition(":")[2] or None,
                            )
                            for name, partition, value in parts
                            if name == topic
                        ),
                    )
                    for topic in topics
                ),
            )
        case "fetch":
            asked = tuple(
                OffsetFetchTopic(
                    name=topic, partition_indexes=tuple(int(part) for name, part, _ in parts if name == topic)
                )
                for topic in topics
            )
            wanted = None if plain[1:] == ["*"] else asked
            stable = "stable" in options
            return 8, OffsetFetchRequest(
                groups=(OffsetFetchGroup(group_id=group, topics=wanted),), require_stable=stable
            )
        case "txncommit":
            producer, epoch = map(int, options["producer"].split(","))
            return 3, TxnOffsetCommitRequest(
                transactional_id="x",
                group_id=group,
                producer_id=producer,
                producer_epoch=epoch,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=options.get("static"),
                topics=tuple(
                    TxnOffsetCommitTopic(
                        name=topic,
                        partitions=tuple(
                            TxnOffsetCommitPartition(
                                partition_index=int(partition),
                                committed_offset=int(value.partition(":")[0]),
                                committed_metadata=value.partition(":")[2] or None,
                            )
                            for name, partition, value in parts
                            if name == topic
                        ),
                    )
                    for topic in topics
                ),
            )
        case "forget":
            return 0, OffsetDeleteRequest(
                group_id=group,
                topics=tuple(
                    OffsetDeleteTopic(
                        name=topic,
                        partitions=tuple(
                            OffsetDeletePartition(partition_index=int(part)) for name, part, _ in parts if name == topic
                        ),
                    )
                    for topic in topics
                ),
            )
        case "list":
            states = tuple(each for each in options.get("states", "").split(",") if each)
            types = tuple(each for each in options.get("types", "").split(",") if each)
            return 5, ListGroupsRequest(states_filter=states, types_filter=types)
        case "describe":
            return 6, DescribeGroupsRequest(groups=tuple(plain))
        case "delete":
            return 2, DeleteGroupsRequest(groups_names=tuple(plain))
        case _:
            raise ValueError(f"no command {verb}")


def record_text(key: bytes, value: bytes | None) -> str:
    decoded = decode_record(key, value)
    if decoded is None:
        return consumer_record_text(key, value)
    if isinstance(decoded[0], OffsetCommitKey):
        name, offset = decoded[0], decoded[1]
        assert not isinstance(offset, GroupMetadataValue)
        gone = offset is None
        return f"{name.group} {name.topic}/{name.partition} " + (
            "gone" if gone else f"= {getattr(offset, 'offset', None)}"
        )
    group = decoded[1]
    if group is None:
        return f"{decoded[0].group} gone"
    assert isinstance(group, GroupMetadataValue)
    members = " ".join(f"{each.member_id}={assignment_text(each.assignment)}" for each in group.members)
    return f"{decoded[0].group} gen={group.generation} {group.protocol} leader={group.leader} [{members}]"


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().say)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
