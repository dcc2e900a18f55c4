"""The options of a cluster that others run are whole, or nothing is started."""

import shlex

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.nemesis.hooks import Hook
from jepsen_like.port.port import RunningCluster
from jepsen_like.port.registry import TARGET_BEGINS, TARGETS
from jepsen_like.run.target import TargetPlan, pair_hooks

KILL = ("--fault-command", "kill=kill {node}", "--undo-command", "kill=start {node}")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--bootstrap-servers", "h:1"], "need --target"),
        (["--target", "kafka"], "needs --bootstrap-servers"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", *KILL[:2]], "kill has no --undo-command"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", *KILL[2:]], "kill has no --fault-command"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", "--fault-command", "kil=x"], "no fault 'kil'"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", "--fault-command", "kill"], "is not of the form"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", *KILL, *KILL[:2]], "kill is given twice"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", *KILL, "--nemesis", "pause"], "--fault-command pause"),
        (["--target", "kafka", "--bootstrap-servers", "h:1", "--tls"], "--command-config|leave out --tls"),
    ],
)
def test_a_half_of_the_options_is_refused(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", *words]) == ExitStatus.USAGE
    told = capsys.readouterr().err
    assert any(part in told for part in hint.split("|"))


@pytest.mark.parametrize("name", TARGETS)
def test_a_cluster_that_does_not_answer_is_told_before_anything_else(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ReservedPorts(1) as reserved:
        address = f"127.0.0.1:{reserved.ports[0]}"
        words = ["--target", name.removeprefix(TARGET_BEGINS), "--bootstrap-servers", address, "--quick"]
        assert execute(["run", *words]) == ExitStatus.ENVIRONMENT
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert f"none of --bootstrap-servers answers; {address}: " in told[0]


def test_the_words_of_a_plan_make_it_again_and_its_record_holds_no_password() -> None:
    plan = TargetPlan(
        target=RunningCluster(servers=(("h", 1), ("i", 2))),
        hooks=pair_hooks(["kill=kill '{node}'"], ["kill=start {node}"]),
    )
    assert plan.hooks == {"kill": Hook("kill '{node}'", "start {node}")}
    assert shlex.split(shlex.join(plan.words())) == [
        *("--bootstrap-servers", "h:1,i:2"),
        *("--fault-command", "kill=kill '{node}'", "--undo-command", "kill=start {node}"),
    ]
    assert plan.as_json()["properties"] is None
    assert [made.name for made in plan.kinds(["kill"])] == ["kill"]
