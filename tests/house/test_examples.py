"""The programs in `examples` do what they say."""

import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jepsen_like.testing.sync import LocalCluster
from tests.house.checks import ROOT

EXAMPLES = ROOT / "examples"


def with_free_ports(name: str, directory: Path) -> Path:
    """A copy that listens where nobody does: the reader's ports may be taken here."""
    code = (EXAMPLES / name).read_text()
    with contextmanager(_held_ports)(set(re.findall(r"\b40\d\d\b", code))) as ports:
        for port, free in ports.items():
            code = code.replace(port, free)
    copy = directory / name
    copy.write_text(code)
    return copy


def _held_ports(ports: set[str]) -> Iterator[dict[str, str]]:
    held = {port: socket.create_server(("127.0.0.1", 0)) for port in ports}
    yield {port: str(holder.getsockname()[1]) for port, holder in held.items()}
    for holder in held.values():
        holder.close()


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
    command = [sys.executable, str(with_free_ports(name, tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (said, "")


def test_the_guest_book_keeps_its_lines_over_the_loss_of_a_leader() -> None:
    with LocalCluster.open() as cluster:
        addresses = ",".join(cluster.addresses)
        command = [sys.executable, str(EXAMPLES / "guest_book.py"), addresses, str(cluster.cluster_id), "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
            try:
                assert serving.stdout is not None
                url = serving.stdout.readline().strip()
                assert urllib.request.urlopen(url, data=b"I was here").status == 201
                cluster.kill(cluster.wait_for_leader())
                assert urllib.request.urlopen(url, data=b"so was I").status == 201
                assert urllib.request.urlopen(url).read() == b"I was here\nso was I\n"
            finally:
                serving.kill()


@pytest.mark.cluster
def test_the_tests_of_the_examples_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.copy_example(str(EXAMPLES / "test_orders.py"))
    pytester.runpytest_inprocess("-p", "jepsen_like.pytest_plugin").assert_outcomes(passed=4)
