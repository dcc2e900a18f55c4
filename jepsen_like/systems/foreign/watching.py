"""Tells the harness what a watcher has seen of the program next to it: pure, from one look after the other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from jepsen_like.port.observations import LEADER, Observation, Ready, RoleReported, observe_any
from jepsen_like.port.port import Leadership


@attrs.frozen
class Look:
    """The state of a program at one moment. A look at one that does not answer is none at all."""

    serves: bool
    """True if clients can connect."""
    roles: Mapping[str, tuple[str, int]] = {}
    """Role and epoch by scope."""


@attrs.define
class Teller:
    """Turns looks into the lines that the harness reads: each fact once, when it is new."""

    _is_ready: bool = False
    _roles: dict[str, tuple[str, int]] = attrs.field(factory=dict)

    def tell(self, look: Look) -> Iterator[dict[str, Any]]:
        """Yields the events that are new with this look."""
        if look.serves and not self._is_ready:
            self._is_ready = True
            yield {"event": "ready"}
        for scope, (role, epoch) in sorted(look.roles.items()):
            if self._roles.get(scope) != (role, epoch):
                self._roles[scope] = (role, epoch)
                yield {"event": "role", "scope": scope, "role": role, "epoch": epoch}


def observe(event: Mapping[str, Any]) -> Observation | None:
    """Returns the meaning of a watcher's line. Raises `KeyError` or `ValueError` for one without its fields."""
    match event.get("event"):
        case "ready":
            return Ready()
        case "role":
            return RoleReported(str(event["role"]), int(event["epoch"]), str(event["scope"]))
        case _:
            return observe_any(event)


def leader_among(claims: Iterable[tuple[int, str, int]]) -> Leadership | None:
    """Returns the leader of the highest epoch, from what each said of itself: node, role and epoch.

    None if one knows of a newer epoch.
    """
    node, role, epoch = max(claims, key=lambda claim: (claim[2], claim[1] == LEADER), default=(0, "", 0))
    return Leadership(node, epoch, is_own_word=True) if role == LEADER else None
