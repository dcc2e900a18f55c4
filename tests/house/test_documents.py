"""The documents are true: tables are current, commands parse, examples run, links lead somewhere."""

import glob
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest

from benchmarks.peers.command import peers
from jepsen_like.checker.engine.java import find_java, spark_java_home
from jepsen_like.checker.engine.spark import JVM_OPTIONS
from jepsen_like.cli import COMMANDS, EXTRA_OF_PACKAGE, ExitStatus, cli, execute
from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.testing.sync import LocalCluster
from tests.house import printed, tidy
from tests.house.checks import ROOT

DOCUMENTS = tuple(str(path) for path, _ in tidy.documents(ROOT))
PAGES = [document for document in DOCUMENTS if document.startswith("docs/")]
WALKS = [page for page in PAGES if page.startswith("docs/life-of-")]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
BIN = Path(sys.executable).parent
FEW_PARTITIONS = "--conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false"
WORDS_MAX = {"README.md": 1300, "ARCHITECTURE.md": 4000}
PICTURE_BYTES_MAX = 200_000


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [body for found, body in FENCE.findall((ROOT / document).read_text()) if found == language]


def commands(document: str) -> Iterator[list[str]]:
    """The command lines in the shell blocks of a document, as argument vectors."""
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield shlex.split(line)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_of_this_project(document: str) -> None:
    here = ROOT / document
    assert [target for target in LINK.findall(here.read_text()) if not (here.parent / target).exists()] == []


def test_every_page_is_linked_from_the_readme() -> None:
    findings = {f"docs/{target}" for target in LINK.findall((ROOT / "docs/real.md").read_text())}
    linked = {*LINK.findall((ROOT / "README.md").read_text()), *(page for page in findings if "/findings/" in page)}
    assert set(PAGES) <= linked


@pytest.mark.parametrize("document", WORDS_MAX)
def test_the_documents_that_are_read_first_are_short(document: str) -> None:
    assert len((ROOT / document).read_text().split()) < WORDS_MAX[document]


