"""A master's knowledge of one connection of a slave, learned on this connection alone."""

import attrs

NO_SLAVE = -1


@attrs.define(eq=False)
class SlaveProgress:
    """A connection. `slave_id` is NO_SLAVE until its handshake; then pushes begin at `push_from`.

    `pushed_end` is the end of the bytes sent on this connection. `reported_end` is the end that the slave reports.
    """

    connection: int
    heard_at: float
    sent_at: float
    slave_id: int = NO_SLAVE
    push_from: int = 0
    pushed_end: int = 0
    reported_end: int = 0
    is_pushing: bool = False
    """True while a `PushLog` is ordered, and `Pushed` has not been reported."""
    owes_tables: bool = False
    """True from the request for its tables to the answer."""

    @property
    def is_taken(self) -> bool:
        """True once the slave is welcomed."""
        return self.slave_id != NO_SLAVE

    @property
    def unreported_bytes(self) -> int:
        """The bytes on their way, or arrived and not reported yet."""
        return self.pushed_end - max(self.reported_end, self.push_from)
