"""A volume keeps what was flushed and nothing else when its power is cut, and no mount outlives its harness."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen_like.cluster.volumes import PREFIX, NoVolumes, Volume, Volumes, lacking

only_root = pytest.mark.skipif(lacking() is not None, reason=lacking() or "")

MAKES_ONE_AND_DIES = """
import os, signal
from jepsen_like.cluster.volumes import Volumes
volume = Volumes().make(1)
print(volume.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

HAS_A_FILE_OF_ITS_OWN = """
import sys
from collections.abc import Iterator
from pathlib import Path
from jepsen_like.cluster.volumes import bind_alone
bind_alone(Path(sys.argv[1]), Path("/etc/hosts"))
print("bound", flush=True)
sys.stdin.read()
"""


def write(path: Path, content: bytes, *, and_sync: bool) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
    os.write(descriptor, content)
    if and_sync:
        os.fdatasync(descriptor)
    os.close(descriptor)
    if and_sync:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def power_cycle(volume: Volume) -> None:
    volume.cut_power()
    volume.unmount()
    volume.mount()


@only_root
def test_what_was_synced_survives_a_power_cut_and_what_was_not_is_gone(volume: Volume) -> None:
    write(volume.path / "kept", b"a" * 1000, and_sync=True)
    write(volume.path / "kept", b"b" * 1000, and_sync=False)
    write(volume.path / "unnamed", b"c" * 1000, and_sync=False)
    power_cycle(volume)
    assert (volume.path / "kept").read_bytes() == b"a" * 1000
    assert not (volume.path / "unnamed").exists()


@only_root
def test_a_volume_can_lose_its_power_again_and_again(volume: Volume) -> None:
    for number in range(3):
        write(volume.path / "kept", bytes([number]), and_sync=True)
        power_cycle(volume)
    assert (volume.path / "kept").read_bytes() == bytes([0, 1, 2])


@pytest.fixture
def other_node(volume: Volume, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs a process with a name space of mounts of its own, as a node has that knows others by name."""
    (tmp_path / "hosts").touch()
    command = [sys.executable, "-c", HAS_A_FILE_OF_ITS_OWN, str(tmp_path / "hosts")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "bound\n"
        yield process


@only_root
def test_a_volume_comes_back_although_another_node_has_mounts_of_its_own(
    volume: Volume, other_node: subprocess.Popen[str]
) -> None:
    write(volume.path / "kept", b"a", and_sync=True)
    power_cycle(volume)
    write(volume.path / "kept", b"b", and_sync=True)
    assert other_node.poll() is None
    assert (volume.path / "kept").read_bytes() == b"ab"


@only_root
def test_a_volume_waits_for_the_last_process_that_holds_it(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [os.open(volume.path / "file", os.O_CREAT | os.O_RDWR)]
    monkeypatch.setattr("time.sleep", lambda _: os.close(held.pop()) if held else None)
    power_cycle(volume)
    assert not held
    write(volume.path / "file", b"a", and_sync=True)


@only_root
def test_a_volume_that_is_held_for_good_is_refused(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jepsen_like.cluster.volumes.RELEASED_WITHIN_S", 0.0)
    held = os.open(volume.path / "file", os.O_CREAT | os.O_RDWR)
    with pytest.raises(NoVolumes, match="still sees it"):
        power_cycle(volume)
    os.close(held)
    volume.mount()


@only_root
def test_without_power_every_call_fails(volume: Volume) -> None:
    descriptor = os.open(volume.path / "file", os.O_CREAT | os.O_RDWR)
    volume.cut_power()
    with pytest.raises(OSError, match="Input/output"):
        os.write(descriptor, b"x")
    os.close(descriptor)


@only_root
def test_no_other_process_sees_the_mounts(volume: Volume) -> None:
    assert str(volume.path) in Path("/proc/self/mounts").read_text()
    assert str(volume.path) not in Path(f"/proc/{os.getppid()}/mounts").read_text()


@only_root
def test_a_killed_harness_leaves_no_mount_and_no_device() -> None:
    ended = subprocess.run([sys.executable, "-c", MAKES_ONE_AND_DIES], capture_output=True, text=True, check=False)
    place = Path(ended.stdout.strip())
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not place.exists()
    backing = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [file for file in backing if str(place.parent) in file]
    # The empty mount point that it could not remove goes with the next harness.
    with Volumes():
        assert not place.parent.exists()
    assert place.parent.name.startswith(PREFIX)


def test_without_root_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in (lacking() or "")
    with pytest.raises(NoVolumes, match="run as root"):
        Volumes()


def test_without_the_tools_it_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    assert "mkfs.ext4" in (lacking() or "")
    assert "apt-get install" in (lacking() or "")
