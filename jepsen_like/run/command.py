"""`quorumlog run`: a cluster of real processes, load, faults, the check of what was recorded, and a report.

Everything a run leaves lies in a directory of its own under `--out`, and `latest` there is a link to it. Progress goes to
stderr; the summary, or with `--json` the results as one line, to stdout.
"""

import errno
import json
import math
import os
import platform
import random
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs
import click
import trio
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from jepsen_like.check.tables import write_tables
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.java import require_spark
from jepsen_like.checker.engine.job import TaskRunner
from jepsen_like.checker.verdict import Check, Engine, Findings, Undecided, Verdict
from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.cluster import namespaces, ports
from jepsen_like.cluster.preload import NoLibrary
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.cluster.volumes import NoVolumes
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NONE
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.schedule import needed_s
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.port import Mode, NotServing, System, WrongMode
from jepsen_like.port.registry import TARGET_BEGINS
from jepsen_like.port.wires import Network
from jepsen_like.port.zones import OUTSIDE, Placement, ZonePlan
from jepsen_like.progress import RunProgress
from jepsen_like.record.allowed import of_partitions
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.results import RecoveryTimes, RunResults
from jepsen_like.record.stalls import silences_of, stalls_of
from jepsen_like.record.under_faults import under_faults
from jepsen_like.record.words import allowed_loss, available
from jepsen_like.report import render_report
from jepsen_like.run.exercise import RunPlan, exercise
from jepsen_like.run.options import (
    ALL_NEMESES,
    BYTES_PER_MIB,
    NO_NEMESIS,
    beside_option,
    choose,
    directory_option,
    network_option,
    nodes_option,
    one_of,
    parse_nemesis,
    system_option,
    tls_option,
    unless_given,
    zone_options,
    zones_fit,
)
from jepsen_like.run.results import Observed, build_results
from jepsen_like.run.target import TargetPlan, choose_hooked, target_options

DURATION_S = 30.0
QUICK_DURATION_S = 10.0
CONCURRENCY = 10
NEMESIS = "kill,pause,partition"
SEED_BITS = 31
DESCRIPTORS_KEPT = 128
DESCRIPTORS_OF_PAIR = 4
"""Of each two nodes: the forwarder's listener and both sides of its connection; of each node with itself, what the harness has."""
DESCRIPTORS_OF_CLIENT = 6
"""For each node: its connection and both sides of the forwarder; twice, since a connection that is cut off outlives its client's."""
TOLERATED_SHOWN_MAX = 5
LATEST = "latest"
REPORT = "report.html"
RUNS = Path("runs")
QUICK_HELP = "Check in this process, without a JVM."


def engine_for(*, quick: bool) -> Engine:
    """Returns the engine of the checks. Raises `EnvironmentMissing` without Spark: better before a run than after it."""
    if not quick:
        require_spark()
    return Engine.LOCAL if quick else Engine.SPARK


