"""The reason of a proposal to fence a leader that its followers miss, as events and tests of them read it. Pure."""

BROKER = "broker "
MISSED = "no heartbeat, and no answer to those that follow it"


def missed_leader(reason: str) -> int | None:
    """Returns the leader that a proposal with this reason fences because its followers miss it; None for another."""
    return int(reason.removeprefix(BROKER).partition(":")[0]) if reason.endswith(MISSED) else None
