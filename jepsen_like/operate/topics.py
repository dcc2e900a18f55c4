"""`quorumlog topics`: list, describe, create and delete topics of a Kafka or RocketMQ cluster, and move Kafka's partitions."""

from collections.abc import Sequence
from typing import Final, TextIO

import attrs
import click
import trio

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.access import BrokerAccess
from jepsen_like.operate.addresses import text_of_cluster
from jepsen_like.operate.administration import Administration, TopicPlan, open_administration
from jepsen_like.operate.options import (
    BROKERS,
    Printer,
    access_options,
    cluster_option,
    json_option,
    run,
    within_option,
)
from jepsen_like.operate.outcomes import PerhapsDone
from jepsen_like.operate.reassignment import (
    Assignment,
    MovePlan,
    Partition,
    UnusablePlan,
    read_plan,
    replace,
    spread,
    write_plan,
)
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address

LIST, DESCRIBE, CREATE, DELETE, REASSIGN = "list", "describe", "create", "delete", "reassign"
LOOK_EVERY_S: Final = 0.2


@attrs.frozen
class Move:
    """The order to move partitions of `topic`, or of all topics; without any of the first three it only shows moves."""

    topic: str | None
    to: tuple[int, ...]
    replaced: tuple[tuple[int, int], ...]
    planned: Assignment | None
    executes: bool
    cancels: bool

    def covers(self, partition: Partition) -> bool:
        """Returns True if the order is about this partition."""
        if self.topic is not None and partition[0] != self.topic:
            return False
        return self.planned is None or partition in self.planned

    def plan(self, now: Assignment) -> MovePlan:
        """Returns the plan for a cluster. Raises `UnusablePlan`."""
        mine = {each: brokers for each, brokers in now.items() if self.covers(each)}
        if self.topic is not None and not mine and self.planned is None:
            raise UnusablePlan(f"there is no topic {self.topic}; nothing was changed")
        if self.planned is not None:
            return MovePlan.of(now, {each: brokers for each, brokers in self.planned.items() if self.covers(each)})
        return MovePlan.of(now, spread(mine, self.to) if self.to else replace(mine, self.replaced))


class BrokersType(click.ParamType[tuple[int, ...]]):
    """Ids of brokers, each once."""

    name = "ID,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Returns the ids in their order."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.isascii() and word.isdigit() for word in words) or len(set(words)) != len(words):
            self.fail(f"{value!r} is not of the form 1,2,3", param, ctx)
        return tuple(map(int, words))


