"""An operator's decision about a slave whose log diverges from its master's. Not RocketMQ's."""

from collections.abc import Iterable
from typing import Annotated, Final, Self

from log.values import frozen
from rocketmq_compat.remoting.headers.fields import ExtHeader, Name, TextLength

ACCEPT_LOSS: Final = "accept-loss"
"""A master takes messages again, without the records that its slaves hold beyond its log."""
DISCARD: Final = "discard"
"""A slave gives up the records that its master lacks."""
TEXT_MAX: Final = 8192


@frozen
class LogDivergence:
    """The bytes from `start` to `end` of a slave's log, which its master does not have."""

    slave_id: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.slave_id}:{self.start}-{self.end}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From its text. Raises `ValueError`."""
        slave_id, _, places = text.partition(":")
        start, _, end = places.partition("-")
        return cls(int(slave_id), int(start), int(end))


def divergences_text(divergences: Iterable[LogDivergence]) -> str:
    """Returns the divergences as GET_BROKER_RUNTIME_INFO reports them (`divergences`), with commas between them."""
    return ",".join(map(str, divergences))


class DecideDivergenceRequestHeader(ExtHeader):
    """Decides: DECIDE_DIVERGENCE. Refused unless the broker knows just these `divergences`, so no others are lost."""

    decision: Name
    divergences: Annotated[str, TextLength(1, TEXT_MAX)]
