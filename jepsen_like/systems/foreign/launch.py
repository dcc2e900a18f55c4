"""Starts a program of others as a process of a run: `python -m jepsen_like.systems.foreign.launch LAUNCH`.

The harness knows a process by its id and by the lines of JSON that it prints. So this process becomes the program (`exec`),
and leaves a child next to it, the *watcher*, which asks the program for its state and prints the lines. What the program
prints goes to standard error, which the harness keeps. The watcher dies with the program: the kernel kills it then.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.cluster.process import die_with_parent
from jepsen_like.cluster.volumes import bind_alone
from jepsen_like.systems.foreign.watching import Look, Teller

LOOK_EVERY_S: Final = 0.1
HOSTS: Final = Path("/etc/hosts")
LOCAL: Final = {"localhost": "127.0.0.1"}


@attrs.frozen(kw_only=True)
class Launch:
    """The program and what is done before it and next to it."""

    argv: Sequence[str]
    files: Mapping[str, str]
    """Written before it begins: the text of each by its path. A path that ends with a slash is a directory."""
    look: str
    """The `module:function` of the watcher: it takes `about`, and returns a `Look`, or None while the program is silent."""
    about: Mapping[str, Any]
    environment: Mapping[str, str] = {}
    hosts: Mapping[str, str] = {}
    """The addresses of names, as this program alone sees them; with any, `/etc/hosts` is another file to it."""
    scratch: str = ""
    """A directory for the file of hosts."""
    beside: Sequence[Sequence[str]] = ()
    """Programs that it needs next to it; each dies with it."""

    def command(self) -> list[str]:
        """The command line that starts it so, in this interpreter."""
        return [sys.executable, "-m", __spec__.name, json.dumps(attrs.asdict(self))]


def main(text: str) -> None:
    """Become the program."""
    launch = Launch(**json.loads(text))
    for path, content in launch.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            Path(path).mkdir(exist_ok=True)
        else:
            Path(path).write_text(content)
    tie = die_with_parent()
    if os.fork() == 0:
        tie()
        watch(launch)
    if launch.hosts:
        hide_hosts(Path(launch.scratch), launch.hosts)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for words in launch.beside:
        if os.fork() == 0:
            tie()
            os.execvp(words[0], list(words))
    os.execvpe(launch.argv[0], list(launch.argv), {**os.environ, **launch.environment})


def hide_hosts(scratch: Path, hosts: Mapping[str, str]) -> None:
    """Let this process and what it becomes see these names alone, by a mount that no other process sees.

    So members that know each other by one name and port each can still be led over ways of their own.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / "hosts"
    file.write_text("".join(f"{address} {name}\n" for name, address in sorted({**hosts, **LOCAL}.items())))
    bind_alone(file, HOSTS)


def watch(launch: Launch) -> None:
    """Look again and again, and print what is new, until killed."""
    module, _, name = launch.look.partition(":")
    look: Callable[[Mapping[str, Any]], Look | None] = getattr(importlib.import_module(module), name)
    teller = Teller()
    while True:
        seen = look(launch.about)
        for event in teller.tell(seen) if seen is not None else ():
            line = json.dumps({"t_ns": time.monotonic_ns(), **event})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1])
