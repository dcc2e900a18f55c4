"""One Trio task for every socket of a process: a wake handles all that is ready, then works once for all of it.

Trio costs 10-20 us each time a task waits for a socket, more than a small request does. So sockets are registered,
level-triggered, in an epoll object, and the one task waits for that. A *round* is: every ready socket is read once,
then `on_round_end` of each participant runs (its chance to decide about everything that arrived together), then what
was written to connections leaves, joined: the urgent first, then `on_urgent_sent` of each runs (its chance to begin
slow work that should delay no peer), then the rest, and then `on_all_sent` of each (the time to look ahead). A participant may let the urgent leave sooner (`flush_urgent`). A
round never awaits: within it nothing else runs.

A process that serves more than one thing makes one reactor, attaches what takes part (each `RaftGroup` does so itself),
registers its own listeners, and keeps `run` running until all of them are closed; then it closes the reactor.

A reactor that has the thread to itself (`owns_thread`) need not go through Trio for every wake: after a round it waits
for the next one in place, a few milliseconds at a time, and lets Trio run its tasks at least every `TURN_S`. It polls
instead of sleeping if the last wait was brief, because being woken costs more than such a wait (the processor may have
gone to sleep, too); it yields the processor between polls. After one longer wait it sleeps again.

How long rounds take is measured (`raft.net.turns`), with the name of the socket or participant that took longest.

Failures: an error of one connection closes that connection (see `SocketConnection`); any other is a failure of all
participants, which are informed of it (`on_failed`), and is raised by `run`.
"""

import math
import os
import select
import time
from typing import NamedTuple, Protocol, runtime_checkable

import trio

from raft.net.budget import Budget, BudgetLimits
from raft.net.memory import default_total_bytes
from raft.net.turns import TurnMeter

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
BROKEN = select.EPOLLHUP | select.EPOLLERR

RECEIVE_BYTES = 256 * 1024
"""The most that one socket may bring in one round, except for the rest of a large frame that has begun."""

LINGER_S = 0.004
"""The loop waits in place this long for the next round: longer than a durable append takes.

So the next request of a client that waited for an append is received without a wake-up.
"""
SPIN_S = 0.0005
"""The longest wait that counts as brief: about as long as a flush, or as another node needs to answer."""
CROWDED_S = 0.001
SLEEPS_S = 1.0
"""If yielding the processor takes longer than `CROWDED_S`, another process has work.

Then the reactor sleeps instead of polling for this long, as the scheduler favours a process that is woken.
"""
TURN_S = 0.02
"""Trio's tasks (timers, dials, signals) run at least this often, however busy the sockets are."""


class Pollable(Protocol):
    """Something with a file descriptor that can become ready."""

    def fileno(self) -> int:
        """The descriptor, the same while registered."""

    def on_ready(self, events: int) -> None:
        """Ready for `events`, a union of READABLE, WRITABLE and BROKEN."""


@runtime_checkable
class Counted(Protocol):
    """A connection, whose bytes are counted."""

    outbound_bytes: int

    def traffic(self) -> tuple[int, int]:
        """Returns the bytes received and sent."""


class Traffic(NamedTuple):
    """The open connections, the bytes of all that there were, and those that wait to be sent."""

    connections: int
    received_bytes: int
    sent_bytes: int
    waiting_bytes: int


class Flushable(Protocol):
    """Something that sends what was written to it, joined, when a round ends."""

    def flush(self) -> None:
        """Send as much as the socket takes."""


class Participant(Protocol):
    """Something that works once a round, for all that arrived in it."""

    def on_round_end(self) -> None:
        """Everything that was ready has been read; what is written now leaves with this round."""

    def on_urgent_sent(self) -> None:
        """Note that urgent messages are sent; slow work may begin."""

    def on_all_sent(self) -> None:
        """Note that all is sent that the round wrote; what no one waits for is done now, as seeing to the next deadline."""

    def on_failed(self) -> None:
        """A round has raised, and no other follows: what is waiting will never be answered by this process."""


class _Waits:
    """The last wait of a loop, and until when it sleeps instead of polling; with `in_place` it waits for more rounds."""

    __slots__ = ("in_place", "sleeps_until", "was_brief")

    def __init__(self, *, in_place: bool) -> None:
        self.in_place = in_place
        self.was_brief = False
        self.sleeps_until = -math.inf


