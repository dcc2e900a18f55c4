"""Metrics: the figures of a process by name, taken when someone asks for them.

A `Metric` is a name with a meaning, a `Figure` its value of this moment. Figures are read from what the parts of a process
know anyway; the exceptions are counters of rare things, such as flushes. Times are in seconds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import attrs

from raft.net.reactor import Reactor


@attrs.frozen
class Metric:
    """A name, its meaning, and the names of its labels. A counter only grows while the process lives."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False

    def __call__(self, value: float, *labels: str) -> "Figure":
        """Returns a figure of this metric."""
        assert len(labels) == len(self.labels), f"{self.name} has the labels {self.labels}"
        return Figure(self, float(value), labels)


@attrs.frozen
class Figure:
    """The value of a metric, for these values of its labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


class MetricsUnavailable(Exception):
    """The port for metrics cannot be used."""


class Observed(Protocol):
    """A server that shows its figures and whether it serves. Both are quick, and called in its loop."""

    def figures(self) -> Iterable[Figure]:
        """Returns the figures of this moment."""

    def obstacle(self) -> str | None:
        """Returns the reason why it does not serve clients; None if it does."""


# Every process

READY: Final = Metric("quorumlog_ready", "1 while the process serves clients, as /readyz answers.")
EVENTS: Final = Metric("quorumlog_events_total", "Events that the process has reported, by name.", ("event",), True)
LONGEST_TURN: Final = Metric("quorumlog_longest_turn_seconds", "The longest time for which the loop served no one.")
CONNECTIONS: Final = Metric("quorumlog_connections", "Open connections of clients and peers.")
REFUSED: Final = Metric("quorumlog_connections_refused_total", "Connections refused for want of room.", (), True)
RECEIVED: Final = Metric("quorumlog_received_bytes_total", "Bytes received from all connections.", (), True)
SENT: Final = Metric("quorumlog_sent_bytes_total", "Bytes that the other sides of all connections have.", (), True)
OUTBOUND: Final = Metric("quorumlog_outbound_bytes", "Bytes that wait for connections to take them.")
HELD: Final = Metric("quorumlog_held_bytes", "Bytes held for connections, by whose they are.", ("of",))
HELD_PEAK: Final = Metric("quorumlog_held_bytes_peak", "The most of them so far.")
HELD_TOTAL: Final = Metric("quorumlog_held_bytes_limit", "The total that they may reach.")
SHORTAGES: Final = Metric("quorumlog_held_bytes_shortages_total", "Times that reading stopped at a limit.", (), True)
CROWDED_OUT: Final = Metric("quorumlog_connections_crowded_out_total", "Connections closed to make room.", (), True)
FLUSHES: Final = Metric("quorumlog_flushes_total", "Flushes and other work of the disk, by log.", ("log",), True)
FLUSH_SECONDS: Final = Metric("quorumlog_flush_seconds_total", "The time that they took, by log.", ("log",), True)

# A raft group

TERM: Final = Metric("quorumlog_raft_term", "The term.")
ROLE: Final = Metric("quorumlog_raft_role", "1 for the role that the node has.", ("role",))
LEADER: Final = Metric("quorumlog_raft_leader", "The id of the leader that the node knows; 0 without one.")
ELECTIONS: Final = Metric("quorumlog_raft_elections_total", "Elections in which the node stood.", (), True)
COMMIT_INDEX: Final = Metric("quorumlog_raft_commit_index", "The last entry known to be committed.")
LAST_INDEX: Final = Metric("quorumlog_raft_last_index", "The last entry of the log.")
DURABLE_INDEX: Final = Metric("quorumlog_raft_durable_index", "The last entry that is durable here.")
APPLIED_INDEX: Final = Metric("quorumlog_raft_applied_index", "The last entry that the state machine has.")
START_OFFSET: Final = Metric("quorumlog_raft_start_offset", "The offset at which the log begins.")
COMMITTED_END: Final = Metric("quorumlog_raft_committed_end", "The end of the committed records, an offset.")
WAITING: Final = Metric("quorumlog_raft_waiting_bytes", "Bytes of requests that wait to become an entry.")
UNHEARD: Final = Metric("quorumlog_raft_unheard", "Members that owe an answer to a node which has forgotten.")
ROLES: Final = ("follower", "pre_candidate", "candidate", "leader")


def loop_figures(reactor: Reactor) -> list[Figure]:
    """Returns the figures of a loop and of its connections."""
    traffic, budget = reactor.traffic(), reactor.budget
    return [
        HELD(budget.members_bytes, "members"),
        HELD(budget.others_bytes, "others"),
        HELD_PEAK(budget.peak_bytes),
        HELD_TOTAL(budget.limits.total_bytes),
        SHORTAGES(budget.shortages),
        CROWDED_OUT(budget.crowded_out),
        LONGEST_TURN(reactor.turns.longest.seconds),
        CONNECTIONS(traffic.connections),
        RECEIVED(traffic.received_bytes),
        SENT(traffic.sent_bytes),
        OUTBOUND(traffic.waiting_bytes),
    ]


def raft_figures(status: Mapping[str, Any]) -> list[Figure]:
    """Returns the figures of one node of a raft group from its status."""
    gauges = {
        TERM: "term",
        LEADER: "leader",
        COMMIT_INDEX: "commit_index",
        LAST_INDEX: "last_index",
        DURABLE_INDEX: "durable_index",
        APPLIED_INDEX: "applied_index",
        START_OFFSET: "start_offset",
        COMMITTED_END: "committed_end",
    }
    return [
        *(metric(status[name]) for metric, name in gauges.items()),
        *(ROLE(status["role"] == role, role) for role in ROLES),
        UNHEARD(len(status["unheard"])),
    ]


def all_metrics(namespace: Mapping[str, object]) -> list[Metric]:
    """Returns the metrics among the names of a module."""
    return [value for value in namespace.values() if isinstance(value, Metric)]