@click.command()
@system_option("What to run")
@target_options
@beside_option
@click.option(
    "--replication",
    default=None,
    metavar="NAME",
    help="Replication protocol; of raft: raft.  [default: the system's first]",
)
@nodes_option
@click.option(
    "--duration",
    type=click.FloatRange(0, min_open=True),
    default=None,
    metavar="S",
    help=f"Seconds of load.  [default: {DURATION_S:g}, with --quick {QUICK_DURATION_S:g}; longer if --nemesis needs it]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    metavar="OPS",
    help="Operations per second over all clients (open loop); 0: as fast as answers come (closed loop).",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), default=CONCURRENCY, show_default=True, help="Number of clients."
)
@click.option(
    "--nemesis",
    "kinds",
    default=NEMESIS,
    show_default=True,
    callback=parse_nemesis,
    metavar="A,B,C",
    help=f"Faults to inject: {', '.join(KINDS)}; {ALL_NEMESES}: those that work here; or {NO_NEMESIS}.",
)
@network_option(
    "How nodes are connected: proxies = through TCP forwarders; namespaces = through a packet switch, as root."
)
@tls_option
@zone_options
@click.option(
    "--workload",
    default=None,
    metavar="NAME",
    help="Operations of the clients; of raft: log (append, read) or register (read, write, cas).  [default: the system's first]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of every node; may be repeated. Of raft: quorumlog node --help lists them.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=None, help="Seed of the faults and of the load.  [default: random]"
)
@directory_option("--out", RUNS, "Directory in which run directories are made.")
@click.option("--quick", is_flag=True, help=QUICK_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print results.json as one line, last on stdout.")
def run(
    *,
    system: System,
    target: TargetPlan | None,
    beside: System | None,
    replication: str | None,
    nodes: int,
    duration: float | None,
    rate: float,
    concurrency: int,
    kinds: tuple[str, ...],
    network: str,
    tls: bool,
    zones: ZonePlan,
    workload: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    out: Path,
    quick: bool,
    as_json: bool,
) -> ExitStatus:
    """Start a cluster, send it operations while faults are injected, check the recorded history, and write a report.

    Exit status 0 if every promise was kept, 1 if one was broken, 3 if the check could not decide.
    """
    here = Here(nodes, Network(network), zones.count)
    are_given = click.get_current_context().get_parameter_source("kinds") is not ParameterSource.DEFAULT
    if target is not None and beside is not None:
        raise click.UsageError("--beside compares systems that are started here: leave out --target")
    if target is not None and (tls or zones.count or here.network is not Network.PROXIES):
        raise click.UsageError("--target takes a cluster as it is: leave out --tls, --zones and --network")
    systems = (system,) if beside is None else (system, beside)
    for each in systems:
        if (lack := each.lacking()) is not None:
            raise EnvironmentMissing(lack)
    if target is None:
        kinds = choose(kinds, here, {kind: why for each in systems for kind, why in each.refused.items()})
    else:
        kinds = choose_hooked(kinds, target, are_given=are_given)
        nodes = count_members(system, target)
    plan = RunPlan(
        system=system.name,
        target=target,
        replication=one_of("--replication", replication, system.replications),
        nodes=nodes,
        duration_s=duration if duration is not None else default_duration_s(len(kinds), quick=quick),
        rate=rate,
        concurrency=concurrency,
        kinds=kinds,
        network=here.network,
        tls=tls,
        zones=zones,
        workload=one_of("--workload", workload, tuple(system.workloads)),
        settings=(*settings_for(system, kinds, settings), *settings),
        seed=seed if seed is not None else random.SystemRandom().getrandbits(SEED_BITS),
    )
    if beside is not None:
        from jepsen_like.run.beside import run_both  # it runs twice what this module runs once

        return run_both(plan, systems, settings, out, engine_for(quick=quick), as_json=as_json)
    mode = validate(plan)
    allow_descriptors(plan)
    command = reproduction(plan, quick=quick)
    engine = engine_for(quick=quick)
    directory = new_run_directory(out, plan.seed)
    results = execute_run(plan, mode, directory, command, engine)
    return print_summary(results, directory / REPORT, command, as_json=as_json)


def count_members(system: System, target: TargetPlan) -> int:
    """Returns the number of processes of a cluster that runs. Raises `EnvironmentMissing` if none answers."""
    try:
        return len(trio.run(system.find_members, target.target))
    except WrongMode as error:
        raise click.UsageError(str(error)) from error
    except NotServing as error:
        raise EnvironmentMissing(str(error)) from error


def execute_run(
    plan: RunPlan,
    mode: Mode,
    directory: Path,
    command: str,
    engine: Engine,
    *,
    worker: TaskRunner | None = None,
    quiet: bool = False,
) -> RunResults:
    """Run, check and draw it in an empty directory; returns the results. `worker` is an engine that runs already, for many runs.

    Raises `EnvironmentMissing` if no cluster could be started.
    """
    write_json(directory / "test.json", description(plan, mode, command))
    if not quiet:
        click.echo(headline(plan), err=True)
    console = Console(stderr=True, highlight=False, quiet=quiet)
    with RunProgress(total_s=plan.duration_s, nodes=range(1, plan.nodes + 1), console=console) as progress:
        observed = run_workload(plan, directory, progress)
        progress.phase("checking")
        try:
            results = check_results(plan, mode, directory, observed, engine, worker)
        except KeyboardInterrupt:
            progress.event(
                f"the history is whole, and can be checked: {check_of(plan, directory, engine)}", topic="run"
            )
            raise
        results = attrs.evolve(results, repro=command)
        write_json(directory / "results.json", results.as_json())
        write_tables(directory, [of_run(directory, results)])
        progress.event(str(render_report(directory)), topic="report")
    return results


# -------------------------------------------------------------------- before


def default_duration_s(kinds: int, *, quick: bool) -> float:
    """Long enough for every kind of fault to have its turn."""
    return max(QUICK_DURATION_S if quick else DURATION_S, needed_s(kinds))


def settings_for(system: System, kinds: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the settings that the kinds of faults need in this system, as far as they were not given."""
    wanted = dict.fromkeys(setting for kind in kinds for setting in system.fault_settings.get(kind, ()))
    return unless_given(wanted, given)


def validate(plan: RunPlan) -> Mode:
    """Returns the mode of the run. Raises `UsageError` for a plan that cannot be carried out."""
    if not math.isfinite(plan.duration_s):
        raise click.UsageError(f"--duration: {plan.duration_s} is not a finite number of seconds")
    if not math.isfinite(plan.rate):
        raise click.UsageError(f"--rate: {plan.rate} is not a finite number of operations per second")
    try:
        plan.faults()
        mode = plan.mode()
    except WrongMode as error:
        raise click.UsageError(str(error)) from error
    except ValueError as error:
        raise click.UsageError(f"--duration: {error}") from error
    zones_fit(plan.zones, plan.of_system(), mode, plan.nodes)
    if plan.network not in (networks := plan.of_system().networks):
        raise click.UsageError(f"--network: links of {plan.system} can be cut in {', '.join(networks)} alone")
    if (reason := mode.refusal(plan.model, plan.kinds)) is not None:
        raise click.UsageError(reason)
    return mode


def allow_descriptors(plan: RunPlan) -> None:
    """Let this process open as many connections as it may. Raises `UsageError` if those are too few for the plan."""
    allowed = ports.raise_descriptor_limit()
    of_node = DESCRIPTORS_OF_PAIR * plan.nodes + DESCRIPTORS_OF_CLIENT * plan.concurrency
    needed = DESCRIPTORS_KEPT + plan.nodes * of_node
    if needed > allowed:
        raise click.UsageError(
            f"--concurrency: {plan.concurrency} clients of {plan.nodes} nodes take up to {needed:,} descriptors, of which this "
            f"process may have {allowed:,}; use fewer clients, or raise the hard limit (ulimit -Hn)"
        )


def reproduction(plan: RunPlan, *, quick: bool) -> str:
    """The command that runs the same again."""
    if plan.target is None:
        words = ["quorumlog", "run", "--system", plan.system, "--nodes", str(plan.nodes)]
    else:
        words = ["quorumlog", "run", "--target", plan.system.removeprefix(TARGET_BEGINS), *plan.target.words()]
    words += ["--replication", plan.replication] if plan.replication != plan.of_system().replications[0] else []
    words += ["--duration", f"{plan.duration_s:g}", "--nemesis", ",".join(plan.kinds) or NO_NEMESIS]
    words += ["--network", plan.network.value] if plan.network is not Network.PROXIES else []
    words += ["--tls"] if plan.tls else []
    words += zone_words(plan.zones)
    words += ["--workload", plan.workload, "--concurrency", str(plan.concurrency)]
    words += ["--rate", f"{plan.rate:g}"] if plan.rate else []
    for setting in plan.settings:
        words += ["--set", setting]
    words += ["--seed", str(plan.seed)]
    words += ["--quick"] if quick else []
    return shlex.join(words)


def zone_words(zones: ZonePlan) -> list[str]:
    """The options that plan these zones."""
    if not zones.count:
        return []
    words = ["--zones", zones.text]
    words += ["--placement", zones.placement.value] if zones.placement is not Placement.SPREAD else []
    words += ["--client-zone", zones.clients] if zones.clients != OUTSIDE else []
    words += ["--zone-delay", f"{zones.delay_s * 1e3:g}ms"] if zones.delay_s else []
    return words + (["--zone-bandwidth", f"{zones.bytes_per_s / BYTES_PER_MIB:g}"] if zones.bytes_per_s else [])


def check_of(plan: RunPlan, directory: Path, engine: Engine) -> str:
    """The command that checks what a run has recorded."""
    words = ["quorumlog", "check", str(directory), "--model", plan.model.value]
    return shlex.join([*words, "--engine", engine.value])


def new_run_directory(parent: Path, seed: int) -> Path:
    """Make a directory with a new name and let `latest` point at it. Raises `EnvironmentMissing` if it cannot be made."""
    name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{seed}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        directory = parent / name
        number = 1
        while True:
            try:
                directory.mkdir()
                break
            except FileExistsError:
                number += 1
                directory = parent / f"{name}-{number}"
    except OSError as error:
        raise EnvironmentMissing(
            f"cannot make a run directory in {parent}: {error.strerror or error}; choose another with --out"
        ) from error
    make_latest(directory)
    return directory


def make_latest(directory: Path) -> None:
    """Point the link `latest` at a new, empty directory. Raises `EnvironmentMissing`, the directory removed."""
    latest = directory.with_name(LATEST)
    link = directory.with_name(f".{LATEST}-{directory.name}")
    try:
        if latest.exists() and not (latest.is_symlink() or latest.is_dir()):  # a directory refuses by itself
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        link.symlink_to(directory.name)
        os.replace(link, latest)
    except OSError as error:
        link.unlink(missing_ok=True)
        directory.rmdir()
        raise EnvironmentMissing(
            f"cannot make {latest} a link to the run: {error.strerror or error}; "
            f"rename or remove {latest}, or choose another directory with --out"
        ) from error


def description(plan: RunPlan, mode: Mode, command: str) -> dict[str, Any]:
    """test.json: everything that was decided before the run."""
    return {
        "system": plan.system,
        "replication": plan.replication,
        "nodes": plan.nodes,
        "duration_s": plan.duration_s,
        "rate": plan.rate,
        "concurrency": plan.concurrency,
        "nemesis": list(plan.kinds),
        "network": plan.network.value,
        "tls": plan.tls,
        **({"target": plan.target.as_json()} if plan.target is not None else {}),
        **({"zones": zones.as_json()} if (zones := plan.settle_zones(mode)).names else {}),
        "workload": plan.workload,
        "settings": dict(mode.settings),
        **plan.of_system().describe(mode, plan.workload),
        "acks_are_durable": mode.acks_are_durable,
        "seed": plan.seed,
        "promise": mode.promise(plan.kinds),
        "command": command,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Returns what ran."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in (
        "quorumlog",
        "trio",
        "attrs",
        "msgpack",
        "crc32c",
        "numpy",
        "pyarrow",
        "pyspark",
        "confluent-kafka",
    ):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def headline(plan: RunPlan) -> str:
    """The first line of a run."""
    faults = ",".join(plan.kinds) or NO_NEMESIS
    return (
        f"quorumlog run  {plan.system}  nodes={plan.nodes}  clients={plan.concurrency}  workload={plan.workload}  "
        f"faults={faults}  duration={plan.duration_s:g}s  seed={plan.seed}"
    )


# -------------------------------------------------------------------- the run


def run_workload(plan: RunPlan, directory: Path, progress: RunProgress) -> Observed:
    """Run the plan and return what was observed. Raises `EnvironmentMissing` if no cluster could be started."""
    try:
        return trio.run(exercise, plan, directory, progress)
    except BaseExceptionGroup as group:
        expected, rest = group.split((NodeDidNotStart, NotServing, NoVolumes, NoLibrary, namespaces.NoNamespaces))
        if expected is None or rest is not None:
            raise
        raise EnvironmentMissing(f"{first_cause(expected)}; see {directory / 'nodes'}") from group


def check_results(
    plan: RunPlan, mode: Mode, directory: Path, observed: Observed, engine: Engine, worker: TaskRunner | None = None
) -> RunResults:
    """Check what was recorded; returns the results, but for the command that repeats the run."""
    written = directory / "test.json"
    test = json.loads(written.read_text()) if written.exists() else {}
    try:
        allowed = of_partitions(mode.allowances(observed.faults), directory, test)
        verdict = check_run(directory, plan.model, engine, allowances=allowed, worker=worker)
    except UnreadableHistory as error:
        # The recorder's fault, so the run decides nothing; `evidence` names the operations.
        findings = Findings(undecided=(Undecided(NONE, str(error)),))
        verdict = Verdict(model=plan.model, engine=engine, findings=findings, unchecked=frozenset(Check))
    attempts = Attempts.read(directory / "history.parquet")
    results = build_results(verdict.as_json(), attempts, observed, plan.settle_zones(mode))
    stalls = stalls_of(directory / "history.parquet", test, observed.load_ended_ns)
    silences = silences_of(directory / "history.parquet", test, observed.load_ended_ns)
    return attrs.evolve(
        results,
        stalls=stalls.as_json() if stalls is not None else None,
        under_faults=tuple(under_faults(directory, test, observed.faults)) or None,
        client=test.get("client"),
        silences=silences.as_json() if silences is not None else None,
        promise=mode.promise(plan.kinds),
    )


def of_run(directory: Path, results: RunResults) -> dict[str, Any]:
    """Returns the row of a run from which its tables are made."""
    test = json.loads((directory / "test.json").read_text())
    return {**results.as_json(), "run": directory.resolve().name, "path": str(directory), "test": test}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """One JSON document, readable by people; a member of an enumeration as its value."""
    path.write_text(json.dumps(content, indent=1, default=attrgetter("value")) + "\n", encoding="utf-8")


# -------------------------------------------------------------------- after


def print_summary(results: RunResults, report: Path, command: str, *, as_json: bool) -> ExitStatus:
    """Print how it went, last of all the command that repeats a run that failed; returns the exit status."""
    status = {True: ExitStatus.VALID, False: ExitStatus.VIOLATION, None: ExitStatus.UNKNOWN}[results.valid]
    first, *lines = summary(results, report)
    if status is not ExitStatus.VALID:
        lines.append(command)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    console.print(Text(first, style=colour(results)))
    for line in lines:
        click.echo(line, err=as_json)
    if as_json:
        sys.stderr.flush()
        click.echo(json.dumps(results.as_json(), separators=(",", ":")))
    return status


def colour(results: RunResults) -> str:
    """Returns the style of the verdict: never green where something was lost, or where the mode had to allow something else."""
    if results.valid is not True:
        return "bold red" if results.valid is False else "bold yellow"
    return "bold yellow" if results.lost_acked or results.tolerated else "bold green"


def summary(results: RunResults, report: Path) -> list[str]:
    """Returns what a person wants to know, in a few lines."""
    early = ", interrupted" if results.is_interrupted else ""
    loss = allowed_loss(results)
    valid = f"VALID for this mode, but {loss}" if loss else "VALID"
    if results.tolerated and not loss:
        valid = (
            "VALID for this mode, but not in the order, or by one owner at a time, that it would have without faults"
        )
    verdict = {True: valid, False: "INVALID: a promise was broken", None: "UNKNOWN: the check could not decide"}
    untested = "".join(f"   {line}" for line in results.not_tested)
    up = available(results.availability)
    serving = f"   available {up[0]}, {up[1]} without an acknowledged write" if up else ""
    ops, rto, latency = results.ops, results.rto or RecoveryTimes(), results.latency_ms
    lines = [
        f"{verdict[results.valid]}{early}   acked {results.acked:,}   lost {results.lost_acked:,}   "
        f"{describe_expired(results)}"
        f"duplicated {results.duplicated or 0:,}   failed {ops.fail:,}   unknown {ops.info:,}{untested}",
        f"{len(results.faults)} fault{'s' * (len(results.faults) != 1)}   RTO max {seconds(rto.max)}   RPO {results.rpo.records or 0:,} records{serving}   "
        f"{results.throughput_ops_s or 0:,.0f} ops/s   p50 {milliseconds(latency['p50'])}   p99 {milliseconds(latency['p99'])}",
    ]
    if (of_clients := results.rto_client) is not None:
        longest = "to the end" if of_clients.max is None else f"max {seconds(of_clients.max)}"
        lines.append(f"RTO as its clients saw it (client={results.client}): {longest}")
    if turn := results.longest_turn:
        lines.append(
            f"long turn: n{turn.node} served no one for {turn.ms} ms ({turn.processor_ms} ms of them computing) because of {turn.cause}"
        )
    if rto.unrecovered:
        lines.append(f"no write was acknowledged any more after {rto.unrecovered} of the faults")
    for name, check in results.checks.items():
        if check.valid is not True and check.examples:
            lines.append(f"{name}: {check.count:,} found, for example: {check.examples[0]}")
    lines += [
        describe_counts(what, counts, results.checks["evidence"].reason)
        for what in ("transactions", "compaction")
        if (counts := results.objects.get(what)) is not None
    ]
    if given := results.given:
        lines.append(
            f"given to consumers: {given.messages:,} messages, {given.again:,} times one again   "
            f"client={results.client}"
        )
    lines += [
        f"{row['check']}, as this mode allows: {row['count']:,}; {row['because']}; for example: {row['example']}"
        for row in (results.tolerated or ())[:TOLERATED_SHOWN_MAX]
    ]
    lines += [f"lost, as this mode allows: {loss['says']}" for loss in results.lost_allowed]
    lines += [f"not decided: {reason}" for reason in results.unknown]
    return [*lines, f"report: {report}"]


def describe_counts(what: str, counts: Mapping[str, int], more: str | None) -> str:
    """Returns how the transactions of a run ended, or what compaction did, in one line; `more` is what faults struck."""
    told = [f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()]
    return "   ".join([f"{what}: {told[0]}", *told[1:], *([more] if more else [])])


def describe_expired(results: RunResults) -> str:
    """Returns how much left by the rule of retention; empty where nothing did."""
    return f"expired {results.expired:,}   " if results.expired else ""


def seconds(value: float | None) -> str:
    """A time, or a dash for one that is not known."""
    return "-" if value is None else f"{value:.2f} s"


def milliseconds(value: float | None) -> str:
    """A latency, or a dash."""
    return "-" if value is None else f"{value:.1f} ms"
