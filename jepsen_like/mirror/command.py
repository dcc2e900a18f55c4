"""`quorumlog mirror` and `quorumlog switch`: a standby cluster, and an operator's way to it and back."""

import functools
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from jepsen_like.cli import ExitStatus
from jepsen_like.mirror.ends import MirrorEnded, Why
from jepsen_like.mirror.plan import DivergedTail, LinkEnd, MirrorPlan, Tell
from jepsen_like.mirror.switching import NotSwitched, PerhapsSwitched, Switched, SwitchPlan, row_of_end
from jepsen_like.operate.access import OPEN, BrokerAccess, UnusableAccess, access_of
from jepsen_like.operate.addresses import AddressesType, text_of_cluster
from jepsen_like.operate.options import Option, Printer, json_option, run
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.operate.tables import json_line
from jepsen_like.port.wires import Address
from raft.net.certificates import UnusableFiles

T = TypeVar("T")
SYSTEMS: Final = ("kafka", "rocketmq")
ENDS: Final = {
    "source": "Brokers of the cluster whose topics are copied; one that is up will do.",
    "target": "Brokers of the cluster that gets the copies.",
}


def link_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the parameter `plan`: the two clusters, the link's name, and what is copied."""

    def with_plan(
        source: tuple[Address, ...],
        target: tuple[Address, ...],
        source_config: Path | None,
        target_config: Path | None,
        link: str,
        topics: str,
        groups: str,
        system: str,
        **others: Any,
    ) -> Any:
        ends = [
            LinkEnd(addresses, _access("--from-config", file) if at == 0 else _access("--to-config", file))
            for at, (addresses, file) in enumerate(((source, source_config), (target, target_config)))
        ]
        if set(source) & set(target):
            raise click.UsageError("--from and --to name the same broker; a mirror needs two clusters")
        plan = MirrorPlan(ends[0], ends[1], link=link, topics=_words(topics), groups=_words(groups), system=system)
        return command(plan=plan, **others)

    functools.update_wrapper(with_plan, command)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    options: tuple[Option, ...] = (
        click.option(
            "--groups", default="*", show_default=True, help="Copy the offsets of these groups: names, or * in them."
        ),
        click.option(
            "--topics", default="*", show_default=True, help="Copy these topics: names, or * in them, with commas."
        ),
        click.option("--system", type=click.Choice(SYSTEMS), default=SYSTEMS[0], show_default=True),
        click.option("--link", default="mirror", show_default=True, help="The name of this pair of clusters."),
        click.option("--to-config", "target_config", type=file, help="Client properties for --to, for SASL and TLS."),
        click.option("--from-config", "source_config", type=file, help="Client properties for --from."),
        click.option("--to", "target", type=AddressesType(), required=True, help=ENDS["target"]),
        click.option("--from", "source", type=AddressesType(), required=True, help=ENDS["source"]),
    )
    for option in options:
        with_plan = option(with_plan)
    return with_plan


