"""The messages between simulated brokers: segments of connections, and the news of the raft group."""

from jepsen_like.simulation.kernel.sockets import Segment
from log.values import frozen


@frozen
class CommitNews:
    """The raft group's leader reports its term and up to where the log of commands is committed."""

    term: int
    leader: int
    commit: int


BrokerMessage = Segment | CommitNews
