"""Options that `run`, `up` and `fault` share, read and refused alike; they need no package beyond a base install."""

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from jepsen_like.cli import EnvironmentMissing
from jepsen_like.cluster import namespaces
from jepsen_like.cluster.cluster import zones_of
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import KINDS, kinds_named, usable
from jepsen_like.port.port import Mode, System
from jepsen_like.port.registry import SYSTEMS, system_named, system_names
from jepsen_like.port.wires import Network
from jepsen_like.port.zones import NO_ZONES, OUTSIDE, Placement, WrongZones, ZonePlan

NODES = 3
BYTES_PER_MIB = 1024 * 1024
NODES_MAX = 15
NO_NEMESIS = "none"
ALL_NEMESES = "all"
Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""The decorator that `click.option` returns."""


def system_option(help_begins: str) -> Option:
    """`--system`, as an adapter."""
    names = f"{help_begins}: {', '.join(SYSTEMS)}, or a system of an installed package."
    return click.option(
        "--system", default="raft", show_default=True, callback=parse_system, metavar="NAME", help=names
    )


def _parse_beside(context: click.Context, parameter: click.Parameter, value: str | None) -> System | None:
    return None if value is None else parse_system(context, parameter, value)


beside_option = click.option(
    "--beside",
    default=None,
    callback=_parse_beside,
    metavar="NAME",
    help="Run the same on this system, too, and compare both. A setting of one of them: --set NAME:SETTING=VALUE.",
)


def network_option(help_text: str) -> Option:
    """`--network`, by name; by default the first of the system's, so `--system` stands before it."""
    names = click.Choice([each.value for each in Network])
    shown = f"{help_text}  [default: {Network.PROXIES}, if all links of the system can be cut there]"
    return click.option("--network", type=names, default=None, callback=_choose_network, help=shown)


