"""Members of a cluster know each other by a shared secret: the handshake as pure steps, for any wire.

Four messages, each the length of a short frame. Nonces and incarnations are random bytes, so they say nothing:

    dialer    OPENING    its nonce and incarnation
    acceptor  CHALLENGE  its nonce and incarnation
    dialer    CLAIM      its name, the name that it dialled, HMAC-SHA-256 over all that both know
    acceptor  CONSENT    its name, HMAC-SHA-256 over the same, in its own role

A proof covers the role of its side, the wire, the cluster's id, both names and the two first messages. So none can be
reflected to its sender, replayed on another connection or to another process, or carried to another wire, cluster or
node. The dialer proves itself first: who does not know the secret gets two random values from an acceptor, and then
nothing more than that it is refused. Each side compares proofs in constant time.

A secret is replaced while the cluster serves (`Secret.other`): an acceptor takes either of two, and consents by the one
that the dialer has proven.

The name of the other side (`Admitted`) is proven, and nothing that it sends later may say otherwise. What follows on
the connection is as safe as the path that carries it: against one who changes bytes on their way there is TLS.

A proof is made with the secret of the cluster. Clients have roles, and the proof of a client with that of its role, which
members make of their own: so who reads can neither append, nor be taken for a member.

Carriers: frames of raft's native wire (`raft.admission`), SASL on Kafka's, requests and HA frames on RocketMQ's.
"""

import hashlib
import hmac
from collections.abc import Callable, Collection
from typing import Final, Protocol

import attrs
from attrs.validators import in_, min_len, optional

from raft.net.errors import WireError

NONCE_BYTES: Final = 32
INCARNATION_BYTES: Final = 8
PROOF_BYTES: Final = hashlib.sha256().digest_size
NAME_BYTES_MAX: Final = 255
SECRET_LENGTH_MIN: Final = 32
"""In characters; the secrets that quorumlog makes have 64 hexadecimal digits."""
MESSAGE_BYTES_MAX: Final = 1 + PROOF_BYTES + 2 * (1 + NAME_BYTES_MAX)
HANDSHAKE_S: Final = 5.0
"""The time for a claim after the opening."""

READER: Final = "reader"
WRITER: Final = "writer"
ADMIN: Final = "admin"
ROLES: Final = (READER, WRITER, ADMIN)
"""The names of clients. Each role may do what those before it may, and something more."""
ANY: Final = ""
"""Dialled by clients, which know addresses and no names."""

_OPENING, _CHALLENGE, _CLAIM, _CONSENT = 1, 2, 3, 4
_HELLO_BYTES: Final = 1 + NONCE_BYTES + INCARNATION_BYTES
_DIALER: Final = b"quorumlog trust 1: dialer"
_ACCEPTOR: Final = b"quorumlog trust 1: acceptor"
_ROLE: Final = b"quorumlog trust 1: role "


class Untrusted(WireError):
    """The other side has not proven that it is a member. For the log of this side; the other gets no reason."""


class SecretSource(Protocol):
    """Knows the secret of a cluster: a `Secret`, or the file that holds it."""

    def now(self) -> "Secret":
        """Returns the secret as it is at this moment."""


@attrs.frozen
class Secret:
    """The shared secret of a cluster. Raises `ValueError` for one that can be guessed."""

    text: str = attrs.field(repr=False, validator=min_len(SECRET_LENGTH_MIN))
    """Proves this process to others."""
    other: str | None = attrs.field(default=None, repr=False, validator=optional(min_len(SECRET_LENGTH_MIN)))
    """Proves others to this process just as well, while one secret takes the place of another."""
    role: str = attrs.field(default="", validator=in_(("", *ROLES)))
    """The one role that it proves; empty for the secret of a cluster, which proves any name."""

    def now(self) -> "Secret":
        """See `SecretSource`."""
        return self

    def of_role(self, role: str) -> "Secret":
        """Returns what proves a client of this role and nothing else. Raises `ValueError` if this is of a role itself."""
        if self.role:
            raise ValueError(f"the secret of a {self.role} makes no others")
        return Secret(hmac.digest(self.text.encode(), _ROLE + role.encode(), "sha256").hex(), role=role)

    def prove(self, name: str, message: bytes) -> bytes:
        """Returns the proof for `message`, on a connection that the process of this name has dialled."""
        key = self.of_role(name) if name in ROLES and not self.role else self
        return hmac.digest(key.text.encode(), message, "sha256")

    def all_accepted(self) -> tuple["Secret", ...]:
        """Returns each secret by which others may prove themselves."""
        return (self,) if self.other is None else (self, Secret(self.other))


@attrs.frozen(kw_only=True)
class Credentials:
    """The place of one process in its cluster, and the secret that proves it."""

    secret: SecretSource
    """Asked when a connection begins; the handshake keeps what it was then."""
    cluster_id: str
    name: str
    incarnation: bytes
    """Random, another one at each start of the process."""
    draw: Callable[[int], bytes] = attrs.field(repr=False, eq=False)
    """Returns so many random bytes, which cannot be predicted."""

    def dial(self, wire: str, acceptor: str) -> "Dialer":
        """Returns this side's steps on a connection that it dialled to the process of that name, or to `ANY`."""
        return Dialer(self, wire, acceptor)

    def accept(self, wire: str, now: float, roles: Collection[str] = (ADMIN,)) -> "Acceptor":
        """Returns this side's steps on a connection that it accepted. Of clients it admits those with these roles."""
        return Acceptor(self, wire, now + HANDSHAKE_S, roles)

    def hello(self, kind: int) -> bytes:
        """Returns an OPENING or a CHALLENGE with a fresh nonce."""
        return bytes((kind,)) + self.draw(NONCE_BYTES) + self.incarnation


