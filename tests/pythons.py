"""Runs the quick tests on each version of Python that the project supports and this machine has: `python -m tests.pythons`.

An interpreter is found on PATH or among those of pyenv. Each gets an environment of its own in `.venv/pythons`, without Spark. Prints a
line for each version; status 1 if a test failed, 4 if no interpreter was found, else 0: one that is missing is named and fails nothing.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.11", "3.12", "3.13")
ROOT: Final = Path(__file__).resolve().parents[1]
NEEDED: Final = ("pytest>=9", "pytest-trio>=0.8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100")
OF_CHECKER: Final = (
    "check/test_command.py",
    "check/test_edn.py",
    "check/test_unexamined.py",
    "checker/elements/test_models.py",
    "checker/elements/test_user_model.py",
    "checker/log/test_explain.py",
    "checker/register/test_explain.py",
    "checker/test_search.py",
)
QUICK: Final = (
    "tests/log",
    "tests/raft",
    "tests/jepsen_like/history",
    "tests/jepsen_like/test_cli.py",
    *(f"tests/jepsen_like/{name}" for name in OF_CHECKER),
)
LEFT_OUT: Final = "not house and not cluster and not spark and not simulation and not campaign"


def candidates(version: str) -> Iterator[str]:
    """Yields the places in which an interpreter of this version may be."""
    yield f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")))
    yield from (
        str(each / "bin" / "python") for each in sorted((pyenv / "versions").glob(f"{version}.*"), reverse=True)
    )


def interpreter(version: str) -> str | None:
    """Returns an interpreter of this version that works."""
    for name in candidates(version):
        try:
            said = subprocess.run(
                [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True, text=True, timeout=30, check=False,
            )  # fmt: skip
        except OSError:
            continue
        if said.returncode == 0 and said.stdout.strip() == version:
            return name
    return None


def is_sound(version: str, name: str, workers: str, paths: list[str]) -> bool:
    """Install what the quick tests need, and run them."""
    place = ROOT / ".venv" / "pythons" / version
    python = str(place / "bin" / "python")
    commands = [
        [name, "-m", "venv", str(place)],
        [python, "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[check]", *NEEDED],
        [python, "-m", "pytest", "-q", "-n", workers, "-m", LEFT_OUT, "-p", "no:cacheprovider", *paths],
    ]
    return all(subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="2")
    parser.add_argument("paths", nargs="*", default=list(QUICK))
    arguments = parser.parse_args()
    results = {}
    for version in VERSIONS:
        name = interpreter(version)
        results[version] = (
            "missing"
            if name is None
            else "ok"
            if is_sound(version, name, arguments.workers, arguments.paths)
            else "FAILED"
        )
    for version, result in results.items():
        sys.stdout.write(f"Python {version}: {result}\n")
    if "FAILED" in results.values():
        return 1
    return 4 if set(results.values()) == {"missing"} else 0


if __name__ == "__main__":
    sys.exit(main())
