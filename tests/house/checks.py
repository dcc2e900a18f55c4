"""The list of house checks: five tools, and rules of our own. Each is a function that returns its complaints."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.house import faces, jobs, prose, tidy, voice, words

ROOT = Path(__file__).resolve().parents[2]


def tool(*command: str) -> list[str]:
    """Run a tool of this virtual environment at the root; its output is the complaint when it fails."""
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run(
        [str(program), *command[1:]], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return [] if done.returncode == 0 else [done.stdout.strip() or f"{command[0]} ended with {done.returncode}"]


def settings() -> dict[str, Any]:
    """The project file, the one place where the tools and our own checks are configured."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pure_modules() -> list[str]:
    """The modules of the pure ring, as the import-linter contract names them."""
    contracts = settings()["tool"]["importlinter"]["contracts"]
    (ring,) = [contract for contract in contracts if contract["id"] == "pure-ring"]
    return [str(module) for module in ring["source_modules"]]


def scripts_of_benchmarks() -> list[str]:
    """Types of the scripts in `benchmarks`, if there are any: mypy takes an empty list for a mistake."""
    scripts = sorted(map(str, (ROOT / "benchmarks").glob("*.py")))
    return tool("mypy", *scripts) if scripts else []


CHECKS: Mapping[str, Callable[[], list[str]]] = {
    "lint": lambda: tool("ruff", "check", "--quiet", "."),
    "format": lambda: tool("ruff", "format", "--check", "--quiet", "."),
    "faces": faces.complaints,
    "tidy": lambda: tidy.complaints(ROOT, pure_modules()),
    "jobs": lambda: jobs.complaints(ROOT),
    "words": lambda: words.complaints(ROOT),
    "voice": lambda: voice.complaints(ROOT),
    "prose": lambda: prose.complaints(ROOT),
    "imports": lambda: tool("lint-imports"),
    "tests": lambda: tool("pytest", "--collect-only", "-qq"),
    "types": lambda: tool("mypy") + tool("mypy", "examples") + scripts_of_benchmarks(),
}
"""By name, the quickest first. `tests` finds each of them, and so compiles all before many workers would do the same."""
