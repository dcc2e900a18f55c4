"""The clocks and the disk of one node process, steered while it runs: a library of ours, preloaded into the process.

The library (`faults.c`) is compiled when it is first needed, with the C compiler of the machine, and kept in a cache.
Each node has a page of memory that it shares with the harness (`FaultPage`): the harness writes there what is to
happen, the node's library what has happened. A fresh page, or none, changes nothing.

What the library counts and notes is the evidence of a fault: how often a call was failed, delayed or cut short, and
what the process last read from its clocks, together with the true time then.
"""

import atexit
import enum
import functools
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

VERSION: Final = 1
SOURCE: Final = "faults.c"
SECOND_NS: Final = 1_000_000_000
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-std=c11", "-O2", "-shared", "-fPIC")
COMPILE_WITHIN_S: Final = 60.0
JUMP_TRIED_S: Final = 3600
TRIAL_WITHIN_S: Final = 30.0
PAGE_VARIABLE: Final = "QUORUMLOG_FAULT_PAGE"
BELOW_VARIABLE: Final = "QUORUMLOG_FAULTS_BELOW"


class NoLibrary(Exception):
    """The library cannot be compiled here, or it has no effect on a process; the message contains what to do."""


class Word(enum.IntEnum):
    """The words of a page, in the order of `faults.c`."""

    VERSION = 0
    WALL_OFFSET_NS = enum.auto()
    STROBE_NS = enum.auto()
    STROBE_PERIOD_NS = enum.auto()
    SEQUENCE = enum.auto()
    BASE_REAL_NS = enum.auto()
    BASE_OWN_NS = enum.auto()
    RATE_PPB = enum.auto()
    SYNC_DELAY_NS = enum.auto()
    SYNC_LIES = enum.auto()
    SHORT_WRITES = enum.auto()
    FAIL_ERRNO = enum.auto()
    FAIL_MASK = enum.auto()
    FAIL_AFTER = enum.auto()
    FAIL_COUNT = enum.auto()
    WALL_READS = enum.auto()
    WALL_OWN_NS = enum.auto()
    WALL_REAL_NS = enum.auto()
    MONOTONIC_READS = enum.auto()
    MONOTONIC_OWN_NS = enum.auto()
    MONOTONIC_REAL_NS = enum.auto()
    DELAYED = enum.auto()
    LIED = enum.auto()
    SHORTENED = enum.auto()
    FAILED = enum.auto()


class Call(enum.IntFlag):
    """Calls on files that can be failed, as bits of `FAIL_MASK`."""

    WRITE = 1
    SYNC = 2
    RESERVE = 4
    CUT = 8
    NAME = 16
    """A file made or renamed."""
    READ = 32


