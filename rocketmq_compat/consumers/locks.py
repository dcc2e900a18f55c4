"""Locks of queues: at most one client of a group consumes a queue in order at a time (`RebalanceLockManager`).

A lock belongs to a client id and ends `lease_s` after its owner last asked for it; then another client can take it.
Clients ask again every 20 s and stop consuming 30 s after the last success. So two clients never share a lease of 60 s
while their clocks advance equally.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from rocketmq_compat.remoting.bodies import MessageQueue

LEASE_S: Final = 60.0
LOCKS_MAX: Final = 1_000_000
"""Of all groups. Above, queues that are not locked yet are not locked, as if another client had them."""


@attrs.define
class _Lease:
    client_id: str
    renewed_at: float


@attrs.define
class QueueLocks:
    """The locks of all groups."""

    lease_s: float = LEASE_S
    locks_max: int = LOCKS_MAX
    _leases: dict[tuple[str, MessageQueue], _Lease] = attrs.field(factory=dict)
    """In the order in which they were renewed: the first expires first."""
    _of_group: dict[str, int] = attrs.field(factory=dict)
    """The number of leases of each group; expired ones count until they are dropped."""

    def __len__(self) -> int:
        return len(self._leases)

    def lock(self, now: float, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Locks or renews each of the queues for this client.

        Returns the queues that it now has, in the order of the request.
        """
        self._drop_expired(now)
        return [queue for queue in queues if self._lock(now, group, client_id, queue)]

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Gives up the queues that this client has locked; locks of other clients stay."""
        for queue in queues:
            lease = self._leases.get((group, queue))
            if lease is not None and lease.client_id == client_id:
                self._drop((group, queue))

    def owner(self, now: float, group: str, queue: MessageQueue) -> str | None:
        """Returns the client that has locked the queue, or None."""
        lease = self._leases.get((group, queue))
        return lease.client_id if lease is not None and not self._is_expired(now, lease) else None

    def consumes_in_order(self, now: float, group: str) -> bool:
        """Returns True if the group has a lock, which means that it consumes in order."""
        self._drop_expired(now)
        return group in self._of_group

    def _lock(self, now: float, group: str, client_id: str, queue: MessageQueue) -> bool:
        key = group, queue
        lease = self._leases.get(key)
        if lease is None:
            if len(self._leases) >= self.locks_max:
                return False
            self._of_group[group] = self._of_group.get(group, 0) + 1
        elif lease.client_id != client_id:
            return False
        else:
            del self._leases[key]
        self._leases[key] = _Lease(client_id, now)
        return True

    def _is_expired(self, now: float, lease: _Lease) -> bool:
        return now - lease.renewed_at > self.lease_s

    def _drop_expired(self, now: float) -> None:
        while self._leases:
            key = next(iter(self._leases))
            if not self._is_expired(now, self._leases[key]):
                return
            self._drop(key)

    def _drop(self, key: tuple[str, MessageQueue]) -> None:
        del self._leases[key]
        group = key[0]
        self._of_group[group] -= 1
        if not self._of_group[group]:
            del self._of_group[group]
