"""The opening of a direction between RocketMQ clusters: a claim that holds, topics, and the progress of each queue."""

from collections.abc import Mapping
from typing import Final

import attrs

from jepsen_like.mirror.ends import LinkBroken, ProducerFenced
from jepsen_like.mirror.link import LinkRefused, LinkStage, LinkStatus, opening_epoch
from jepsen_like.mirror.plan import DivergedTail, MirrorPlan
from jepsen_like.mirror.rocketmq.cluster import MirroredCluster, PulledMessage, QueuePlace
from jepsen_like.mirror.rocketmq.origin import LinkClaim, QueueProgress, find_progress, origin_of
from rocketmq_compat.remoting.bodies import TopicConfig

QUEUES_MIN: Final = 1


@attrs.frozen
class OpenQueues:
    """A direction that this process holds."""

    claim: LinkClaim
    queues: Mapping[QueuePlace, QueueProgress]
    configs: Mapping[str, Mapping[int, TopicConfig]]


async def open_queues(
    plan: MirrorPlan, source: MirroredCluster, target: MirroredCluster, holder: str, *, again: bool
) -> OpenQueues:
    """Returns the direction open. Raises `LinkRefused`, `ProducerFenced` and `LinkBroken`."""
    await source.refresh()
    await target.refresh()
    if len(source.names) != len(target.names):
        raise LinkRefused(
            f"the source has {len(source.names)} broker names and the target {len(target.names)}; nothing was copied; "
            "queues belong to brokers, so give the target as many"
        )
    await target.prepare_claims()
    own, other = await target.read_claims(plan.link), await source.read_claims(plan.link)
    if again and own is not None and own.status.holder != holder:
        raise ProducerFenced(words_of(plan.link, own.status))
    before = own.status if own else None
    epoch = opening_epoch(plan.link, before, other.status if other else None)
    configs = {name: each for name, each in (await source.topics()).items() if plan.copies_topic(name)}
    queues, ends = await _Opening(plan, source, target, own, other).begin(configs)
    turns = before is None or before.state is LinkStage.CUT
    status = LinkStatus(epoch, LinkStage.OPEN, holder, tuple(sorted(configs)))
    held = await claim_link(plan, target, LinkClaim(status, ends if turns else {}))
    # Two directions that open at once each see the other here, since each was written before it looks.
    other = await source.read_claims(plan.link)
    opening_epoch(plan.link, before, other.status if other else None)
    return OpenQueues(held, queues, configs)


async def begin_queues(
    plan: MirrorPlan, source: MirroredCluster, target: MirroredCluster, held: LinkClaim
) -> OpenQueues:
    """Returns the direction for a claim that holds already. Raises `LinkRefused` and `LinkBroken`."""
    other = await source.read_claims(plan.link)
    configs = {name: each for name, each in (await source.topics()).items() if plan.copies_topic(name)}
    queues, _ = await _Opening(plan, source, target, held, other).begin(configs)
    return OpenQueues(held, queues, configs)


async def claim_link(plan: MirrorPlan, target: MirroredCluster, claim: LinkClaim) -> LinkClaim:
    """Append a claim, and return it if it holds. Raises `LinkBroken` if another one came before it."""
    await target.write_claim(plan.link, claim)
    held = await target.read_claims(plan.link)
    if held is None or held.status != claim.status:
        raise LinkBroken("another process claimed the link at the same time")
    return held


def words_of(link: str, status: LinkStatus) -> str:
    """Returns a status in words."""
    return f"the link {link!r} has epoch {status.epoch} and is {status.state.value}"


@attrs.frozen
class _Opening:
    plan: MirrorPlan
    source: MirroredCluster
    target: MirroredCluster
    own: LinkClaim | None
    other: LinkClaim | None

    async def begin(
        self, configs: Mapping[str, Mapping[int, TopicConfig]]
    ) -> tuple[dict[QueuePlace, QueueProgress], dict[str, int]]:
        """Make the topics. Returns the progress of each queue, and the ends of the target's queues."""
        present = await self.target.topics()
        queues: dict[QueuePlace, QueueProgress] = {}
        ends: dict[str, int] = {}
        for topic, by_broker in configs.items():
            for broker, config in by_broker.items():
                if present.get(topic, {}).get(broker) != config:
                    await self.target.make_topic(broker, config)
                for number in range(max(QUEUES_MIN, config.write_queue_nums)):
                    place = QueuePlace(topic, broker, number)
                    at_target, at_source = await self.target.read(place), await self.source.read(place)
                    self._check_tail(place, at_target, at_source)
                    floor = self.other.ends.get(str(place), 0) if self.other else 0
                    queues[place] = find_progress(self.plan.link, _facts(at_target), _facts(at_source), floor)
                    ends[str(place)] = at_target[-1].offset + 1 if at_target else 0
        return queues, ends

    def _check_tail(self, place: QueuePlace, at_target: list[PulledMessage], at_source: list[PulledMessage]) -> None:
        """Raises `LinkRefused` if the target has messages that no direction of this link knows."""
        link = self.plan.link
        if self.plan.diverged is not DivergedTail.REFUSE:
            return
        origins = (origin_of(message.properties, link) for message in at_source)
        known = max((origin.offset + 1 for origin in origins if origin is not None), default=0)
        if self.own is not None:
            known = max(known, self.own.ends.get(str(place), 0))
        extra = [
            message.offset
            for message in at_target
            if message.offset >= known and origin_of(message.properties, link) is None
        ]
        if extra:
            raise LinkRefused(
                f"{place} of the target holds {len(extra)} messages from offset {extra[0]} on that were never copied from "
                "there; nothing was copied; read them first if you need them; then leave them where they are by "
                "--diverged keep, or delete the topic there"
            )


def _facts(messages: list[PulledMessage]) -> list[tuple[int, Mapping[str, str]]]:
    return [(message.offset, message.properties) for message in messages]
