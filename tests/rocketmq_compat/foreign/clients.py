"""The clients, in a directory of the user's cache; Maven and npm bring missing ones.

They are not dependencies of this package.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROCKETMQ_VERSION: Final = "5.5.0"
"""Of the client and of the console tool for Java; the same is in `pom.xml`."""
ALI_ONS: Final = "ali-ons@3.12.0"
POM: Final = Path(__file__).with_name("pom.xml")
FETCHED_WITHIN_S: Final = 600.0


class ClientMissing(Exception):
    """A client is not there and cannot be brought; the message has the reason."""


def _cache(name: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "quorumlog" / name


def _bring(home: Path, *command: str) -> None:
    """Run a command that fills `home`, which has its name only when that has ended well. Raises `ClientMissing`."""
    for program in (command[0], "java" if command[0] == "mvn" else "node"):
        if not shutil.which(program):
            raise ClientMissing(f"there is no {program} on this machine")
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


def java_classpath() -> str:
    """Returns the jars of Apache RocketMQ's client and tools, as Java's `-cp` takes them. Raises `ClientMissing`."""
    home = _cache(f"rocketmq-clients-{ROCKETMQ_VERSION}")
    if not home.is_dir():
        _bring(home, "mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DoutputDirectory={home}")
    return f"{home}/*"


def javascript_modules() -> str:
    """Returns the directory for NODE_PATH. Raises `ClientMissing`."""
    home = _cache(ALI_ONS.replace("@", "-"))
    if not home.is_dir():
        _bring(home, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "{home}", ALI_ONS)
    return f"{home}/node_modules"
