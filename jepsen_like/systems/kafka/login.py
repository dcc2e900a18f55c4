"""The client's side of SASL: PLAIN and SCRAM (RFC 4616, RFC 5802), for the harness's own requests."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Generator
from typing import Final

from jepsen_like.operate.access import Login
from kafka_compat.model import ScramMechanism

ITERATIONS_MAX: Final = 1_000_000
NONCE_BYTES: Final = 24


class LoginRefused(Exception):
    """The broker refuses the user, or does not prove that it knows the password itself."""


Steps = Generator[bytes, bytes, None]
"""Yields the client's messages, and is sent the broker's answers. Raises `LoginRefused`."""


def steps_of(login: Login) -> Steps:
    """Returns the exchange of a user."""
    if login.mechanism == "PLAIN":
        return _plain(login)
    mechanism = next(each for each in ScramMechanism if each.sasl_name == login.mechanism)
    return _scram(login, mechanism.hash_name, secrets.token_urlsafe(NONCE_BYTES))


def _plain(login: Login) -> Steps:
    yield f"\0{login.username}\0{login.password}".encode()


def _scram(login: Login, name: str, nonce: str) -> Steps:
    first = f"n={login.username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = yield f"n,,{first}".encode()
    try:
        fields = _fields(challenge)
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        if not fields["r"].startswith(nonce) or not 1 <= iterations <= ITERATIONS_MAX:
            raise ValueError
    except (KeyError, ValueError, binascii.Error):
        raise LoginRefused("the broker's challenge is none of SCRAM") from None
    salted = hashlib.pbkdf2_hmac(name, login.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    bare = f"c=biws,r={fields['r']}"
    message = f"{first},{challenge.decode()},{bare}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = yield f"{bare},p={base64.b64encode(proof).decode()}".encode()
    expected = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), message, name))
    if not hmac.compare_digest(answer, b"v=" + expected):
        raise LoginRefused("the broker does not prove that it knows this user")


def _fields(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(","))
