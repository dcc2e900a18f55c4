"""The ends of a mirror: why a session breaks off, and why a mirror stops for good."""

import enum
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import trio


class SessionEnd(Exception):
    """A reason to end the copying under an open link; of several the one with the most `gravity` counts."""

    gravity = 0


class LinkBroken(SessionEnd):
    """A cluster did not answer, or not now. What was asked may have happened; the link is opened again."""

    gravity = 1


class ProducerFenced(SessionEnd):
    """Another process has taken the link's transactional id since."""

    gravity = 2


class ClusterRefused(SessionEnd):
    """A cluster refuses for good what the mirror needs; the text states which, what and why."""

    gravity = 3


@asynccontextmanager
async def open_bare_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery that raises the gravest `SessionEnd` of its tasks bare; any other error stays in its group."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        ends, others = group.split(SessionEnd)
        if ends is None or (others is not None and others.split(trio.Cancelled)[1] is not None):
            raise
        raise max(_leaves(ends), key=lambda error: error.gravity) from None


def _leaves(group: BaseExceptionGroup[SessionEnd]) -> Iterator[SessionEnd]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


class Why(enum.Enum):
    """The reasons for which a mirror ends by itself."""

    FENCED = "fenced"
    REFUSED = "refused"
    CAUGHT_UP = "caught-up"


@attrs.frozen
class MirrorEnded:
    """The end of a mirror, in words for an operator, and how many records it copied."""

    why: Why
    message: str
    records: int = 0
