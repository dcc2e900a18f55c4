"""Pulls that found no message and are held until one comes or their time is up (`PullRequestHoldService`).

They are kept by queue, so an arrival looks at the pulls of its queue alone, and in the order of their deadlines.
"""

import heapq
import math
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from log.values import frozen
from rocketmq_compat.consumers.subscriptions import TagSubscription

QueueKey: TypeAlias = tuple[str, int]
"""Topic and queue id."""

HELD_MAX: Final = 100_000
"""Pulls of all queues. Above, they are answered at once."""
QUEUE_HELD_MAX: Final = 10_000
"""Pulls of one queue, which each of its messages wakes."""


@frozen
class HeldPull:
    """One pull: `token` is the shell's, `offset` the first wanted message, `deadline` in seconds."""

    token: int
    queue: QueueKey
    offset: int
    deadline: float
    subscription: TagSubscription


@attrs.define
class HeldPulls:
    """All pulls that are held."""

    held_max: int = HELD_MAX
    queue_held_max: int = QUEUE_HELD_MAX
    _by_token: dict[int, HeldPull] = attrs.field(factory=dict)
    _by_queue: dict[QueueKey, dict[int, HeldPull]] = attrs.field(factory=dict)
    _deadlines: list[tuple[float, int]] = attrs.field(factory=list)
    """A heap; entries of pulls that are not held any more stay in it, at most as many as there are others."""

    def __len__(self) -> int:
        return len(self._by_token)

    @property
    def deadline(self) -> float:
        """The time at which `expire` is due next, in seconds; infinity without a held pull.

        May be early, never late.
        """
        return self._deadlines[0][0] if self._deadlines else math.inf

    def hold(self, pull: HeldPull) -> bool:
        """Holds a pull. Returns False if there is no room: it is to be answered at once."""
        assert pull.token not in self._by_token, "a pull is held once"
        of_queue = self._by_queue.get(pull.queue, {})
        if len(self._by_token) >= self.held_max or len(of_queue) >= self.queue_held_max:
            return False
        self._by_token[pull.token] = pull
        self._by_queue.setdefault(pull.queue, of_queue)[pull.token] = pull
        heapq.heappush(self._deadlines, (pull.deadline, pull.token))
        return True

    def on_arrived(self, queue: QueueKey, end_offset: int, tag_hashes: Iterable[int]) -> list[HeldPull]:
        """Messages with these tag hashes have come; the queue ends at `end_offset` now.

        Returns the pulls that have something to read, which are not held any more.
        """
        of_queue = self._by_queue.get(queue)
        if not of_queue:
            return []
        hashes = frozenset(tag_hashes)
        woken = [
            pull
            for pull in of_queue.values()
            if pull.offset < end_offset
            and (pull.subscription.wants_all or not hashes.isdisjoint(pull.subscription.tag_hashes))
        ]
        for pull in woken:
            self._remove(pull)
        return woken

    def expire(self, now: float) -> list[HeldPull]:
        """Returns the pulls whose time is up, the earliest first; they are not held any more."""
        expired: list[HeldPull] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, token = heapq.heappop(self._deadlines)
            pull = self._by_token.get(token)
            if pull is not None and pull.deadline == deadline:
                self._remove(pull)
                expired.append(pull)
        return expired

    def forget(self, token: int) -> None:
        """Drop the pull of a client that has gone, if it is held."""
        pull = self._by_token.get(token)
        if pull is not None:
            self._remove(pull)

    def _remove(self, pull: HeldPull) -> None:
        del self._by_token[pull.token]
        of_queue = self._by_queue[pull.queue]
        del of_queue[pull.token]
        if not of_queue:
            del self._by_queue[pull.queue]
        if len(self._deadlines) > 2 * len(self._by_token) + 64:
            self._deadlines = [(each.deadline, each.token) for each in self._by_token.values()]
            heapq.heapify(self._deadlines)
