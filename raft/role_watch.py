"""RoleWatch: what follows from a node's changes of role, for those who wait for a leader and for those who count."""

import trio

from raft.effects import RoleChanged, RoleName


class RoleWatch:
    """The changes of one node's role, term and leader."""

    def __init__(self) -> None:
        self.moved = trio.Event()
        """Set when the role, the term or the known leader has changed; then another event takes its place."""
        self.elections = 0
        """The times that this node began to stand for election."""
        self._stands = False

    def note(self, change: RoleChanged) -> None:
        """Count, and wake who waits."""
        stands = change.role is not RoleName.FOLLOWER
        self.elections += stands and not self._stands
        self._stands = stands
        moved, self.moved = self.moved, trio.Event()
        moved.set()
