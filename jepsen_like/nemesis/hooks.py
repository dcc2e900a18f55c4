"""Faults of a cluster that others run: done and undone by commands of its owner, and seen over the network.

A command is a text in which `{node}`, `{host}` and `{port}` stand for a process and its address. That it ended with 0
proves nothing: the fault holds once the process is seen to take no part, and is over once it takes part again.
"""

import random
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, together
from jepsen_like.nemesis.kind import TAKES_NO_PART, TAKES_PART, Kinds, NemesisKind, Seen, Withheld
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target, processes
from jepsen_like.port.wires import Address

COMMAND_WITHIN_S: Final = 60.0
HOLDS_WITHIN_S: Final = 30.0
BACK_WITHIN_S: Final = 90.0
POLL_S: Final = 0.2
WORDS_MAX: Final = 200


class WrongHook(ValueError):
    """A command that cannot be used; the text tells why."""


@attrs.frozen
class Hook:
    """The commands of one kind of fault."""

    fault: str
    undo: str

    def check(self) -> None:
        """Raises `WrongHook` for a command with a name in braces that stands for nothing."""
        for command in (self.fault, self.undo):
            fill(command, 1, ("host", 1))


def fill(command: str, node: int, address: Address) -> str:
    """Returns the command for one process, its parts quoted for a shell. Raises `WrongHook`."""
    try:
        return command.format(node=node, host=shlex.quote(address[0]), port=address[1])
    except (KeyError, IndexError, ValueError) as error:
        raise WrongHook(f"{command!r}: {{node}}, {{host}} and {{port}} are known, not {error}") from None


class HookedKind(NemesisKind):
    """A kind of fault of whole processes, by the commands of a hook; `hooked_kinds` makes a class of each."""

    lane = Lane.MACHINE
    targets = (Target.ONE, Target.MINORITY)
    takes_down = True
    hook: Hook

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """So many processes."""
        return ResolvedTarget(processes(rng, target, nodes, leader), seed=rng.getrandbits(32))

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Run the command for all together, and wait until each is seen to take no part."""
        failed = await self._run(cluster, hit, self.hook.fault)
        seen = {} if failed else await _watch(cluster, hit.nodes, gone=True, within_s=HOLDS_WITHIN_S)
        missed = {node: text for node, text in seen.items() if not text.startswith(TAKES_NO_PART)}
        if failed or missed:
            await self.undo(cluster, hit)
            node, why = next(iter({**missed, **failed}.items()))
            raise Withheld(f"the command had no effect on n{node}: {why}")
        return seen

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Run the other command, and wait until each takes part."""
        failed = await self._run(cluster, hit, self.hook.undo)
        return {**await _watch(cluster, hit.nodes, gone=False, within_s=BACK_WITHIN_S), **failed}

    async def _run(self, cluster: Cluster, hit: ResolvedTarget, command: str) -> Seen:
        """Returns why it failed, by process; empty if it did for none."""
        failed: Seen = {}

        async def run(node: int) -> None:
            text = fill(command, node, cluster.direct[node])
            with trio.move_on_after(COMMAND_WITHIN_S) as scope:
                done = await trio.run_process(["sh", "-c", text], capture_stdout=True, capture_stderr=True, check=False)
                if done.returncode:
                    words = (done.stderr or done.stdout).decode(errors="replace").strip()[-WORDS_MAX:]
                    failed[str(node)] = f"{text} ended with status {done.returncode}: {words}"
            if scope.cancelled_caught:
                failed[str(node)] = f"{text} took more than {COMMAND_WITHIN_S:g} s"

        await together(run, hit.nodes)
        return failed


async def _watch(cluster: Cluster, nodes: Sequence[int], *, gone: bool, within_s: float) -> Seen:
    """Returns what was seen of each process last: as it should be, or as it still is when the time is over."""
    seen: Seen = {}

    async def watch(node: int) -> None:
        with trio.move_on_after(within_s):
            while True:
                absence = await cluster.control.absence(node)
                seen[str(node)] = TAKES_PART if absence is None else f"{TAKES_NO_PART}{absence}"
                if (absence is not None) is gone:
                    return
                await trio.sleep(POLL_S)

    await together(watch, nodes)
    return {str(node): seen.get(str(node), "it could not be looked at") for node in nodes}


def hooked_kinds(hooks: Mapping[str, Hook]) -> Kinds:
    """Returns a kind of fault for each hook, named as the kind that it stands for, which may cost what that may cost."""
    return {
        name: type(f"Hooked{name.title()}", (HookedKind,), {"name": name, "hook": hook, "reach": KINDS[name].reach})()
        for name, hook in hooks.items()
    }