class Reactor:
    """Owns the epoll object; everything is called from the one thread that runs Trio.

    With `owns_thread` sockets are served faster, and whatever else runs in this Trio loop may wait up to `TURN_S`.
    """

    def __init__(self, *, owns_thread: bool = False, limits: BudgetLimits | None = None) -> None:
        """`limits` bound what all connections together make the process hold."""
        self.budget = Budget(limits or BudgetLimits(total_bytes=default_total_bytes()))
        self._participants: tuple[Participant, ...] = ()
        self.turns = TurnMeter()
        """Measures the duration of rounds; participants may divide them into finer laps."""
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        """Sockets are read into this buffer unless a decoder has room; its content lives until the next read."""
        self._epoll = select.epoll()
        self._registered: dict[int, Pollable] = {}
        self._urgent: list[Flushable] = []
        self._written: list[Flushable] = []
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, READABLE)
        self._in_round = False
        self._wake_requested = False
        self._waits = _Waits(in_place=owns_thread)
        self._has_news = False
        self._closed_traffic = 0, 0
        self.closed = False

    # ---------------------------------------------------------------- what takes part

    def register(self, pollable: Pollable, events: int) -> None:
        """Call `pollable.on_ready` whenever it is ready for `events`."""
        self._epoll.register(pollable.fileno(), events)
        self._registered[pollable.fileno()] = pollable

    def modify(self, pollable: Pollable, events: int) -> None:
        """Wait for other events; with none, only a broken connection is reported."""
        self._epoll.modify(pollable.fileno(), events)

    def unregister(self, pollable: Pollable) -> None:
        """Stop watching `pollable`. Must be called before its descriptor is closed."""
        if self._registered.pop(pollable.fileno(), None) is not None:
            self._epoll.unregister(pollable.fileno())

    def attach(self, participant: Participant) -> None:
        """Call it in every round, behind those that were attached before."""
        self._participants = (*self._participants, participant)

    def detach(self, participant: Participant) -> None:
        """Call it no more; from within a round, from the next on. Nothing happens if it is not attached."""
        self._participants = tuple(each for each in self._participants if each is not participant)

    def flush_later(self, flushable: Flushable, *, urgent: bool) -> None:
        """Flush at the end of the round, the urgent before the others; outside of a round, ask for one."""
        (self._urgent if urgent else self._written).append(flushable)
        self.request_round()

    def note_traffic(self, traffic: tuple[int, int]) -> None:
        """Keep the bytes in and out of a connection that closes."""
        self._closed_traffic = self._closed_traffic[0] + traffic[0], self._closed_traffic[1] + traffic[1]

    def traffic(self) -> Traffic:
        """Returns the traffic of all connections, open and closed. Costs a system call for each open one."""
        (received, sent), waiting, count = self._closed_traffic, 0, 0
        for pollable in self._registered.values():
            if isinstance(pollable, Counted):
                more_received, more_sent = pollable.traffic()
                received, sent, count = received + more_received, sent + more_sent, count + 1
                waiting += pollable.outbound_bytes
        return Traffic(count, received, sent, waiting)

    # ---------------------------------------------------------------- rounds

    def has_more(self) -> bool:
        """Returns whether a socket is ready, so that the next round would read something at once."""
        return bool(self._epoll.poll(0))

    def request_round(self) -> None:
        """Make sure that a round ends soon. Cheap, and only for the thread that runs Trio."""
        if not (self._in_round or self._wake_requested or self.closed):
            self._wake_requested = True
            os.eventfd_write(self._wake_fd, 1)

    def ask_another_round(self) -> None:
        """Have a round follow the present one at once, for what its participants have not seen yet."""
        self._has_news = True
        self.request_round()

    async def run(self) -> None:
        """Rounds, until cancelled."""
        clock = trio.lowlevel.current_clock().current_time
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            self.round()
            if self._waits.in_place:
                turn_ends = clock() + TURN_S
                while self.round(LINGER_S) and clock() < turn_ends:
                    pass

    def round(self, wait_s: float = 0) -> int:
        """Handle what is ready now or becomes ready within `wait_s`. Returns how many descriptors were ready."""
        assert not self._in_round, "a round may not start another"
        self._in_round = True
        self._has_news = False
        turns = self.turns
        try:
            ready = self._wait(wait_s) if wait_s else self._epoll.poll(0)
            turns.begin()
            for descriptor, events in ready:
                if descriptor == self._wake_fd:
                    self._wake_requested = False
                    os.eventfd_read(self._wake_fd)
                    continue
                # One socket of this round may have closed another, so it can be gone; should its number be in use again
                # already, the new socket is merely read once without need.
                pollable = self._registered.get(descriptor)
                if pollable is not None:
                    pollable.on_ready(events)
                    turns.lap(pollable)
            for participant in self._participants:
                participant.on_round_end()
                turns.lap(participant)
            self._flush_written()
            turns.lap("sending")
            for participant in self._participants:
                participant.on_all_sent()
            turns.lap("looking ahead")
            turns.end()
        except BaseException:
            for participant in self._participants:
                participant.on_failed()
            raise
        finally:
            self._in_round = False
        if self._has_news or self._written or self._urgent:
            # Only in the next round, because one fast reader must not keep the other connections waiting.
            self.request_round()
        return len(ready)

    def _wait(self, wait_s: float) -> list[tuple[int, int]]:
        """Returns what becomes ready within `wait_s`.

        If the last wait was brief it first polls without sleeping, for `SPIN_S` at most.
        """
        now = began = time.perf_counter()
        waits = self._waits
        if waits.was_brief and began >= waits.sleeps_until:
            while now < began + SPIN_S:
                if ready := self._epoll.poll(0):
                    return ready
                before = now
                os.sched_yield()
                now = time.perf_counter()
                if now > before + CROWDED_S:
                    waits.sleeps_until = now + SLEEPS_S
        ready = self._epoll.poll(wait_s)
        waits.was_brief = time.perf_counter() < began + SPIN_S
        return ready

    def _flush_written(self) -> None:
        self.flush_urgent()
        for participant in self._participants:
            participant.on_urgent_sent()
        written, self._written = self._written, []
        for flushable in written:
            flushable.flush()

    def flush_urgent(self) -> None:
        """Flush the urgent now; for use within a round."""
        urgent, self._urgent = self._urgent, []
        for flushable in urgent:
            flushable.flush()

    def close(self) -> None:
        """Release the descriptors of the reactor itself."""
        if not self.closed:
            self.closed = True
            self._epoll.close()
            os.close(self._wake_fd)
