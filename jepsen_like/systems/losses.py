"""The promises of all systems in words, and the faults by what they may destroy."""

from collections.abc import Iterable, Mapping

from jepsen_like.nemesis.contents import CONTENT_KINDS
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.table import KINDS


def describe_losses(losses: Mapping[str, object]) -> str:
    """Returns in one sentence what may be lost; `losses` are by kind of fault, false for nothing, and put into words by `str`."""
    by_loss: dict[object, list[str]] = {}
    for harm, loss in losses.items():
        if loss:
            by_loss.setdefault(loss, []).append(harm)
    if not by_loss:
        return "nothing that was acknowledged is lost by any of these faults"
    return "; ".join(f"under {', '.join(of)}, {loss} may be lost" for loss, of in by_loss.items()) + "; nothing else"


def harms_of(reach: Reach, injected: Iterable[str]) -> frozenset[str]:
    """Returns the kinds with this reach among those that are injected, without those that touch what lies on a disk."""
    return frozenset(name for name in injected if KINDS[name].reach is reach and name not in CONTENT_KINDS)
