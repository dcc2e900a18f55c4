"""The parts of an incoming snapshot, kept by a follower until it has them all.

They are in memory, and lost in a restart, after which the follower starts over: parts on disk would need a file format,
and a flush each, to save no more than sending them again. The shell's bound (`snapshot_bytes_max`) bounds the memory,
twice that at the moment in which the parts are joined. A broken connection takes nothing away.
"""

import attrs

from log.values import frozen
from raft.messages import InstallSnapshot
from raft.model import LogStart, Term


@frozen
class StagedSnapshot:
    """The beginning of one snapshot of one leader.

    Parts of different leaders are never mixed, because the bytes of equal states may differ.
    """

    term: Term
    start: LogStart
    """The log's start after the snapshot, without the snapshot."""
    total: int
    parts: tuple[bytes, ...] = ()
    received: int = 0

    @classmethod
    def of(cls, message: InstallSnapshot) -> "StagedSnapshot":
        """Returns an empty beginning of the snapshot that `message` has a part of."""
        return cls(message.term, attrs.evolve(message.start, snapshot=b""), message.total)

    def with_part(self, message: InstallSnapshot) -> "StagedSnapshot":
        """Returns this and the part in `message`, if it is the one that comes next; else what was there before it, or
        nothing if the part is of another snapshot.
        """
        staged = self.of(message)
        is_whole = not message.offset and not message.bytes_left
        if (staged.term, staged.start, staged.total) == (self.term, self.start, self.total) and not is_whole:
            staged = self
        if message.offset != staged.received:
            return staged
        part = message.start.snapshot
        return attrs.evolve(staged, parts=(*staged.parts, part), received=staged.received + len(part))

    @property
    def is_whole(self) -> bool:
        """True once all parts are here."""
        return self.received == self.total

    def join_parts(self) -> LogStart:
        """Returns where the log begins, with the snapshot joined from its parts; one that is whole is not copied."""
        return attrs.evolve(self.start, snapshot=b"".join(self.parts) if len(self.parts) > 1 else self.parts[0])
