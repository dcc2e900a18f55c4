"""`quorumlog doctor`: what this machine lacks, each with the command that mends it, and what a run can break here.

Required is what the main job cannot do without; the rest is said and does not count against the machine. Every way to
break things is tried, not looked up.
"""

import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from jepsen_like import installation
from jepsen_like.checker.engine.java import MAJOR_MIN, MENDING_COMMAND, survey
from jepsen_like.cli import ExitStatus
from jepsen_like.cluster import namespaces, preload, volumes
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.process import process_state
from jepsen_like.nemesis.kind import Here, NemesisKind
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Lane
from jepsen_like.port.wires import Network

PYTHON_MIN: Final = (3, 11)
CORES_ADVISED: Final = 2
PORTS_TRIED: Final = 8
NODES_TRIED: Final = 5
STRACE: Final = "strace --inject is not used: the library fails, delays and cuts short the same calls, and can be steered while it runs"
DISTRIBUTION: Final = "quorumlog"
EXTRAS: Final = ("check", "spark")
"""The packages that `quorumlog run` needs in addition to the core; Java has a line of its own."""


@attrs.frozen
class Finding:
    """One thing that was looked at."""

    name: str
    fine: bool
    detail: str
    mend: str = ""
    """The command that mends it, or what to do."""
    required: bool = True


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories will be made.",
)
def doctor(out: Path) -> ExitStatus:
    """Check what this machine lacks, and print the command that installs it.

    Exit status 0 if nothing is missing, 4 otherwise.
    """
    missing = 0
    for finding in examine(out):
        mark = "ok" if finding.fine else "MISSING" if finding.required else "note"
        click.echo(f"{mark:8} {finding.name}: {finding.detail}")
        if not finding.fine and finding.mend:
            click.echo(f"{'':8} run: {finding.mend}")
        missing += finding.required and not finding.fine
    click.echo("\nWhat a run can break here, each tried just now:")
    for injector in injectors():
        click.echo(f"{'ok' if injector.lack is None else 'note':8} {injector.name}: {', '.join(injector.kinds)}")
        if injector.lack is not None:
            click.echo(f"{'':8} {injector.lack}")
    click.echo(f"{'':8} {STRACE}")
    return ExitStatus.ENVIRONMENT if missing else ExitStatus.VALID


def examine(out: Path) -> Iterator[Finding]:
    """Everything that is looked at, in order."""
    yield python()
    yield own_packages()
    yield from packages()
    yield java()
    yield cores()
    yield writable(out)
    yield loopback()
    yield processes()


@attrs.frozen
class Injector:
    """A way to break things, the kinds of faults that go by it, and why it does not work here, with what to do."""

    name: str
    kinds: tuple[str, ...]
    lack: str | None


def injectors() -> Iterator[Injector]:
    """Every way, tried."""
    alone, switched = Here(NODES_TRIED), Here(NODES_TRIED, Network.NAMESPACES)
    kinds = dict(KINDS)

    def kinds_where(those: Callable[[NemesisKind], bool]) -> tuple[str, ...]:
        names = tuple(name for name, kind in kinds.items() if those(kind))
        for name in names:
            del kinds[name]
        return names

    yield Injector(
        "a file system of each node's own, shut down by the kernel",
        kinds_where(lambda kind: Need.POWER in kind.needs),
        volumes.lacking(),
    )
    yield Injector("a library in each node's process", kinds_where(lambda kind: bool(kind.needs)), preload.lacking())
    packets = kinds_where(lambda kind: kind.lacks(switched) != kind.lacks(alone))
    yield Injector("network namespaces with one switch (--network namespaces)", packets, namespaces.lacking())
    links = kinds_where(lambda kind: kind.lane is Lane.NETWORK)
    loop = loopback()
    keys = kinds_where(lambda kind: kind.lane is Lane.KEYS)
    yield Injector("the files of the cluster's secret and certificates", keys, None)
    yield Injector("forwarders between the processes", links, None if loop.fine else f"{loop.detail}; run: {loop.mend}")
    yield Injector("signals, and files of a node that is down", tuple(kinds), signals_lacking())


