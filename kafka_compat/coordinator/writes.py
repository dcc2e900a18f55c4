"""The writes under way, with the work to do when they end, and the output of one step: answers and writes."""

from typing import TypeAlias

from attrs import define, field

from kafka_compat.coordinator.consumer_group import ConsumerGroup
from kafka_compat.coordinator.effects import AppendRecords, CoordinatorEffect, GroupAnswer, GroupResponse
from kafka_compat.coordinator.events import NO_PRODUCER, GroupRequestArrived, Record
from kafka_compat.coordinator.group import ClassicGroup
from kafka_compat.protocol.apis.delete_groups import DeleteGroupResult
from kafka_compat.protocol.apis.join_group import JoinGroupProtocol
from kafka_compat.protocol.apis.offset_commit import OffsetCommitRequest
from kafka_compat.protocol.apis.offset_delete import OffsetDeleteResponse
from kafka_compat.protocol.apis.transactions import TxnOffsetCommitRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class CommitWrite:
    """The offsets of an OffsetCommit."""

    token: int
    request: OffsetCommitRequest


@frozen
class TransactionCommitWrite:
    """The offsets of a TxnOffsetCommit; they count from the end of the transaction on."""

    token: int
    request: TxnOffsetCommitRequest


@frozen
class AssignmentWrite:
    """The leader's assignment of a generation, by member id."""

    group: ClassicGroup
    generation: int
    assignments: dict[str, bytes]


@frozen
class EmptyGroupWrite:
    """A group without members. If the write fails, the log keeps the last generation, whose members will time out."""

    group: ClassicGroup


@frozen
class StaticMemberWrite:
    """The new id of a static member that rejoined a Stable group, and its old state in case the write fails."""

    group: ClassicGroup
    generation: int
    token: int
    new_id: str
    old_id: str
    old_leader: str | None
    old_protocols: tuple[JoinGroupProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int


@frozen
class GroupDeletion:
    """The tombstones of groups and their offsets; the groups are Dead meanwhile.

    `others` are results of groups that stay.
    """

    token: int
    groups: tuple[ClassicGroup, ...]
    others: tuple[DeleteGroupResult, ...]


@frozen
class OffsetDeletion:
    """The tombstones of an OffsetDelete, with the response if they are written."""

    token: int
    response: OffsetDeleteResponse


@frozen
class CleanUp:
    """The tombstones of expired and orphaned offsets, and of groups without offsets (Dead meanwhile)."""

    groups: tuple[ClassicGroup, ...]


@frozen
class ConsumerGroupWrite:
    """A change of a group by KIP-848, with the requests that wait for it, and their answers."""

    group: ConsumerGroup
    keys: tuple[bytes, ...]
    members: frozenset[str]
    answers: list[tuple[GroupRequestArrived, GroupResponse]]


@frozen
class DowngradeWrite:
    """A classic group in the place of one by KIP-848. If the write fails, the next one has its tombstones again."""

    group: ClassicGroup


PendingWrite: TypeAlias = (
    CommitWrite
    | TransactionCommitWrite
    | AssignmentWrite
    | EmptyGroupWrite
    | StaticMemberWrite
    | GroupDeletion
    | OffsetDeletion
    | CleanUp
    | ConsumerGroupWrite
    | DowngradeWrite
)

UNKNOWN_OUTCOMES = frozenset({KafkaErrorCode.REQUEST_TIMED_OUT, KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Errors after which the records are in the leader's log and may yet be committed."""
_CLIENT_ERRORS = {
    KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION: KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.NOT_ENOUGH_REPLICAS: KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.REQUEST_TIMED_OUT: KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.NOT_LEADER_OR_FOLLOWER: KafkaErrorCode.NOT_COORDINATOR,
    KafkaErrorCode.KAFKA_STORAGE_ERROR: KafkaErrorCode.NOT_COORDINATOR,
    KafkaErrorCode.MESSAGE_TOO_LARGE: KafkaErrorCode.UNKNOWN_SERVER_ERROR,
    KafkaErrorCode.RECORD_LIST_TOO_LARGE: KafkaErrorCode.UNKNOWN_SERVER_ERROR,
    KafkaErrorCode.INVALID_FETCH_SIZE: KafkaErrorCode.UNKNOWN_SERVER_ERROR,
}


def client_error(error: KafkaErrorCode) -> KafkaErrorCode:
    """Returns the client's error for a write that failed with `error`: clients do not see the offsets topic."""
    return _CLIENT_ERRORS.get(error, error)


@define
class StepOutput:
    """The effects of the step under way, and all writes that have not ended."""

    now: float = 0.0
    time_ms: int = 0
    effects: list[CoordinatorEffect] = field(factory=list)
    pending: dict[int, PendingWrite] = field(factory=dict)
    """By write id, ascending."""
    _last_write_id: int = 0

    def answer(self, token: int, response: GroupResponse) -> None:
        """Answers a request."""
        self.effects.append(GroupAnswer(token, response))

    def append(
        self,
        records: tuple[Record, ...],
        pending: PendingWrite,
        producer: tuple[int, int] = (NO_PRODUCER, NO_PRODUCER),
        guard: int = 0,
    ) -> int:
        """Orders a write and remembers its purpose; returns its id. A `producer` has it in its transaction."""
        self._last_write_id += 1
        self.pending[self._last_write_id] = pending
        self.effects.append(AppendRecords(self._last_write_id, records, producer, guard))
        return self._last_write_id

    def drain(self) -> tuple[CoordinatorEffect, ...]:
        """Returns the effects of this step, and begins the next."""
        effects = tuple(self.effects)
        self.effects.clear()
        return effects
