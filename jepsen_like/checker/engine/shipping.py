"""Our code as one zip file: workers of a cluster get it with the job, and need no installation of ours but what it imports."""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
"""The directory of our packages."""
PACKAGES: Final = ("jepsen_like", "raft", "log", "kafka_compat", "rocketmq_compat")
"""All of them: a task that judges a whole run asks the run's system what its faults allow."""


def pack(directory: Path, more: Iterable[Path] = ()) -> Path:
    """Write the zip into `directory`, with `more` (modules or packages of a user's) next to our packages; returns its path.

    It is named after what is in it, because an application takes only one file of a name.
    """
    contents: dict[str, bytes] = {}
    for given in [*(ROOT / package for package in PACKAGES), *more]:
        modules = _modules(given) if given.is_dir() else [(given.name, given)]
        contents |= {name: path.read_bytes() for name, path in modules}
    sums = hashlib.sha256(b"".join(name.encode() + b"\0" + content for name, content in contents.items()))
    target = directory / f"quorumlog-{sums.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return target


def _modules(package: Path) -> Iterator[tuple[str, Path]]:
    """The modules of a package, under the names that they have next to it."""
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package.parent).as_posix(), path
