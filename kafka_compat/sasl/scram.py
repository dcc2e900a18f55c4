"""SCRAM (RFC 5802, RFC 7677), the server's side: a user proves to know a password that this side does not know.

    client   n,,n=alice,r=<nonce>
    server   r=<nonce><nonce of its own>,s=<salt>,i=<iterations>
    client   c=biws,r=<both nonces>,p=<proof>
    server   v=<proof of its own>

Who names a user that does not exist gets a salt, too, always the same one for a name: only the last message tells that
name and password do not fit, and not which of them is wrong.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

import attrs

from kafka_compat.broker.caller import Answer, Identity
from kafka_compat.model import ScramCredential, ScramMechanism
from kafka_compat.sasl.refused import SaslRefused

MESSAGE_BYTES_MAX: Final = 4096
ITERATIONS: Final = 4096
"""The count for a user that does not exist: as many as clients choose by default."""

_SASLNAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASLNAME}))?,)(?P<bare>n=(?P<user>{_SASLNAME}),r=(?P<nonce>{_NONCE}))(?P<more>,.*)?"
)
_FINAL = re.compile(
    rf"(?P<bare>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})(?:,.*)?),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


@attrs.frozen
class ScramUsers:
    """The users of a cluster, and what is answered about others."""

    find: Callable[[str, ScramMechanism], ScramCredential | None]
    secret: bytes = attrs.field(repr=False)
    """Random, of this process: makes the salts of users that do not exist."""
    nonce: Callable[[], str] = attrs.field(repr=False)
    """Returns a text that cannot be predicted: printable, and without a comma."""


class ScramExchange:
    """One exchange; see `Exchange`."""

    takes_long = False
    """The client salts the password."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self._mechanism = mechanism
        self._users = users
        self._conversation: _Conversation | None = None

    def step(self, now: float, message: bytes) -> Answer:
        """Returns the server's next message, with the last one the user. Raises `SaslRefused`."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise SaslRefused("a message of SCRAM that is too long")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise SaslRefused("a message of SCRAM that is no UTF-8") from None
        return self._first(text) if self._conversation is None else self._final(self._conversation, text)

    def _first(self, text: str) -> Answer:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise SaslRefused("a first message that is none of SCRAM")
        if found["more"]:
            raise SaslRefused("SCRAM with extensions, which are not served")
        user = _unescape(found["user"])
        if found["authzid"] and _unescape(found["authzid"]) != user:
            detail = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslRefused("an authorization id that is not the user's", detail)
        credential = self._users.find(user, self._mechanism)
        known = credential or self._invent(user)
        nonce = self._users.nonce()
        answer = f"r={found['nonce']}{nonce},s={_text(known.salt)},i={known.iterations}"
        self._conversation = _Conversation(
            user, credential, nonce, _text(found["gs2"].encode()), f"{found['bare']},{answer}"
        )
        return Answer(answer.encode())

    def _invent(self, user: str) -> ScramCredential:
        salt = hmac.digest(self._users.secret, f"{self._mechanism.sasl_name} {user}".encode(), "sha256")[:24]
        return ScramCredential(salt, b"", b"", ITERATIONS)

    def _final(self, begun: "_Conversation", text: str) -> Answer:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise SaslRefused("a final message that is none of SCRAM")
        if not found["nonce"].endswith(begun.nonce) or found["channel"] != begun.channel:
            raise SaslRefused("a final message of another exchange", self._invalid)
        message = f"{begun.first_messages},{found['bare']}".encode()
        if begun.credential is None or not _fits(self._mechanism, begun.credential, message, found["proof"]):
            raise SaslRefused(f"a wrong user or password: {begun.user[:100]!r}", self._invalid)
        proof = hmac.digest(begun.credential.server_key, message, self._mechanism.hash_name)
        return Answer(f"v={_text(proof)}".encode(), Identity(principal=f"User:{begun.user}"))

    @property
    def _invalid(self) -> str:
        name = self._mechanism.sasl_name
        return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}"


@attrs.frozen
class _Conversation:
    """The facts that the first two messages have settled."""

    user: str
    credential: ScramCredential | None
    nonce: str
    """That of this side, with which the client's final one ends.

    As in Kafka: librdkafka before 2.6.1 puts its own nonce before both once more. The proof covers all of it.
    """
    channel: str
    """The client's header, as its final message repeats it."""
    first_messages: str


def _fits(mechanism: ScramMechanism, credential: ScramCredential, message: bytes, proof: str) -> bool:
    """Returns True if the client's proof is one of its key."""
    name = mechanism.hash_name
    signature = hmac.digest(credential.stored_key, message, name)
    try:
        given = base64.b64decode(proof, validate=True)
    except binascii.Error:
        return False
    if len(given) != len(signature):
        return False
    client_key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
    return hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