def _choose_network(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Options that are not given are read last, in the order in which they stand."""
    return value if value is not None else context.params["system"].networks[0].value


def directory_option(name: str, default: Path, help_text: str) -> Option:
    """A directory, which need not be there."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option(name, type=kind, default=default, show_default=True, help=help_text)


nodes_option = click.option(
    "--nodes", type=click.IntRange(1, NODES_MAX), default=NODES, show_default=True, help="Number of nodes."
)


tls_option = click.option(
    "--tls", is_flag=True, help="Let nodes and clients speak TLS, with certificates of a throw-away authority."
)


def zone_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--zones` and the options of zones, as one argument `zones`, a `ZonePlan`."""

    @functools.wraps(command)
    def plan_zones(
        *, zones: str | None, placement: str, zone_delay: float, zone_bandwidth: float, client_zone: str, **others: Any
    ) -> Any:
        if zones is None:
            if zone_delay or zone_bandwidth or client_zone != OUTSIDE or placement != Placement.SPREAD:
                raise click.UsageError("--placement, --zone-delay, --zone-bandwidth and --client-zone need --zones")
            return command(zones=NO_ZONES, **others)
        try:
            plan = ZonePlan.of(
                zones,
                placement=Placement(placement),
                delay_s=zone_delay / 1e3,
                bytes_per_s=zone_bandwidth * BYTES_PER_MIB,
                clients=client_zone,
            )
        except WrongZones as error:
            raise click.UsageError(f"--zones: {error}") from error
        return command(zones=plan, **others)

    options = (
        click.option(
            "--zones", default=None, metavar="N|A+B", help="Stand in so many zones; or so many nodes in each: 2+1."
        ),
        click.option(
            "--placement",
            type=click.Choice([each.value for each in Placement]),
            default=Placement.SPREAD.value,
            show_default=True,
            help="Copies of the same records: each in another zone, or all in one.",
        ),
        click.option(
            "--zone-delay", type=MILLISECONDS, default=0.0, metavar="MS", help="From zone to zone, one way: 2ms."
        ),
        click.option(
            "--zone-bandwidth",
            type=click.FloatRange(0),
            default=0.0,
            metavar="MIB",
            help="MiB a second from one zone to another; 0: as much as there is.",
        ),
        click.option(
            "--client-zone",
            default=OUTSIDE,
            metavar="NAME",
            help="The zone of the clients: a, b, ...  [default: none of them]",
        ),
    )
    for option in reversed(options):
        plan_zones = option(plan_zones)
    return plan_zones


class _Milliseconds(click.ParamType[float]):
    name = "milliseconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """From `2ms` or `2`."""
        if isinstance(value, float):
            return value
        found = _MILLISECONDS.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no number of milliseconds, like 2ms", param, ctx)
        return float(found[1])


MILLISECONDS = _Milliseconds()
_MILLISECONDS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?: ?ms)?")


def zones_fit(plan: ZonePlan, system: System, mode: Mode, nodes: int) -> None:
    """Raises `UsageError` if the members of such a cluster do not fit into these zones."""
    try:
        zones_of(plan, mode, system.members_in_zones(nodes, plan.count))
    except WrongZones as error:
        raise click.UsageError(f"--zones: {error}") from error


def parse_nemesis(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Returns the kinds in `a,b,c`; none for "none"; "all" is resolved later. Raises `BadParameter` if unknown."""
    names = [name.strip() for name in value.split(",")]
    if names == [NO_NEMESIS]:
        return ()
    for lonely in (NO_NEMESIS, ALL_NEMESES):
        if lonely in names and len(names) > 1:
            raise click.BadParameter(f"{lonely!r} cannot be combined with other faults")
    if names == [ALL_NEMESES]:
        return (ALL_NEMESES,)
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(f"no fault {name!r}; {suggest(name)}")
    return tuple(dict.fromkeys(names))


def suggest(name: str) -> str:
    """Returns the name of a fault that is meant by a misspelled one, or all of them."""
    nearest = difflib.get_close_matches(name, (*KINDS, ALL_NEMESES, NO_NEMESIS), n=1)
    return (
        f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(KINDS)}, {ALL_NEMESES} and {NO_NEMESIS}"
    )


def parse_system(context: click.Context, parameter: click.Parameter, value: str) -> System:
    """Returns the adapter of a system. Raises `BadParameter` for an unknown name."""
    try:
        return system_named(value)
    except KeyError:
        raise click.BadParameter(f"no system {value!r}; there are {', '.join(system_names())}") from None


def one_of(option: str, value: str | None, names: Sequence[str]) -> str:
    """Returns the value, or the first of `names` if none was given. Raises `UsageError` for any other value."""
    if value is None:
        return names[0]
    if value not in names:
        raise click.UsageError(f"{option}: no {value!r} in this system; there are {', '.join(names)}")
    return value


def choose(names: tuple[str, ...], here: Here, refused: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Returns the kinds of faults to inject; `refused` are those that the system does not take, and why.

    Raises `EnvironmentMissing` for a named kind or a network that does not work here, and `UsageError` for too few
    nodes or a kind that is refused.
    """
    if here.network is Network.NAMESPACES and (reason := namespaces.lacking()) is not None:
        raise EnvironmentMissing(f"--network {here.network}: {reason}")
    if names == (ALL_NEMESES,):
        return tuple(name for name in usable(here) if name not in refused)
    for kind in kinds_named(names):
        if kind.name in refused:
            raise click.UsageError(f"--nemesis {kind.name}: not in this system, {refused[kind.name]}")
        if here.nodes < kind.nodes_min:
            raise click.UsageError(f"a {kind.name} needs at least {kind.nodes_min} nodes")
        lack = kind.lacks(here)
        if lack is not None:
            raise EnvironmentMissing(f"--nemesis {kind.name}: {lack}")
    return names


def unless_given(wanted: Iterable[str], given: tuple[str, ...]) -> tuple[str, ...]:
    """Returns those of the wanted settings `name=value` whose name is not among the given ones."""
    names = {setting.partition("=")[0].strip() for setting in given}
    return tuple(setting for setting in wanted if setting.partition("=")[0] not in names)
