"""Unmodified clients over TLS and SASL: what they need in production, and the errors that they are to show.

One broker in a thread serves all of it: users and passwords are made by confluent-kafka's own administration client.
"""

import asyncio
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.authority import Authority
from jepsen_like.port.port import TlsPaths
from tests.kafka_compat.clients.secured import WITHIN_S, Secured, make_alice, serve
from tests.kafka_compat.sasl.test_oauthbearer import token as oauth_token

with warnings.catch_warnings():  # it reads its schemas by a way that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError as PythonKafkaError
    from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from aiokafka.errors import KafkaError as AiokafkaError


@attrs.frozen
class Security:
    """The settings with which a client connects."""

    listener: str
    authority: Path
    papers: TlsPaths | None = None
    mechanism: str = ""
    password: str = "alice's"
    scope: str = "logs"
    """Of the token that names alice, with OAUTHBEARER."""

    @property
    def has_token(self) -> bool:
        return self.mechanism == "OAUTHBEARER"

    @property
    def token(self) -> str:
        now = int(time.time())
        return oauth_token(sub="alice", iat=now, exp=now + 300, scope=self.scope)

    @property
    def sasl(self) -> dict[str, str]:
        if self.has_token:
            return {"mechanism": self.mechanism}
        return {"mechanism": self.mechanism, "username": "alice", "password": self.password} if self.mechanism else {}

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.papers is not None:
            context.load_cert_chain(self.papers.certificate, self.papers.key)
        return context


@pytest.fixture(scope="module")
def secured_broker(authority: Authority) -> Iterator[Secured]:
    thread, found = serve(authority.files_of("server").keystore, authority)
    make_alice(found)
    yield found
    thread.close().result(WITHIN_S)
    thread.join()


# -------------------------------------------------------------------- the clients


def by_confluent(bootstrap: str, how: Security, topic: str) -> bytes:
    """Returns what it reads of what it has sent. Raises its own errors."""
    found: list[Any] = []
    errors: list[KafkaError] = []
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": how.listener,
        "ssl.ca.location": str(how.authority),
        "error_cb": errors.append,
        "log_level": 0,
        **{f"sasl.{name}": value for name, value in how.sasl.items()},
    }
    if how.papers is not None:
        given |= {"ssl.certificate.location": str(how.papers.certificate), "ssl.key.location": str(how.papers.key)}
    if how.has_token:
        config = f"principal=alice scope={how.scope} lifeSeconds=300"
        given |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": config}
    producer = Producer(given)
    producer.produce(topic, b"value", on_delivery=lambda error, _: found.append(error))
    while not found:
        producer.poll(0.05)
        wrong = [each for each in errors if each.code() != KafkaError._ALL_BROKERS_DOWN]
        if wrong:
            producer.purge()
            producer.flush(1)
            raise KafkaException(wrong[0])
    if found[0] is not None:
        raise KafkaException(found[0])
    consumer = Consumer({**given, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(WITHIN_S)
        assert record is not None
        assert record.error() is None
        return record.value() or b""
    finally:
        consumer.close()


class PythonToken(PythonTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, how: Security) -> None:
        self.how = how

    def token(self) -> str:
        return self.how.token


class AiokafkaToken(AiokafkaTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, how: Security) -> None:
        self.how = how

    async def token(self) -> str:
        return self.how.token


def by_kafka_python(bootstrap: str, how: Security, topic: str) -> bytes:
    given: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": how.listener,
        "ssl_cafile": str(how.authority),
        "bootstrap_timeout_ms": 2000,
        **({"sasl_mechanism": how.mechanism} if how.mechanism else {}),
        **{f"sasl_plain_{name}": value for name, value in how.sasl.items() if name != "mechanism"},
        **({"sasl_oauth_token_provider": PythonToken(how)} if how.has_token else {}),
    }
    if how.papers is not None:
        given |= {"ssl_certfile": str(how.papers.certificate), "ssl_keyfile": str(how.papers.key)}
    producer = KafkaProducer(**given)
    try:
        producer.send(topic, b"value").get(WITHIN_S)
    finally:
        producer.close(1)
    consumer = KafkaConsumer(topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=int(1000 * WITHIN_S))
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def by_aiokafka(bootstrap: str, how: Security, topic: str) -> bytes:
    given: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": how.listener,
        "ssl_context": how.context if how.listener.endswith("SSL") else None,
        **({"sasl_mechanism": how.mechanism} if how.mechanism else {}),
        **{f"sasl_plain_{name}": value for name, value in how.sasl.items() if name != "mechanism"},
        **({"sasl_oauth_token_provider": AiokafkaToken(how)} if how.has_token else {}),
    }

    async def send_and_read() -> bytes:
        producer = AIOKafkaProducer(**given)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"value")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **given, auto_offset_reset="earliest")
        try:
            await consumer.start()
            return bytes((await consumer.getone()).value)
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(send_and_read(), WITHIN_S))


CLIENTS: dict[str, Callable[[str, Security, str], bytes]] = {
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}
EACH = pytest.mark.parametrize("client", CLIENTS)
ERRORS = (KafkaException, PythonKafkaError, AiokafkaError)
"""The two clients in Python raise that they know no broker, and log why."""


