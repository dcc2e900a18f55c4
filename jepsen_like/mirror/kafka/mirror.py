"""`run_mirror`: copies from one Kafka cluster to another until it is cancelled, fenced, or refused."""

from typing import Final

import trio

from jepsen_like.mirror.ends import ClusterRefused, LinkBroken, MirrorEnded, ProducerFenced, Why
from jepsen_like.mirror.kafka.client import ClusterClient
from jepsen_like.mirror.kafka.opening import TakenOver, check_open, open_link
from jepsen_like.mirror.kafka.reading import read_links
from jepsen_like.mirror.kafka.session import Session, TopicsChanged
from jepsen_like.mirror.link import LinkRefused
from jepsen_like.mirror.plan import MirrorPlan, Tell, fresh_holder

RETRY_S: Final = 0.5
FENCED_LOOKS: Final = 20
FENCED_LOOK_S: Final = 0.1


async def run_mirror(plan: MirrorPlan, tell: Tell) -> MirrorEnded:
    """Copy from the plan's source to its target. Returns why the mirror ended; cancel it to stop it.

    A cluster that does not answer is asked again without end.
    """
    holder, is_again, records = fresh_holder(), False, 0
    async with ClusterClient(plan.source) as source, ClusterClient(plan.target) as target:
        while True:
            session: Session | None = None
            try:
                if not is_again:
                    await check_open(plan, source, target)
                link = await open_link(plan, source, target, holder, again=is_again)
                is_again = True
                tell({"event": "open", "link": plan.link, "epoch": link.status.epoch, "topics": list(link.forms)})
                link.core.records = records
                session = Session(plan, source, target, link, tell)
                await session.run(until_caught_up=plan.until_caught_up)
                tell(session.progress())
                return MirrorEnded(
                    Why.CAUGHT_UP,
                    f"the target has all that the source had (epoch {link.status.epoch})",
                    session.core.records,
                )
            except TopicsChanged:
                pass
            except LinkRefused as error:
                return MirrorEnded(Why.REFUSED, str(error), records)
            except ClusterRefused as error:
                return MirrorEnded(Why.REFUSED, f"{error}; all that was committed before stays", records)
            except TakenOver as error:
                return _end_taken_over(str(error), records)
            except ProducerFenced:
                if (seen := await _find_other_holder(plan, target, holder)) is not None:
                    return _end_taken_over(seen, records)
            except LinkBroken as error:
                tell({"event": "broken", "link": plan.link, "why": str(error)})
                await trio.sleep(RETRY_S)
            source.forget()
            target.forget()
            if session is not None:
                records = session.core.records


def _end_taken_over(what: str, records: int) -> MirrorEnded:
    return MirrorEnded(
        Why.FENCED,
        f"{what}: another mirror or a switch took it, and this one can write nothing more; what it had committed stays",
        records,
    )


async def _find_other_holder(plan: MirrorPlan, target: ClusterClient, holder: str) -> str | None:
    """Returns the words about the link's new holder; None if none has written, as after a transaction's timeout."""
    for _ in range(FENCED_LOOKS):
        try:
            link = (await read_links(target, waits=False)).get(plan.link)
        except LinkBroken:
            link = None
        if link is not None and link.status is not None and link.status.holder != holder:
            return f"the link {plan.link!r} has epoch {link.status.epoch} and is {link.status.state.value}"
        await trio.sleep(FENCED_LOOK_S)
    return None
