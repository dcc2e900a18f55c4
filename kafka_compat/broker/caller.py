"""The other end of a connection, as far as it has proven who it is."""

import math
from typing import Final, Protocol

import attrs

from raft.net.budget import Standing

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that proves nothing, as in Kafka."""


@attrs.frozen
class Identity:
    """Whom an exchange, or a certificate, has proven."""

    member: int | None = None
    """The broker of this cluster that it is; None for a client."""
    principal: str | None = None
    """The client, as Kafka writes it: `User:alice`, or `User:CN=alice,O=example` by its certificate."""


@attrs.frozen
class Answer:
    """The next message of a mechanism, and whom the other side is once that is proven."""

    message: bytes
    identity: Identity | None = None
    lifetime_s: float = math.inf
    """The seconds for which the proof is good."""


class Exchange(Protocol):
    """The conversation of one mechanism on one connection."""

    takes_long: bool
    """True if a step computes for milliseconds: it is then carried out outside of the loop."""

    def step(self, now: float, message: bytes) -> Answer:
        """Returns the answer to a message. Raises `Untrusted`, which ends the connection."""


@attrs.define(eq=False)
class Caller:
    """The other end of one connection."""

    listener: str = ""
    """The name of the listener that it has connected to."""
    offered: tuple[str, ...] = ()
    """The mechanisms for clients of that listener. With any, a client proves who it is before all else."""
    identity: Identity | None = None
    """None while it has proven nothing."""
    exchange: Exchange | None = None
    """The conversation that has begun and not ended."""
    chosen: str = ""
    """The mechanism of that conversation."""
    sends_tokens: bool = False
    """True if that conversation has no headers: it began by version 0 of SaslHandshake."""
    mechanism: str | None = None
    """The mechanism by which the identity was proven."""
    began_at: float = -math.inf
    """The time at which the exchange began."""
    expires_at: float = math.inf
    """From then on the identity must be proven again (KIP-368)."""

    @property
    def principal(self) -> str:
        """The client, as Kafka writes it."""
        principal = None if self.identity is None else self.identity.principal
        return principal or ANONYMOUS

    @property
    def member(self) -> int | None:
        """The broker of this cluster that it is; None for any other, and for one that has proven nothing."""
        return None if self.identity is None else self.identity.member

    @property
    def standing(self) -> Standing:
        """Its place when room is short."""
        if self.identity is None:
            return Standing.CLIENT
        return Standing.KNOWN if self.identity.member is None else Standing.MEMBER

    @property
    def is_proving(self) -> bool:
        """True while it has proven nothing, and has begun to or has to."""
        return self.identity is None and (self.exchange is not None or bool(self.offered))
