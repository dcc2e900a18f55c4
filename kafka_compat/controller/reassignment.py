"""Moves partitions to other replicas: KRaft's alterPartitionReassignments (KIP-455, KIP-860).

A reassignment adds the new replicas at once and leaves ISR and leader as they are. It is complete when all replicas of
the target are in the ISR: then the others leave replicas, ISR, ELR and suspects in the same change, and a leader among
them is replaced. A change that removes a replica raises the leader epoch. So a leader forgets how far that replica had
come, which deletes its copy and may be added again.

A reassignment that is cancelled, or replaced by another one, takes the replicas away that it had added. They may have
joined the ISR, so it is refused if no member would be left to lead: nothing here drops the last copies that count.
"""

from collections.abc import Sequence

from kafka_compat.controller.commands import Reassignment
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.refusal import Refused
from kafka_compat.controller.topics import check_assignment
from kafka_compat.model import PartitionState
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve


def retarget(
    image: ClusterImage, state: PartitionState, wanted: Reassignment, *, allows_factor_change: bool
) -> PartitionState:
    """Returns the state with the replicas that are wanted, before any election and before it is complete.

    Raises `Refused`: NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT or INVALID_REPLICATION_FACTOR.
    """
    original, target = state.original, wanted.replicas
    if target is None:
        if not state.is_moving:
            raise Refused(KafkaErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        return _with_replicas(state, original, (), ())
    check_assignment(image, target, None)
    if not allows_factor_change and len(target) != len(original):
        raise Refused(
            KafkaErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(target)}.",
        )
    removing = tuple(sorted(set(original).difference(target)))
    return _with_replicas(state, (*target, *removing), tuple(sorted(set(target).difference(original))), removing)


def check_kept(before: PartitionState, after: PartitionState) -> None:
    """Raises `Refused` with INVALID_REPLICA_ASSIGNMENT if a change drops copies of which another one may be in need."""
    gone = set(before.replicas).difference(after.replicas)
    if gone and (before.awaits_comparison or (gone.intersection((*before.isr, *before.elr)) and not after.isr)):
        raise Refused(
            KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Without {sorted(gone)} no replica that has all acknowledged records could lead.",
        )


def _with_replicas(
    state: PartitionState, replicas: Sequence[int], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionState:
    """Returns the state with these replicas; the others leave everything that names them."""
    ends = {end.broker: end for end in state.log_ends}
    return evolve(
        state,
        replicas=tuple(replicas),
        isr=tuple([each for each in state.isr if each in replicas]),
        elr=tuple([each for each in replicas if each in state.elr]),
        suspects=tuple([each for each in replicas if each in state.suspects]),
        log_ends=tuple([ends[each] for each in replicas if each in ends]),
        adding=adding,
        removing=removing,
    )


def complete(state: PartitionState) -> PartitionState:
    """Returns the state after a reassignment, if its whole target is in sync; the same state otherwise."""
    target = state.target
    if not state.is_moving or not set(target) <= set(state.isr):
        return state
    return _with_replicas(state, target, (), ())
