"""Several listeners of a broker: which there are by the settings, TLS on them, and the addresses that clients get."""

from typing import Any

import pytest

from jepsen_like.cluster.authority import Authority
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.listeners import ListenerPlan, SecurityProtocol, plan_listeners
from kafka_compat.protocol.apis.controller import CONTROLLER_COMMAND, ControllerCommandRequest
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.certificates import Certificates, TlsFiles
from tests.kafka_compat.broker.cluster import cluster

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
HOME = ("127.0.0.1", 9092)


def plan_with(*settings: str, listen: tuple[str, int] | None = HOME) -> tuple[ListenerPlan, ...]:
    return plan_listeners(Settings.from_assignments([*settings, "ssl.keystore.location=k"]), listen)


def test_a_broker_without_listeners_has_one_at_its_address_named_by_what_it_speaks() -> None:
    assert plan_with() == (ListenerPlan("PLAINTEXT", SecurityProtocol.PLAINTEXT, HOME),)
    assert plan_with("security.inter.broker.protocol=SSL") == (ListenerPlan("SSL", SecurityProtocol.SSL, HOME),)


def test_listeners_have_names_protocols_and_two_addresses_as_kafkas_and_that_of_the_brokers_comes_first() -> None:
    plans = plan_with(
        "listeners=CLIENTS://:9094, SSL://[::1]:9093,inner://10.0.0.1:9092",
        "advertised.listeners=CLIENTS://example.com:443",
        "listener.security.protocol.map=CLIENTS:SASL_SSL,INNER:PLAINTEXT,SSL:SSL",
        "inter.broker.listener.name=INNER",
        listen=None,
    )
    assert plans == (
        ListenerPlan("INNER", SecurityProtocol.PLAINTEXT, ("10.0.0.1", 9092)),
        ListenerPlan("CLIENTS", SecurityProtocol.SASL_SSL, ("0.0.0.0", 9094), ("example.com", 443), SCRAM),
        ListenerPlan("SSL", SecurityProtocol.SSL, ("::1", 9093)),
    )
    assert plan_with("listeners=SSL://h:1", listen=None)[0].name == "SSL"
    assert plan_with("listeners=PLAINTEXT://h:1,SSL://h:2")[0].listen == HOME  # --listen counts


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        (["listeners=SSL://h:1,PLAINTEXT://h:x"], "'PLAINTEXT://h:x' in listeners is no NAME://HOST:PORT"),
        (["listeners=PLAINTEXT://h:1,PLAINTEXT://h:2"], "names PLAINTEXT twice"),
        (["listeners=SSL://h:1,SASL_SSL://h:2"], "listeners lacks PLAINTEXT, by which brokers reach each other"),
        (["listeners=PLAINTEXT://h:1,OUTER://h:2"], "the listener OUTER has no protocol"),
        (["listeners=PLAINTEXT://h:1,SSL://127.0.0.1:9092"], r"PLAINTEXT and SSL have one address, 127\.0\.0\.1:9092"),
        (["listeners=SASL_SSL://h:1"], "prove themselves in another way"),
        (["advertised.listeners=SSL://h:1"], "advertised.listeners names SSL, which listeners lacks"),
        (["listeners=PLAINTEXT://h:1", "advertised.listeners=PLAINTEXT://:1"], "has no host"),
        (["listeners=PLAINTEXT://h:1,SASL_SSL://h:2", "sasl.enabled.mechanisms=GSSAPI"], "GSSAPI in sasl.enabled.mech"),
        (
            ["listeners=PLAINTEXT://h:1,SASL_PLAINTEXT://h:2", "sasl.enabled.mechanisms=OAUTHBEARER"],
            "unsigned tokens alone.*set sasl.oauthbearer.unsecured=true in tests",
        ),
        (
            ["listeners=PLAINTEXT://h:1,SASL_PLAINTEXT://h:2", "sasl.enabled.mechanisms=PLAIN"],
            "the listener SASL_PLAINTEXT has no mechanism.*PLAIN needs TLS",
        ),
        (["listener.security.protocol.map=PLAINTEXT:TLS"], "'PLAINTEXT:TLS' in listener.security.protocol.map"),
    ],
)
def test_listeners_that_cannot_be_are_refused_with_the_reason(settings: list[str], detail: str) -> None:
    with pytest.raises(InvalidSetting, match=detail):
        plan_with(*settings)