@EACH
@pytest.mark.parametrize(
    "way", ["SSL", "mutual", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "without TLS"]
)
def test_a_client_sends_and_reads(secured_broker: Secured, authority: Authority, client: str, way: str) -> None:
    how = {
        "SSL": Security("SSL", authority.certificate),
        "mutual": Security("SSL", authority.certificate, authority.files_of("alice")),
        "without TLS": Security("SASL_PLAINTEXT", authority.certificate, mechanism="SCRAM-SHA-512"),
    }.get(way) or Security("SASL_SSL", authority.certificate, mechanism=way)
    topic = f"{client}-{way}".replace(" ", "-")
    assert CLIENTS[client](secured_broker.bootstrap(how.listener), how, topic) == b"value"


def texts_of(error: BaseException, logs: pytest.LogCaptureFixture) -> str:
    """Returns all that a client shows of an error."""
    return "\n".join([str(error), *(record.getMessage() for record in logs.records)])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_operators_commands_log_in_by_the_properties_of_kafkas_tools(
    secured_broker: Secured, authority: Authority, mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, topic = tmp_path / "operator.properties", f"operated-{mechanism}"
    names = f"security.protocol=SASL_SSL\nssl.ca.location={authority.certificate}\nsasl.mechanism={mechanism}\n"

    def quorumlog(*words: str, password: str = "alice's") -> tuple[int, str]:
        config.write_text(f"{names}sasl.username=alice\nsasl.password={password}\n")
        cluster = ("--cluster", secured_broker.bootstrap("SASL_SSL"), "--command-config", str(config))
        status = execute([*words, *cluster])
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    assert quorumlog("topics", "create", topic)[0] == ExitStatus.VALID
    assert topic in quorumlog("topics")[1]
    assert "controller" in quorumlog("brokers")[1]
    status, shown = quorumlog("topics", "delete", topic, password="wrong")
    assert (status, "check --command-config" in shown) == (ExitStatus.NOT_DONE, True)
    assert ("Invalid username or password" if mechanism == "PLAIN" else "invalid credentials") in shown
    assert quorumlog("topics", "delete", topic)[0] == ExitStatus.VALID


@EACH
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_an_error_of_authentication_in_kafkas_words(
    secured_broker: Secured, authority: Authority, client: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    how = Security("SASL_SSL", authority.certificate, mechanism=mechanism, password="wrong")
    seen = len(secured_broker.events)
    with pytest.raises(ERRORS) as refused:
        CLIENTS[client](secured_broker.bootstrap("SASL_SSL"), how, "t")
    words = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials with SASL mechanism"
    assert words in texts_of(refused.value, caplog)
    secured_broker.await_reason("a wrong user or password: 'alice'", seen)


@EACH
def test_a_token_without_the_scope_is_refused_with_the_status_of_rfc_7628(
    secured_broker: Secured, authority: Authority, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    how = Security("SASL_SSL", authority.certificate, mechanism="OAUTHBEARER", scope="other")
    seen = len(secured_broker.events)
    with pytest.raises(ERRORS) as refused:
        CLIENTS[client](secured_broker.bootstrap("SASL_SSL"), how, "t")
    if client == "aiokafka":  # which takes each answer for a success, and asks on
        secured_broker.await_reason("before the client has proven who it is by SASL", seen)
    else:
        assert "insufficient_scope" in texts_of(refused.value, caplog)
        secured_broker.await_reason("a token that is refused: it lacks the scope logs", seen)


@EACH
def test_an_expired_certificate_of_a_client_is_refused_with_the_reason_on_both_sides(
    secured_broker: Secured, authority: Authority, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    expired = authority.issue_client("expired-client", days=-1)
    seen = len(secured_broker.events)
    with pytest.raises(ERRORS) as refused:
        CLIENTS[client](secured_broker.bootstrap("SSL"), Security("SSL", authority.certificate, expired), "t")
    if client != "aiokafka":  # which shows a closed connection, whatever alert came
        assert "expired" in texts_of(refused.value, caplog)
    secured_broker.await_reason("the certificate is refused: certificate has expired", seen)


@EACH
def test_an_expired_certificate_of_the_broker_is_refused_by_the_client(
    authority: Authority, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    thread, expired = serve(authority.issue_node("expired-node", days=-1).keystore, authority)
    try:
        with pytest.raises(ERRORS) as refused:
            CLIENTS[client](expired.bootstrap("SSL"), Security("SSL", authority.certificate), "t")
        assert "certificate" in texts_of(refused.value, caplog)
    finally:
        thread.close().result(WITHIN_S)
        thread.join()


@EACH
def test_a_topic_is_granted_and_denied_by_the_name_that_a_client_has_proven(
    secured_broker: Secured, authority: Authority, client: str
) -> None:
    granted, denied = f"{client}-granted", f"{client}-denied"
    admin = AdminClient({"bootstrap.servers": secured_broker.bootstrap("PLAINTEXT"), "log_level": 0})
    rules = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for topic, user in ((granted, "User:alice"), (denied, "User:bob"))
    ]
    for made in admin.create_acls(rules).values():
        made.result(WITHIN_S)
    how = Security("SASL_SSL", authority.certificate, mechanism="SCRAM-SHA-512")
    assert CLIENTS[client](secured_broker.bootstrap("SASL_SSL"), how, granted) == b"value"
    with pytest.raises(ERRORS) as refused:
        CLIENTS[client](secured_broker.bootstrap("SASL_SSL"), how, denied)
    assert "TopicAuthorizationFailed" in repr(refused.value) or "TOPIC_AUTHORIZATION_FAILED" in repr(refused.value)
    told = [fields for event, fields in secured_broker.events if event == "denied"]
    assert {"principal": "User:alice", "resource": f"TOPIC {denied}"}.items() <= told[-1].items()
