"""The settings of a run reach the brokers, and decide what the run is held to."""

import json
import os
from pathlib import Path

import pytest

from jepsen_like.port.port import FurtherPort, Member, ProcessPlan, TlsPaths, WrongMode
from jepsen_like.systems.apache_kafka.launch import LaunchPlan, flush, write_files
from jepsen_like.systems.apache_kafka.mode import ApacheMode
from jepsen_like.systems.apache_kafka.processes import CONTROLLER_PORT, PEERS, broker_command
from jepsen_like.systems.apache_kafka.system import ApacheKafkaAdapter


def launch_of(*words: str, node: int = 1, tls: TlsPaths | None = None) -> LaunchPlan:
    others = [other for other in (1, 2, 3) if other != node]
    plan = ProcessPlan(
        member=Member(node, "broker"),
        cluster_id="run-1",
        listen=("127.0.0.1", 100 + node),
        data=Path("/data"),
        peers={other: (f"127.77.{node}.{other}", 100 + other) for other in others},
        advertised={other: ("127.0.0.1", 900 + other) for other in (1, 2, 3)},
        mode=ApacheMode.of(words),
        tls=tls,
        further={
            name: FurtherPort(
                listen=("127.0.0.1", port + node),
                peers={other: (f"127.77.{node}.{other}", port + other) for other in others},
            )
            for name, port in ((PEERS, 200), (CONTROLLER_PORT, 300))
        },
    )
    return LaunchPlan(**json.loads(broker_command(plan)[-1]))


def test_each_broker_reaches_the_others_by_names_that_lead_over_its_own_ways() -> None:
    first, second = launch_of(), launch_of(node=2)
    assert first.settings["controller.quorum.voters"] == "1@n1:301,2@n2:302,3@n3:303"
    assert second.settings["controller.quorum.voters"] == first.settings["controller.quorum.voters"]
    assert first.settings["advertised.listeners"] == "CLIENT://127.0.0.1:901,PEERS://n1:201,CONTROLLER://n1:301"
    assert (first.hosts["n2"], first.hosts["n1"]) == ("127.77.1.2", "127.0.0.1")
    assert (second.hosts["n1"], second.hosts["n3"]) == ("127.77.2.1", "127.77.2.3")
    assert first.cluster_id == second.cluster_id


def test_settings_reach_the_brokers_and_features_the_new_disks() -> None:
    plan = launch_of("min.insync.replicas=2", "eligible.leader.replicas.version=0", "queued.max.requests=7", "acks=1")
    assert plan.settings["min.insync.replicas"] == "2"
    assert plan.settings["queued.max.requests"] == "7"
    assert plan.settings["default.replication.factor"] == "3"
    assert not {"acks", "eligible.leader.replicas.version", "flush"} & plan.settings.keys()
    assert plan.features == ["eligible.leader.replicas.version=0"]


def test_with_certificates_every_listener_speaks_tls() -> None:
    paths = TlsPaths(Path("/ca"), Path("/cert"), Path("/key"), Path("/both"))
    settings = launch_of(tls=paths).settings
    assert settings["listener.security.protocol.map"] == "CLIENT:SSL,PEERS:SSL,CONTROLLER:SSL"
    assert (settings["ssl.keystore.location"], settings["ssl.truststore.location"]) == ("/both", "/ca")
    assert "ssl.keystore.location" not in launch_of().settings


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("flush=before-ack", "flush is no setting of a broker"),
        ("min.insync.replica=2", "did you mean min.insync.replicas?"),
        ("min.insync.replicas=none", "min.insync.replicas"),
        ("enable.idempotence=maybe", "takes true or false"),
    ],
)
def test_a_setting_that_apache_kafka_does_not_have_is_refused(word: str, hint: str) -> None:
    with pytest.raises(WrongMode, match=hint):
        ApacheMode.of([word])


def test_a_flush_of_each_record_makes_acknowledgements_durable() -> None:
    durable = ApacheMode.of(["log.flush.interval.messages=1", "min.insync.replicas=2"])
    assert durable.acks_are_durable
    assert durable.survives("power")
    default = ApacheMode.of(["min.insync.replicas=2"])
    assert not default.survives("power")
    assert "no flush had secured" in default.promise(["power"])
    assert ApacheMode.of_test({"replication": "isr", "settings": durable.settings}) == durable


def test_the_files_of_a_broker_are_written_where_a_lost_disk_leaves_them(tmp_path: Path) -> None:
    plan = LaunchPlan(cluster_id="c", data=str(tmp_path), settings={"b": "2", "a": "1"}, hosts={"n1": "h"}, features=())
    files = write_files(plan)
    assert files.name in ApacheKafkaAdapter.kept_by_wipe
    assert (files / "server.properties").read_text().splitlines() == [
        "a=1",
        "b=2",
        f"log.dirs={tmp_path}/logs",
        f"metadata.log.dir={tmp_path}/metadata",
    ]
    assert (files / "hosts").read_text() == "h n1\n"
    assert "%nano" in (files / "log4j2.xml").read_text()


def test_a_new_disk_is_flushed_before_its_broker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "bootstrap.checkpoint").write_bytes(b"features")
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda opened: flushed.append(os.readlink(f"/proc/self/fd/{opened}")))
    flush(tmp_path)
    assert flushed == [
        str(path) for path in (tmp_path, tmp_path / "metadata", tmp_path / "metadata/bootstrap.checkpoint")
    ]