def test_plain_is_served_over_tls_alone_unless_asked_for_otherwise() -> None:
    both = (
        "listeners=PLAINTEXT://h:1,SASL_SSL://h:2,SASL_PLAINTEXT://h:3",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
    )
    assert [each.mechanisms for each in plan_with(*both)] == [(), ("PLAIN", "SCRAM-SHA-512"), ("SCRAM-SHA-512",)]
    asked = plan_with(*both, "sasl.plain.without.tls=true")
    assert [each.mechanisms for each in asked] == [(), ("PLAIN", "SCRAM-SHA-512"), ("PLAIN", "SCRAM-SHA-512")]


def test_a_broker_without_address_or_without_the_certificate_that_it_needs_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="give --listen"):
        plan_with(listen=None)
    with pytest.raises(
        InvalidSetting, match=r"the listener SSL needs a certificate and its key: set ssl\.keystore\.location"
    ):
        plan_listeners(Settings.from_assignments(["security.inter.broker.protocol=SSL"]), HOME)


def ssl_settings(authority: Authority) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(authority.files_of("server").keystore),
        "ssl.truststore.location": str(authority.certificate),
    }


async def test_brokers_whose_listener_speaks_tls_elect_a_controller_replicate_and_serve(authority: Authority) -> None:
    alice = authority.files_of("alice")
    client_files = TlsFiles(certificate=str(alice.keystore), authority=str(authority.certificate))
    settings = {**ssl_settings(authority), "ssl.client.auth": "required", "min.insync.replicas": "2"}
    async with cluster(2, **{"security.inter.broker.protocol": "SSL"}, **settings) as brokers:
        async with brokers.client(1, tls=Certificates(client_files)) as client:
            assert await client.create("t", 2) is KafkaErrorCode.NONE
            await brokers.until(lambda: brokers.leads(brokers.state("t").leader, "t"))
        async with brokers.client(brokers.state("t").leader, tls=Certificates(client_files)) as client:
            assert await client.produce("t", *[b"x" * 50_000] * 10) == (KafkaErrorCode.NONE, 0)
            assert await client.values("t") == [b"x" * 50_000] * 10
        async with brokers.client(1) as stranger:  # plain text
            answer: Any = await stranger.peer.ask(METADATA, 9, MetadataRequest(topics=()), timeout_s=5.0)
            assert "closed by the other side" in answer.reason or "broken" in answer.reason
        reasons = [fields["reason"] for _, event, fields in brokers.events if event == "connection_closed"]
        assert "TLS: the other side speaks plain text, and this side TLS" in reasons


async def test_the_requests_of_brokers_are_served_on_their_own_listener_alone() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTER:PLAINTEXT",
    }
    request = ControllerCommandRequest(cluster_id="another", command=b"")
    async with cluster(1, **settings) as brokers:
        async with brokers.client(1) as client:
            answer = await client.ask(CONTROLLER_COMMAND, 0, request)
            assert answer.error_code == KafkaErrorCode.INVALID_REQUEST
        async with brokers.client(1, listener="OUTER") as client:
            refused = await client.peer.ask(CONTROLLER_COMMAND, 0, request, timeout_s=5.0)
            assert isinstance(refused, PeerFailed)
        reasons = [fields["reason"] for _, event, fields in brokers.events if event == "connection_closed"]
        assert any("is not served on this port" in each for each in reasons)


async def test_each_listener_gets_the_addresses_of_that_listener(authority: Authority) -> None:
    settings = {
        **ssl_settings(authority),
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OUTER:PLAINTEXT",
        "advertised.listeners": "OUTER://example.com:1234",
        "offsets.topic.replication.factor": "1",
    }
    trusting = Certificates(TlsFiles(authority=str(authority.certificate)))
    async with cluster(1, **settings) as brokers:
        broker = brokers.running[1].broker
        for listener, tls, address in (
            ("PLAINTEXT", None, broker.address),
            ("SSL", trusting, broker.address_of("SSL")),
            ("OUTER", None, ("example.com", 1234)),
        ):
            async with brokers.client(1, tls=tls, listener=listener) as client:
                found = await client.ask(METADATA, 9, MetadataRequest(topics=()))
                assert [(each.host, each.port) for each in found.brokers] == [address]
                described = await client.ask(
                    DESCRIBE_CLUSTER, 0, DescribeClusterRequest(include_cluster_authorized_operations=False)
                )
                assert [(each.host, each.port) for each in described.brokers] == [address]
                asked = FindCoordinatorRequest(key="g", key_type=0)
                coordinator = await client.ask(FIND_COORDINATOR, 3, asked)
                while (
                    coordinator.error_code == KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
                ):  # its topic has just been made
                    coordinator = await client.ask(FIND_COORDINATOR, 3, asked)
                assert (coordinator.host, coordinator.port) == address
