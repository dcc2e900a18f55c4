"""Tasks that are shipped to the workers of a cluster as a file of its own, which is how a user's modules travel."""

import os
import time
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen
class Surroundings:
    """The view of a worker: the place of our package, and the content of a directory."""

    directory: Path

    def execute(self) -> tuple[str, list[str]]:
        """See `Task`."""
        import jepsen_like

        return str(jepsen_like.__file__), os.listdir(self.directory)


@attrs.frozen
class Held:
    """A task that notes which process started the one that runs it, and goes on once there is a file `go`."""

    task: Any
    number: int
    directory: Path

    def execute(self) -> Any:
        """See `Task`."""
        unfinished = self.directory / f"unfinished-{os.getpid()}"
        unfinished.write_text(str(os.getpid()))
        unfinished.rename(self.directory / f"started-{self.number}-{os.getpid()}")
        while not (self.directory / "go").exists():
            time.sleep(0.02)
        return self.task.execute()
