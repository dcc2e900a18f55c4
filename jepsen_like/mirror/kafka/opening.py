"""The opening of a direction: the link is taken first, then its state is read, so no older mirror can write after it.

Only a holder of the link's transactional id changes the state, and taking the id fences every holder before. So what was
read after the taking stays true for as long as this holder can commit.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from jepsen_like.mirror.core import MirrorCore
from jepsen_like.mirror.kafka.client import ClusterClient
from jepsen_like.mirror.kafka.reading import count_records, read_ends, read_links
from jepsen_like.mirror.kafka.topics import TopicForm, delete_topics, make_links_topic, read_forms, shape_topics
from jepsen_like.mirror.kafka.writing import LinkWriter
from jepsen_like.mirror.kept import (
    KeptLink,
    KeyAndValue,
    Partition,
    encode_point,
    encode_status,
    fresh_point,
    map_of,
    point_of_return,
)
from jepsen_like.mirror.link import LinkRefused, LinkStage, LinkStatus, check_ownership, opening_epoch
from jepsen_like.mirror.offset_map import OffsetMap
from jepsen_like.mirror.plan import DivergedTail, MirrorPlan


@attrs.frozen
class OpenLink:
    """A direction that this process holds."""

    writer: LinkWriter
    core: MirrorCore
    status: LinkStatus
    forms: Mapping[str, TopicForm]
    """The topics that are copied."""


class TakenOver(Exception):
    """Another process holds the link since; the text states which epoch and state it wrote."""


@attrs.frozen
class TakenLink:
    """A link whose transactional id this process has taken, and what the target knew of its links after that."""

    writer: LinkWriter
    at_target: Mapping[str, KeptLink]
    own: KeptLink


async def take_link(plan: MirrorPlan, target: ClusterClient, holder: str, *, again: bool) -> TakenLink:
    """Take the link; the holder before can commit nothing any more. `again` is true after a break of this holder.

    Raises `TakenOver`, `LinkBroken` and `ClusterRefused`.
    """
    await make_links_topic(target)
    writer = await LinkWriter.take(target, plan.link)
    at_target = await read_links(target)
    own = at_target.get(plan.link, KeptLink())
    if again and own.status is not None and own.status.holder != holder:
        raise TakenOver(f"the link {plan.link!r} has epoch {own.status.epoch} and is {own.status.state.value}")
    return TakenLink(writer, at_target, own)


async def check_open(plan: MirrorPlan, source: ClusterClient, target: ClusterClient) -> None:
    """Look whether the link may be opened, and disturb no one. Raises `LinkRefused`, `LinkBroken`, `ClusterRefused`."""
    own = (await read_links(target, waits=False)).get(plan.link, KeptLink())
    other = (await read_links(source, waits=False)).get(plan.link, KeptLink())
    opening_epoch(plan.link, own.status, other.status)


async def open_link(
    plan: MirrorPlan, source: ClusterClient, target: ClusterClient, holder: str, *, again: bool = False
) -> OpenLink:
    """Take the link and return it open. Raises `LinkRefused`, `TakenOver`, `LinkBroken` and `ClusterRefused`."""
    taken = await take_link(plan, target, holder, again=again)
    at_source = await read_links(source)
    other = at_source.get(plan.link, KeptLink())
    epoch = opening_epoch(plan.link, taken.own.status, other.status)
    opened = await begin_link(plan, source, target, taken, LinkStatus(epoch, LinkStage.OPEN, holder))
    try:
        # Two directions that open at once each see the other here, since each was written before it looks.
        at_source = await read_links(source)
        opening_epoch(plan.link, taken.own.status, at_source.get(plan.link, KeptLink()).status)
        _check_owners(plan, opened.forms, at_source, {})
    except LinkRefused:
        await opened.writer.commit_status([encode_status(plan.link, taken.own.status)])
        raise
    return opened


async def begin_link(
    plan: MirrorPlan, source: ClusterClient, target: ClusterClient, taken: TakenLink, status: LinkStatus
) -> OpenLink:
    """Shape the target's topics, and write the status with where each new partition begins.

    Raises `LinkRefused`, `LinkBroken` and `ClusterRefused`.
    """
    at_source = await read_links(source)
    other = at_source.get(plan.link, KeptLink())
    counts = {name: count for name, count in source.partition_counts().items() if plan.copies_topic(name)}
    _check_owners(plan, counts, at_source, taken.at_target)
    beginning = _Beginning(plan, source, target, taken)
    forms = await read_forms(source, counts)
    records = await beginning.begin_partitions(forms, other, status.epoch)
    known = taken.own.status.topics if taken.own.status else ()
    status = attrs.evolve(status, topics=tuple(sorted({*known, *forms})))
    await taken.writer.commit_status([encode_status(plan.link, status), *records])
    begun: dict[Partition, tuple[int, OffsetMap]] = {}
    for at in _partitions(forms):
        position = taken.own.position(at)
        assert position is not None, "every partition was begun"
        begun[at] = position, map_of(at, taken.own, other)
    return OpenLink(taken.writer, MirrorCore(status.epoch, begun), status, forms)


def _check_owners(
    plan: MirrorPlan, topics: Iterable[str], at_source: Mapping[str, KeptLink], at_target: Mapping[str, KeptLink]
) -> None:
    def statuses(links: Mapping[str, KeptLink]) -> dict[str, LinkStatus]:
        return {name: each.status for name, each in links.items() if each.status is not None}

    check_ownership(plan.link, topics, statuses(at_source), statuses(at_target))


def _partitions(forms: Mapping[str, TopicForm]) -> list[Partition]:
    return [(name, number) for name, form in sorted(forms.items()) for number in range(form.partitions)]


@attrs.frozen
class _Beginning:
    """The partitions of one direction as an epoch finds them."""

    plan: MirrorPlan
    source: ClusterClient
    target: ClusterClient
    taken: TakenLink

    async def begin_partitions(self, forms: Mapping[str, TopicForm], other: KeptLink, epoch: int) -> list[KeyAndValue]:
        """Shape the topics. Returns the records of partitions that this epoch begins, and keeps their points."""
        own, writer = self.taken.own, self.taken.writer
        turns = own.status is None or own.status.state is LinkStage.CUT
        await self.target.refresh()
        present = set(self.target.partition_counts())
        returns = turns and other.status is not None
        back = {at for at in _partitions(forms) if returns and at in other.points and at[0] in present}
        diverged = await self._find_diverged(sorted(back), other)
        if diverged and self.plan.diverged is DivergedTail.RECREATE:
            gone = {topic for topic, _ in diverged}
            # A transaction shows that no one has taken the link since; nothing else protects a topic.
            await writer.commit_status([encode_status(self.plan.link, own.status)])
            await delete_topics(self.target, gone)
            back = {at for at in back if at[0] not in gone}
        await shape_topics(self.target, forms)
        begun = [at for at in _partitions(forms) if turns or own.position(at) is None]
        at_source, at_target = await read_ends(self.source, begun), await read_ends(self.target, begun)
        records: list[KeyAndValue] = []
        for at in begun:
            if at in back:
                point = point_of_return(epoch, other, at, at_target[at].end if at in diverged else None)
            elif at_target[at].end:
                raise LinkRefused(
                    f"topic {at[0]} of the target holds records that are not of this link; nothing was copied; "
                    "delete it there if no one needs it, or leave it out by --topics"
                )
            else:
                point = fresh_point(epoch, at_source[at].start)
            own.points.setdefault(at, []).append(point)
            records.append(encode_point(self.plan.link, at, point))
        return records

    async def _find_diverged(self, back: Sequence[Partition], other: KeptLink) -> set[Partition]:
        """Returns the partitions of the target whose ends are not what was copied from there.

        Raises `LinkRefused` unless the plan states what to do about them.
        """
        diverged: set[Partition] = set()
        ends = await read_ends(self.target, back)
        for at in back:
            position = other.position(at)
            assert position is not None, "a partition that was begun has a position"
            lacks = ends[at].end < position
            extra = 0 if lacks else await count_records(self.target, at, position, ends[at].end)
            if not lacks and not extra:
                continue
            diverged.add(at)
            name = f"{at[0]}-{at[1]}"
            if lacks and self.plan.diverged is not DivergedTail.RECREATE:
                raise LinkRefused(
                    f"{name} of the target ends at {ends[at].end}, before {position} that was copied from there: it lost "
                    "records that the source has; nothing was copied; read first what the target alone may hold in other "
                    "partitions of the topic; then delete the topic, to be copied again, by --diverged recreate"
                )
            if self.plan.diverged is DivergedTail.REFUSE:
                raise LinkRefused(
                    f"{name} of the target holds {extra} records from offset {position} on that the switch left behind; "
                    "nothing was copied; read them first if you need them; then leave them where they are by --diverged "
                    "keep, or delete them with the topic, which is then copied again, by --diverged recreate"
                )
        return diverged
