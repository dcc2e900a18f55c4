"""The options of `quorumlog run` for a cluster that others run: where it is, and the commands that break it."""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from jepsen_like.nemesis.hooks import Hook, WrongHook, hooked_kinds
from jepsen_like.nemesis.kind import NemesisKind
from jepsen_like.nemesis.table import KINDS
from jepsen_like.operate.addresses import AddressesType, text_of_cluster
from jepsen_like.port.port import RunningCluster, System
from jepsen_like.port.registry import TARGET_BEGINS, TARGETS, system_named
from jepsen_like.port.wires import Address


@attrs.frozen(kw_only=True)
class TargetPlan:
    """A cluster of others, and its owner's commands by kind of fault."""

    target: RunningCluster
    hooks: Mapping[str, Hook]

    def kinds(self, names: Iterable[str]) -> tuple[NemesisKind, ...]:
        """The kinds of faults of these names, by commands."""
        kinds = hooked_kinds(self.hooks)
        return tuple(kinds[name] for name in names)

    def words(self) -> list[str]:
        """The options that plan it."""
        words = ["--bootstrap-servers", text_of_cluster(self.target.servers)]
        words += ["--command-config", str(self.target.properties)] if self.target.properties else []
        for kind, hook in self.hooks.items():
            words += ["--fault-command", f"{kind}={hook.fault}", "--undo-command", f"{kind}={hook.undo}"]
        return words

    def as_json(self) -> dict[str, Any]:
        """As test.json has it: the file of properties by its place, so that no password is kept."""
        return {
            "servers": text_of_cluster(self.target.servers),
            "properties": str(self.target.properties) if self.target.properties else None,
            "hooks": {kind: attrs.asdict(hook) for kind, hook in self.hooks.items()},
        }


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of `--target`, as one argument `target`, a `TargetPlan`; None without."""

    @functools.wraps(command)
    def plan_target(
        *,
        target: str | None,
        bootstrap_servers: tuple[Address, ...] | None,
        command_config: Path | None,
        fault_command: tuple[str, ...],
        undo_command: tuple[str, ...],
        system: System,
        **others: Any,
    ) -> Any:
        if target is None:
            if bootstrap_servers or command_config or fault_command or undo_command:
                raise click.UsageError(
                    "--bootstrap-servers, --command-config, --fault-command and --undo-command need --target"
                )
            return command(target=None, system=system, **others)
        if bootstrap_servers is None:
            raise click.UsageError("--target needs --bootstrap-servers HOST:PORT,...")
        plan = TargetPlan(
            target=RunningCluster(servers=bootstrap_servers, properties=command_config),
            hooks=pair_hooks(fault_command, undo_command),
        )
        return command(target=plan, system=system_named(f"{TARGET_BEGINS}{target}"), **others)

    names = [name.removeprefix(TARGET_BEGINS) for name in TARGETS]
    for option in (
        click.option(
            "--undo-command", multiple=True, metavar="KIND='CMD'", help="The command that undoes it, likewise."
        ),
        click.option(
            "--fault-command",
            multiple=True,
            metavar="KIND='CMD'",
            help="With --target: how to do a fault, such as kill='docker kill {node}'; {host} and {port} are known, too.",
        ),
        click.option(
            "--command-config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="With --target: a file of client properties, named as the options of the system's own tools.",
        ),
        click.option(
            "--bootstrap-servers",
            type=AddressesType(),
            help="With --target: brokers, nodes or members to begin with; of RocketMQ name servers.",
        ),
        click.option(
            "--target", type=click.Choice(names), help="Test a cluster of this kind that runs already, instead."
        ),
    ):
        plan_target = option(plan_target)
    return plan_target


def pair_hooks(faults: Iterable[str], undos: Iterable[str]) -> dict[str, Hook]:
    """Returns the commands by kind. Raises `UsageError` for one that is alone, of an unknown kind or with unknown names."""
    done, undone = _by_kind("--fault-command", faults), _by_kind("--undo-command", undos)
    for kind in done.keys() ^ undone.keys():
        missing = "--undo-command" if kind in done else "--fault-command"
        raise click.UsageError(f"{kind} has no {missing}: a fault is always undone")
    hooks = {kind: Hook(done[kind], undone[kind]) for kind in done}
    for kind, hook in hooks.items():
        try:
            hook.check()
        except WrongHook as error:
            raise click.UsageError(f"the command of {kind}: {error}") from None
    return hooks


def _by_kind(option: str, words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        kind, separator, command = word.partition("=")
        if not separator or not command.strip():
            raise click.UsageError(f"{option}: {word!r} is not of the form KIND='CMD'")
        if kind not in KINDS:
            raise click.UsageError(f"{option}: no fault {kind!r}; there are {', '.join(KINDS)}")
        if kind in found:
            raise click.UsageError(f"{option}: {kind} is given twice")
        found[kind] = command
    return found


def choose_hooked(kinds: tuple[str, ...], target: TargetPlan, *, are_given: bool) -> tuple[str, ...]:
    """Returns the kinds to inject: those asked for, or all with a command. Raises `UsageError` for one without."""
    if not are_given:
        return tuple(target.hooks)
    for kind in kinds:
        if kind not in target.hooks:
            raise click.UsageError(f"--nemesis {kind}: a cluster of others needs --fault-command {kind}='...'")
    return kinds