def signals_lacking() -> str | None:
    """Returns why a process cannot be stopped here; None if a trial process was stopped."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            state = process_state(child.pid)
        except OSError as error:
            return f"a process cannot be stopped ({error})"
        finally:
            child.kill()
    return None if state == "T" else f"a stopped process is seen in state {state}; run: mount -t proc proc /proc"


def python() -> Finding:
    """The interpreter."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(str(part) for part in PYTHON_MIN)
    return Finding(
        "python",
        sys.version_info >= PYTHON_MIN,
        f"{version} ({sys.executable})",
        f"python{wanted} -m venv .venv && .venv/bin/python -m pip install 'quorumlog[spark,java]'",
    )


def own_packages() -> Finding:
    """Finds out whether the packages that Python finds by our names are ours, as they were installed."""
    problems = installation.foreign() or tuple(
        f"{file} is not as it was installed" for file in installation.find_changes()[:3]
    )
    detail = "; ".join(problems) or ", ".join(installation.PACKAGES)
    return Finding("own packages", not problems, detail, installation.mended_by() if problems else "")


def packages() -> Iterator[Finding]:
    """Checks what the distribution names as its requirements, for the core and for the extras of the main job."""
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", False, "quorumlog itself is not installed", f"{sys.executable} -m pip install -e .")
        return
    for extra in ("", *EXTRAS):
        problems, names = [], []
        for requirement in requirements:
            name, bounds, of_extra = parse(requirement)
            if of_extra == extra and name != DISTRIBUTION:
                names.append(name)
                problems += problem(name, bounds)
        label = f"packages [{extra}]" if extra else "packages"
        target = f"'quorumlog[{extra}]'" if extra else "quorumlog"
        detail = "; ".join(problems) or ", ".join(names)
        yield Finding(label, not problems, detail, f"{sys.executable} -m pip install --upgrade {target}")


def parse(requirement: str) -> tuple[str, tuple[tuple[str, tuple[int, ...]], ...], str]:
    """A requirement as (name, bounds, extra); bounds are (`>=` or `<`, version)."""
    spec, _, marker = requirement.partition(";")
    extra = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", marker)
    name = re.match(r"[\w.-]+", spec.strip())
    bounds = tuple((sign, numbers(version)) for sign, version in re.findall(r"(>=|<(?!=))\s*([\d.]+)", spec))
    return name[0] if name else spec, bounds, extra[1] if extra else ""


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def problem(name: str, bounds: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    """Returns why an installed package cannot be used; empty if it can."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return [f"{name} is not installed"]
    have = numbers(version)
    for sign, wanted in bounds:
        if (have < wanted) if sign == ">=" else (have[: len(wanted)] >= wanted):
            return [f"{name} is {version}, but {sign}{'.'.join(map(str, wanted))} is needed"]
    return []


def java() -> Finding:
    """A Java for Spark, from wherever it comes."""
    found, rejected = survey()
    passed_over = "".join(f"; passed over {one.source}: {one.reason}" for one in rejected)
    if found is None:
        return Finding("java", False, f"no Java {MAJOR_MIN} or newer{passed_over}", MENDING_COMMAND)
    return Finding("java", True, f"{found.version} from {found.source} ({found.executable}){passed_over}")


def cores() -> Finding:
    """Returns how many processes can run at once."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding(
        "cores",
        usable >= CORES_ADVISED,
        f"{usable}" if usable >= CORES_ADVISED else f"{usable}; nodes, load and proxies will wait for each other",
        required=False,
    )


def writable(out: Path) -> Finding:
    """Finds out whether run directories can be made: in `out`, or in the nearest directory above it that exists."""
    place = out.absolute()
    try:
        while not place.exists():
            place = place.parent
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding(
            "run directory", False, f"{place} cannot be written to ({error.strerror})", "quorumlog run --out DIR"
        )
    return Finding("run directory", True, str(out))


def loopback() -> Finding:
    """Finds out whether nodes can listen: several free ports on 127.0.0.1 that answer."""
    try:
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(PORTS_TRIED)]
        try:
            socket.create_connection(listeners[-1].getsockname(), timeout=5).close()
        finally:
            for listener in listeners:
                listener.close()
    except OSError as error:
        return Finding("loopback", False, f"cannot listen and connect on 127.0.0.1 ({error})", "ip link set lo up")
    return Finding("loopback", True, f"{PORTS_TRIED} ports at once on 127.0.0.1")


def processes() -> Finding:
    """Finds out whether the state of a process can be seen: how a run knows that a pause paused."""
    try:
        state = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return Finding("/proc", False, "cannot be read, so faults cannot be observed", "mount -t proc proc /proc")
    return Finding("/proc", state in "RSDT", f"shows the state of processes ({state})", "mount -t proc proc /proc")
