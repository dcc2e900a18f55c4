"""The code that tasks need, as one zip file: workers of a cluster get it with the job and need no installation of ours."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import jepsen_like

ROOT: Final = Path(jepsen_like.__file__).parent
SHIPPED: Final = ("checker", "history")
"""The packages whose modules tasks import, with what is theirs alone: a Task needs no others (a test looks)."""


def packed(directory: Path, more: Iterable[Path] = ()) -> Path:
    """Write `quorumlog.zip` into `directory`, with `more` (modules or packages of a user's) next to our packages."""
    target = directory / "quorumlog.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(ROOT / "__init__.py", f"{ROOT.name}/__init__.py")
        for package in SHIPPED:
            for name, path in _modules(ROOT / package):
                archive.write(path, f"{ROOT.name}/{name}")
        for given in more:
            for name, path in _modules(given) if given.is_dir() else [(given.name, given)]:
                archive.write(path, name)
    return target


def _modules(package: Path) -> Iterator[tuple[str, Path]]:
    """The modules of a package, under the names that they have next to it."""
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package.parent).as_posix(), path
