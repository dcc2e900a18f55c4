"""The interface of a replicated state machine: commands in, results out, the same on every node.

Commands arrive in log order, each exactly once per run of the process. The machine begins empty and is rebuilt from the
log at a restart. Where the log keeps only its newest entries, it begins with its snapshot instead. `apply` must be
deterministic: same commands, same results, on any node, in any process; no clock, no chance, no iteration over sets.

An exception other than `InvalidRequest` and `NoSpace` is a bug of the machine. From `apply` it ends every node, and again at every
start, since the command is in the log and cannot be taken out: only a corrected machine gets past it. From `check` or
`query` it ends the node that the client is connected to; a call of `RaftGroup` raises it. So `check` must refuse
invalid commands, and a command that fails in the present state must have a result for that, or raise `InvalidRequest`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class StateMachine(Protocol):
    """The owner of the meaning of commands."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Called before a command is appended to the log.

        Raises `InvalidRequest` for a command, or a query if `read_only`, that is invalid in every state.
        """

    def apply(self, index: int, command: bytes) -> bytes:
        """Carry out the committed command at `index`.

        Returns its result, as bytes: its caller gets `InvalidResult` for anything else, and the command stays applied.
        Raises `InvalidRequest` if it had no effect, on any node, and `log.NoSpace` if there is no room for it on this
        node's disk and nothing has changed: it is called again a little later, and nothing else is applied meanwhile.

        Any other exception ends the node, now and at every start, until the machine is corrected: the command stays.
        """

    def query(self, command: bytes) -> bytes:
        """Returns the answer to a query from the present state, which it must not change.

        Raises `InvalidRequest` for an invalid query.
        """


@runtime_checkable
class SnapshotMachine(StateMachine, Protocol):
    """A machine that needs no commands from before a snapshot of it, so that its log can be trimmed.

    Both are called in the loop of the node, which stands still meanwhile. A machine of many megabytes returns an
    iterable of pieces, which are drawn in short turns: it must give the state of the moment of the call, whatever is
    applied meanwhile (a copied dict of values that never change does, and costs little). All else about a snapshot
    (checksums, writing, sending, joining what was received) is done outside of the loop, or in parts. A snapshot of
    more than `snapshot_bytes_max` is not taken, and then nothing leaves the log.
    """

    def snapshot(self) -> bytes | Iterable[bytes] | None:
        """Returns the state after all commands so far, as bytes or as pieces that are to be joined; None if there can
        be none yet: nothing leaves the log then, and it is asked for again soon. What the state stands for and is kept
        elsewhere must be durable when it returns.
        """

    def restore(self, snapshot: bytes) -> None:
        """Replace the state, whatever it was, by that of `snapshot`, which may come from any node and any process."""


@runtime_checkable
class CheckedMachine(SnapshotMachine, Protocol):
    """A machine that can tell whether bytes are a snapshot, so that no other member can end it with any that are not."""

    def check_snapshot(self, snapshot: bytes) -> None:
        """Raises any exception if `restore` would, and changes nothing."""


@runtime_checkable
class PartialMachine(StateMachine, Protocol):
    """A machine that may lack something which only other members hold, and which it fetches by itself.

    An operator's command makes no voter of a node that lacks something, and takes none away from it.
    """

    @property
    def lacks(self) -> str:
        """Names the missing content, for an operator; empty if nothing is missing."""


@runtime_checkable
class AssigningMachine(StateMachine, Protocol):
    """A machine that gives members something to keep besides the log, which a member that left would take with it.

    An operator's command lets no member leave that still keeps something.
    """

    @property
    def assigned(self) -> Mapping[int, str]:
        """Names by member what it keeps and how to take it away, for an operator; a member that keeps nothing is left out."""
