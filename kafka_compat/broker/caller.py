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

    listener: str = ""
    """The name of the listener that it has connected to."""
    identity: Identity | None = None
    """None while it has proven nothing."""
    exchange: Exchange | None = None
    """Set from the first message of a mechanism on; a connection has one."""

    @property
    def member(self) -> int | None:
        """The broker of this cluster that it is; None for any other, and for one that has proven nothing."""
        return None if self.identity is None else self.identity.member

    @property
    def is_proving(self) -> bool:
        """True while the exchange has begun and proven nothing yet."""
        return self.exchange is not None and self.identity is None
