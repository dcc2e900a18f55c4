"""The server's side of OAUTHBEARER with unsecured tokens: whom a token names, and what refuses one."""

import base64
import json
import math
from typing import Any

import pytest

from kafka_compat.broker.caller import Answer, Identity
from kafka_compat.sasl.oauthbearer import MESSAGE_BYTES_MAX, OAuthBearerExchange, TokenRules
from kafka_compat.sasl.refused import SaslRefused

NOW_S = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S - 1, "exp": NOW_S + 60}


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(header: object = None, **claims: object) -> str:
    given = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return f"{encode({'alg': 'none'} if header is None else header)}.{encode(given)}."


def message(text: str, authorized: str = "", extensions: str = "") -> bytes:
    return f"n,{'a=' if authorized else ''}{authorized},\x01auth=Bearer {text}\x01{extensions}\x01".encode()


def exchange(**rules: Any) -> OAuthBearerExchange:
    return OAuthBearerExchange(TokenRules(**rules), lambda: 1000 * NOW_S)


def refusal_in(answer: Answer) -> dict[str, str]:
    assert answer.identity is None
    found: dict[str, str] = json.loads(answer.message)
    return found


def test_a_token_proves_the_principal_that_it_names_until_it_expires() -> None:
    assert exchange().step(0, message(token())) == Answer(b"", Identity(principal="User:alice"), 60.0)
    for fields in ({"authorized": "alice"}, {"extensions": "trace=1 2\x01pool=x\x01"}):
        assert exchange().step(0, message(token(), **fields)).identity == Identity(principal="User:alice")
    own = exchange(principal_claim="user").step(0, message(token(user="bob", exp=NOW_S + 0.5)))
    assert own == Answer(b"", Identity(principal="User:bob"), 0.5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(exp=NOW_S), "it has expired"),
        (token(exp=None), "it lacks the claim exp"),
        (token(exp="soon"), "its claim exp is no time"),
        (token(exp=True), "its claim exp is no time"),
        (token(exp=math.inf), "its claim exp is no time"),
        (token(iat=NOW_S + 1), "it is issued later than now"),
        (token(iat=NOW_S - 5, exp=NOW_S - 5), "it has expired"),
        (token(sub=None), "its claim sub names no principal"),
        (token(sub=7), "its claim sub names no principal"),
        (token(sub=""), "its claim sub names no principal"),
        (token({"alg": "HS256"}), "its alg is not none"),
        (token([]), "a part of it is no object of JSON"),
        (token() + "c2lnbmF0dXJl", "it is no unsecured token"),
        ("a.b", "it is no unsecured token"),
        ("a.b.", "a part of it is no JSON in base64url"),
        (base64.urlsafe_b64encode(b"[" * 9000).decode().rstrip("=") + ".e30.", "a part of it is no"),
    ],
)
def test_a_token_that_proves_nothing_is_answered_with_its_status_and_then_refused(text: str, reason: str) -> None:
    steps = exchange()
    answer = steps.step(0, message(text))
    assert refusal_in(answer) == {"status": "invalid_token"}
    with pytest.raises(SaslRefused, match=reason) as error:
        steps.step(0, b"\x01")
    assert error.value.told == '{"status":"invalid_token"}'


def test_after_a_refused_token_a_good_one_is_refused_as_well() -> None:
    steps = exchange()
    refusal_in(steps.step(0, message(token(exp=NOW_S))))
    with pytest.raises(SaslRefused) as error:
        steps.step(0, message(token()))
    assert error.value.told == "Authentication failed"


def test_clocks_may_differ_by_the_skew_and_no_more() -> None:
    for claims in ({"exp": NOW_S - 29}, {"iat": NOW_S + 30, "exp": NOW_S + 60}):
        assert exchange(skew_s=30).step(0, message(token(**{"iat": None, **claims}))).identity is not None
    assert exchange(skew_s=30).step(0, message(token(iat=None, exp=NOW_S - 29))).lifetime_s == 0
    for claims in ({"exp": NOW_S - 30}, {"iat": NOW_S + 31, "exp": NOW_S + 60}):
        refusal_in(exchange(skew_s=30).step(0, message(token(**{"iat": None, **claims}))))


@pytest.mark.parametrize("scope", ["read write", ["write", "read", "other"]])
def test_a_token_with_the_scopes_that_are_asked_for_is_taken(scope: object) -> None:
    rules = {"scopes": frozenset(("read", "write"))}
    assert exchange(**rules).step(0, message(token(scope=scope))).identity is not None
    assert exchange(**rules, scope_claim="scp").step(0, message(token(scp=scope))).identity is not None


@pytest.mark.parametrize("scope", [None, "read", ["write"], "readwrite", 7, [7]])
def test_a_token_without_a_scope_that_is_asked_for_is_refused_with_that_scope(scope: object) -> None:
    answer = exchange(scopes=frozenset(("read", "write"))).step(0, message(token(scope=scope)))
    assert refusal_in(answer) == {"status": "insufficient_scope", "scope": "read write"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "none of OAUTHBEARER"),
        (b"\xff", "no UTF-8"),
        (b"\x01", "none of OAUTHBEARER"),
        (message(token()).replace(b"n,", b"y,", 1), "none of OAUTHBEARER"),
        (message(token())[:-1], "none of OAUTHBEARER"),
        (b"n,,\x01other=Bearer x\x01\x01", "without a bearer token"),
        (b"n,,\x01auth=Basic x\x01\x01", "without a bearer token"),
        (b"n,,\x01" + b"x" * MESSAGE_BYTES_MAX, "too long"),
        (message(token(), "bob"), "an authorization id that is not the token's"),
    ],
)
def test_a_message_that_is_none_is_refused(given: bytes, reason: str) -> None:
    with pytest.raises(SaslRefused, match=reason):
        exchange().step(0, given)
