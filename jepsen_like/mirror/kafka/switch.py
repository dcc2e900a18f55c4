"""`run_switch`: fences a link, copies its tail or gives it up, cuts the link, and states what was lost."""

import time
from typing import Final

import attrs
import trio

from jepsen_like.mirror.ends import ClusterRefused, LinkBroken, ProducerFenced
from jepsen_like.mirror.kafka.client import ClusterClient
from jepsen_like.mirror.kafka.opening import OpenLink, TakenOver, begin_link, take_link
from jepsen_like.mirror.kafka.reading import count_records, read_ends, read_links
from jepsen_like.mirror.kafka.session import Session, TopicsChanged
from jepsen_like.mirror.kept import KeptLink, Partition, encode_status
from jepsen_like.mirror.link import LinkRefused, LinkStage, LinkStatus, switching_epoch
from jepsen_like.mirror.plan import Tell, fresh_holder
from jepsen_like.mirror.switching import LeftBehind, NotSwitched, PerhapsSwitched, Switched, SwitchPlan

RETRY_S: Final = 0.3
DECIDES_WITHIN_S: Final = 60.0
COUNTS_WITHIN_S: Final = 10.0


async def run_switch(plan: SwitchPlan, tell: Tell) -> Switched:
    """Switch. Raises `NotSwitched` and `PerhapsSwitched`."""
    async with ClusterClient(plan.mirror.source) as source, ClusterClient(plan.mirror.target) as target:
        began = time.monotonic()
        if not plan.fences:
            left = await _look_only(plan, source, target)
            return Switched(left[0], left[1], time.monotonic() - began)
        switch = _Switch(plan, source, target, tell)
        epoch, own = await switch.carry_out()
        return Switched(epoch, await find_left(source, own), time.monotonic() - began)


async def _look_only(
    plan: SwitchPlan, source: ClusterClient, target: ClusterClient
) -> tuple[int, tuple[LeftBehind, ...]]:
    try:
        own = (await read_links(target)).get(plan.mirror.link, KeptLink())
    except (LinkBroken, ClusterRefused) as error:
        raise NotSwitched(f"the target does not answer ({error}); nothing was changed") from None
    if own.status is None:
        raise NotSwitched(f"the target knows no link {plan.mirror.link!r}; nothing was changed")
    return own.status.epoch, await find_left(source, own)


async def find_left(source: ClusterClient, own: KeptLink) -> tuple[LeftBehind, ...]:
    """Returns what each partition of the source holds that was not copied; unknown where it does not answer."""
    positions = {at: position for at in own.points if (position := own.position(at)) is not None}
    lost: dict[Partition, tuple[int, int]] = {}
    with trio.move_on_after(COUNTS_WITHIN_S):
        for at, position in positions.items():
            try:
                await source.refresh()
                end = (await read_ends(source, [at]))[at].end
                lost[at] = end, await count_records(source, at, position, end)
            except (LinkBroken, ClusterRefused):
                continue
    return tuple(LeftBehind(at, position, *lost.get(at, (None, None))) for at, position in sorted(positions.items()))


@attrs.define
class _Switch:
    plan: SwitchPlan
    source: ClusterClient
    target: ClusterClient
    tell: Tell
    holder: str = attrs.field(factory=fresh_holder)
    _asks_to_cut: bool = False
    _has_fenced: bool = False

    async def carry_out(self) -> tuple[int, KeptLink]:
        """Returns the epoch of the cut and what the target keeps. Raises `NotSwitched` and `PerhapsSwitched`."""
        is_copied, complaint = await self._copy_tail()
        if not is_copied and not self.plan.gives_up:
            if not self._has_fenced:
                raise NotSwitched(
                    f"the clusters were not reached within {self.plan.wait_s:g} s ({complaint}); nothing was "
                    "changed; if the source is gone, repeat with --give-up"
                )
            await self._settle(LinkStage.OPEN)
            raise NotSwitched(
                f"the tail was not copied within {self.plan.wait_s:g} s ({complaint}); the link is open again and clients stay "
                "at the source; start the mirror again, stop the source's writers and repeat with a longer --wait, or, if "
                "the source is gone, with --give-up"
            )
        return await self._settle(LinkStage.CUT)

    async def _copy_tail(self) -> tuple[bool, str]:
        """Copy what is left. Returns whether all is copied, and the newest reason why not."""
        complaint, copied = "the source goes on", False
        with trio.move_on_after(self.plan.wait_s):
            while not copied:
                session: Session | None = None
                try:
                    link = await self._begin()
                    session = Session(self.plan.mirror, self.source, self.target, link, self.tell)
                    await session.run(until_caught_up=True)
                    copied = session.is_caught_up
                except (LinkBroken, ProducerFenced) as error:
                    complaint = str(error)
                    await trio.sleep(RETRY_S)
                except TopicsChanged:
                    pass
                except (ClusterRefused, LinkRefused) as error:
                    complaint = str(error)
                    if isinstance(error, LinkRefused) or not self.plan.gives_up:
                        raise NotSwitched(str(error)) from None
                    break
                finally:
                    if session is not None:
                        complaint = session.complaint or complaint
                        self.tell(session.progress())
        return copied, complaint

    async def _begin(self) -> OpenLink:
        """Take the link, note that a switch is under way, so that no mirror takes it again, and open it for copying."""
        taken = await take_link(self.plan.mirror, self.target, self.holder, again=False)
        status = self._status(taken.own, LinkStage.SWITCHING)
        await taken.writer.commit_status([encode_status(self.plan.mirror.link, status)])
        if not self._has_fenced:
            self.tell({"event": "fenced", "link": self.plan.mirror.link, "epoch": status.epoch})
        self._has_fenced = True
        taken.own.status = status
        await self.source.refresh()
        return await begin_link(self.plan.mirror, self.source, self.target, taken, status)

    def _status(self, own: KeptLink, state: LinkStage) -> LinkStatus:
        epoch = switching_epoch(self.plan.mirror.link, own.status)
        return LinkStatus(epoch, state, self.holder, own.status.topics if own.status else ())

    async def _settle(self, state: LinkStage) -> tuple[int, KeptLink]:
        """Write the last status, which ends the switch."""
        complaint = ""
        with trio.move_on_after(DECIDES_WITHIN_S):
            while True:
                try:
                    taken = await take_link(self.plan.mirror, self.target, self.holder, again=False)
                    if taken.own.status is not None and taken.own.status == attrs.evolve(
                        taken.own.status, state=state, holder=self.holder
                    ):
                        return taken.own.status.epoch, taken.own
                    status = self._status(taken.own, state)
                    self._asks_to_cut = True
                    await taken.writer.commit_status([encode_status(self.plan.mirror.link, status)])
                    return status.epoch, taken.own
                except LinkRefused as error:
                    raise NotSwitched(str(error)) from None
                except (LinkBroken, ProducerFenced, ClusterRefused, TakenOver) as error:
                    complaint = str(error)
                    await trio.sleep(RETRY_S)
        if self._asks_to_cut:
            raise PerhapsSwitched(
                f"the target does not answer ({complaint}); the link may be cut; repeat the same command"
            )
        raise NotSwitched(
            f"the target does not answer ({complaint}); clients stay where they are; repeat the same command"
        )
