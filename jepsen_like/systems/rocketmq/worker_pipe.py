"""The messages between the harness and the processes with RocketMQ's C++ client, over the pipe of
`workload.client_process`.

From a sender: `["sends", rows]`, a row `CallRow`. From a member: `["given", rows]`, a row `GivenRow`. From both
`["stopped"]` when nothing is under way any more: a sender has then reported all, a member has left its group.
"""

from typing import Final, NamedTuple

import attrs

from jepsen_like.workload.client_process import ClientPipe

SENDER, MEMBER = "sender", "member"
"""Roles."""
SENDS, GIVEN, STOPPED = "sends", "given", "stopped"
FLUSH_EVERY_S: Final = 0.02
RAISED: Final = -1
"""Instead of a status: the client raised an exception."""


@attrs.frozen(kw_only=True)
class WheelPlan:
    """The plan of one process. Of `workers` of its kind it is number `index`, from 0; a `rate` of 0 is closed loop."""

    role: str
    names: str
    """The name server's address."""
    topic: str
    seed: int
    index: int = 0
    workers: int = 1
    slots: int = 1
    """The number of messages that a sender may have under way: one thread each, which sends the messages of one key."""
    first_key: int = 0
    keys: int = 1
    """Of all senders. Values of a key have it as their remainder."""
    rate: float = 0.0
    record_bytes: int = 100
    group: str = ""
    """Of a member."""
    is_orderly: bool = False
    holds_ms: float = 0.0
    """A member takes this long for a message."""


class CallRow(NamedTuple):
    """One call of the client: the place in its list of queues that was chosen (-1: none was, or the message is
    certainly not stored), how many there were, and what came of it.
    """

    slot: int
    value: int
    place: int
    places: int
    t_inv: int
    t_ret: int
    status: int
    offset: int
    message_id: str
    late_us: int
    """Open loop: how much later than due it was sent; -1 in a closed loop."""


class GivenRow(NamedTuple):
    """A message that the client gave to its listener, from the begin of that to its end."""

    value: int
    is_whole: bool
    queue: int
    offset: int
    message_id: str
    t_inv: int
    t_ret: int


class WheelPipe(ClientPipe):
    """A worker's side."""

    def plan(self) -> WheelPlan:
        """Wait for the plan."""
        return WheelPlan(**self.fields())
