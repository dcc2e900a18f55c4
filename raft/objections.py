"""Messages that no correct peer can have sent: what a node holds against them before it looks at their content."""

from typing import TYPE_CHECKING

from raft.messages import InstallSnapshot, Message
from raft.model import NO_INDEX

if TYPE_CHECKING:
    from raft.core import RaftCore

TERM_STEP_MAX = 2**20
"""The furthest that one message moves the term: six days of elections without a pause, at one every half a second.

Terms end at 2^62 on the wire. If any term were taken over, one message could leave the group no term to elect in. A
node that is further behind than one step, after years or because the others got such a message, takes one step with
each message. Refusing them would keep it out of its group: a term that was taken over can never be taken back.
"""
TERM_MAX = 2**61
"""No correct node gets here: at one election every ten milliseconds it takes 700 million years.

The other half of the terms that the wire carries is never used. To move a group up to here takes 2^41 messages of one
step each, and each waits for the disk.
"""


def objection_to(core: "RaftCore", message: Message) -> str | None:
    """Returns why no correct peer can have sent `message` to this node, or None if one may have."""
    if message.term > TERM_MAX:
        return f"no correct node can have reached term {message.term}; this one is in term {core.term}"
    if isinstance(message, InstallSnapshot):
        return _objection_to_snapshot(core, message)
    return None


def _objection_to_snapshot(core: "RaftCore", request: InstallSnapshot) -> str | None:
    start, commit_index = request.start, core.commit_index
    if not core._takes_snapshots and core.log.start.index == NO_INDEX:
        return (
            f"a log that begins behind index {start.index} cannot be: by the settings of this node nothing leaves a log. "
            "If the other nodes run with retention_bytes or retention_s, or did so before, set one of them here, too"
        )
    if request.term < core.term:
        return None  # of an older leader, which learns the newer term from the answer
    if start.index <= commit_index:
        # Not needed any more, but it may have been on its way for long; then it agrees with what is committed here.
        is_possible = core.log.matches(start.index, start.position.term)
    else:
        is_possible = start.position.term >= core.log.term_at(commit_index)  # terms never fall along a log
    if is_possible:
        return None
    return (
        f"entry {start.index} cannot be of term {start.position.term}: this node knows {commit_index} to be committed"
    )
