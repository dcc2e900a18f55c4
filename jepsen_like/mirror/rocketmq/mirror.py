"""`run_mirror` and `run_switch` between RocketMQ clusters.

RocketMQ has neither transactions over several queues nor a fence for producers. So a mirror looks at the claims before each
round, waits after an unknown outcome, and reads from the target how far it came. What it had on its way when another
process claimed the link may still be stored: a copy that came late, or twice, is known by its origin.
"""

import time
from typing import Final

import attrs
import trio

from jepsen_like.mirror.ends import LinkBroken, MirrorEnded, ProducerFenced, Why
from jepsen_like.mirror.link import LinkRefused, LinkStage, LinkStatus, switching_epoch
from jepsen_like.mirror.plan import MirrorPlan, Tell, fresh_holder
from jepsen_like.mirror.rocketmq.cluster import ANSWERS_WITHIN_S, MirroredCluster, QueuePlace
from jepsen_like.mirror.rocketmq.opening import begin_queues, claim_link, open_queues, words_of
from jepsen_like.mirror.rocketmq.origin import LinkClaim, origin_of
from jepsen_like.mirror.rocketmq.session import QueuesChanged, QueueSession
from jepsen_like.mirror.switching import LeftBehind, NotSwitched, PerhapsSwitched, Switched, SwitchPlan

RETRY_S: Final = 0.5
SETTLES_S: Final = ANSWERS_WITHIN_S + 0.5
"""After this time a request whose sender was cut off is stored, or will not be."""
DECIDES_WITHIN_S: Final = 60.0
COUNTS_WITHIN_S: Final = 10.0


async def run_mirror(plan: MirrorPlan, tell: Tell) -> MirrorEnded:
    """Copy from the plan's source to its target. Returns why the mirror ended; cancel it to stop it."""
    holder, is_again, records = fresh_holder(), False, 0
    async with MirroredCluster(plan.source) as source, MirroredCluster(plan.target) as target:
        while True:
            session: QueueSession | None = None
            try:
                link = await open_queues(plan, source, target, holder, again=is_again)
                is_again = True
                epoch = link.claim.status.epoch
                tell({"event": "open", "link": plan.link, "epoch": epoch, "topics": sorted(link.configs)})
                session = QueueSession(plan, source, target, link, tell, records)
                await session.run(until_caught_up=plan.until_caught_up)
                tell(session.progress())
                return MirrorEnded(
                    Why.CAUGHT_UP, f"the target has all that the source had (epoch {epoch})", session.records
                )
            except QueuesChanged:
                pass
            except LinkRefused as error:
                return MirrorEnded(Why.REFUSED, str(error), records)
            except ProducerFenced as error:
                message = f"{error}: another mirror or a switch took it; what was copied before stays"
                return MirrorEnded(Why.FENCED, message, records)
            except LinkBroken as error:
                tell({"event": "broken", "link": plan.link, "why": str(error)})
                await trio.sleep(SETTLES_S if session is not None else RETRY_S)
            if session is not None:
                records = session.records


async def run_switch(plan: SwitchPlan, tell: Tell) -> Switched:
    """Switch. Raises `NotSwitched` and `PerhapsSwitched`."""
    mirror, began = plan.mirror, time.monotonic()
    async with MirroredCluster(mirror.source) as source, MirroredCluster(mirror.target) as target:
        switch = _QueueSwitch(plan, source, target, tell)
        epoch = await switch.carry_out() if plan.fences else await switch.look()
        return Switched(epoch, await switch.find_left(), time.monotonic() - began)


