"""Options that `run`, `up` and `fault` share, read and refused alike; they need no package beyond a base install."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from jepsen_like.cli import EnvironmentMissing
from jepsen_like.cluster import namespaces
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import KINDS, kinds_named, usable
from jepsen_like.port.port import System
from jepsen_like.port.registry import SYSTEMS, system_named, system_names
from jepsen_like.port.wires import Network

NODES = 3
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


def network_option(help_text: str) -> Option:
    """`--network`, by name."""
    names = click.Choice([each.value for each in Network])
    return click.option("--network", type=names, default=Network.PROXIES.value, show_default=True, help=help_text)


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
