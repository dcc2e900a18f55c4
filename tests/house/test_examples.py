"""The programs in `examples` do what they say."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.testing.sync import LocalCluster
from tests.house.checks import ROOT

EXAMPLES = ROOT / "examples"


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("work_queue.py", "0: wash\n1: dry\n2: fold\n"),
        (
            "counters.py",
            "first apples: 2\ninvalid request: a counter is named by letters\n"
            "second apples: 4\ninvalid request: a counter is named by letters\n",
        ),
    ],
)
def test_a_program_says_what_it_should(name: str, said: str, tmp_path: Path) -> None:
    code = (EXAMPLES / name).read_text()
    named = sorted(set(re.findall(r"\b40\d\d\b", code)))
    with ReservedPorts(len(named)) as free:
        for port, other in zip(named, free.ports, strict=True):  # the reader's ports may be taken here
            code = code.replace(port, str(other))
        (tmp_path / name).write_text(code)
        command = [sys.executable, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (said, "")


def test_the_bank_is_a_model_of_histories(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(EXAMPLES)
    command = ["check", "bank.edn", "--model-class", "bank_model:Bank", "--engine", "local"]
    assert execute(command) == ExitStatus.VALID
    assert capsys.readouterr().out.splitlines()[-1] == "bank.edn\ttrue"


def test_the_guest_book_keeps_its_lines_over_the_loss_of_a_leader(tmp_path: Path) -> None:
    with LocalCluster.open() as cluster:
        addresses = ",".join(cluster.addresses)
        assert cluster.secret is not None
        (tmp_path / "secret").touch(0o600)
        (tmp_path / "secret").write_text(cluster.secret.text)
        secret = ["--secret-file", str(tmp_path / "secret")]
        command = [sys.executable, str(EXAMPLES / "guest_book.py"), addresses, str(cluster.cluster_id), "0", *secret]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
            try:
                assert serving.stdout is not None
                url = serving.stdout.readline().strip()
                assert urllib.request.urlopen(url, data=b"I was here").status == 201
                cluster.kill(cluster.wait_for_leader())
                assert urllib.request.urlopen(url, data=b"so was I").status == 201
                assert urllib.request.urlopen(url).read() == b"I was here\nso was I\n"
                serving.send_signal(signal.SIGINT)
                assert serving.wait(timeout=30) == 0
            finally:
                serving.kill()


@pytest.mark.cluster
def test_the_tests_of_the_examples_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.copy_example(str(EXAMPLES / "test_orders.py"))
    pytester.runpytest_inprocess("-p", "jepsen_like.testing.plugin").assert_outcomes(passed=4)
