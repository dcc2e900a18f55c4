"""FullDisk: how a node goes on without room, and gives others the chance to lead while they have it.

Nothing is written without room. Requests are refused for certain, entries of a leader are left for it to send again.
Terms and votes have room of their own, which is reserved with every entry; when that is used up, too, messages that would
move the term or take a vote are dropped, as a network may. So a full disk ends no node, and the node takes part again as
soon as there is room.

A state machine without room waits: what is committed is applied later, in its order, and reads wait with it.

A leader without room hands over, because another may have some. It does so only once in `HAND_OVER_EVERY_S`: where the
disks of a majority are full, elections help no one, and each costs room.
"""

import math

from log.errors import NoSpace
from raft.notices import NoSpaceLeft, Notify
from raft.storage import RaftStorage

HAND_OVER_EVERY_S = 30.0
NOTICE_EVERY_S = 1.0
"""One notice is given in this time at most."""


class FullDisk:
    """The room of one node's log, as its driver and its inbox ask for it."""

    def __init__(self, storage: RaftStorage, notify: Notify) -> None:
        self._storage = storage
        self._notify = notify
        self._notices_from = -math.inf
        self._hand_over_from = -math.inf
        self.stands_from = -math.inf
        """Before this time a node that found no room does not stand for election."""

    def reserve(self, size: int, now: float) -> None:
        """Make sure that a write of `size` bytes will fit. Raises `NoSpace`, which has then been noticed."""
        try:
            self._storage.reserve(size)
        except NoSpace as error:
            self.note(error, now)
            raise

    def may_hand_over(self, now: float) -> bool:
        """Returns True for a leader without room that has not handed over for long. Counts as a hand-over."""
        if now < self._hand_over_from:
            return False
        self._hand_over_from = now + HAND_OVER_EVERY_S
        return True

    def may_stand(self, now: float) -> bool:
        """Returns True if a node may stand for election. One whose disk was full at its start may lack the room that
        others have reserved; it looks for some again from `stands_from` on.
        """
        if self.has_room_for_state(now):
            return True
        self.stands_from = now + NOTICE_EVERY_S
        return False

    def has_room_for_state(self, now: float) -> bool:
        """Returns True if a new term, a vote and the first entry of a leadership fit; a failure has been noticed."""
        if self._storage.has_room_for_state:
            return True
        try:
            self.reserve(0, now)
        except NoSpace:
            return False
        return True

    def note(self, error: NoSpace, now: float) -> None:
        """Give a notice of this error, if the last one was long ago."""
        if now >= self._notices_from:
            self._notices_from = now + NOTICE_EVERY_S
            self._notify(NoSpaceLeft(str(error)))
