"""The invariants of every partition of the controller, and of every change of one.

A broken rule is a crash instead of a wrong leader. `problem_of` also judges states from outside, as of a snapshot.
"""

from kafka_compat.model import NO_LEADER, PartitionState


def problem_of(state: PartitionState) -> str | None:
    """Returns the rule that a state breaks, None if it breaks none."""
    members = (*state.isr, *state.elr, *state.suspects)
    reported = [each.broker for each in state.log_ends]
    if not state.replicas or len(set(state.replicas)) != len(state.replicas):
        return "the replicas are no set of at least one"
    if len(set(members)) != len(members):
        return "a replica is in two of ISR, ELR and suspects"
    if not set(members) <= set(state.replicas):
        return "ISR, ELR or suspects name a broker that is no replica"
    if not state.original or not state.target or set(state.adding).intersection(state.removing):
        return "a reassignment adds or removes all replicas, or adds one that it removes"
    if not set(state.replicas).issuperset((*state.adding, *state.removing)):
        return "a reassignment names a broker that is no replica"
    if state.is_moving and set(state.target) <= set(state.isr):
        return "a reassignment goes on although its target is in sync"
    if state.leader != NO_LEADER and state.leader not in state.isr:
        return "the leader is not in the ISR"
    if reported and not state.awaits_comparison:
        return "log ends are kept that no election waits for"
    if len(set(reported)) != len(reported) or not set(reported) <= set(state.replicas):
        return "a log end is kept twice, or of a broker that is no replica"
    return None


def check(before: PartitionState | None, after: PartitionState) -> None:
    """Raises `AssertionError` if a change, or with `before` None a new state, breaks a rule."""
    problem = problem_of(after)
    assert problem is None, f"{problem}: {after}"
    if before is None:
        return
    assert before.topic_id == after.topic_id, "a partition became another one"
    gone = set(before.replicas).difference(after.replicas)
    assert gone.issubset(before.adding) or set(after.replicas) <= set(after.isr), (
        "replicas left before those that stay were in sync"
    )
    assert not gone or not before.awaits_comparison or after.leader != NO_LEADER, (
        "a copy was dropped that others were to be compared with"
    )
    assert after.partition_epoch == before.partition_epoch + 1, "a change is not one step of the partition epoch"
    grown = after.leader_epoch - before.leader_epoch
    assert grown == (after.leader != before.leader or bool(gone)), (
        "the leader epoch grows exactly with another leader, or when a replica has left"
    )
    left = set(before.isr).union(before.elr).difference(after.isr, after.elr, after.suspects)
    assert not left or after.isr, "the last copies that count were dropped without a leader"
