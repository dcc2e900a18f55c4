"""Programs in Go: built from the modules that a committed `go.mod` and `go.sum` name, which Go checks itself.

`name-version.mod` and `name-version.sum` in this package are both files of a module that has the program as its
requirement. With `-mod=readonly` Go takes no module that they do not list with its hash.
"""

import os
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import attrs

from jepsen_like.cli import EnvironmentMissing
from jepsen_like.systems.archives.archive import Archive, Report

INSTALL_GO = "apt-get install golang-go"
BUILD_WITHIN_S = 900.0
WORDS_MAX = 400
ENVIRONMENT = {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0", "GOWORK": "off"}


@attrs.frozen
class GoProgram(Archive):
    """One executable, as Go's `build` makes it."""

    package: str
    """The import path of its `main`."""

    @property
    def executable(self) -> Path:
        """The place of the executable, built or not."""
        return self.directory() / self.name

    def missing(self) -> str:
        """The executable; Go itself is needed only to build it."""
        return "" if self.executable.is_file() else self.command

    def fetch(self, report: Report) -> Path:
        """By the Go proxy that is set up here."""
        home = self.directory()
        if self.executable.is_file():
            return home
        if not shutil.which("go"):
            raise EnvironmentMissing(f"{self.title} is built by Go, which is not on this machine: {INSTALL_GO}")
        report(f"{self.package} {self.version}")
        home.mkdir(parents=True, exist_ok=True)
        locks = resources.files(__package__)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".build-") as place:
            for kind in ("mod", "sum"):
                lock = locks.joinpath(f"{self.name}-{self.version}.{kind}").read_bytes()
                (Path(place) / f"go.{kind}").write_bytes(lock)
            built = Path(place) / self.name
            words = ["go", "build", "-trimpath", "-o", str(built), self.package]
            try:
                done = subprocess.run(
                    words,
                    cwd=place,
                    env={**os.environ, **ENVIRONMENT},
                    capture_output=True,
                    text=True,
                    timeout=BUILD_WITHIN_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise EnvironmentMissing(f"{' '.join(words)} took more than {BUILD_WITHIN_S:g} s") from error
            if done.returncode != 0:
                raise EnvironmentMissing(f"{' '.join(words)} failed: {done.stderr.strip()[-WORDS_MAX:]}")
            built.rename(self.executable)
        return home
