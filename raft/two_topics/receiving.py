"""Decides for one consumer of two clusters what becomes of each message that it reads. Pure.

A lost cluster keeps what no one had read, and gives it when it is back. By then newer messages of the same keys may have
come by the other cluster. Whether that does harm is for the application to know, so it chooses a policy. Each message is
given once, whichever cluster it comes from, as long as its number is remembered.
"""

import enum
from collections import OrderedDict
from typing import Final

import attrs

from raft.two_topics.envelope import Envelope

NUMBERS_MAX: Final = 100_000
"""Of each writer: the newest numbers that are remembered; an older message is taken for new."""
KEYS_MAX: Final = 100_000
"""The keys that are remembered, the last used."""


class Take(enum.StrEnum):
    """The ways in which a message ends at a consumer."""

    GIVE = "give"
    """It goes to the application."""
    DOUBLE = "double"
    """It was given before."""
    DROP = "drop"
    """It comes too late to be of use."""
    COMPENSATE = "compensate"
    """It comes after a newer one of its key: it goes to the part of the application that makes up for that."""


@attrs.frozen
class Replay:
    """Give everything: right where messages do not depend on each other, or only the set of them counts."""


@attrs.frozen(kw_only=True)
class DropLate:
    """Drop what is older than this, by the wall clocks of producer and consumer."""

    deadline_s: float


@attrs.frozen
class DropOldEpochs:
    """Drop what was written before its writer had left a cluster, once something newer of its key was read."""


@attrs.frozen
class Compensate:
    """Set apart what comes after a newer message of its key."""


Policy = Replay | DropLate | DropOldEpochs | Compensate


@attrs.define
class _Newest:
    """The newest that was read of a key of a writer."""

    number: int = 0
    epoch: int = 0


class PairInbox:
    """The decider of one consumer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._given: dict[str, OrderedDict[int, None]] = {}
        self._newest: OrderedDict[tuple[str, bytes | None], _Newest] = OrderedDict()

    def take(self, now_ms: int, envelope: Envelope, key: bytes | None) -> Take:
        """Returns what becomes of a message that was read now."""
        given = self._given.setdefault(envelope.writer, OrderedDict())
        if envelope.number in given:
            return Take.DOUBLE
        given[envelope.number] = None
        if len(given) > NUMBERS_MAX:
            given.popitem(last=False)
        newest = self._newest.setdefault((envelope.writer, key), _Newest())
        self._newest.move_to_end((envelope.writer, key))
        if len(self._newest) > KEYS_MAX:
            self._newest.popitem(last=False)
        taken = self._judge(now_ms, envelope, newest)
        newest.number = max(newest.number, envelope.number)
        newest.epoch = max(newest.epoch, envelope.epoch)
        return taken

    def _judge(self, now_ms: int, envelope: Envelope, newest: _Newest) -> Take:
        match self._policy:
            case Replay():
                return Take.GIVE
            case DropLate(deadline_s=deadline_s):
                return Take.DROP if now_ms - envelope.sent_ms > deadline_s * 1e3 else Take.GIVE
            case DropOldEpochs():
                return Take.DROP if envelope.epoch < newest.epoch else Take.GIVE
            case Compensate():
                return Take.COMPENSATE if envelope.number < newest.number else Take.GIVE
