"""A broker without room goes on: it refuses messages for certain, and leaves what is copied to it to be sent again.

Room is reserved before a decider, or the state machine of a group, counts on it. So nothing is half done without room, and
everything goes on by itself as soon as there is some.
"""

from log.errors import NoSpace
from raft.net.seldom import Seldom
from rocketmq_compat.broker.context import Context


class FullDiskNotes:
    """Reports that there is no room: at once, and then with the number of times in a minute."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seldom = Seldom(context.clock)

    def note(self, error: NoSpace) -> None:
        """Report the event `storage_full`, unless that was done not long ago."""
        times = self._seldom.note("")
        if times is not None:
            self._context.tell("storage_full", detail=str(error), **({"times": times} if times > 1 else {}))