class BrokerPairType(click.ParamType[tuple[int, int]]):
    """The id of a broker and the id of another that takes its place."""

    name = "OLD=NEW"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Returns the two."""
        if isinstance(value, tuple):
            return value
        old, _, new = str(value).partition("=")
        if not all(word.isascii() and word.isdigit() for word in (old, new)) or old == new:
            self.fail(f"{value!r} is not of the form OLD=NEW", param, ctx)
        return int(old), int(new)


@click.command()
@click.argument("action", type=click.Choice([LIST, DESCRIBE, CREATE, DELETE, REASSIGN]), default=LIST)
@click.argument("name", required=False)
@cluster_option(BROKERS)
@access_options
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="create: partitions; queues in RocketMQ.")
@click.option("--replication-factor", "replicas", type=click.IntRange(1), metavar="N", help="create: copies (Kafka).")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="create: a setting of the topic.")
@click.option("--to", type=BrokersType(), default=(), help="reassign: every partition of NAME gets these copies.")
@click.option("--replace", "replaced", type=BrokerPairType(), multiple=True, help="reassign: one broker by another.")
@click.option(
    "--plan", "planned", type=click.File("r"), metavar="FILE", help="reassign: as kafka-reassign-partitions has it."
)
@click.option("--execute", "executes", is_flag=True, help="reassign: do what is shown without, and wait for it.")
@click.option("--cancel", "cancels", is_flag=True, help="reassign: leave those that are moving as they were.")
@within_option
@json_option
def topics(
    *,
    action: str,
    name: str | None,
    cluster: tuple[Address, ...],
    access: BrokerAccess,
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    to: tuple[int, ...],
    replaced: tuple[tuple[int, int], ...],
    planned: TextIO | None,
    executes: bool,
    cancels: bool,
    within_s: float,
    as_json: bool,
) -> ExitStatus:
    """List the topics, or describe, create or delete the topic NAME; or reassign partitions to other brokers (Kafka).

    reassign shows what moves. With --to, --replace or --plan it shows a plan, and with --execute carries it out.
    Exit status 0 if it was done, 5 if it certainly was not, 3 if it is unknown or goes on.
    """
    chosen = [bool(to), bool(replaced), planned is not None, cancels]
    if action != REASSIGN and (any(chosen) or executes):
        raise click.UsageError("--to, --replace, --plan, --execute and --cancel are for reassign")
    if action == REASSIGN:
        if sum(chosen[:3]) > 1 or (cancels and (to or replaced or executes)) or (executes and not any(chosen)):
            raise click.UsageError("reassign takes one of --to, --replace and --plan, with --execute; or --cancel")
        if to and name is None:
            raise click.UsageError("--to is for the partitions of one topic: give its NAME")
        assignment = None if planned is None else read_plan(planned.read())
        move = Move(name, to, replaced, assignment, executes, cancels)
        return run(_reassign, cluster, access, within_s, move, Printer(as_json))
    if (name is None) != (action == LIST):
        raise click.UsageError(f"{action} takes {'no name' if action == LIST else 'the NAME of a topic'}")
    if action != CREATE and (partitions or replicas or settings):
        raise click.UsageError("--partitions, --replication-factor and --set are for create")
    plan = TopicPlan(name or "", partitions, replicas, dict(map(_setting, settings)))
    printer = Printer(as_json)
    rows = run(_topics, cluster, access, within_s, action, plan)
    printer.rows(rows)
    if not rows:
        printer.nothing("there are no topics")
    return ExitStatus.VALID


def _setting(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set: {word!r} is not of the form NAME=VALUE")
    return name.strip(), value.strip()


async def _topics(
    cluster: tuple[Address, ...], access: BrokerAccess, within_s: float, action: str, plan: TopicPlan
) -> Sequence[Row]:
    administration = await open_administration(cluster, within_s, access)
    match action:
        case "describe":
            rows = await administration.topic(plan.name)
        case "create":
            rows = await administration.create_topic(plan)
        case "delete":
            rows = await administration.delete_topic(plan.name)
        case _:
            rows = await administration.topics()
    for note in administration.notes:
        click.echo(f"quorumlog topics: {note}", err=True)
    return rows


# -------------------------------------------------------------------- reassign


async def _reassign(
    cluster: tuple[Address, ...], access: BrokerAccess, within_s: float, move: Move, printer: Printer
) -> ExitStatus:
    administration = await open_administration(cluster, within_s, access)
    if move.cancels:
        await _cancel(administration, move, printer)
    elif move.to or move.replaced or move.planned is not None:
        await carry_out(administration, move, printer, within_s, f"--cluster {text_of_cluster(cluster)}")
    else:
        rows = [row for row in await administration.moving() if move.covers((row["topic"], row["partition"]))]
        printer.rows(rows)
        if not rows:
            printer.nothing("no partition is moving")
    for note in administration.notes:
        click.echo(f"quorumlog topics: {note}", err=True)
    return ExitStatus.VALID


async def _cancel(administration: Administration, move: Move, printer: Printer) -> None:
    moving = [(row["topic"], row["partition"]) for row in await administration.moving()]
    cancelled = [each for each in moving if move.covers(each)]
    if cancelled:
        await administration.reassign(dict.fromkeys(cancelled))
    printer.rows([{"topic": topic, "partition": at, "outcome": "cancelled"} for topic, at in cancelled])
    if not cancelled:
        printer.nothing("no partition is moving")


async def _find_left(administration: Administration, plan: MovePlan) -> list[Partition]:
    """Returns the partitions that have not arrived."""
    moving = {(row["topic"], row["partition"]) for row in await administration.moving()}
    now = await administration.assignment()
    return [each for each, to in plan.targets.items() if each in moving or now.get(each) != to]


async def carry_out(administration: Administration, move: Move, printer: Printer, within_s: float, flags: str) -> None:
    """Show the plan of an order; if it is to be executed, do so, and wait until all has arrived. Raises `PerhapsDone`."""
    plan = move.plan(await administration.assignment())
    printer.rows(plan.rows())
    if not plan.wanted:
        printer.nothing("no partition is to move any more")
    elif not move.executes:
        click.echo(f"quorumlog topics: nothing was changed; the plan: {write_plan(plan.wanted)}", err=True)
        click.echo("quorumlog topics: carry it out with --execute", err=True)
    else:
        before = write_plan({each: plan.now[each] for each in plan.wanted})
        click.echo(f"quorumlog topics: to go back, give this to --plan: {before}", err=True)
        await administration.reassign(plan.wanted)
    if move.executes:
        await _wait_for(administration, plan, within_s, flags)


async def _wait_for(administration: Administration, plan: MovePlan, within_s: float, flags: str) -> None:
    """Wait until all partitions of the plan are there, also those that were on their way before."""
    deadline = trio.current_time() + within_s
    while left := await _find_left(administration, plan):
        if trio.current_time() + LOOK_EVERY_S >= deadline:
            raise PerhapsDone(
                f"{len(left)} of {len(plan.targets)} partitions have not arrived, and go on; "
                f"see how far they are: quorumlog topics reassign {flags}"
            )
        await trio.sleep(LOOK_EVERY_S)
    click.echo(f"quorumlog topics: {len(plan.targets)} partitions are where they are to be", err=True)
