"""A line of the fault network: a place that several ways lead through, and that takes so much a second. Pure.

A line may take a number of requests a second: whatever is a frame on the wire. Kafka's and RocketMQ's wires begin each
frame with its length, so `FrameCount` finds the ends of frames without a look at what they hold.
"""

import struct
from typing import Final

import attrs

PREFIX: Final = struct.Struct("!I")
"""The bytes before a frame, which count the rest of it."""


@attrs.define(eq=False)
class Line:
    """A line that several ways lead over: they share what it takes. 0 stands for no bound."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    requests_per_s: float = 0.0
    free_s: float = 0.0
    """The time at which it has room for the next byte."""

    def due(self, now: float, count: int, requests: int = 0) -> float:
        """Returns the time at which a chunk that comes now, with the ends of so many requests, has passed its narrowest place."""
        takes_s = max(
            count / self.bytes_per_s if self.bytes_per_s else 0.0,
            requests / self.requests_per_s if self.requests_per_s else 0.0,
        )
        if takes_s:
            self.free_s = max(self.free_s, now) + takes_s
            return self.free_s
        return max(now, self.free_s)


@attrs.define(eq=False)
class FrameCount:
    """Counts the frames of one direction of one connection, from its first byte on."""

    _left: int = 0
    """The bytes of the present frame that are still to come."""
    _head: bytes = b""
    """The begin of a prefix that came in parts."""

    def take(self, chunk: bytes) -> int:
        """Returns how many frames end in this chunk."""
        ended, at = 0, 0
        while at < len(chunk):
            if self._left:
                step = min(self._left, len(chunk) - at)
                self._left -= step
                at += step
                ended += not self._left
                continue
            wanted = PREFIX.size - len(self._head)
            self._head += chunk[at : at + wanted]
            at += wanted
            if len(self._head) == PREFIX.size:
                (self._left,) = PREFIX.unpack(self._head)
                self._head = b""
        return ended
