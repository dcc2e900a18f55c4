"""The other end of a connection, as far as it has proven who it is."""

from typing import Protocol

import attrs


@attrs.frozen
class Identity:
    """Whom an exchange has proven. The principal of a client belongs here, too."""

    member: int | None = None
    """The broker of this cluster that it is; None for a client."""


@attrs.frozen
class Answer:
    """The next message of a mechanism, and whom the other side is once that is proven."""

    message: bytes
    identity: Identity | None = None


class Exchange(Protocol):
    """The conversation of one mechanism on one connection."""

    def step(self, now: float, message: bytes) -> Answer:
        """Returns the answer to a message. Raises `Untrusted`, which ends the connection."""


@attrs.define(eq=False)
class Caller:
    """The other end of one connection."""

    identity: Identity = Identity()
    exchange: Exchange | None = None
    """Set from the first message of a mechanism on; a connection has one."""

    @property
    def is_proving(self) -> bool:
        """True while the exchange has begun and proven nothing yet."""
        return self.exchange is not None and self.identity.member is None
