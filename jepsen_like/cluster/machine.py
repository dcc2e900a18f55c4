"""The machine under a node process, as far as a run can break it: its data's place, power, clocks, disk.

A machine is as plain as the faults of the run allow: without a need for more, a directory. With `Need.POWER` the data
lies on a volume of its own, which is copied into the run directory at the end; with `Need.LIBRARY` the process is
started under the library of `preload`.
"""

import contextlib
import enum
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jepsen_like.cluster import preload, volumes
from jepsen_like.cluster.preload import FaultPage
from jepsen_like.cluster.volumes import NoVolumes, Volume, Volumes

DATA: Final = "data"


class Need(enum.Enum):
    """A kind of fault's needs of the machines of a run."""

    POWER = enum.auto()
    LIBRARY = enum.auto()


def lacking(need: Need) -> str | None:
    """Returns why this machine cannot provide it, and what to do, in one line; None if it can."""
    return volumes.lacking() if need is Need.POWER else preload.lacking()


class Machine:
    """One node's. `data` is the node's data directory; `page` and `volume` are None if the run has no need of them."""

    def __init__(self, data: Path, page: FaultPage | None = None, volume: Volume | None = None) -> None:
        self.data = data
        self.page = page
        self.volume = volume
        self.boot_id = str(uuid.uuid4())
        """One for each power-on, as the kernel's `boot_id`: while it is the same, unflushed writes are kept."""

    def lose_power(self) -> None:
        """Cut the power of the volume, if there is one: what is on its way to the disk never arrives."""
        self.boot_id = str(uuid.uuid4())
        if self.volume is not None:
            self.volume.cut_power()

    def environment(self) -> Mapping[str, str]:
        """Returns what the node's process needs in addition to the harness' own environment."""
        return self.page.environment() if self.page is not None else {}

    def boot(self) -> None:
        """Before a process begins: power is back, and the monotonic clock, which no process has seen, is right."""
        if self.volume is not None:
            self.volume.mount()
        if self.page is not None and not self.page.is_drifting:
            self.page.true_clock()

    def check_heeded(self) -> None:
        """Check a process that was started. Raises `NoLibrary` if it should run under the library and does not."""
        if self.page is not None:
            self.page.check_heeded()

    def heal(self) -> None:
        """Clocks run as they should (the monotonic one keeps what it is off by), and the disk works."""
        if self.page is not None:
            self.page.heal_clocks()
            self.page.heal_disk()

    def real_ns(self, own_ns: int) -> int:
        """A moment that the node has told, by the harness' monotonic clock."""
        return self.page.real_ns(own_ns) if self.page is not None else own_ns

    def written_bytes(self) -> int:
        """Returns the bytes that its files hold, as the operating system shows them now."""
        total = 0
        for path in self.data.glob("**/*"):
            with contextlib.suppress(FileNotFoundError):  # a node may take a file away meanwhile
                total += path.stat().st_size if path.is_file() else 0
        return total


@contextmanager
def open_machines(directories: Mapping[int, Path], needs: frozenset[Need]) -> Iterator[dict[int, Machine]]:
    """Open a machine for each node; volumes end up in its directory. Raises `NoVolumes` or `NoLibrary`."""
    with contextlib.ExitStack() as held:
        all_volumes = held.enter_context(Volumes()) if Need.POWER in needs else None
        machines = {}
        for node, directory in directories.items():
            directory.mkdir(parents=True, exist_ok=True)
            volume = all_volumes.make(node) if all_volumes is not None else None
            # The node is told the very path that its descriptors show.
            data = (volume.path if volume is not None else directory).resolve() / DATA
            page = None
            if Need.LIBRARY in needs:
                preload.library()
                page = FaultPage(directory.resolve() / "faults.page", data)
                held.callback(page.remove)
            machines[node] = Machine(data, page, volume)
            if volume is not None:
                held.callback(_keep, machines[node], directory / DATA)
        yield machines


def _keep(machine: Machine, target: Path) -> None:
    """Copy what a volume holds to where it can be looked at after the run."""
    with contextlib.suppress(NoVolumes, OSError):  # evidence, not a result: its loss must not hide what ended the run
        machine.boot()
        if machine.data.is_dir():
            shutil.copytree(machine.data, target, dirs_exist_ok=True)
