"""SASL on a listener, as its wire has it: what a client may ask before, how it fails, and how it proves itself again."""

import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kafka_compat.broker.peers import PeerFailed
from kafka_compat.model import ScramMechanism
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kafka_compat.protocol.apis.scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.listener import Listener
from tests.kafka_compat.broker.cluster import Client, Cluster, cluster
from tests.kafka_compat.sasl.test_mechanisms import ScramClient
from tests.kafka_compat.sasl.test_oauthbearer import message as oauth_message
from tests.kafka_compat.sasl.test_oauthbearer import token as oauth_token

SHA_256, SHA_512 = ScramMechanism
NONE = KafkaErrorCode.NONE
FAILED = KafkaErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = KafkaErrorCode.ILLEGAL_SASL_STATE


@asynccontextmanager
async def open_guarded(**settings: str) -> AsyncIterator[Cluster]:
    """A broker whose clients prove who they are, with the users alice (both mechanisms) and bob."""
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    given = {"listeners": listeners, "sasl.enabled.mechanisms": mechanisms, "sasl.plain.without.tls": "true"}
    async with cluster(1, **{**given, **settings}) as brokers:
        async with brokers.client(1) as client:
            users = tuple(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=mechanism,
                    iterations=4096,
                    salt=b"salt",
                    salted_password=hashlib.pbkdf2_hmac(mechanism.hash_name, f"{user}'s".encode(), b"salt", 4096),
                )
                for user, mechanism in (("alice", SHA_256), ("alice", SHA_512), ("bob", SHA_512))
            )
            request = AlterUserScramCredentialsRequest(deletions=(), upsertions=users)
            altered = await client.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            assert [each.error_code for each in altered.results] == [0, 0]
        yield brokers


async def handshake(client: Client, mechanism: str) -> Any:
    return await client.ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))


async def authenticate(client: Client, message: bytes) -> Any:
    return await client.ask(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=message))


async def plain(client: Client, user: str, password: str | None = None) -> Any:
    assert (await handshake(client, "PLAIN")).error_code == NONE
    return await authenticate(client, f"\0{user}\0{password or user + chr(39) + 's'}".encode())


async def metadata(client: Client) -> Any:
    return await client.peer.ask(METADATA, 9, MetadataRequest(topics=()), timeout_s=5.0)


def reasons(brokers: Cluster) -> list[str]:
    return [fields["reason"] for _, event, fields in brokers.events if event == "connection_closed"]


async def await_refusal(brokers: Cluster, client: Client, reason: str) -> None:
    """Waits until the broker has ended the connection, for this reason."""
    await brokers.until(lambda: not client.peer.is_connected)
    await brokers.until(lambda: any(reason in each for each in reasons(brokers)))


async def test_before_its_proof_a_client_may_ask_for_the_versions_and_no_more() -> None:
    async with open_guarded() as brokers:
        for _ in range(2):
            async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
                versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
                answer = await client.ask(API_VERSIONS, 3, versions)
                assert {17, 36, 50, 51} <= {each.api_key for each in answer.api_keys}
                assert isinstance(await metadata(client), PeerFailed)
        assert [each for each in reasons(brokers) if "a request of API 3 before the client has proven" in each]


