"""OAUTHBEARER (RFC 7628, KIP-255) with unsecured tokens: a client names itself in a token that no one has signed.

    client   n,,^Aauth=Bearer <token>^A^A
    server   nothing, or {"status":"invalid_token"}
    client   ^A, after which the exchange has failed

A token is `{"alg":"none"}` and its claims in base64url, with an empty signature (RFC 7515). It must name a principal and
the time at which it expires; a broker may ask for scopes, too. Everyone can write such a token, so this is for tests.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Final

import attrs

from kafka_compat.broker.caller import Answer, Identity
from kafka_compat.sasl.refused import SaslRefused

MESSAGE_BYTES_MAX: Final = 16 * 1024
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

_SASLNAME: Final = r"(?:[^=,\0\x01]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01", re.DOTALL
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_.a-zA-Z0-9]+)")
_AFTER_ERROR: Final = b"\x01"


@attrs.frozen
class TokenRules:
    """The claims that a token needs."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: frozenset[str] = frozenset()
    """A token without one of them is refused."""
    skew_s: int = 0
    """Clocks may differ by so much."""


@attrs.frozen
class Token:
    """A valid token."""

    principal: str
    expires_at_ms: float
    """Wall-clock time."""


class _Invalid(Exception):
    """The token is refused: the reason for the log, and the status for the client."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class OAuthBearerExchange:
    """One exchange; see `Exchange`."""

    takes_long = False

    def __init__(self, rules: TokenRules, wall_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._wall_ms = wall_ms
        self._failed: tuple[str, str] | None = None
        """The reason and the answer of a token that was refused."""

    def step(self, now: float, message: bytes) -> Answer:
        """Returns an empty answer and the principal, or the error of a refused token. Raises `SaslRefused`."""
        if self._failed is not None:
            reason, told = self._failed
            raise SaslRefused(reason, told if message == _AFTER_ERROR else "Authentication failed")
        if len(message) > MESSAGE_BYTES_MAX:
            raise SaslRefused("a message of OAUTHBEARER that is too long")
        authorized, text = _take_apart(message)
        wall_ms = self._wall_ms()
        try:
            token = read_token(text, self._rules, wall_ms)
        except _Invalid as error:
            status = {"status": error.status} | ({} if error.scope is None else {"scope": error.scope})
            answer = json.dumps(status, separators=(",", ":"))
            self._failed = f"a token that is refused: {error}", answer
            return Answer(answer.encode())
        if authorized and authorized != token.principal:
            told = "Authentication failed: Client requested an authorization id that is different from the token's principal name"
            raise SaslRefused("an authorization id that is not the token's", told)
        lifetime_s = max(0.0, (token.expires_at_ms - wall_ms) / 1000)
        return Answer(b"", Identity(principal=f"User:{token.principal}"), lifetime_s)


def read_token(text: str, rules: TokenRules, wall_ms: int) -> Token:
    """Returns the token in `text` if it is good at this wall-clock time. Raises `_Invalid`."""
    parts = text.split(".")
    if len(parts) != 3 or parts[2]:
        raise _Invalid("it is no unsecured token: header, claims and no signature")
    header, claims = (_json_of(part) for part in parts[:2])
    if header.get("alg") != "none":
        raise _Invalid("its alg is not none")
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal:
        raise _Invalid(f"its claim {rules.principal_claim} names no principal")
    expires_s, issued_s = _time_of(claims, "exp"), _time_of(claims, "iat")
    if expires_s is None:
        raise _Invalid("it lacks the claim exp")
    if wall_ms >= 1000 * (expires_s + rules.skew_s):
        raise _Invalid("it has expired")
    if issued_s is not None and wall_ms < 1000 * (issued_s - rules.skew_s):
        raise _Invalid("it is issued later than now")
    if issued_s is not None and issued_s >= expires_s:
        raise _Invalid("it is issued at its end or later")
    if missing := rules.scopes - _scopes_of(claims.get(rules.scope_claim)):
        scope = " ".join(sorted(rules.scopes))
        raise _Invalid(f"it lacks the scope {min(missing)}", INSUFFICIENT_SCOPE, scope)
    return Token(principal, 1000 * expires_s)


def _take_apart(message: bytes) -> tuple[str | None, str]:
    """Returns the authorization id and the token of the first message. Raises `SaslRefused`."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise SaslRefused("a message of OAUTHBEARER that is no UTF-8") from None
    if found is None:
        raise SaslRefused("a message that is none of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslRefused("a message of OAUTHBEARER without a bearer token")
    authorized: str | None = found["authzid"]
    return authorized and authorized.replace("=2C", ",").replace("=3D", "="), bearer["token"]


def _json_of(part: str) -> dict[str, object]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise _Invalid("a part of it is no JSON in base64url") from None
    if not isinstance(found, dict):
        raise _Invalid("a part of it is no object of JSON")
    return found


def _time_of(claims: dict[str, object], name: str) -> float | None:
    """Returns a claim in seconds since 1970."""
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _Invalid(f"its claim {name} is no time")
    return float(found)


def _scopes_of(claim: object) -> set[str]:
    if isinstance(claim, str):
        return set(claim.split())
    return {each for each in claim if isinstance(each, str)} if isinstance(claim, list) else set()
