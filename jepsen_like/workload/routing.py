"""Which node to ask: what all clients of a run together believe about the nodes. Pure: no clock, no socket.

The rules keep an outage from turning into thousands of operations with unknown outcomes:

- One node is believed to lead, or none is; with none, clients wait instead of asking around.
- A leader that leaves one operation unanswered is no longer believed to lead, even if others still name it: it is a
  *suspect*.
- Only an answered *probe*, an operation that needs a majority, makes a suspect the leader again, or ends a time without
  one.
- A refusal's hint is followed unless it points at a suspect.
- Others than the leader are asked on purpose, for stale answers would come from them: any node now and then (a suspect
  by one client at a time), and for a while one that was believed to lead until just now.
"""

import random
from collections.abc import Iterable

RETRY_SUSPECT_S = 1.0
"""One client tries a node that did not answer this often."""
OLD_BELIEFS_S = 6.0
"""A node that was believed to lead is asked on for so long: longer than a pause, since it may still believe so."""


class Routing:
    """Beliefs about the nodes; no node is believed to lead at first."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes = tuple(nodes)
        self.leader: int | None = None
        self._suspect_until: dict[int, float] = {}
        self._led_until: dict[int, float] = {}

    def on_probe_answered(self, node: int, now: float) -> None:
        """`node` gave an answer that only a leader with a majority can give."""
        self._believe(node, now)
        self._suspect_until.clear()

    def on_refused(self, node: int, hint: int | None, now: float) -> None:
        """`node` refused because it does not lead; `hint` is the node that it believes to lead."""
        self._suspect_until.pop(node, None)
        if self.leader in (None, node):
            trusted = hint is not None and hint != node and hint in self.nodes and hint not in self._suspect_until
            self._believe(hint if trusted else None, now)

    def on_unanswered(self, node: int, now: float) -> None:
        """An operation sent to `node` has no outcome, or no connection to it can be made."""
        self._suspect_until[node] = now + RETRY_SUSPECT_S
        if self.leader == node:
            self._believe(None, now)

    def may_have_old_beliefs(self, node: int, now: float) -> bool:
        """Returns True if `node` was believed to lead until just now, and is no more."""
        return node != self.leader and now - self._led_until.get(node, -OLD_BELIEFS_S) < OLD_BELIEFS_S

    def _believe(self, leader: int | None, now: float) -> None:
        if self.leader is not None and leader != self.leader:
            self._led_until[self.leader] = now
        self.leader = leader

    def anyone(self, rng: random.Random, now: float) -> int | None:
        """Returns a node drawn from all, not only the leader; None if it is a suspect that was tried just now."""
        node = rng.choice(self.nodes)
        until = self._suspect_until.get(node)
        if until is None:
            return node
        if now < until:
            return None
        self._suspect_until[node] = now + RETRY_SUSPECT_S
        return node
