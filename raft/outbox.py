"""Messages that wait for a write, in one place that driver and simulator share (rules P1, P3, P13)."""

from collections import deque

import attrs

from raft.effects import Send
from raft.model import NO_WRITE, Term, WriteId


@attrs.define
class Outbox:
    """Holds each `Send` until the write it depends on is durable.

    Writes become durable in the order of their ids, but a message may depend on an earlier write than the one held
    before it; so each message is released by its own write.
    """

    durable: WriteId = NO_WRITE
    _held: deque[Send] = attrs.field(factory=deque)

    def hold(self, send: Send) -> bool:
        """Keep `send` back if its write is not durable yet; false means it may leave now."""
        if send.after <= self.durable:
            return False
        self._held.append(send)
        return True

    def release(self, durable: WriteId, term: Term) -> list[Send]:
        """What may leave now that every write up to `durable` is.

        A message of an older term than the node's present one is dropped: it speaks of a log that may be overwritten.
        """
        self.durable = max(self.durable, durable)
        ready: list[Send] = []
        kept: deque[Send] = deque()
        for send in self._held:
            if send.after > self.durable:
                kept.append(send)
            elif send.message.term >= term:
                ready.append(send)
        self._held = kept
        return ready
