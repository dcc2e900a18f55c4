"""The messages between simulated brokers: segments of connections, and the news of the raft group."""

import enum

from log.values import frozen

RESET_NUMBER = -1


class TcpKind(enum.Enum):
    """The purpose of a segment."""

    DIAL = "dial"
    ACCEPT = "accept"
    DATA = "data"
    END = "end"


@frozen
class TcpSegment:
    """`number` counts the segments of one end of a connection, from 0; an END with RESET_NUMBER takes effect at once."""

    connection: int
    number: int
    kind: TcpKind
    frame: bytes = b""

    def refusal(self) -> "TcpSegment":
        """Returns what the operating system answers for a connection that it does not know."""
        return TcpSegment(self.connection, RESET_NUMBER, TcpKind.END)


@frozen
class CommitNews:
    """The raft group's leader reports its term and up to where the log of commands is committed."""

    term: int
    leader: int
    commit: int


BrokerMessage = TcpSegment | CommitNews
