"""The code that tasks need, as one zip file: workers of a cluster get it with the job and need no installation of ours."""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import jepsen_like

ROOT: Final = Path(jepsen_like.__file__).parent
SHIPPED: Final = ("checker", "history")
"""The packages whose modules tasks import, with what is theirs alone: a Task needs no others (a test looks)."""


def packed(directory: Path, more: Iterable[Path] = ()) -> Path:
    """Write the zip into `directory`, with `more` (modules or packages of a user's) next to our packages; returns its path.

    It is named after what is in it, because an application takes only one file of a name.
    """
    contents = {f"{ROOT.name}/__init__.py": (ROOT / "__init__.py").read_bytes()}
    for package in SHIPPED:
        contents |= {f"{ROOT.name}/{name}": path.read_bytes() for name, path in _modules(ROOT / package)}
    for given in more:
        modules = _modules(given) if given.is_dir() else [(given.name, given)]
        contents |= {name: path.read_bytes() for name, path in modules}
    sums = hashlib.sha256(b"".join(name.encode() + b"\0" + content for name, content in contents.items()))
    target = directory / f"quorumlog-{sums.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return target


def _modules(package: Path) -> Iterator[tuple[str, Path]]:
    """The modules of a package, under the names that they have next to it."""
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package.parent).as_posix(), path
