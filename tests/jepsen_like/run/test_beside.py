"""One command runs the same on two systems, and compares them."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.port.registry import system_named
from jepsen_like.run.beside import plan_for, settings_for_one, status_of
from jepsen_like.run.exercise import RunPlan

KAFKA, APACHE, RAFT, ROCKETMQ = map(system_named, ("kafka", "apache-kafka", "raft", "rocketmq"))
WORDS = ("acks=all", "kafka:flush=before-ack", "apache-kafka:log.flush.interval.messages=1")


def a_plan(**changes: Any) -> RunPlan:
    given = {
        "system": "kafka",
        "replication": "isr",
        "nodes": 3,
        "duration_s": 10.0,
        "rate": 0.0,
        "concurrency": 2,
        "kinds": ("kill",),
        "workload": "log",
        "settings": (),
        "seed": 1,
    }
    return RunPlan(**{**given, **changes})


def test_a_setting_with_the_name_of_a_system_is_its_alone() -> None:
    assert settings_for_one(KAFKA, (KAFKA, APACHE), WORDS) == ("acks=all", "flush=before-ack")
    assert settings_for_one(APACHE, (KAFKA, APACHE), WORDS) == ("acks=all", "log.flush.interval.messages=1")
    assert settings_for_one(KAFKA, (KAFKA, APACHE), ("a.setting=of:another",)) == ("a.setting=of:another",)


def test_both_get_the_same_seed_faults_and_load() -> None:
    first, beside = (plan_for(a_plan(), system, (KAFKA, APACHE), WORDS) for system in (KAFKA, APACHE))
    assert first.faults() == beside.faults()
    assert (first.system, beside.system) == ("kafka", "apache-kafka")
    assert (first.seed, first.workload, first.duration_s) == (beside.seed, beside.workload, beside.duration_s)


def test_each_replicates_in_its_first_way_unless_one_was_chosen() -> None:
    systems = (RAFT, ROCKETMQ)
    of_raft = a_plan(system="raft", replication="raft")
    assert plan_for(of_raft, ROCKETMQ, systems, ()).replication == ROCKETMQ.replications[0]
    with pytest.raises(click.UsageError, match="no 'sync-slave' in this system"):
        plan_for(a_plan(replication="sync-slave"), RAFT, (ROCKETMQ, RAFT), ())
    with pytest.raises(click.UsageError, match="no 'group' in this system"):
        plan_for(a_plan(workload="group"), RAFT, (KAFKA, RAFT), ())


@pytest.mark.parametrize(
    ("first", "beside", "replication", "other"),
    [
        ("apache-rocketmq", "rocketmq", "dledger", "raft"),
        ("rocketmq", "apache-rocketmq", "raft", "dledger"),
        ("rocketmq", "apache-rocketmq", "sync-slave", "sync-slave"),
    ],
)
def test_the_same_way_to_replicate_may_have_two_names(first: str, beside: str, replication: str, other: str) -> None:
    systems = (system_named(first), system_named(beside))
    plans = [plan_for(a_plan(system=first, replication=replication), system, systems, ()) for system in systems]
    assert [plan.replication for plan in plans] == [replication, other]


@pytest.mark.parametrize(
    ("valid", "differences", "status"),
    [
        ((True, False), [], ExitStatus.VIOLATION),
        ((None, True), ["a"], ExitStatus.UNKNOWN),
        ((True, True), ["a"], ExitStatus.VIOLATION),
        ((True, True), [], ExitStatus.VALID),
    ],
)
def test_the_status_names_the_worst(valid: Any, differences: list[str], status: ExitStatus) -> None:
    assert status_of({"runs": [{"valid": each} for each in valid], "differences": differences}) is status


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--system", "raft", "--beside", "raft"), "another system"),
        (("--beside", "nothing"), "no system"),
        (("--target", "kafka", "--bootstrap-servers", "h:1", "--beside", "kafka"), "leave out --target"),
    ],
)
def test_a_pair_that_is_none_is_refused(words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "--quick", *words]) == ExitStatus.USAGE
    assert why in capsys.readouterr().err


@pytest.mark.cluster
@pytest.mark.timeout(120)
def test_two_systems_run_the_same_and_stand_side_by_side(tmp_path: Path) -> None:
    words = ["--system", "raft", "--beside", "rocketmq", "--duration", "3", "--nemesis", "kill", "--seed", "3"]
    words += ["--replication", "raft", "--set", "rocketmq:client=own"]
    status = execute(["run", "--quick", "--rate", "100", "--out", str(tmp_path), *words])
    pair = tmp_path / "latest"
    told = json.loads((pair / "beside.json").read_text())
    assert [(run["system"], run["valid"]) for run in told["runs"]] == [("raft", True), ("rocketmq", True)]
    assert status == (ExitStatus.VIOLATION if told["differences"] else ExitStatus.VALID)
    plans = [json.loads((pair / name / "test.json").read_text()) for name in ("raft", "rocketmq")]
    assert [(plan["seed"], plan["rate"], plan["workload"]) for plan in plans] == [(3, 100.0, "log")] * 2
    both = {name: json.loads((pair / name / "results.json").read_text()) for name in ("raft", "rocketmq")}
    for results in both.values():
        assert results["acked"] > 100
        assert results["lost_acked"] == 0
        (fault,) = results["faults"]
        assert (fault["kind"], fault["target"]) == ("kill", "leader")
    assert len({*both["rocketmq"]["silences"]["scopes_s"], None}) == 2
    assert {row["aspect"] for row in told["rows"]} >= {"verdict", "ends", "offsets", "epochs", "recovery"}
    assert (pair / "report.html").exists()