def _access(flag: str, file: Path | None) -> BrokerAccess:
    if file is None:
        return OPEN
    try:
        return access_of(None, file)
    except (UnusableAccess, UnusableFiles) as error:
        raise click.UsageError(f"{flag}: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


@click.command()
@link_options
@click.option(
    "--diverged",
    type=click.Choice([DivergedTail.KEEP.value, DivergedTail.RECREATE.value]),
    help="Records of the target that were never copied from it, after a switch: leave them, or delete their topic.",
)
@click.option(
    "--status", "shows", is_flag=True, help="Show the lag of each partition and the link's epoch; copy nothing."
)
@click.option("--until-caught-up", is_flag=True, help="End once the target has all that the source has.")
@json_option
def mirror(*, plan: MirrorPlan, diverged: str | None, until_caught_up: bool, shows: bool, as_json: bool) -> ExitStatus:
    """Copy topics, their settings and groups' offsets from one cluster to another, each record once.

    --from and --to name brokers of Kafka, or with --system rocketmq name servers of RocketMQ.

    It goes on until Ctrl-C, or until another mirror or a switch takes the link. A restart goes on where it was. Exit status 0 if it
    was stopped or has caught up, 5 if it was fenced or refused.
    """
    if shows:
        return _show_status(plan, as_json)
    plan = attrs.evolve(plan, diverged=_tail_of(diverged, plan.system), until_caught_up=until_caught_up)
    ended = run(_until_stopped, functools.partial(_runs_of(plan.system)[0], plan, _teller(as_json)))
    if ended is None:
        ended_row = {"event": "end", "why": "stopped", "message": "stopped; start it again to go on"}
        _say(ended_row, as_json)
        return ExitStatus.VALID
    _say({"event": "end", "why": ended.why.value, "message": ended.message, "records": ended.records}, as_json)
    return ExitStatus.VALID if ended.why is Why.CAUGHT_UP else ExitStatus.NOT_DONE


def _show_status(plan: MirrorPlan, as_json: bool) -> ExitStatus:
    """Print the lag of each partition, `None` where the source does not answer. Raises `NotDone`."""
    try:
        seen: Switched = run(_runs_of(plan.system)[1], SwitchPlan(plan, fences=False), _teller(as_json))
    except NotSwitched as error:
        raise NotDone(str(error)) from None
    printer = Printer(as_json)
    rows = ({name: value for name, value in each.row().items() if name != "lost"} for each in seen.left)
    printer.rows([{**row, "lag": each.lost} for row, each in zip(rows, seen.left, strict=True)])
    if as_json:
        click.echo(json_line({"event": "status", "link": plan.link, "epoch": seen.epoch, "lag": seen.lost}))
    else:
        click.echo(f"quorumlog mirror: link {plan.link} has epoch {seen.epoch}", err=True)
    return ExitStatus.VALID


def _tail_of(diverged: str | None, system: str) -> DivergedTail:
    tail = DivergedTail(diverged) if diverged else DivergedTail.REFUSE
    if tail is DivergedTail.RECREATE and system != SYSTEMS[0]:
        raise click.UsageError(
            "--diverged recreate is for Kafka; delete the topic of RocketMQ by quorumlog topics delete"
        )
    return tail


def _runs_of(system: str) -> tuple[Callable[..., Awaitable[MirrorEnded]], Callable[..., Awaitable[Switched]]]:
    """Returns the mirror and the switch of a system, imported now."""
    if system == SYSTEMS[0]:
        from jepsen_like.mirror.kafka.mirror import run_mirror
        from jepsen_like.mirror.kafka.switch import run_switch

        return run_mirror, run_switch
    from jepsen_like.mirror.rocketmq import mirror as of_rocketmq

    return of_rocketmq.run_mirror, of_rocketmq.run_switch


async def _until_stopped(work: Callable[[], Awaitable[MirrorEnded]]) -> MirrorEnded | None:
    """Returns the end of the work; None if a signal stopped it first."""
    ended: list[MirrorEnded] = []
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            ended.append(await work())
            nursery.cancel_scope.cancel()
    return ended[0] if ended else None


def _teller(as_json: bool) -> Tell:
    """Returns what prints the events of a mirror: objects on stdout, or one line that changes on stderr."""
    is_live = sys.stderr.isatty()

    def tell(event: Mapping[str, Any]) -> None:
        if as_json:
            click.echo(json_line(event))
        elif event["event"] != "progress":
            click.echo(f"quorumlog mirror: {sentence_of(event)}", err=True)
        elif is_live:
            click.echo(f"\r\x1b[K{sentence_of(event)}", err=True, nl=False)

    return tell


def _say(event: Mapping[str, Any], as_json: bool) -> None:
    _teller(as_json)(event)


def sentence_of(event: Mapping[str, Any]) -> str:
    """Returns an event in words."""
    match event["event"]:
        case "open":
            topics = len(event["topics"])
            return f"link {event['link']} is open at epoch {event['epoch']}; {topics} topic{'s' if topics != 1 else ''}"
        case "progress":
            lag = "unknown" if event["lag_records"] is None else f"{event['lag_records']} offsets"
            silent = f"; the source: {event['source']}" if "source" in event else ""
            return f"{event['records']} records copied, lag {lag}{silent}"
        case "fenced":
            return f"link {event['link']} is taken at epoch {event['epoch']}; no mirror can write any more"
        case "broken":
            return f"{event['why']}; trying again"
        case "skipped":
            return f"{event['partition']}: retention removed {event['from']} to {event['to']} before they were copied"
        case _:
            return str(event.get("message", event["event"]))


# -------------------------------------------------------------------- switch


@click.command()
@link_options
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Copy the rest for so many seconds.",
)
@click.option("--give-up", "gives_up", is_flag=True, help="Then switch in any case, and leave what was not copied.")
@click.option("--back", "is_back", is_flag=True, help="Return: copy from --to to --from until caught up, then switch.")
@click.option(
    "--diverged",
    type=click.Choice([DivergedTail.KEEP.value, DivergedTail.RECREATE.value]),
    help="--back: see quorumlog mirror.",
)
@click.option(
    "--unsafe-no-fence",
    is_flag=True,
    help="Leave the link open, to see what goes wrong: the old cluster's records flow on into the new one.",
)
@json_option
def switch(
    *,
    plan: MirrorPlan,
    wait_s: float,
    gives_up: bool,
    is_back: bool,
    diverged: str | None,
    unsafe_no_fence: bool,
    as_json: bool,
) -> ExitStatus:
    """Make the target of a mirror the cluster of all clients: fence the link, copy the rest, move offsets, cut the link.

    Stop the writers of --from first, if they still run. Start clients at --to when this has ended with status 0 or 1. Exit
    status 0 if nothing was lost, 1 if records were left behind or that is unknown, 5 if clients must stay, 3 to repeat it.
    """
    if diverged and not is_back:
        raise click.UsageError("--diverged is for --back")
    if is_back:
        plan = attrs.evolve(plan.turn(), diverged=_tail_of(diverged, plan.system))
    tell = _teller(as_json)
    run_mirror, run_switch = _runs_of(plan.system)
    switching = SwitchPlan(plan, wait_s, gives_up, fences=not unsafe_no_fence)
    try:
        if is_back and not unsafe_no_fence:
            run(_bring_back, run_mirror, plan, tell, wait_s)
        switched: Switched = run(run_switch, switching, tell)
    except NotSwitched as error:
        raise NotDone(str(error)) from None
    except PerhapsSwitched as error:
        raise PerhapsDone(str(error)) from None
    printer = Printer(as_json)
    printer.rows([each.row() for each in switched.left])
    if as_json:
        click.echo(json_line(row_of_end(switched, plan.link)))
    else:
        for line in advice_of(switched, switching):
            click.echo(f"quorumlog switch: {line}", err=True)
    return ExitStatus.VALID if switched.lost == 0 else ExitStatus.VIOLATION


