"""The disk of one simulated node: what it would give back now, and what it held before damage or a loss took it.

Some promises outlive their bytes. A node whose log was cut for damage, or whose directory vanished, must not help to
elect a leader that lacks what it held. Audits find that remembered here, until its log has reached as far again.
"""

import random
from collections import Counter

import attrs

from jepsen_like.simulation.raft.durable import START_NAME, DurableLog
from jepsen_like.simulation.raft.record import ClusterRecord, as_recent
from jepsen_like.simulation.raft.rot import Rot, RotKind, base_of, spoil
from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from raft.core import RaftCore
from raft.model import NO_POSITION, Entry, NodeId, Position, Term

LOG_DIRECTORY = "log"
LOG_ID = 1
NEVER = 1 << 62


@attrs.frozen
class Legacy:
    """The remains of a dead machine: its durable data, its log as ordered, and whether all of that was written."""

    durable: DurableLog
    entries: list[Entry]
    complete: bool
    """True after a plain kill: the page cache then gives everything back."""


class Holdings:
    """Keeps what a machine holds, dead or alive; if `acknowledges_written`, it promises only what a kill leaves."""

    def __init__(
        self, disk: MemoryDisk, record: ClusterRecord, counts: Counter[str], *, acknowledges_written: bool
    ) -> None:
        self.disk = disk
        self.durable = DurableLog(LOG_DIRECTORY, record.ledger)
        self.written = DurableLog(LOG_DIRECTORY, written=True) if acknowledges_written else None
        self.legacy: Legacy | None = None
        self.rot: Rot | None = None
        """The entries that damage took from it, until it holds as much again."""
        self.vanished: DurableLog | None = None
        """The contents of its directory when it vanished, until its log has reached its floor again."""
        self.guard: Position | None = None
        """After that: the floor below which it votes for none; None while it remembers nothing and has no vote."""
        self.buried: dict[int, DurableLog] = {}
        """The contents of its former directories, by their ids, where it is another voter without them."""
        self.came_up_spoilt = False
        """True if its disk had damage that no read had met when it came up last: only that is repaired."""
        self.losses = 0
        """The number of times that it has lost what it held."""
        self._counts = counts
        self._ledger = record.ledger
        self._past_votes: dict[Term, NodeId] = {}
        self._buried_votes: dict[int, dict[Term, NodeId]] = {}
        self._is_stale = True

    # ---------------------------------------------------------------- what the disk would give back

    def durable_log(self) -> DurableLog:
        """Returns the data that its disk would give back if power were lost now."""
        if self._is_stale:
            self._is_stale = False
            self.durable.refresh(self.disk)
        return self.durable

    def promised_log(self) -> DurableLog:
        """Returns the data that its acknowledgements are about: what is durable, or what is written, by the policy."""
        if self.written is None:
            return self.durable_log()
        self.written.refresh(self.disk)
        return self.written

    def note_synced(self) -> None:
        """More of it may be durable than when it was looked at last."""
        self._is_stale = True

    def voted_for(self, candidate: NodeId, term: Term, directory_id: int) -> bool:
        """Returns True if it has voted so with this directory, durably, in this life or in one that it has forgotten."""
        if directory_id in self._buried_votes:
            return self._buried_votes[directory_id].get(term) == candidate
        past = self.durable_log() if self.vanished is None else self.vanished
        if directory_id == past.directory_id and self._past_votes.get(term) == candidate:
            return True
        return directory_id == self.durable_log().directory_id and self.durable_log().votes.get(term) == candidate

    def vouches_for(self, entry: Entry, directory_id: int) -> bool:
        """Returns True if this entry is durable in its directory of this id, or was until damage took it and its place is
        still guarded, or that directory vanished."""
        if directory_id in self.buried:
            return self.buried[directory_id].has(entry)
        if directory_id == self.durable_log().directory_id and self.promised_log().has(entry):
            return True
        vanished = self.vanished
        if vanished is not None and vanished.directory_id == directory_id and vanished.has(entry):
            return self.guard is None or as_recent(self.guard, Position(entry.index, entry.term))
        return self.rot is not None and self.rot.held is not None and self.rot.held.has(entry)

    def has_directory(self, directory_id: int) -> bool:
        """Returns True if it has the directory of this id, and has not lost it."""
        is_lost = self.vanished is not None or directory_id in self.buried
        return not is_lost and self.durable_log().directory_id == directory_id

    def segments(self) -> int:
        """Returns the number of segment files of its log."""
        return sum(path.endswith(".log") for path in self.disk.paths())

    # ---------------------------------------------------------------- deaths and starts

    def end(self, entries: list[Entry], *, complete: bool) -> None:
        """Its process is gone, whose log had these entries."""
        self._is_stale = True
        self.legacy = Legacy(self.durable_log(), entries, complete)

    def lose_power(self, rng: random.Random) -> None:
        """Whatever was not synced may be gone, in any part."""
        self.disk = self.disk.after_crash(rng)
        self.forget()

    def outlive(self, rng: random.Random) -> None:
        """Keep what was written, synced or not: it is in the page cache."""
        self.disk = self.disk.after_kill(rng)
        self.forget()

    def lose_all(self, disk: MemoryDisk) -> None:
        """A disk with nothing on it takes the place of this one."""
        self.losses += 1
        self._past_votes.update(self.durable_log().votes)
        self.vanished, self.guard, self.rot, self.legacy = self.durable_log(), None, None, None
        self.disk = disk
        self.forget()

    def forget(self) -> None:
        """Read the disk again when its content is needed."""
        unmet = [self.rot.flip] if self.rot is not None and self.spoilt else []
        self._past_votes.update(self.durable.votes)
        self.durable = DurableLog(LOG_DIRECTORY, self._ledger, mended=unmet, votes=dict(self._past_votes))
        self._is_stale = True
        if self.written is not None:
            self.written = DurableLog(LOG_DIRECTORY, written=True)

    def note_start(self) -> None:
        """A process is about to open it."""
        self.came_up_spoilt = self.spoilt
        if self.rot is not None and self.spoilt and self.legacy is not None:
            self.rot.held = self.legacy.durable

    def note_opened(self, *, repaired: bool) -> None:
        """It was opened, and perhaps repaired."""
        self._counts["repairs"] += repaired
        if self.rot is not None and self.spoilt:
            if repaired:
                self.rot.found = True
                self.forget()
            else:
                self.rot.held = None

    # ---------------------------------------------------------------- damage

    @property
    def is_blank(self) -> bool:
        """True if it has lost its directory, and not learned yet what it must not go back behind."""
        return self.vanished is not None and self.guard is None

    @property
    def spoilt(self) -> bool:
        """True if its disk has damage not yet repaired; what an earlier one cost it is no excuse for more."""
        return self.rot is not None and not self.rot.found

    @property
    def start_spoilt(self) -> bool:
        """True if the witness of where its log begins is damaged: what had left the log is known from nothing else."""
        return self.rot is not None and self.spoilt and self.rot.flip.path == f"{LOG_DIRECTORY}/{START_NAME}"

    @property
    def held_before(self) -> Position | None:
        """The end of its durable log before damage cut it, as long as it holds less; else None."""
        rot = self.rot
        return rot.held.position if rot is not None and rot.found and rot.held is not None else None

    def spoil(self, kind: RotKind, rng: random.Random) -> bool:
        """Let a bit of it rot while no process runs; false if it has nothing of that kind."""
        flip = spoil(self.disk, LOG_DIRECTORY, LOG_ID, kind, rng)
        if flip is None:
            return False
        self._counts["rots"] += 1
        if kind in (RotKind.INDEX, RotKind.MARK):
            return True  # nothing is lost with them
        self.rot = Rot(flip)
        self.forget()
        return True

    def note_guard(self, core: RaftCore) -> None:
        """Keep what guards the promises of a machine that lost its directory, for as long as its log does not."""
        if self.vanished is None:
            return
        if core.recall is not None:
            self.guard = None
        elif core.directory_id != self.vanished.directory_id:
            self._bury(self.vanished)
        elif core.floor != NO_POSITION:
            self.guard = core.floor
        elif self.guard is None:
            self.guard = NO_POSITION  # there was nothing to take over
        elif as_recent(self.durable_log().position, self.guard):
            self.vanished = self.guard = None
            self._counts["vanished_caught_up"] += 1

    def _bury(self, vanished: DurableLog) -> None:
        """It is another voter than the one that it was, and what that has promised binds it no more."""
        self.buried[vanished.directory_id], self._buried_votes[vanished.directory_id] = vanished, self._past_votes
        self.vanished, self.guard, self._past_votes = None, None, {}
        self.durable = DurableLog(LOG_DIRECTORY, self._ledger)
        self._is_stale = True
        self._counts["new_directories"] += 1

    def note_mended(self, core: RaftCore) -> None:
        """Forget the damage once the machine holds as much again: it can then lose it again.

        Its floor must be left, too: it may be higher than what was durable, for a node cannot know whether whole frames
        behind the last flush that it knows of were. Damage that no read has met leaves with the segment that it is in.
        """
        rot, held = self.rot, self.held_before
        if rot is None:
            return
        if held is not None and core.floor == NO_POSITION and as_recent(self.durable_log().position, held):
            self.rot = None
            self._counts["caught_up"] += 1
        elif self.spoilt and self._has_left(rot.flip.path):
            self.rot = None
            self._counts["rot_left"] += 1
            self.forget()

    def _has_left(self, path: str) -> bool:
        return path.endswith(".log") and base_of(path) < self.durable_log().start.base

    # ---------------------------------------------------------------- faults of the disk

    def make_room(self) -> None:
        """The disk is not full any more."""
        self.disk.capacity_bytes = None

    def mend(self) -> None:
        """No call of the disk is going to fail, and it has room."""
        self.make_room()
        self.disk.fail_call(NEVER)

    def has_refused(self, error: Exception) -> bool:
        """Returns True if this error is the work of a fault that was set on the disk."""
        match error:
            case NoSpace():
                return self.disk.capacity_bytes is not None
            case StorageFailed():
                return self.disk.failed_as_asked
            case _:
                return False