@attrs.define
class _QueueSwitch:
    plan: SwitchPlan
    source: MirroredCluster
    target: MirroredCluster
    tell: Tell
    holder: str = attrs.field(factory=fresh_holder)
    _positions: dict[QueuePlace, int] = attrs.field(factory=dict)

    @property
    def _link(self) -> str:
        return self.plan.mirror.link

    async def look(self) -> int:
        """Returns the epoch of the link, and changes nothing. Raises `NotSwitched`."""
        try:
            await self.target.refresh()
            held = await self.target.read_claims(self._link)
            if held is None:
                raise NotSwitched(f"the target knows no link {self._link!r}; nothing was changed")
            await self._read_positions(held)
        except LinkBroken as error:
            raise NotSwitched(f"the target does not answer ({error}); nothing was changed") from None
        return held.status.epoch

    async def carry_out(self) -> int:
        """Returns the epoch of the cut. Raises `NotSwitched` and `PerhapsSwitched`."""
        held = await self._fence()
        is_copied, complaint = await self._copy_tail()
        if not is_copied and not self.plan.gives_up:
            status = attrs.evolve(held.status, epoch=held.status.epoch + 1, state=LinkStage.OPEN)
            await self._settle(LinkClaim(status))
            raise NotSwitched(
                f"the tail was not copied within {self.plan.wait_s:g} s ({complaint}); the link is open again and clients stay "
                "at the source; start the mirror again, and repeat with a longer --wait, or, if the source is gone, with "
                "--give-up"
            )
        cut = await self._settle(LinkClaim(attrs.evolve(held.status, state=LinkStage.CUT)))
        if not self._positions:
            await self._read_positions(cut)
        return cut.status.epoch

    async def _fence(self) -> LinkClaim:
        """LinkClaim the switch, and wait until what a mirror had on its way is stored or lost."""
        try:
            await self.target.refresh()
            held = await self.target.read_claims(self._link)
            epoch = switching_epoch(self._link, held.status if held else None)
            topics = held.status.topics if held else ()
            claim = LinkClaim(LinkStatus(epoch, LinkStage.SWITCHING, self.holder, topics))
            claimed = await claim_link(self.plan.mirror, self.target, claim)
        except LinkRefused as error:
            raise NotSwitched(str(error)) from None
        except LinkBroken as error:
            raise NotSwitched(f"the target does not answer ({error}); clients stay; repeat the same command") from None
        self.tell({"event": "fenced", "link": self._link, "epoch": epoch})
        await trio.sleep(SETTLES_S)
        return claimed

    async def _copy_tail(self) -> tuple[bool, str]:
        complaint = "the source goes on"
        with trio.move_on_after(self.plan.wait_s):
            while True:
                try:
                    held = await self.target.read_claims(self._link)
                    assert held is not None, "this switch claimed it"
                    await self.source.refresh()
                    link = await begin_queues(self.plan.mirror, self.source, self.target, held)
                    session = QueueSession(self.plan.mirror, self.source, self.target, link, self.tell)
                    try:
                        await session.run(until_caught_up=True)
                        return True, ""
                    finally:
                        self.tell(session.progress())
                        self._positions = {place: each.position for place, each in link.queues.items()}
                except QueuesChanged:
                    continue
                except (LinkBroken, ProducerFenced) as error:
                    complaint = str(error)
                    await trio.sleep(SETTLES_S)
        return False, complaint

    async def _settle(self, claim: LinkClaim) -> LinkClaim:
        complaint = ""
        with trio.move_on_after(DECIDES_WITHIN_S):
            while True:
                try:
                    held = await self.target.read_claims(self._link)
                    if held is not None and held.status == claim.status:
                        return held
                    if held is not None and held.status.holder != self.holder:
                        raise NotSwitched(f"{words_of(self._link, held.status)}: another switch took it; clients stay")
                    await self.target.write_claim(self._link, claim)
                except LinkBroken as error:
                    complaint = str(error)
                    await trio.sleep(RETRY_S)
        raise PerhapsSwitched(f"the target does not answer ({complaint}); the link may be cut; repeat the same command")

    async def _read_positions(self, held: LinkClaim) -> None:
        """Read from the target's messages how far each queue of the link's topics is copied."""
        configs = await self.target.topics()
        for topic in held.status.topics:
            for broker, config in configs.get(topic, {}).items():
                for number in range(config.write_queue_nums):
                    place = QueuePlace(topic, broker, number)
                    origins = (origin_of(each.properties, self._link) for each in await self.target.read(place))
                    self._positions[place] = max((each.offset + 1 for each in origins if each is not None), default=0)

    async def find_left(self) -> tuple[LeftBehind, ...]:
        """Returns what each queue of the source holds that was not copied; unknown where it does not answer."""
        found: dict[QueuePlace, tuple[int, int]] = {}
        with trio.move_on_after(COUNTS_WITHIN_S):
            try:
                await self.source.refresh()
                for place, position in self._positions.items():
                    left = await self.source.read(place, position)
                    lost = sum(origin_of(each.properties, self._link) is None for each in left)
                    found[place] = (await self.source.bounds(place))[1], lost
            except LinkBroken:
                pass
        return tuple(
            LeftBehind((f"{place.topic}/{place.broker}", place.queue), position, *found.get(place, (None, None)))
            for place, position in sorted(self._positions.items(), key=lambda each: str(each[0]))
        )
