"""The rule by which appended frames may be acknowledged."""

import enum


class FlushPolicy(enum.Enum):
    """The event that an acknowledgement waits for."""

    BEFORE_ACK = "before-ack"
    """Once the frames are durable."""
    INTERVAL = "interval"
    """At once; a flush follows within an interval, and a power cut may take what was acknowledged since the last."""
    NONE = "none"
    """At once; only sealed segments are flushed, so that a restart need not read them."""