def compiler() -> str | None:
    """Returns the C compiler of this machine; None if there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def lacking() -> str | None:
    """Returns why no process can be steered here, with the remedy; None if a trial process read the time set."""
    try:
        return _try_preload(library())
    except NoLibrary as error:
        return str(error)


@functools.cache
def _try_preload(preloaded: Path) -> str | None:
    """Tell a process a time of ours, and ask it."""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            page = FaultPage(Path(scratch) / "page", Path(scratch) / "data")
            page.jump_wall(JUMP_TRIED_S * SECOND_NS)
            told = subprocess.run(
                [sys.executable, "-c", "import time; print(time.time())"],
                env={**os.environ, **page.environment()},
                capture_output=True,
                text=True,
                timeout=TRIAL_WITHIN_S,
                check=False,
            )
            page.remove()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        is_told = abs(float(told.stdout) - time.time() - JUMP_TRIED_S) < JUMP_TRIED_S / 2
    except ValueError:
        is_told = False
    return None if is_told else str(not_heeded(preloaded))


def not_heeded(preloaded: Path) -> NoLibrary:
    """Returns the error for a process that runs as if it had no library."""
    return NoLibrary(
        f"the preloaded library {preloaded} is not heeded by this Python; run one that is linked dynamically, and let "
        "XDG_CACHE_HOME name a directory whose files may be executed"
    )


def library() -> Path:
    """Returns the library, compiled now if it is not in the cache. Raises `NoLibrary` if that does not work."""
    compiled = _compile()
    try:
        return _loadable(compiled)
    except OSError as error:
        raise NoLibrary(f"cannot copy {compiled} to where no space or colon is in its path: {error}") from error


@functools.cache
def _loadable(compiled: Path) -> Path:
    """The library at a path without spaces and colons, which split `LD_PRELOAD`; a copy goes with the process."""
    if not {" ", ":"} & set(str(compiled)):
        return compiled
    place = tempfile.mkdtemp(prefix="quorumlog-library-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(shutil.copy(compiled, place))


def _compile() -> Path:
    source = resources.files("jepsen_like.cluster").joinpath(SOURCE).read_bytes()
    name = f"faults-{hashlib.sha256(source + ' '.join(FLAGS).encode()).hexdigest()[:16]}-{os.uname().machine}.so"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quorumlog"
    compiled = cache / name
    if compiled.exists():
        return compiled
    found = compiler()
    if found is None:
        raise NoLibrary("there is no C compiler here; run: apt-get install gcc libc6-dev")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            path = Path(scratch) / SOURCE
            path.write_bytes(source)
            output = Path(scratch) / name
            command = [found, *FLAGS, "-o", str(output), str(path), "-ldl"]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_WITHIN_S, check=False)
            if ended.returncode:
                told = ended.stderr.strip().splitlines()
                raise NoLibrary(f"{found} failed: {told[0] if told else ended.returncode}")
            output.replace(compiled)  # two runs may compile at once: each puts a whole file there
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLibrary(f"cannot compile in {cache}: {error}") from error
    return compiled


class FaultPage:
    """The memory shared with one node's library: orders to it, and its reports.

    Times in nanoseconds; it outlives a process. The file at `path` is made now. `below` need not exist yet.
    """

    def __init__(self, path: Path, below: Path) -> None:
        self.path = path
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.below = below.parent.resolve() / below.name
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._words = memoryview(self._map).cast("q")
        self[Word.RATE_PPB] = SECOND_NS
        self[Word.VERSION] = VERSION

    def __getitem__(self, word: Word) -> int:
        return self._words[word]

    def __setitem__(self, word: Word, value: int) -> None:
        self._words[word] = value  # one store of eight bytes: a reader sees the old value or the new one

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of a process under the library. Raises `NoLibrary` if it cannot be compiled."""
        return {"LD_PRELOAD": str(library()), PAGE_VARIABLE: str(self.path), BELOW_VARIABLE: str(self.below)}

    def remove(self) -> None:
        """Give the memory back and take the file away. A process that has it keeps its own."""
        self._words.release()
        self._map.close()
        self.path.unlink(missing_ok=True)

    def check_heeded(self) -> None:
        """Raises `NoLibrary` if none of the node's processes, of which one runs, has asked the library for the time."""
        if not self[Word.MONOTONIC_READS]:
            raise not_heeded(library())

    # ---------------------------------------------------------------- clocks

    def jump_wall(self, offset_ns: int) -> None:
        """From now on the wall clock differs by so much; 0 puts it right."""
        self[Word.WALL_OFFSET_NS] = offset_ns

    def strobe_wall(self, amplitude_ns: int, period_ns: int) -> None:
        """From now on the wall clock jumps there and back every `period_ns`; two zeros end it."""
        self[Word.STROBE_NS] = amplitude_ns
        self[Word.STROBE_PERIOD_NS] = period_ns

    def drift(self, rate: float) -> None:
        """From now on the monotonic clock runs so much faster, without a jump; 1 keeps what it is off by."""
        now_ns = time.monotonic_ns()
        own_ns = self.own_ns(now_ns)
        self[Word.SEQUENCE] += 1
        self[Word.BASE_REAL_NS] = now_ns
        self[Word.BASE_OWN_NS] = own_ns
        self[Word.RATE_PPB] = round(rate * SECOND_NS)
        self[Word.SEQUENCE] += 1

    @property
    def is_drifting(self) -> bool:
        """True if the monotonic clock runs at a rate of its own now."""
        return self[Word.RATE_PPB] != SECOND_NS

    def heal_clocks(self) -> None:
        """The wall clock is right, and the monotonic clock keeps what it is off by."""
        self.jump_wall(0)
        self.strobe_wall(0, 0)
        if self.is_drifting:
            self.drift(1)

    def true_clock(self) -> None:
        """The monotonic clock as it is, for a process about to begin: for one that runs it might go back."""
        self[Word.BASE_REAL_NS] = self[Word.BASE_OWN_NS] = 0
        self[Word.RATE_PPB] = SECOND_NS

    def own_ns(self, real_ns: int) -> int:
        """Returns the reading of the node's monotonic clock at a moment of ours, at the present rate."""
        return self[Word.BASE_OWN_NS] + (real_ns - self[Word.BASE_REAL_NS]) * self[Word.RATE_PPB] // SECOND_NS

    def real_ns(self, own_ns: int) -> int:
        """Returns our time at which the node's monotonic clock shows `own_ns`, at the present rate."""
        return self[Word.BASE_REAL_NS] + (own_ns - self[Word.BASE_OWN_NS]) * SECOND_NS // self[Word.RATE_PPB]

    # ---------------------------------------------------------------- disk

    def delay_syncs(self, delay_ns: int) -> None:
        """From now on every sync takes so much longer."""
        self[Word.SYNC_DELAY_NS] = delay_ns

    def lie_about_syncs(self, does: bool) -> None:
        """From now on no sync does anything, and all succeed."""
        self[Word.SYNC_LIES] = int(does)

    def shorten_writes(self, count: int) -> None:
        """The next `count` writes take half of what they are given."""
        self[Word.SHORT_WRITES] = count

    def fail(self, calls: Call, code: int, *, after: int = 0, count: int = -1) -> None:
        """From now on let so many calls pass, then fail `count` of them (-1: all) with an errno."""
        self[Word.FAIL_MASK] = 0
        self[Word.FAIL_ERRNO] = code
        self[Word.FAIL_AFTER] = after
        self[Word.FAIL_COUNT] = count
        self[Word.FAIL_MASK] = calls

    def heal_disk(self) -> None:
        """Every call on a file works again."""
        for word in (Word.FAIL_MASK, Word.SYNC_DELAY_NS, Word.SYNC_LIES, Word.SHORT_WRITES):
            self[word] = 0
