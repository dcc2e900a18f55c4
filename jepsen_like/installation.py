"""Checks that the packages that Python finds by our names are ours: other distributions have some of these names, too.

`pip install raft` writes its `raft/__init__.py` over ours, and a directory `log` where a program starts hides ours. Each of our packages
carries a mark in its `__init__.py`, which is looked for without importing anything.
"""

import base64
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "quorumlog"
PACKAGES: Final = ("raft", "log", "rocketmq_compat", "kafka_compat", "jepsen_like")
MARK: Final = b'__distribution__ = "quorumlog"'


@functools.cache
def foreign() -> tuple[str, ...]:
    """Returns the names of ours under which Python finds something else, or nothing; each with where that is."""
    return tuple(
        _describe(name, origin)
        for name, origin in zip(PACKAGES, map(_origin, PACKAGES), strict=True)
        if not _is_ours(origin)
    )


def _origin(name: str) -> Path | None:
    spec = importlib.machinery.PathFinder.find_spec(name)
    if spec is not None and spec.origin is not None and spec.has_location:
        return Path(spec.origin)
    # An editable installation has a finder of its own.
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


def _is_ours(origin: Path | None) -> bool:
    try:
        return origin is not None and MARK in origin.read_bytes()
    except OSError:
        return False


def _describe(name: str, origin: Path | None) -> str:
    return f"{name} is not found" if origin is None else f"{name} is {origin}"


def find_changes() -> tuple[str, ...]:
    """Returns the files of ours that are no longer as they were installed; none of an editable installation, which lists none."""
    try:
        files = importlib.metadata.distribution(DISTRIBUTION).files or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    found = []
    for file in files:
        if file.parts[0] in PACKAGES and file.suffix == ".py" and file.hash is not None:
            path = Path(str(file.locate()))
            content = path.read_bytes() if path.is_file() else b""
            digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, content).digest()).rstrip(b"=").decode()
            if digest != file.hash.value:
                found.append(str(path))
    return tuple(found)


def mended_by() -> str:
    """Returns the commands that bring our packages back: others with these names leave first."""
    pip = f"{shlex.quote(sys.executable)} -m pip"
    others = sorted(set(_others()))
    leave = f"{pip} uninstall -y {' '.join(others)} && " if others else ""
    return f"{leave}{pip} install --force-reinstall --no-deps {_source()}"


def _others() -> Iterator[str]:
    """The other distributions that have installed packages of our names."""
    for name, distributions in importlib.metadata.packages_distributions().items():
        if name in PACKAGES:
            yield from (each for each in distributions if each.lower() != DISTRIBUTION)


def _source() -> str:
    """Returns where we were installed from: a directory or archive, else an index."""
    try:
        origin = json.loads(importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        url = str(origin["url"])
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return DISTRIBUTION
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return editable + shlex.quote(url.removeprefix("file://"))


def complaint() -> str | None:
    """Returns what is wrong with the installation and how to mend it, in a line; None if all packages are ours."""
    found = foreign()
    if not found:
        return None
    return (
        f"another package has taken a name of ours: {'; '.join(found)}. Start elsewhere if that is a file of yours; "
        f"else run: {mended_by()}"
    )
