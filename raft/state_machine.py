"""What a replicated state machine must offer: commands in, results out, the same on every node.

Commands arrive in log order, each exactly once per run of the process; the machine begins empty and is rebuilt from the log
at a restart. `apply` must be deterministic: same commands, same results, on any node, in any process; no clock, no chance,
no iteration over sets.
"""

from typing import Protocol


class StateMachine(Protocol):
    """The owner of the meaning of commands."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        """`InvalidRequest` for a command, or query, that cannot mean anything; asked before it may enter the log."""

    def apply(self, index: int, command: bytes) -> bytes:
        """Carry out the committed command at `index`. `InvalidRequest` says that it had no effect, on any node."""

    def query(self, command: bytes) -> bytes:
        """Answer from the state as it is, without changing it. `InvalidRequest` for nonsense."""
