"""A cluster of others is reached by its owner's file of properties, and asked about the run's topic alone."""

from pathlib import Path

import pytest

from jepsen_like.cluster.authority import Authority
from jepsen_like.port.port import RunningCluster, WrongMode
from jepsen_like.systems.kafka_target.mode import TargetMode
from jepsen_like.systems.kafka_target.properties import access_to, librdkafka_config

SASL = """
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="secret";
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.endpoint.identification.algorithm=
"""


def config_of(tmp_path: Path, text: str) -> dict[str, object]:
    (tmp_path / "client.properties").write_text(text)
    target = RunningCluster(servers=(("h", 1),), properties=tmp_path / "client.properties")
    return dict(librdkafka_config(access_to(target)))


def test_javas_names_become_librdkafkas(tmp_path: Path, authority: Authority) -> None:
    assert config_of(tmp_path, SASL.format(authority=authority.certificate)) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "secret",
        "ssl.ca.location": str(authority.certificate),
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": True,
    }


def test_without_a_file_nothing_is_secured() -> None:
    assert librdkafka_config(access_to(RunningCluster(servers=(("h", 1),)))) == {"security.protocol": "PLAINTEXT"}


def test_a_wrong_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(WrongMode, match=r"--command-config: sasl.mechanism is missing"):
        config_of(tmp_path, "security.protocol=SASL_SSL\n")


def test_the_topic_holds_all_that_the_promise_is_made_of() -> None:
    mode = TargetMode.of(["min.insync.replicas=2", "flush.messages=1"])
    assert mode.topic_configs == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "flush.messages": "1",
    }
    assert mode.acks_are_durable
    assert TargetMode.of_test({"replication": "isr", "settings": mode.settings}) == mode


@pytest.mark.parametrize("word", ["log.retention.ms=1", "flush.messages=0", "min.insync.replica=2"])
def test_a_setting_that_is_the_owners_is_refused(word: str) -> None:
    with pytest.raises(WrongMode, match=r"not the run's to set|takes a number"):
        TargetMode.of([word])
