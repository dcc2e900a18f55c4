"""A direction at work: readers of the source, one writer of the target, and the decider between them."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from jepsen_like.mirror.core import (
    AppendRecords,
    CommitProgress,
    Effect,
    Event,
    GroupsFetched,
    MirrorCore,
    RecordsAppended,
    RecordsFetched,
    TransactionCommitted,
)
from jepsen_like.mirror.ends import ClusterRefused, LinkBroken, ProducerFenced, SessionEnd, open_bare_nursery
from jepsen_like.mirror.kafka.batches import CopiedBatch
from jepsen_like.mirror.kafka.client import ClusterClient
from jepsen_like.mirror.kafka.opening import OpenLink
from jepsen_like.mirror.kafka.reading import committed_offsets, fetch, list_groups, read_ends, read_statuses
from jepsen_like.mirror.kafka.topics import read_forms, shape_topics
from jepsen_like.mirror.kept import Partition, encode_point
from jepsen_like.mirror.plan import MirrorPlan, Tell

FETCH_WAIT_MS: Final = 100
GROUPS_EVERY_S: Final = 0.5
TOPICS_EVERY_S: Final = 3.0
HOLDER_EVERY_S: Final = 1.0
TELL_EVERY_S: Final = 0.5
RETRY_S: Final = 0.2
FULL_S: Final = 0.01
LOOK_EVERY_S: Final = 0.05
ABORTS_WITHIN_S: Final = 3.0
IDLE_STATES: Final = {"Empty", "Dead"}


class TopicsChanged(SessionEnd):
    """The source has other topics or partitions than those that this session copies."""


@attrs.define
class Session:
    """The copying under one open link, until something ends it."""

    plan: MirrorPlan
    source: ClusterClient
    target: ClusterClient
    link: OpenLink
    tell: Tell
    _orders: deque[Effect] = attrs.field(factory=deque, init=False)
    _ordered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _links_read: int | None = attrs.field(default=None, init=False)
    is_caught_up: bool = attrs.field(default=False, init=False)
    complaint: str | None = attrs.field(default=None, init=False)
    """The reason for which the source was not read lately."""

    @property
    def core(self) -> MirrorCore:
        """The decider."""
        return self.link.core

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Copy. Returns once all is copied, if that is wanted.

        Raises `TopicsChanged`, `ProducerFenced`, `LinkBroken` and `ClusterRefused`.
        """
        try:
            async with open_bare_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._write)
                nursery.start_soon(self._read_records)
                nursery.start_soon(self._repeat, GROUPS_EVERY_S, self._read_groups)
                nursery.start_soon(self._repeat, HOLDER_EVERY_S, self._check_holder)
                nursery.start_soon(self._tell_progress)
                nursery.start_soon(self._repeat, TOPICS_EVERY_S, self._read_topics)
                if until_caught_up:
                    nursery.start_soon(self._watch_end)
        finally:
            # Readers of committed records wait for the end of every transaction: leave none open.
            with trio.move_on_after(ABORTS_WITHIN_S, shield=True):
                with suppress(SessionEnd):
                    await self.link.writer.abort()

    def progress(self) -> dict[str, Any]:
        """Returns the figures of this moment."""
        return {
            "event": "progress",
            "link": self.plan.link,
            "epoch": self.core.epoch,
            "records": self.core.records,
            "lag_records": self.core.lag,
            "copied_to": {f"{topic}-{number}": at for (topic, number), at in sorted(self.core.positions.items())},
            **({"source": self.complaint} if self.complaint else {}),
        }

    # ---------------------------------------------------------------- the decider and its orders

    def _step(self, event: Event) -> None:
        self._orders.extend(self.core.step(event))
        self._ordered.set()

    async def _write(self) -> None:
        writer = self.link.writer
        while True:
            while self._orders:
                match self._orders.popleft():
                    case AppendRecords(batches=batches):
                        bases = await writer.append({at: _of_kafka(those) for at, those in batches.items()})
                        self._step(RecordsAppended(bases))
                    case CommitProgress(points=points, offsets=offsets):
                        await writer.write_links(
                            [encode_point(self.plan.link, at, each) for at, each in points.items()]
                        )
                        await writer.commit(offsets)
                        self._step(TransactionCommitted())
            self._ordered = trio.Event()
            await self._ordered.wait()

    # ---------------------------------------------------------------- readers

    async def _read_records(self) -> None:
        while True:
            try:
                async with open_bare_nursery() as nursery:
                    for leader, mine in self.source.by_leader(self.core.partitions).items():
                        nursery.start_soon(self._read_leader, leader, tuple(mine))
                    if not self.core.partitions:
                        await trio.sleep_forever()
            except LinkBroken as error:
                self.complaint = str(error)
            await trio.sleep(RETRY_S)
            try:
                self.source.forget()
                await self.source.refresh()
            except LinkBroken as error:
                self.complaint = str(error)

    async def _read_leader(self, leader: int, mine: tuple[Partition, ...]) -> None:
        limits = {name: form.message_bytes_max for name, form in self.link.forms.items()}
        while True:
            wanted = {at: offset for at in mine if (offset := self.core.offset_to_fetch(at)) is not None}
            if not wanted:
                await trio.sleep(FULL_S)
                continue
            for read in await fetch(self.source, leader, wanted, FETCH_WAIT_MS, limits):
                if read.is_out_of_range:
                    await self._on_out_of_range(read.partition, wanted[read.partition])
                else:
                    fetched = read.fetched
                    self._step(RecordsFetched(read.partition, fetched.batches, fetched.next_offset, read.end))
            self.complaint = None

    async def _on_out_of_range(self, at: Partition, offset: int) -> None:
        """Go on where retention has left the source's log. Raises `ClusterRefused` if its end was lost."""
        ends = (await read_ends(self.source, [at]))[at]
        name = f"{at[0]}-{at[1]}"
        if offset > ends.end:
            raise ClusterRefused(
                f"{name} of the source ends at {ends.end}, before {offset} that was copied: it lost records that the target "
                "has; nothing more is copied; switch to the target by quorumlog switch --give-up"
            )
        if offset < ends.start:
            self.tell({"event": "skipped", "partition": name, "from": offset, "to": ends.start, "why": "retention"})
            self._step(RecordsFetched(at, (), ends.start, ends.end))

    async def _read_groups(self) -> None:
        """Read the offsets of the source's groups, except of those that have members in the target."""
        names = [name for name in await list_groups(self.source) if self.plan.copies_group(name)]
        busy = {name for name, state in (await list_groups(self.target)).items() if state not in IDLE_STATES}
        self._step(
            GroupsFetched({name: await committed_offsets(self.source, name) for name in names if name not in busy})
        )

    async def _check_holder(self) -> None:
        """Notice a taker of the link without a transaction of ours. Raises `ProducerFenced`."""
        self._links_read, status = await read_statuses(self.target, self.plan.link, self._links_read)
        if status is not None and status.holder != self.link.status.holder:
            raise ProducerFenced("another process has taken the link")

    async def _read_topics(self) -> None:
        await self.source.refresh()
        counts = {name: count for name, count in self.source.partition_counts().items() if self.plan.copies_topic(name)}
        if counts != {name: form.partitions for name, form in self.link.forms.items()}:
            raise TopicsChanged
        await shape_topics(self.target, await read_forms(self.source, counts))

    async def _repeat(self, every_s: float, work: Callable[[], Any]) -> None:
        """Do work again and again; a source that does not answer is asked later."""
        while True:
            try:
                await work()
            except LinkBroken as error:
                self.complaint = str(error)
                self.source.forget()
            await trio.sleep(every_s)

    # ---------------------------------------------------------------- ends

    async def _tell_progress(self) -> None:
        while True:
            self.tell(self.progress())
            await trio.sleep(TELL_EVERY_S)

    async def _watch_end(self) -> None:
        """End the session once a look at the source's ends and groups finds nothing that is not copied."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            if not self.core.is_caught_up():
                continue
            try:
                ends = await read_ends(self.source, self.core.partitions)
                await self._read_groups()
            except LinkBroken as error:
                self.complaint = str(error)
                continue
            copied = self.core.positions
            if self.core.is_caught_up() and all(copied[at] >= each.end for at, each in ends.items()):
                self.is_caught_up = True
                self._scope.cancel()


def _of_kafka(batches: tuple[Any, ...]) -> tuple[CopiedBatch, ...]:
    assert all(isinstance(batch, CopiedBatch) for batch in batches), "this session fetched them"
    return batches