async def _bring_back(
    run_mirror: Callable[..., Awaitable[MirrorEnded]], plan: MirrorPlan, tell: Tell, wait_s: float
) -> None:
    """Mirror the other way until caught up. Raises `NotSwitched`."""
    with trio.move_on_after(wait_s):
        ended = await run_mirror(attrs.evolve(plan, until_caught_up=True), tell)
        if ended.why is Why.CAUGHT_UP:
            return
        raise NotSwitched(ended.message)
    raise NotSwitched(
        f"the way back has not caught up within {wait_s:g} s; clients stay where they are, and what was copied stays; "
        f"go on by quorumlog mirror {_flags(plan)}, and repeat this once its lag is small"
    )


def _flags(plan: MirrorPlan) -> str:
    words = f"--from {text_of_cluster(plan.source.addresses)} --to {text_of_cluster(plan.target.addresses)}"
    if plan.system != SYSTEMS[0]:
        words += f" --system {plan.system}"
    return words if plan.link == "mirror" else f"{words} --link {plan.link}"


def advice_of(switched: Switched, switching: SwitchPlan) -> list[str]:
    """Returns what an operator is told after a switch: what is certain, and what to do next."""
    plan = switching.mirror
    if not switching.fences:
        return [
            f"link {plan.link} is still OPEN at epoch {switched.epoch}: whatever reaches --from flows into --to, among what its "
            "clients write",
            "cut it by the same command without --unsafe-no-fence",
        ]
    lost = switched.lost
    lines = [f"link {plan.link} is cut at epoch {switched.epoch}: no mirror of it can write into --to any more"]
    if lost == 0:
        lines.append("every record that the source acknowledged is in the target")
    elif lost is None:
        lines.append(
            "the source does not answer for all partitions: what it acknowledged from `copied to` on is not in the target; "
            "it is on the source's disks"
        )
    else:
        lines.append(f"{lost} records of the source are not in the target: those from `copied to` to `source end`")
    lines.append("now start clients at --to; its groups begin where they were, and may read some records again")
    lines.append(
        f"to make the old cluster the standby, once it is back and none of its clients write: quorumlog mirror {_flags(plan.turn())}"
    )
    return lines
