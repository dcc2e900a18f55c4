"""Environment: what one node's driver needs of the process around it.

A simulator gives the driver another environment, and runs the same driver.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from raft.messages import Message
from raft.model import NodeId
from raft.net.turns import TurnMeter
from raft.notices import Notify
from raft.snapshot_work import WorkBeside, at_once


class Transport(Protocol):
    """Takes messages to peers; may lose any."""

    def send(self, to: NodeId, message: Message) -> None:
        """Queue a message, which is sent when the pump has ended, or at the next `push`."""

    def connect(self, peers: Sequence[NodeId], addresses: Mapping[NodeId, str], *, alone: bool) -> None:
        """Be ready to send to these `peers`, to those without an address where it is known; end all others if `alone`."""

    def push(self) -> None:
        """Send what is queued now, because what follows takes time."""


@attrs.frozen(kw_only=True)
class Environment:
    """The network, clocks, threads and listeners of one driver."""

    transport: Transport
    has_more: Callable[[], bool]
    """Returns True if a socket is ready, so that the next round would receive at once."""
    clock: Callable[[], float]
    """Returns the time in seconds, monotonic."""
    wall_clock_ms: Callable[[], int]
    """Returns the time since 1970 in milliseconds."""
    notify: Notify
    addresses: Mapping[NodeId, str] = attrs.field(factory=dict)
    """The addresses at which clients reach the other nodes."""
    turns: TurnMeter = attrs.field(factory=TurnMeter)
    """Measures the turns of the loop."""
    work_beside: WorkBeside = at_once
    """Has slow work done outside of the loop."""
