"""The link of a mirror: its epoch and state, and who may open it. Pure.

A pair of clusters shares one link name in both directions. The status of a direction is kept in its target. Epochs rise
over both directions, so a direction that was cut opens again only after the other one was opened and cut.
"""

import enum
from collections.abc import Iterable, Mapping

import attrs


class LinkStage(enum.Enum):
    """The stages of one direction."""

    OPEN = "open"
    """A mirror copies, or may."""
    SWITCHING = "switching"
    """A switch copies the tail; no mirror may."""
    CUT = "cut"
    """Nothing is copied any more."""


class LinkRefused(Exception):
    """This direction must not be opened; the text states why, and what to do."""


@attrs.frozen
class LinkStatus:
    """One direction of a link, as its target keeps it."""

    epoch: int
    state: LinkStage
    holder: str
    """The process that wrote it last."""
    topics: tuple[str, ...] = ()
    """The topics of the target that this direction writes."""


def opening_epoch(name: str, own: LinkStatus | None, other: LinkStatus | None) -> int:
    """Returns the epoch under which a mirror may copy, given the status of this direction and of the other one.

    Raises `LinkRefused`.
    """
    if other is not None and other.state is not LinkStage.CUT:
        raise LinkRefused(
            f"the source is itself the target of the open link {name!r} (epoch {other.epoch}), so records would go in "
            f"circles; cut that direction first by quorumlog switch, or choose another --link for another pair"
        )
    if own is None:
        return 1 if other is None else other.epoch + 1
    match own.state:
        case LinkStage.OPEN:
            return own.epoch
        case LinkStage.SWITCHING:
            raise LinkRefused(
                f"a switch of the link {name!r} is under way (epoch {own.epoch}); nothing was copied; finish it: "
                "quorumlog switch with the same clusters"
            )
        case LinkStage.CUT:
            if other is not None and other.epoch > own.epoch:
                return other.epoch + 1
            raise LinkRefused(
                f"the link {name!r} is cut (epoch {own.epoch}): clients were switched to the target, and nothing was "
                "copied; return by quorumlog switch --back, or mirror the other way"
            )


def switching_epoch(name: str, own: LinkStatus | None) -> int:
    """Returns the epoch of a switch of this direction; a switch that was interrupted goes on. Raises `LinkRefused`."""
    if own is None:
        raise LinkRefused(
            f"the target knows no link {name!r}; nothing was changed; is --to the standby, and --link right?"
        )
    match own.state:
        case LinkStage.OPEN:
            return own.epoch + 1
        case LinkStage.SWITCHING:
            return own.epoch
        case LinkStage.CUT:
            raise LinkRefused(
                f"the link {name!r} was cut before (epoch {own.epoch}); nothing was changed; "
                "return by quorumlog switch --back"
            )


def check_ownership(
    name: str, topics: Iterable[str], at_source: Mapping[str, LinkStatus], at_target: Mapping[str, LinkStatus]
) -> None:
    """Check that no other link writes these topics, in either cluster. Raises `LinkRefused`."""
    mine = set(topics)
    for place, links in (("source", at_source), ("target", at_target)):
        for other, status in sorted(links.items()):
            if place == "target" and other == name:
                continue
            shared = mine & set(status.topics)
            if status.state is not LinkStage.CUT and shared:
                raise LinkRefused(
                    f"topic {min(shared)} of the {place} is written by the link {other!r}; nothing was copied; "
                    "mirror it from where its clients write, or leave it out by --topics"
                )
