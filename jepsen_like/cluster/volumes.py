"""File systems that can lose their power: one for each node, in an image in memory, and gone with this process.

A cut of power is the kernel's own: the file system is told to shut down without writing its journal or anything else
(`FS_IOC_SHUTDOWN`). What a flush had secured is in the image then; of the rest only what the kernel happened to have
written, which is what a machine that loses its power keeps. Mounting the image again plays the journal back.

All mounts are made in a mount namespace of this process and its children (`isolate`), so that nothing is left behind
however the process ends: the kernel undoes them with the last process that could see them.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

IMAGE_BYTES: Final = 1 << 30
"""A volume can hold this much; it takes only what is written."""
FILES_MAX: Final = 4096
JOURNAL_MB: Final = 8
COMMAND_WITHIN_S: Final = 30.0
RELEASED_WITHIN_S: Final = 5.0
"""Processes that a cut of power killed are gone within this time, and let go of their volume."""
ASK_AGAIN_S: Final = 0.01
PREFIX: Final = "quorumlog-volumes-"
NEEDED: Final = ("mkfs.ext4", "mount", "umount")

_CLONE_NEWNS: Final = 0x00020000
_MS_REC, _MS_SLAVE, _MS_SHARED = 0x4000, 1 << 19, 1 << 20
_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_FS_IOC_SHUTDOWN: Final = 0x8004587D
_WITHOUT_FLUSH: Final = 2


class NoVolumes(Exception):
    """Volumes cannot be made here; the message contains the reason and what to do."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def lacking() -> str | None:
    """Returns why no volumes can be made here, with the remedy; None if one was made, cut and found right."""
    return _tools_lacking() or _try_mounts()


def _tools_lacking() -> str | None:
    if os.geteuid() != 0:
        return "a power cut needs a file system of its own, which only root can mount; run as root"
    missing = [name for name in NEEDED if shutil.which(name, path=_search_path()) is None]
    if missing:
        return f"a power cut needs {' and '.join(missing)}; run: apt-get install e2fsprogs mount"
    return None


@functools.cache
def _try_mounts() -> str | None:
    """`trial` in a process of its own, which takes its mounts with it."""
    command = [sys.executable, "-c", f"from {__name__} import trial; trial()"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"a power cut cannot be tried here: {error}"
    said = ended.stderr.strip().splitlines()
    return (
        None if ended.returncode == 0 else f"a power cut does not work here: {said[-1] if said else ended.returncode}"
    )


def trial() -> None:
    """Cut the power of a volume, as a test. Raises `NoVolumes` if that does not do what it should."""
    with Volumes() as volumes:
        volume = volumes.make(1)
        path = volume.path / "file"
        with path.open("wb", buffering=0) as file:
            file.write(b"kept")
            os.fsync(file.fileno())
            file.write(b"lost")
            volume.cut_power()
        volume.unmount()
        volume.mount()
        if path.read_bytes() != b"kept":
            raise NoVolumes("what was not flushed survived a power cut")


@functools.cache
def isolate() -> None:
    """Give this process a mount namespace of its own: from now on no other process sees what it and its children mount.

    Call it in the main thread, before others are started. Raises `NoVolumes` if the machine does not allow it.
    """
    if _libc().unshare(_CLONE_NEWNS) != 0:
        raise NoVolumes(f"no mount namespace of its own: {os.strerror(ctypes.get_errno())}; run as root")
    # What is mounted here stays here, also on systems whose mounts are shared by default. What the parent unmounts goes
    # here, too: a volume that is still mounted anywhere would come back as it was when its power was cut.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)


def bind_alone(source: Path, target: Path) -> None:
    """Let this process and its children see one file in place of another. Raises `NoVolumes` like `isolate`."""
    isolate()
    _mount(str(source), str(target), None, _MS_BIND)


class Volume:
    """One file system, mounted at `path`. Its methods take milliseconds and block; errors are `NoVolumes`."""

    def __init__(self, image: Path, path: Path) -> None:
        self.path = path
        self._image = image
        self._is_mounted = False
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _command("mkfs.ext4", "-q", "-F", "-N", str(FILES_MAX), "-J", f"size={JOURNAL_MB}", "-m", "0", str(image))
        self.mount()

    def mount(self) -> None:
        """Play the journal back and mount; nothing to do if it is mounted.

        Raises `NoVolumes` if a process still sees it without power after `RELEASED_WITHIN_S`.
        """
        if self._is_mounted:
            return
        give_up_at = time.monotonic() + RELEASED_WITHIN_S
        while True:
            _command("mount", "-t", "ext4", "-o", "loop", str(self._image), str(self.path))
            self._is_mounted = True
            if self._has_power():
                return
            self.unmount()
            if time.monotonic() > give_up_at:
                raise NoVolumes(f"{self.path} stays without power: a process that ran before the cut still sees it")
            time.sleep(ASK_AGAIN_S)

    def _has_power(self) -> bool:
        """Returns whether it works. Mounting what another process still has mounted gives that one, shut down."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        finally:
            os.close(descriptor)
        return True

    def cut_power(self) -> None:
        """From now on nothing reaches the image, and every call on the file system fails."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _FS_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
        except OSError as error:
            raise NoVolumes(f"the kernel cannot shut a file system down: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Take it away; its users should have ended, and lose their hold when they do."""
        if self._is_mounted:
            if _libc().umount2(os.fsencode(self.path), 0) != 0 and _libc().umount2(os.fsencode(self.path), _MNT_DETACH):
                raise NoVolumes(f"cannot unmount {self.path}: {os.strerror(ctypes.get_errno())}")
            self._is_mounted = False


class Volumes:
    """A volume for each node, in memory. `isolate` is called; leaving the context unmounts everything."""

    def __init__(self) -> None:
        reason = _tools_lacking()
        if reason is not None:
            raise NoVolumes(reason)
        isolate()
        _sweep()
        self._place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._volumes: dict[int, Volume] = {}
        _mount("tmpfs", str(self._place), "tmpfs", 0)
        # Who makes a namespace of mounts for a node (a network tool, for one) must see them come and go too.
        _mount(None, str(self._place), None, _MS_SHARED)

    def __enter__(self) -> "Volumes":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def make(self, node: int) -> Volume:
        """A new, empty volume."""
        volume = Volume(self._place / f"{node}.image", self._place / f"n{node}")
        self._volumes[node] = volume
        return volume

    def close(self) -> None:
        """Unmount everything and give the memory back. A second call does nothing."""
        for volume in self._volumes.values():
            volume.unmount()
        self._volumes.clear()
        if self._place.exists():
            _libc().umount2(os.fsencode(self._place), _MNT_DETACH)
            with contextlib.suppress(OSError):
                self._place.rmdir()


def _sweep() -> None:
    """Remove the mount points, empty by now, of harnesses that were killed."""
    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = place.name.removeprefix(PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                place.rmdir()


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _libc().mount(*encoded, ctypes.c_ulong(flags), None) != 0:
        code = ctypes.get_errno()
        hint = "; run as root" if code == errno.EPERM else ""
        raise NoVolumes(f"cannot mount at {target}: {os.strerror(code)}{hint}")


def _search_path() -> str:
    """Returns the search path for administrators' commands, which not every root has on its path."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _command(*words: str) -> None:
    try:
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN_S,
            check=False,
            env={**os.environ, "PATH": _search_path(), "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoVolumes(f"{words[0]}: {error}") from error
    if ended.returncode:
        told = ended.stderr.strip().splitlines()
        raise NoVolumes(f"{words[0]} failed: {told[0] if told else ended.returncode}")
