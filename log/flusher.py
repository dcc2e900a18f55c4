"""Group commit: many waiters ride on one sync.

One task runs one flush at a time, in a thread. Everything appended before a flush begins is covered by it; what is appended
meanwhile waits for the next one, so batches grow exactly as long as the disk takes.

What an owner may acknowledge, and when, is the policy's to say:

- `before-ack`: once it is durable;
- `interval`: at once; a flush follows within `interval_s` (a power cut may take what was acknowledged since);
- `none`: at once; only sealed segments are flushed, so that a restart need not read them.

The address up to which acknowledging is allowed is `acknowledged_end`; `on_acknowledged` is called, in the owner's thread,
whenever it moves. A failed flush ends the task with `StorageFailed`, and every waiter with it.
"""

import enum
from collections.abc import Callable

import trio

from log.errors import StorageFailed
from log.frame import Address
from log.segmented_log import SegmentedLog


class FlushPolicy(enum.Enum):
    """When appended frames may be acknowledged; see the module."""

    BEFORE_ACK = "before-ack"
    INTERVAL = "interval"
    NONE = "none"


class GroupFlusher:
    """Flushes one log. The owner appends, then calls `appended`; `run` is a task of the owner's nursery."""

    def __init__(
        self,
        log: SegmentedLog,
        *,
        policy: FlushPolicy = FlushPolicy.BEFORE_ACK,
        interval_s: float = 0.05,
        on_acknowledged: Callable[[Address], None] | None = None,
    ) -> None:
        if not interval_s > 0:
            raise ValueError("need interval_s > 0")
        self.policy = policy
        self.flushes = 0
        """Flushes done so far."""
        self._log = log
        self._interval_s = interval_s
        self._on_acknowledged = on_acknowledged
        self._acknowledged_end = log.durable_end
        self._wake = trio.Event()
        self._moved = trio.Event()
        self._drain_to = Address(0)

    @property
    def acknowledged_end(self) -> Address:
        """Everything before this address may be acknowledged."""
        return self._acknowledged_end

    def appended(self) -> None:
        """Frames were appended: flush them when the policy says. Cheap; call it once for any number of appends."""
        if self.policy is FlushPolicy.BEFORE_ACK:
            self._wake.set()
            return
        if self.policy is FlushPolicy.INTERVAL or self._log.sealed_pending:
            self._wake.set()
        self._acknowledge(self._log.end)

    async def wait(self, address: Address) -> None:
        """Return once everything before `address`, an address that `append` returned, may be acknowledged.

        `StorageFailed` if the log has failed.
        """
        await self._wait(lambda: self._acknowledged_end >= address)

    async def drain(self) -> None:
        """Flush everything appended so far, whatever the policy; for an orderly end."""
        self._drain_to = target = self._log.end
        self._wake.set()
        await self._wait(lambda: self._log.durable_end >= target)

    async def run(self) -> None:
        """Flush whenever there is something to flush, until cancelled. A flush that has begun is always finished."""
        try:
            while True:
                await self._wake.wait()
                if self.policy is FlushPolicy.INTERVAL:
                    await self._pause()
                self._wake = trio.Event()
                await self._flush()
        finally:
            # Waiters look at the log again: it may have failed.
            self._announce()

    async def _pause(self) -> None:
        """Let an interval pass, unless someone drains."""
        deadline = trio.current_time() + self._interval_s
        with trio.move_on_at(deadline):
            while self._drain_to <= self._log.durable_end:
                self._wake = trio.Event()
                await self._wake.wait()

    async def _flush(self) -> None:
        log = self._log
        if log.durable_end == log.end and not log.sealed_pending:
            return
        flush = log.begin_flush()
        # A started thread is always waited for, so the shield only closes the gap before its start: no flush is half known.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(flush.run)
        self.flushes += 1
        self._acknowledge(log.end_flush(flush))
        self._announce()

    def _acknowledge(self, end: Address) -> None:
        if end > self._acknowledged_end:
            self._acknowledged_end = end
            if self._on_acknowledged is not None:
                self._on_acknowledged(end)

    def _announce(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            failed = self._log.failed
            if failed is not None:
                raise StorageFailed(failed.operation, failed.path, failed.detail)
            await self._moved.wait()
        await trio.lowlevel.checkpoint()
