"""Programs in other languages, in directories of the user's cache; Maven, npm, pip and Go bring missing ones.

They are not dependencies of this package.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

FETCHED_WITHIN_S: Final = 600.0


class ClientMissing(Exception):
    """A client is not there and cannot be brought; the message has the reason."""


def cache(name: str) -> Path:
    """Returns a directory of the cache, there or not."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "quorumlog" / name


def need(*programs: str) -> None:
    """Raises `ClientMissing` if one of these programs is not on this machine."""
    for program in programs:
        if not shutil.which(program):
            raise ClientMissing(f"there is no {program} on this machine")


def bring(home: Path, *command: str) -> None:
    """Run a command that fills `home`, which has its name only when that has ended well. Raises `ClientMissing`."""
    need(command[0])
    part = home.with_name(f"{home.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        done = subprocess.run(
            [each.replace("{home}", str(part)) for each in command],
            capture_output=True,
            text=True,
            timeout=FETCHED_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClientMissing(f"{command[0]} did not end within {FETCHED_WITHIN_S:g} s") from None
    if done.returncode:
        raise ClientMissing(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}")
    part.rename(home)


def bring_jars(name: str, pom: Path) -> str:
    """Returns what a `pom.xml` depends on, as Java's `-cp` takes it. Raises `ClientMissing`."""
    need("java")
    home = cache(name)
    if not home.is_dir():
        bring(home, "mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DoutputDirectory={home}")
    return f"{home}/*"


def bring_modules(package: str) -> str:
    """Returns the directory for NODE_PATH with `name@version`. Raises `ClientMissing`."""
    need("node")
    home = cache(package.replace("@", "-").replace("/", "-"))
    if not home.is_dir():
        bring(home, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "{home}", package)
    return f"{home}/node_modules"
