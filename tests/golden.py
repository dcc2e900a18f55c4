"""Golden scripts: lines `> command` with the answers of a decider below them, comments and blank lines."""

from collections.abc import Callable, Iterable
from pathlib import Path


def renew_script(script: str, answer: Callable[[str], Iterable[str]]) -> str:
    """Returns the script with what `answer` gives to each command now; comments, blank lines and commands stay."""
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines += answer(line[2:])
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def rewrite(scripts: Path, renew: Callable[[str], str]) -> None:
    """Renew all scripts of a directory in place."""
    for path in sorted(scripts.glob("*.txt")):
        path.write_text(renew(path.read_text()))