@attrs.frozen
class Admitted:
    """The other side is the process of this `name`, or a client with its rights."""

    name: str
    incarnation: bytes


@attrs.frozen
class Step:
    """The order after a message: send `reply` unless it is empty; then `admitted` is served, if it is there."""

    reply: bytes
    admitted: Admitted | None


class Dialer:
    """The side that opened the connection. Sends `opening` first."""

    def __init__(self, credentials: Credentials, wire: str, acceptor: str) -> None:
        self.opening = credentials.hello(_OPENING)
        self._credentials = credentials
        self._secret = credentials.secret.now()
        self._wire = wire
        self._acceptor = acceptor
        self._challenge: bytes | None = None

    def step(self, message: bytes) -> Step:
        """Returns the next step. Raises `Untrusted`, after which the connection is to be closed."""
        own = self._credentials
        if self._challenge is None:
            _require(message[:1] == bytes((_CHALLENGE,)) and len(message) == _HELLO_BYTES, "no challenge")
            self._challenge = message
            proof = self._secret.prove(own.name, self._transcript(_DIALER, self._acceptor))
            return Step(bytes((_CLAIM,)) + proof + _encode_name(own.name) + _encode_name(self._acceptor), None)
        proof, (acceptor,) = _take_apart(message, _CONSENT, names=1)
        _require(self._acceptor in (ANY, acceptor), f"{acceptor!r} where {self._acceptor!r} was dialled")
        expected = self._secret.prove(own.name, self._transcript(_ACCEPTOR, acceptor))
        _require(hmac.compare_digest(proof, expected), "a wrong proof")
        return Step(b"", Admitted(acceptor, self._challenge[1 + NONCE_BYTES :]))

    def _transcript(self, role: bytes, acceptor: str) -> bytes:
        own, challenge = self._credentials, self._challenge or b""
        return _transcript(role, self._wire, own.cluster_id, own.name, acceptor, self.opening, challenge)


class Acceptor:
    """The side that was dialled. It answers nothing that its secret has a part in before the dialer has proven itself."""

    def __init__(self, credentials: Credentials, wire: str, deadline: float, roles: Collection[str]) -> None:
        self._roles = roles
        self.deadline = deadline
        """From then on a claim is too late."""
        self._credentials = credentials
        self._secrets = credentials.secret.now().all_accepted()
        self._wire = wire
        self._opening: bytes | None = None
        self._challenge = b""
        self._is_over = False

    def step(self, now: float, message: bytes) -> Step:
        """Returns the next step. Raises `Untrusted`, after which the connection is to be refused and closed."""
        _require(not self._is_over, "a message after the handshake")
        self._is_over = self._opening is not None
        if self._opening is None:
            _require(message[:1] == bytes((_OPENING,)) and len(message) == _HELLO_BYTES, "no opening")
            self._opening, self._challenge = message, self._credentials.hello(_CHALLENGE)
            return Step(self._challenge, None)
        own = self._credentials
        _require(now < self.deadline, f"no claim within {HANDSHAKE_S:g} s")
        proof, (dialer, dialled) = _take_apart(message, _CLAIM, names=2)
        claimed = self._transcript(_DIALER, dialer, dialled)
        known = [secret for secret in self._secrets if hmac.compare_digest(proof, secret.prove(dialer, claimed))]
        _require(bool(known), "a wrong proof")
        _require(dialled in (ANY, own.name), f"it dialled {dialled!r}")
        _require(dialer not in ROLES or dialer in self._roles, f"a {dialer} has no business here")
        consent = known[0].prove(dialer, self._transcript(_ACCEPTOR, dialer, own.name))
        admitted = Admitted(dialer, self._opening[1 + NONCE_BYTES :])
        return Step(bytes((_CONSENT,)) + consent + _encode_name(own.name), admitted)

    def _transcript(self, role: bytes, dialer: str, acceptor: str) -> bytes:
        assert self._opening is not None, "a proof follows the opening"
        own = self._credentials
        return _transcript(role, self._wire, own.cluster_id, dialer, acceptor, self._opening, self._challenge)


def _transcript(
    role: bytes, wire: str, cluster_id: str, dialer: str, acceptor: str, opening: bytes, challenge: bytes
) -> bytes:
    """Each part with its length, so that two different handshakes never have one transcript."""
    parts = (role, wire.encode(), cluster_id.encode(), dialer.encode(), acceptor.encode(), opening, challenge)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _encode_name(name: str) -> bytes:
    encoded = name.encode()
    if len(encoded) > NAME_BYTES_MAX:
        raise ValueError(f"a name has at most {NAME_BYTES_MAX} bytes: {name[:64]!r}...")
    return bytes((len(encoded),)) + encoded


def _take_apart(message: bytes, kind: int, *, names: int) -> tuple[bytes, tuple[str, ...]]:
    """Returns the proof and the names in a CLAIM or a CONSENT."""
    _require(message[:1] == bytes((kind,)) and len(message) > PROOF_BYTES, "no proof")
    found: list[str] = []
    position = 1 + PROOF_BYTES
    while len(found) < names and position < len(message):
        end = position + 1 + message[position]
        try:
            found.append(message[position + 1 : end].decode())
        except UnicodeDecodeError:
            raise Untrusted("a name that is no text") from None
        position = end
    _require(len(found) == names and position == len(message), "a proof of a wrong length")
    return message[1 : 1 + PROOF_BYTES], tuple(found)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Untrusted(f"it does not prove that it is of this cluster: {otherwise}")