def test_pictures_are_small() -> None:
    assert [path for path in (ROOT / "docs").glob("*.png") if path.stat().st_size > PICTURE_BYTES_MAX] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_exist(document: str) -> None:
    named = re.findall(
        r"`((?:log|raft|kafka_compat|rocketmq_compat|jepsen_like|tests|benchmarks)/[\w./]+)`",
        (ROOT / document).read_text(),
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_golden_scripts_that_are_named_exist(document: str) -> None:
    named = re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){4,})(?:\.txt)?`", (ROOT / document).read_text())
    assert [name for name in named if not (ROOT / "tests" / "raft" / "scripts" / f"{name}.txt").is_file()] == []


def test_modules_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    names = set(re.findall(r"`(\w+\.py)`", text))
    known = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    assert names - known == set()


@pytest.mark.parametrize("name", printed.PRINTED)
def test_printed_tables_are_current(name: str) -> None:
    text = (ROOT / printed.PLACES[name]).read_text()
    here = [part for part, place in printed.PLACES.items() if place == printed.PLACES[name]]
    assert re.findall(r"<!-- printed: (\w+) -->", text) == here
    assert printed.renew_parts(text) == text, "renew it: python -m tests.house.printed"


def test_functions_on_the_walks_through_the_code_exist() -> None:
    known = set(methods())
    for page in WALKS:
        text = (ROOT / page).read_text()
        named = set(re.findall(r"\b([A-Z]\w+\.[a-z_]\w+)\b(?!\.)", text)) - {"ARCHITECTURE.md"}
        assert len(named) > 10
        assert named - known == set(), page


def methods() -> Iterator[str]:
    """Each `Class.method` of the product, by the layout that the formatter sees to."""
    for folder in tidy.PACKAGES:
        for path in (ROOT / folder).rglob("*.py"):
            owner = ""
            for indent, kind, name in re.findall(
                r"^(    |)(?:async )?(class|def) (\w+)", path.read_text(), re.MULTILINE
            ):
                if not indent:
                    owner = name if kind == "class" else ""
                elif owner:
                    yield f"{owner}.{name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_the_documents_can_be_given(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "2026-01-31T12-00-00-7").mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to("2026-01-31T12-00-00-7")
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.pem").touch()
    (tmp_path / "client.properties").touch()
    targets = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *arguments in commands(document):
        match Path(program).name, arguments:
            case "make", [target]:
                assert target in targets
            case "quorumlog", [name, *rest]:
                command = COMMANDS[name].load()
                words = [found for word in rest for found in sorted(glob.glob(word)) or [word]]  # as a shell would
                try:
                    command.make_context(name, words, parent=click.Context(cli))
                except click.UsageError as error:
                    pytest.fail(f"{name} {rest}: {error.format_message()}")
            case (("python" | "python3"), ["-m", "benchmarks.peers", *rest]):
                peers.make_context("peers", rest)
            case (("python" | "python3"), ["-m", module, *_]):
                path = ROOT.joinpath(*module.split("."))
                assert module in ("venv", "pip") or path.is_dir() or path.with_suffix(".py").is_file()
            case (("git" | "mv" | "cp" | "cat" | "curl"), _):
                pass
            case _:
                pytest.fail(f"nothing here knows {program} {arguments}")


PROGRAMS = [
    block
    for document in ("README.md", *PAGES)
    for block in blocks(document, "python")
    if "def test_" not in block and "SparkSession" not in block
]


@pytest.mark.cluster
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_in_the_documents_run(number: int) -> None:
    code = PROGRAMS[number]
    named = sorted(set(re.findall(r"\b40\d\d\b", code)))
    with LocalCluster.open() as cluster, ReservedPorts(len(named)) as free:
        for port, other, address in zip(named, free.ports, cluster.addresses, strict=True):
            if "RaftGroup" in code:  # the reader's ports may be taken here
                code = code.replace(port, str(other))
            else:
                code = code.replace(f"127.0.0.1:{port}", address)
        if "RaftGroup" not in code:  # the reader's nodes have no secret, and those of a test have one
            assert cluster.secret is not None
            known = f'"{cluster.cluster_id}", secret=Secret("{cluster.secret.text}")'
            code = "from raft import Secret\n" + code.replace('"demo"', known)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "first" in done.stdout


@pytest.mark.campaign
@pytest.mark.spark
def test_the_check_in_a_session_of_spark_finds_what_its_page_states(tmp_path: Path) -> None:
    (code,) = (block for block in blocks("docs/cluster.md", "python") if "SparkSession" in block)
    environment = {**os.environ, "JAVA_HOME": str(spark_java_home(find_java(), gentle=False))}
    environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{JVM_OPTIONS}' {FEW_PARTITIONS} pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("False", "False")
    assert "but no client ever wrote 5" in done.stdout


@pytest.mark.cluster
def test_the_nodes_in_the_readme_serve_the_client_next_to_them(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("README.md", "sh") if "quorumlog node" in block]
    client = PROGRAMS[0]
    named = sorted(set(re.findall(r"\b40\d\d\b", block)))
    assert set(named) == set(re.findall(r"\b40\d\d\b", client))
    with ReservedPorts(len(named)) as free, ExitStack() as stack:
        for port, other in zip(named, free.ports, strict=True):  # the reader's ports may be taken here
            block, client = block.replace(port, str(other)), client.replace(port, str(other))
        for line in block.splitlines():
            command = [str(BIN / "quorumlog"), *shlex.split(line)[1:]]
            node = stack.enter_context(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL))
            stack.callback(node.terminate)
        done = subprocess.run([sys.executable, "-c", client], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[b'first', b'second']\n"), done.stderr


@pytest.mark.parametrize("document", ["README.md", "docs/testing.md", "docs/rocketmq.md"])
def test_the_tests_in_the_documents_pass(
    document: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    code = [block for block in blocks(document, "python") if "def test_" in block]
    pytester.makepyfile("\n".join(code))
    passed = sum(block.count("def test_") for block in code)
    pytester.runpytest_inprocess("-p", "jepsen_like.testing.plugin").assert_outcomes(passed=passed)


def test_the_history_in_the_readme_is_judged_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (history,) = blocks("README.md", "json")
    (said,) = [block for block in blocks("README.md", "text") if "register.jsonl" in block]
    (tmp_path / "register.jsonl").write_text(history)
    assert execute(shlex.split("check register.jsonl --model register --engine local")) == ExitStatus.VIOLATION
    assert capsys.readouterr().out == said


JUDGED = re.findall(
    r"```py\n(.*?)```\n|```edn\n(.*?)```\n|`quorumlog (check history\.edn [^`]*)` prints:\n\n```text\n(.*?)```\n",
    (ROOT / "docs" / "checking.md").read_text(),
    re.DOTALL,
)


def test_the_histories_of_the_page_about_checking_are_judged_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    judged = 0
    for model, history, command, said in JUDGED:
        if model:
            (tmp_path / "counter.py").write_text(model)
            continue
        if history:
            (tmp_path / "history.edn").write_text(history)
            continue
        execute(shlex.split(command))
        assert capsys.readouterr().out == said
        judged += 1
    assert judged > 4


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("", "raft.sync raft.aio raft.group raft.node jepsen_like.testing.plugin jepsen_like.testing.sync"),
        ("", "jepsen_like.testing.aio jepsen_like.testing.cluster"),
        ("check", "jepsen_like.run.command jepsen_like.check.command jepsen_like.report.command"),
        ("", "jepsen_like.simulation.command"),
    ],
)
def test_an_installation_is_enough_for_what_the_readme_says(extra: str, modules: str) -> None:
    missing = [package for package, needs in EXTRA_OF_PACKAGE.items() if needs != extra]
    code = f"import sys\nsys.modules.update(dict.fromkeys({missing}))\nimport {', '.join(modules.split())}\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_short", [True, pytest.param(False, marks=pytest.mark.campaign)])
def test_the_commands_to_try_end_as_they_should(
    is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short ones have fewer seeds and a load that leaves most of the machine to other tests."""
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks("README.md", "sh") if "quorumlog doctor" in block]
    if is_short:
        assert "--duration 10 " in block
        assert "--seeds 0:40 " in block
        block = block.replace("--duration 10 ", "--duration 9 --rate 50 ").replace("--seeds 0:40 ", "--seeds 0:2 ")
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "quorumlog"
        assert execute(words) == ExitStatus.VALID, line
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--help"]) == ExitStatus.VALID
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in COMMANDS)
