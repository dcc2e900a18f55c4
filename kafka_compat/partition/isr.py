"""The in-sync replicas of a leader: the committed ISR, the one change under way, and the rules to join and to leave.

Sources: KIP-497, KIP-841, KIP-903.
"""

import enum
import math
from collections.abc import Iterable

import attrs

from kafka_compat.model import NO_EPOCH, BrokerRegistration, PartitionState
from kafka_compat.partition.effects import SendAlterPartition
from kafka_compat.partition.follower_state import FollowerState
from kafka_compat.partition.replica_log import ReplicaContext
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class PendingIsr:
    """One AlterPartition under way.

    `retry_at` is the time at which the same request is sent again. It is infinity until a failure is known.
    """

    request: SendAlterPartition
    retry_at: float = math.inf


class AlterOutcome(enum.Enum):
    """The meaning of an error of AlterPartition."""

    ROLLED_BACK = enum.auto()
    """It certainly was not applied, and the metadata stays as it is: back to the committed ISR."""
    AWAITS_METADATA = enum.auto()
    """This request will not succeed.

    An earlier sending of it may have, or the metadata moved on: the metadata brings the committed state.
    """
    UNKNOWN = enum.auto()
    """Send the same request again."""


_ROLLED_BACK = frozenset({KafkaErrorCode.INELIGIBLE_REPLICA, KafkaErrorCode.OPERATION_NOT_ATTEMPTED})
_AWAITS_METADATA = frozenset(
    {
        KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaErrorCode.UNKNOWN_TOPIC_ID,
        KafkaErrorCode.FENCED_LEADER_EPOCH,
        KafkaErrorCode.INVALID_UPDATE_VERSION,
        KafkaErrorCode.INVALID_REQUEST,
        KafkaErrorCode.NEW_LEADER_ELECTED,
    }
)


def outcome_of(error: KafkaErrorCode) -> AlterOutcome:
    """Returns the meaning of an error of AlterPartition (not NONE)."""
    if error in _ROLLED_BACK:
        return AlterOutcome.ROLLED_BACK
    return AlterOutcome.AWAITS_METADATA if error in _AWAITS_METADATA else AlterOutcome.UNKNOWN


@attrs.define
class IsrState:
    """The committed ISR and at most one pending change.

    `maximal` is the committed ISR with the candidates of a pending expansion. The controller has one of the two, so it
    elects only members of `maximal`. The high watermark and acknowledgements depend on `maximal`. During a shrink it
    still includes the members about to leave.
    """

    committed: tuple[int, ...]
    partition_epoch: int
    recovering: bool
    eligible: tuple[int, ...] = ()
    """Replicas outside of the ISR that may lead.

    They no longer fetch, and the high watermark waits until the ISR goes on without them.
    """
    maximal: frozenset[int] = attrs.field(init=False)
    pending: PendingIsr | None = None
    not_before: float = -math.inf
    """The earliest time of the next change. After a refusal, the same change would be refused again at once."""

    def __attrs_post_init__(self) -> None:
        self.maximal = frozenset(self.committed)

    def begin(self, request: SendAlterPartition) -> None:
        """Record that a change was sent."""
        self.pending = PendingIsr(request)
        self.maximal = frozenset(self.committed).union(member for member, _ in request.isr)

    def roll_back(self, not_before: float) -> None:
        """Return to the committed ISR after a change that certainly was not applied."""
        self.pending = None
        self.maximal = frozenset(self.committed)
        self.not_before = not_before

    def commit(self, state: PartitionState) -> None:
        """Take the state that the controller has committed. It ends a pending change, applied or not."""
        self.committed = state.isr
        self.partition_epoch = state.partition_epoch
        self.recovering = state.recovering
        self.eligible = state.elr
        self.pending = None
        self.maximal = frozenset(state.isr)
        self.not_before = -math.inf


def may_join(
    follower: FollowerState,
    registration: BrokerRegistration | None,
    *,
    log_start: int,
    high_watermark: int,
    epoch_start: int,
) -> bool:
    """Returns True if a follower outside of the ISR may join.

    It has fetched in this leader epoch (`log_end` is known), it has all committed records and all records from before
    this epoch, and the controller will accept it. Its log starts at or after the leader's log start. Below that start
    the two logs are never compared: the follower could hold records of another history there, and serve them as leader.
    """
    return (
        follower.log_end >= max(high_watermark, epoch_start, 0)
        and follower.log_start >= log_start
        and follower.is_eligible(registration)
    )


def out_of_sync(
    followers: Iterable[FollowerState], committed: tuple[int, ...], context: ReplicaContext, now: float
) -> set[int]:
    """Returns the members of the ISR that were not caught up for too long."""
    log_end, lag_time_s = context.log.log_end, context.config.replica_lag_time_s
    return {
        follower.replica
        for follower in followers
        if follower.replica in committed and not follower.is_caught_up(log_end, now, lag_time_s)
    }


def with_broker_epochs(
    members: Iterable[int], followers: dict[int, FollowerState], context: ReplicaContext
) -> tuple[tuple[int, int], ...]:
    """Returns the members with their broker epochs: the epoch of the process that fetched, if one did.

    A fetch may name an epoch before its registration is known, or one that never was. A change with such an epoch would
    be refused, also for the other members, so that of the registration counts then.
    """
    pairs: list[tuple[int, int]] = []
    for member in members:
        follower = followers.get(member)
        epoch: int | None = follower.broker_epoch if follower is not None else NO_EPOCH
        registered = context.broker_epoch(member)
        if epoch == NO_EPOCH or (registered is not None and epoch is not None and epoch > registered):
            epoch = registered
        pairs.append((member, NO_EPOCH if epoch is None else epoch))
    return tuple(pairs)
