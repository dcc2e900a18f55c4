"""Requests that wait for another step of their transactional id, instead of being refused at once.

Clients ask again after pauses of their own: librdkafka waits 20 ms before it adds partitions, and 500 ms before it begins.
A step is nearly always shorter. So a request waits for its end, for a limited time, and is then served as if it came now.
"""

import math
from collections import deque

from attrs import define, field

from kafka_compat.transactions.events import AddPartitions, InitProducer
from log.values import frozen

WAIT_S = 0.5
WAITING_MAX = 8
"""The requests of one transactional id that wait; a further one is refused."""

Waitable = InitProducer | AddPartitions


@frozen
class WaitingRequest:
    """A request that waits until the time `until`."""

    token: int
    request: Waitable
    until: float


@define
class WaitingRequests:
    """All requests of a coordinator that wait, each transactional id's in the order of their arrival."""

    _by_token: dict[int, WaitingRequest] = field(factory=dict)
    """The one that has waited longest is the first."""
    _by_id: dict[str, deque[int]] = field(factory=dict)

    @property
    def deadline(self) -> float:
        """The time at which the next request has waited too long; infinite if none waits."""
        return next(iter(self._by_token.values())).until if self._by_token else math.inf

    def add(self, token: int, request: Waitable, now: float) -> bool:
        """Lets a request wait. Returns False if too many of this transactional id do."""
        tokens = self._by_id.setdefault(request.transactional_id, deque())
        if len(tokens) >= WAITING_MAX:
            return False
        tokens.append(token)
        self._by_token[token] = WaitingRequest(token, request, now + WAIT_S)
        return True

    def take(self, transactional_id: str) -> WaitingRequest | None:
        """Removes and returns the first request of this id, None if none waits."""
        tokens = self._by_id.get(transactional_id)
        if not tokens:
            return None
        token = tokens.popleft()
        if not tokens:
            del self._by_id[transactional_id]
        return self._by_token.pop(token)

    def take_late(self, now: float) -> WaitingRequest | None:
        """Removes and returns a request that has waited too long, None if there is none."""
        if self.deadline > now:
            return None
        # Those of one id wait in the order of their times, so this is the first of its own.
        return self.take(next(iter(self._by_token.values())).request.transactional_id)

    def clear(self) -> None:
        """Forgets all."""
        self._by_token.clear()
        self._by_id.clear()
