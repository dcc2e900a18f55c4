"""The plans of clients: those with RocketMQ's C++ client in processes of their own, and our own in this one."""

from typing import Final

import attrs

from jepsen_like.workload.client_rows import ClientPlan

SENDER, MEMBER = "sender", "member"
"""Roles."""
GROUP: Final = 0
"""The number of the one consumer group of a run."""
RAISED: Final = -1
"""Instead of a status: the client raised an exception."""


@attrs.frozen(kw_only=True)
class RocketClientPlan(ClientPlan):
    """The plan of one client. Each slot of a sender sends the messages of one key."""

    names: str
    """The name server's address."""
    objects: int = 1
    """Of the run: the queues of its topic."""
    first_key: int = 0
    keys: int = 1
    """Of all senders. Values of a key have it as their remainder."""
    group_name: str = ""
    """Of a member."""
    is_orderly: bool = False
    holds_ms: float = 0.0
    """A member takes this long for a message."""

    def object_of_slot(self, slot: int) -> int:
        """The object for a message that was certainly sent to none."""
        return (self.first_key + slot) % self.objects
