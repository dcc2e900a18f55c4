"""The records of a mirror of RocketMQ: the origin of a copied message, and the claims on a link. Pure.

A copy has the property `QL_ORIGIN`: link, epoch, offset in the source's queue, and the time of its birth. So the newest copy of
a queue tells how far the mirror came, and a copy that came twice is known by it. Claims are messages of one queue; every reader
applies them in their order by the same rule, so all agree on who holds the link.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from jepsen_like.mirror.link import LinkStage, LinkStatus
from jepsen_like.mirror.offset_map import OffsetMap, RecordRun

ORIGIN: Final = "QL_ORIGIN"
CLAIMS_TOPIC: Final = "QUORUMLOG_LINKS"


@attrs.frozen
class Origin:
    """The place that a copied message comes from."""

    link: str
    epoch: int
    offset: int
    born_ms: int

    def text(self) -> str:
        """Returns the value of the property."""
        return f"{self.epoch} {self.offset} {self.born_ms} {self.link}"


def origin_of(properties: Mapping[str, str], link: str) -> Origin | None:
    """Returns the origin of a message that this link copied; None for any other message."""
    words = properties.get(ORIGIN, "").split(" ", 3)
    if len(words) != 4 or words[3] != link or not all(word.lstrip("-").isdigit() for word in words[:3]):
        return None
    return Origin(link, int(words[0]), int(words[1]), int(words[2]))


@attrs.frozen
class LinkClaim:
    """A status that a process wants, and the ends of the target's queues as an opening found them."""

    status: LinkStatus
    ends: Mapping[str, int] = attrs.field(factory=dict)


def encode_claim(link: str, claim: LinkClaim) -> bytes:
    """Returns the body of a claim."""
    status = claim.status
    found = {"link": link, "epoch": status.epoch, "state": status.state.value, "holder": status.holder}
    return json.dumps({**found, "topics": list(status.topics), "ends": dict(claim.ends)}).encode()


def decode_claim(body: bytes, link: str) -> LinkClaim | None:
    """Returns a claim on this link; None for one on another link. Raises `ValueError` for other bytes."""
    found = json.loads(body)
    if found["link"] != link:
        return None
    status = LinkStatus(found["epoch"], LinkStage(found["state"]), found["holder"], tuple(found["topics"]))
    return LinkClaim(status, found["ends"])


def settle_claims(claims: Iterable[LinkClaim]) -> LinkClaim | None:
    """Returns the claim that holds after all of these, in their order; a claim against the rule changes nothing.

    The first to begin an epoch has it. Within an open epoch the newest mirror has it, and a switch ends it.
    """
    held: LinkClaim | None = None
    for claim in claims:
        if held is None or is_next(held.status, claim.status):
            # What an opening found is a fact of its whole epoch, and of the switch that ends it.
            ends = claim.ends or (held.ends if held is not None else {})
            held = attrs.evolve(claim, ends=ends)
    return held


def is_next(held: LinkStatus, claimed: LinkStatus) -> bool:
    """Returns True if a status may follow another one."""
    match claimed.state:
        case LinkStage.OPEN:
            if held.state is LinkStage.SWITCHING:
                return claimed.epoch == held.epoch + 1 and claimed.holder == held.holder
            return claimed.epoch > held.epoch or (claimed.epoch == held.epoch and held.state is LinkStage.OPEN)
        case LinkStage.SWITCHING:
            begins = held.state is LinkStage.OPEN and claimed.epoch == held.epoch + 1
            return begins or (held.state is LinkStage.SWITCHING and claimed.epoch == held.epoch)
        case LinkStage.CUT:
            return held.state is LinkStage.SWITCHING and claimed.epoch == held.epoch and claimed.holder == held.holder


@attrs.define
class QueueProgress:
    """One queue: how far it is copied, and which offsets correspond, as both clusters' messages tell."""

    position: int
    map: OffsetMap = attrs.field(factory=OffsetMap)
    end: int | None = None


def find_progress(
    link: str,
    at_target: Iterable[tuple[int, Mapping[str, str]]],
    at_source: Iterable[tuple[int, Mapping[str, str]]],
    floor: int,
) -> QueueProgress:
    """Returns the progress of a queue from the offsets and properties of its messages, both from the start on.

    Below `floor` nothing of the source is copied: an earlier direction settled it.
    """
    runs: list[RecordRun] = []
    position = floor
    for place, properties in at_target:
        origin = origin_of(properties, link)
        if origin is not None:
            runs.append(RecordRun(origin.offset, place, 1))
            position = max(position, origin.offset + 1)
    for place, properties in at_source:
        origin = origin_of(properties, link)
        if origin is not None:
            runs.append(RecordRun(place, origin.offset, 1))
    return QueueProgress(position, OffsetMap.of(_without_repeats(runs)))


def _without_repeats(runs: Iterable[RecordRun]) -> list[RecordRun]:
    """Returns the runs without copies that came twice: of each source offset the first copy counts."""
    first: dict[int, RecordRun] = {}
    for run in sorted(runs):
        first.setdefault(run.source, run)
    return list(first.values())