async def test_a_guessed_password_keeps_no_other_client_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    salted, begun, may_end = hashlib.pbkdf2_hmac, threading.Event(), threading.Event()

    def salt(*given: Any) -> bytes:
        begun.set()
        may_end.wait(20)
        return salted(*given)

    async with (
        open_guarded() as brokers,
        brokers.client(1, listener="SASL_PLAINTEXT") as guessing,
        brokers.client(1) as other,
    ):
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", salt)
        answers: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def guess() -> None:
                answers.append(await plain(guessing, "bob", "a guess"))

            nursery.start_soon(guess)
            await brokers.until(begun.is_set)
            assert (await metadata(other)).brokers
            assert not answers
            may_end.set()
        assert answers[0].error_code == FAILED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_client_that_proves_who_it_is_is_served_under_its_name(mechanism: str) -> None:
    async with open_guarded() as brokers, brokers.client(1, listener="SASL_PLAINTEXT") as client:
        offered = await handshake(client, mechanism)
        assert (offered.error_code, offered.mechanisms) == (NONE, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
        if mechanism == "PLAIN":
            answer = await authenticate(client, b"\0alice\0alice's")
        else:
            scram = ScramClient(SHA_256 if mechanism == "SCRAM-SHA-256" else SHA_512, "alice", "alice's")
            challenge = await authenticate(client, scram.begin())
            answer = await authenticate(client, scram.finish(challenge.auth_bytes))
            assert answer.auth_bytes.startswith(b"v=")
        assert (answer.error_code, answer.session_lifetime_ms) == (NONE, 0)
        assert not isinstance(await metadata(client), PeerFailed)
        broker = brokers.running[1].broker
        listener: Listener[Any] = broker._ports._listeners["SASL_PLAINTEXT"]
        (guest,) = listener._guests.values()
        assert guest.greeted
        assert guest.connection.session._serve.__self__.caller.principal == "User:alice"  # type: ignore[attr-defined]


async def test_a_wrong_password_is_refused_in_kafkas_words_and_ends_the_connection() -> None:
    async with open_guarded() as brokers:
        for user in ("alice", "nobody"):
            async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
                answer = await plain(client, user, "wrong")
                assert (answer.error_code, answer.error_message) == (
                    FAILED,
                    "Authentication failed: Invalid username or password",
                )
                await await_refusal(brokers, client, f"a wrong user or password: '{user}'")


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    async with open_guarded(**{"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as brokers:
        for mechanism in ("PLAIN", "GSSAPI"):
            async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
                answer = await handshake(client, mechanism)
                assert (answer.error_code, answer.mechanisms) == (
                    KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM,
                    ("SCRAM-SHA-512",),
                )
                await await_refusal(brokers, client, f"the SASL mechanism '{mechanism}' is not served here")


async def test_messages_out_of_their_order_have_the_error_of_an_illegal_state() -> None:
    async with open_guarded() as brokers:
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            assert (await authenticate(client, b"\0alice\0alice's")).error_code == ILLEGAL
            await await_refusal(brokers, client, "a message of a SASL exchange that has not begun")
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            await handshake(client, "PLAIN")
            assert (await handshake(client, "PLAIN")).error_code == ILLEGAL
            await await_refusal(brokers, client, "a second SASL exchange within the first")
        async with brokers.client(1) as client:  # a listener without SASL, which goes on
            assert (await handshake(client, "PLAIN")).error_code == ILLEGAL
            assert not isinstance(await metadata(client), PeerFailed)
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            await plain(client, "alice")
            assert (await authenticate(client, b"\0alice\0alice's")).error_code == ILLEGAL
            assert (await handshake(client, "PLAIN")).error_code == ILLEGAL  # too soon after the last one
            assert not isinstance(await metadata(client), PeerFailed)


async def test_a_client_proves_itself_again_as_the_same_and_in_time() -> None:
    async with open_guarded(**{"connections.max.reauth.ms": "60000"}) as brokers:
        clock = brokers.running[1].broker._parts.context.clock
        clock.pulse_s = 3600.0  # type: ignore[attr-defined]
        passed = [0.0]
        clock._clock = lambda: trio.current_time() + passed[0]  # type: ignore[attr-defined]
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            answer = await plain(client, "alice")
            assert answer.session_lifetime_ms == 60_000
            passed[0] += 50
            assert (await plain(client, "alice")).session_lifetime_ms == 60_000
            passed[0] += 50
            assert not isinstance(await metadata(client), PeerFailed)
            answer = await plain(client, "bob")
            assert (answer.error_code, answer.error_message) == (
                FAILED,
                "Cannot change principals during re-authentication from User:alice to User:bob",
            )
            await await_refusal(brokers, client, "a later proof of another principal")
            assert brokers.events[-1][2]["principal"] == "User:alice"
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            await plain(client, "alice")
            passed[0] += 2
            changed = await handshake(client, "SCRAM-SHA-256")
            assert changed.error_code == KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM
            await await_refusal(brokers, client, "a proof by SCRAM-SHA-256 after one by PLAIN")
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            await plain(client, "alice")
            passed[0] += 61
            assert isinstance(await metadata(client), PeerFailed)
            await await_refusal(brokers, client, "the client has not proven again in time who it is")


async def read_frame(stream: trio.SocketStream) -> bytes:
    """Returns the content of the next frame; none is an error."""
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        chunk = await stream.receive_some()
        assert chunk, "the broker has closed the connection"
        found += chunk
    assert len(found) == 4 + int.from_bytes(found[:4], "big"), "more than was asked for"
    return found[4:]


async def send_frame(stream: trio.SocketStream, content: bytes) -> None:
    await stream.send_all(len(content).to_bytes(4, "big") + content)


@asynccontextmanager
async def tokens_of(brokers: Cluster, mechanism: bytes) -> AsyncIterator[trio.SocketStream]:
    """A connection after version 0 of SaslHandshake: from there on messages have no header."""
    host, port = brokers.running[1].broker.address_of("SASL_PLAINTEXT")
    stream = await trio.open_tcp_stream(host, port)
    async with stream:
        await send_frame(stream, b"\0\x11\0\0\0\0\0\x07\xff\xff" + len(mechanism).to_bytes(2, "big") + mechanism)
        assert (await read_frame(stream))[:6] == b"\0\0\0\x07\0\0"
        yield stream


async def test_after_version_0_of_the_handshake_messages_have_no_header() -> None:
    async with open_guarded() as brokers:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            async with tokens_of(brokers, mechanism.encode()) as stream:
                if mechanism == "PLAIN":
                    await send_frame(stream, b"\0alice\0alice's")
                    assert await read_frame(stream) == b""
                else:
                    scram = ScramClient(SHA_512, "alice", "alice's")
                    await send_frame(stream, scram.begin())
                    await send_frame(stream, scram.finish(await read_frame(stream)))
                    assert (await read_frame(stream)).startswith(b"v=")
                header = RequestHeader(METADATA.key, 9, 8)
                (frame,) = METADATA.encode_request(header, MetadataRequest(topics=()))
                await stream.send_all(bytes(frame))
                correlation_id, _ = METADATA.decode_response(await read_frame(stream), 9)
                assert correlation_id == 8


async def test_a_wrong_password_without_headers_ends_the_connection_without_an_answer() -> None:
    async with open_guarded() as brokers, tokens_of(brokers, b"PLAIN") as stream:
        await send_frame(stream, b"\0alice\0wrong")
        assert await stream.receive_some() == b""
        assert "a wrong user or password: 'alice'" in reasons(brokers)[-1]


UNSECURED = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.unsecured": "true"}


@pytest.mark.parametrize(("longest_ms", "lifetime_ms"), [("0", 3_600_000), ("60000", 60_000)])
async def test_a_token_limits_how_long_its_client_is_served(longest_ms: str, lifetime_ms: int) -> None:
    async with open_guarded(**UNSECURED, **{"connections.max.reauth.ms": longest_ms}) as brokers:
        exp = brokers.running[1].broker._parts.context.wall_ms() / 1000 + 3600
        async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
            assert (await handshake(client, "OAUTHBEARER")).error_code == NONE
            answer = await authenticate(client, oauth_message(oauth_token(exp=exp, iat=None)))
            assert (answer.error_code, answer.auth_bytes) == (NONE, b"")
            assert lifetime_ms - 30_000 < answer.session_lifetime_ms <= lifetime_ms
            assert not isinstance(await metadata(client), PeerFailed)


async def test_a_refused_token_is_answered_with_its_status_before_it_ends_the_connection() -> None:
    async with open_guarded(**UNSECURED) as brokers:
        for is_polite in (True, False):
            async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
                await handshake(client, "OAUTHBEARER")
                answer = await authenticate(client, oauth_message(oauth_token(exp=1, iat=None)))
                assert (answer.error_code, answer.auth_bytes) == (NONE, b'{"status":"invalid_token"}')
                if not is_polite:
                    assert isinstance(await metadata(client), PeerFailed)
                    continue
                answer = await authenticate(client, b"\x01")
                assert (answer.error_code, answer.error_message) == (FAILED, '{"status":"invalid_token"}')
                await await_refusal(brokers, client, "a token that is refused: it has expired")
