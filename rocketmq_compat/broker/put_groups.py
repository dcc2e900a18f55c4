"""The puts of a round, which are stored together, and the groups of puts whose outcome is open.

A group is one put to the decider, so that its messages share one write and one push to each slave. Each client learns
the places of its own messages.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from rocketmq_compat.broker.puts import NotStored, PutDone, StoredMessages
from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.replication.events import PutMessages
from rocketmq_compat.storage.broker_store import AssignedMessages

GATHERED_BYTES_MAX: Final = 1 << 20
"""The limit of a group, unless one put alone is larger."""


@attrs.define(eq=False)
class Put:
    """The messages of one client. Without `wait` the answer waits neither for the flush nor for slaves."""

    records: Sequence[bytes]
    done: PutDone
    wait: bool
    size: int


@attrs.define(eq=False, repr=False)
class PutGroup:
    """Puts that are stored together; `messages` are their records once the log has room for them."""

    puts: Sequence[Put]
    messages: AssignedMessages = attrs.field(init=False)

    def __repr__(self) -> str:
        return f"<{len(self.puts)} puts>"

    @property
    def records(self) -> list[bytes]:
        """All records, in the order of the puts."""
        return [record for put in self.puts for record in put.records]

    def answer(self, status: SendStatus) -> None:
        """Call back each put with its own places."""
        places, begin = self.messages.places, 0
        for put in self.puts:
            end = begin + len(put.records)
            put.done(StoredMessages(status, places.physical_offsets[begin:end], places.queue_offsets[begin:end]))
            begin = end

    def refuse(self, code: int, reason: str) -> None:
        """Call back each put: it is certainly not stored."""
        for put in self.puts:
            put.done(NotStored(code, reason))


class PutGroups:
    """All puts of one copy that are not answered."""

    def __init__(self) -> None:
        self.is_gathering = True
        """False from the turn of the copy to the end of the round: deliveries of delayed messages wait for theirs."""
        self._gathered: deque[Put] = deque()
        self._open: dict[int, PutGroup] = {}
        self._last_token = 0

    @property
    def are_waiting(self) -> bool:
        """True if there are puts that no group has taken."""
        return bool(self._gathered)

    def gather(self, records: Sequence[bytes], done: PutDone, *, wait: bool) -> None:
        """Take a put, for the next group."""
        self._gathered.append(Put(records, done, wait, sum(map(len, records))))

    def take_all(self) -> Iterator[PutMessages]:
        """Yields all gathered puts, in groups of the same rule of waiting."""
        gathered = self._gathered
        while gathered:
            puts = [gathered.popleft()]
            size = puts[0].size
            while gathered and gathered[0].wait == puts[0].wait and size + gathered[0].size <= GATHERED_BYTES_MAX:
                size += gathered[0].size
                puts.append(gathered.popleft())
            yield self.join(puts)

    def join(self, puts: Sequence[Put]) -> PutMessages:
        """Returns these puts as one for the decider."""
        self._last_token += 1
        return PutMessages(self._last_token, sum([put.size for put in puts]), PutGroup(puts), puts[0].wait)

    def open(self, token: int, group: PutGroup) -> None:
        """Note that the decider has the group."""
        self._open[token] = group

    def close(self, token: int) -> PutGroup:
        """Returns the group that the decider answers."""
        return self._open.pop(token)
