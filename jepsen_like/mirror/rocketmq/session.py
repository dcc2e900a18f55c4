"""A direction between RocketMQ clusters at work: before each round it looks whether it still holds the link."""

from collections.abc import Sequence
from typing import Any, Final

import attrs
import trio

from jepsen_like.mirror.ends import ProducerFenced, SessionEnd
from jepsen_like.mirror.offset_map import RecordRun
from jepsen_like.mirror.plan import MirrorPlan, Tell
from jepsen_like.mirror.rocketmq.cluster import MirroredCluster, PulledMessage, QueuePlace
from jepsen_like.mirror.rocketmq.opening import OpenQueues, words_of
from jepsen_like.mirror.rocketmq.origin import ORIGIN, Origin, origin_of
from rocketmq_compat.records import InnerMessage, write_properties

IDLE_S: Final = 0.05
GROUPS_EVERY_S: Final = 0.5
TOPICS_EVERY_S: Final = 3.0
TELL_EVERY_S: Final = 0.5
DROPPED: Final = 0b1111_1100
"""Flags of a stored message that are no part of a sent one: its transaction, the form of addresses, an inner batch."""
OF_ONE_CLUSTER: Final = ("DELAY", "CLUSTER", ORIGIN)


class QueuesChanged(SessionEnd):
    """The source has topics or queues that this session does not copy."""


@attrs.define
class QueueSession:
    """The copying under one claim, until something ends it."""

    plan: MirrorPlan
    source: MirroredCluster
    target: MirroredCluster
    link: OpenQueues
    tell: Tell
    records: int = 0
    complaint: str | None = None
    _due: dict[str, float] = attrs.field(factory=dict, init=False)
    _sent: dict[tuple[str, QueuePlace], int] = attrs.field(factory=dict, init=False)

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Copy. Returns once all is copied, if that is wanted.

        Raises `QueuesChanged`, `ProducerFenced` and `LinkBroken`.
        """
        while True:
            await self.check_holder()
            copied = 0
            for place in self.link.queues:
                copied += await self._copy(place)
            self.records += copied
            if self._is_due("groups", GROUPS_EVERY_S):
                await self._copy_groups()
            if self._is_due("tell", TELL_EVERY_S):
                self.tell(self.progress())
            if not copied and until_caught_up and self.lag() == 0:
                await self._copy_groups()
                return
            if self._is_due("topics", TOPICS_EVERY_S):
                await self._check_topics()
            if not copied:
                await trio.sleep(IDLE_S)

    async def check_holder(self) -> None:
        """Raises `ProducerFenced` if another process claimed the link."""
        held = await self.target.read_claims(self.plan.link)
        if held is None or held.status.holder != self.link.claim.status.holder:
            raise ProducerFenced(
                "another process claimed the link" if held is None else words_of(self.plan.link, held.status)
            )

    def lag(self) -> int | None:
        """Returns the messages of the source that are not copied; None while the end of a queue is unknown."""
        known = [(each.end, each.position) for each in self.link.queues.values() if each.end is not None]
        return sum(max(0, end - at) for end, at in known) if len(known) == len(self.link.queues) else None

    def progress(self) -> dict[str, Any]:
        """Returns the figures of this moment."""
        return {
            "event": "progress",
            "link": self.plan.link,
            "epoch": self.link.claim.status.epoch,
            "records": self.records,
            "lag_records": self.lag(),
            "copied_to": {str(place): each.position for place, each in self.link.queues.items()},
        }

    def _is_due(self, what: str, every_s: float) -> bool:
        now = trio.current_time()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every_s
        return True

    async def _copy(self, place: QueuePlace) -> int:
        """Copy the next messages of a queue. Returns their number, with those that came from the target."""
        progress = self.link.queues[place]
        start, progress.end = await self.source.bounds(place)
        progress.position = max(progress.position, start)
        if progress.position >= progress.end:
            return 0
        pulled = await self.source.pull(place, progress.position)
        own = [message for message in pulled if origin_of(message.properties, self.plan.link) is None]
        for group in _alike(own):
            at = (await self.target.bounds(place))[1]
            await self.target.send(
                place, [self._copy_of(each) for each in group], _flags(group[0]), group[0].head.born_ms
            )
            for number, message in enumerate(group):
                progress.map.add(RecordRun(message.offset, at + number, 1))
                progress.position = message.offset + 1
        if pulled:
            progress.position = pulled[-1].offset + 1
        return len(pulled)

    def _copy_of(self, message: PulledMessage) -> InnerMessage:
        head = message.head
        origin = Origin(self.plan.link, self.link.claim.status.epoch, message.offset, head.born_ms)
        kept = {name: value for name, value in message.properties.items() if name not in OF_ONE_CLUSTER}
        return InnerMessage(head.flag, message.body, write_properties({**kept, ORIGIN: origin.text()}))

    async def _copy_groups(self) -> None:
        """Commit the groups' offsets, translated, except of those with members in the target."""
        for group, offsets in (await self.source.group_offsets(self.link.configs)).items():
            if not self.plan.copies_group(group) or await self.target.has_members(group):
                continue
            for place, offset in offsets.items():
                if place not in self.link.queues:
                    continue
                translated = self.link.queues[place].map.translate(offset)
                if self._sent.get((group, place)) != translated:
                    await self.target.commit(group, place, translated)
                    self._sent[group, place] = translated

    async def _check_topics(self) -> None:
        configs = {name: each for name, each in (await self.source.topics()).items() if self.plan.copies_topic(name)}
        if configs != self.link.configs:
            raise QueuesChanged


def _flags(message: PulledMessage) -> int:
    return message.head.sys_flag & ~DROPPED


def _alike(messages: Sequence[PulledMessage]) -> list[list[PulledMessage]]:
    """Returns runs of messages that one batch may hold: they have the same flags."""
    groups: list[list[PulledMessage]] = []
    for message in messages:
        if groups and _flags(groups[-1][0]) == _flags(message):
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups
