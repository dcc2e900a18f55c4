"""A process under the library sees the clocks and the disk that its page sets, at once, and no other process does."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jepsen_like import doctor
from jepsen_like.cluster import machine, preload
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.preload import SECOND_NS, Call, FaultPage, NoLibrary, Word, compiler
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import KINDS, usable
from tests.jepsen_like.raft_clusters import open_raft_cluster

needs_compiler = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")

EVALUATES = """
import mmap, os, select, sys, time
from log.disk import RealDisk
from raft.kernel_sync import KernelSync
kernel = KernelSync.open(os.eventfd(0))
ours = os.open(sys.argv[1] + "/ours", os.O_CREAT | os.O_RDWR)
other = os.open(sys.argv[2] + "/other", os.O_CREAT | os.O_RDWR)
file = RealDisk().open(sys.argv[1] + "/file", create=True)
mapped = mmap.mmap(-1, 4096)
for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except Exception as error:
        print(type(error).__name__, getattr(error, "errno", ""), flush=True)
"""


class Steered:
    """A Python process that evaluates what it is told, under a page."""

    def __init__(self, page: FaultPage, other: Path) -> None:
        self.page = page
        self._process = subprocess.Popen(
            [sys.executable, "-c", EVALUATES, str(page.below), str(other)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **page.environment()},
        )

    def ask(self, expression: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        with self._process as process:
            process.kill()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steered]:
    place = tmp_path_factory.mktemp("steered")
    (place / "data").mkdir()
    process = Steered(FaultPage(place / "page", place / "data"), place)
    assert process.ask("1") == "1"
    yield process
    process.end()
    process.page.remove()


@pytest.fixture
def healed_process(process: Steered) -> Iterator[Steered]:
    process.page.heal_disk()
    for word in (Word.DELAYED, Word.LIED, Word.SHORTENED, Word.FAILED):
        process.page[word] = 0
    yield process
    process.page.heal_disk()


@needs_compiler
@pytest.mark.parametrize("offset_s", [3600, -60])
def test_the_wall_clock_jumps_and_comes_back(healed_process: Steered, offset_s: int) -> None:
    assert abs(float(healed_process.ask("time.time()")) - time.time()) < 5
    healed_process.page.jump_wall(offset_s * SECOND_NS)
    assert abs(float(healed_process.ask("time.time()")) - time.time() - offset_s) < 5
    told_off_by_ns = healed_process.page[Word.WALL_OWN_NS] - healed_process.page[Word.WALL_REAL_NS]
    assert told_off_by_ns == offset_s * SECOND_NS
    healed_process.page.jump_wall(0)
    assert abs(float(healed_process.ask("time.time()")) - time.time()) < 5


@needs_compiler
def test_a_strobed_clock_shows_both_times(healed_process: Steered) -> None:
    healed_process.page.strobe_wall(100 * SECOND_NS, 1_000_000)
    seen = {round(float(healed_process.ask("time.time()")) - time.time(), -1) for _ in range(200)}
    assert seen == {0, 100}


@needs_compiler
@pytest.mark.parametrize("rate", [2.0, 0.5])
def test_a_drifting_clock_runs_at_its_rate_and_never_jumps(healed_process: Steered, rate: float) -> None:
    began, began_real = int(healed_process.ask("time.monotonic_ns()")), time.monotonic_ns()
    assert abs(began - began_real) < 5e9
    healed_process.page.drift(rate)
    passed = int(healed_process.ask("(select.epoll().poll(0.2), time.monotonic_ns())[1]")) - began
    passed_real = time.monotonic_ns() - began_real
    assert 0.15e9 < passed < 5e9
    assert passed / passed_real == pytest.approx(rate, rel=0.2)
    healed_process.page.drift(1)
    own = int(healed_process.ask("time.monotonic_ns()"))
    assert own >= began + passed
    assert abs(healed_process.page.real_ns(own) - time.monotonic_ns()) < 5e9


@needs_compiler
def test_a_clock_never_runs_backwards_however_its_rate_changes(healed_process: Steered) -> None:
    latest = 0
    for number in range(60):
        healed_process.page.drift((0.5, 2.0, 1.0)[number % 3])
        own = int(healed_process.ask("time.monotonic_ns()"))
        assert own > latest
        latest = own


@needs_compiler
def test_a_write_fails_after_as_many_as_were_to_pass(healed_process: Steered) -> None:
    healed_process.page.fail(Call.WRITE, errno.EIO, after=2, count=1)
    assert [healed_process.ask("os.pwritev(ours, [b'abc', b'de'], 0)") for _ in range(4)] == [
        "5",
        "5",
        "OSError 5",
        "5",
    ]
    assert healed_process.page[Word.FAILED] == 1


@needs_compiler
@pytest.mark.parametrize(
    ("call", "expression"),
    [
        (Call.WRITE, "os.pwrite({}, b'abc', 0)"),
        (Call.WRITE, "os.write({}, b'abc')"),
        (Call.SYNC, "os.fdatasync({})"),
        (Call.SYNC, "os.fsync({})"),
        (Call.CUT, "os.ftruncate({}, 0)"),
        (Call.RESERVE, "os.posix_fallocate({}, 0, 100)"),
        (Call.READ, "os.pread({}, 1, 0)"),
    ],
)
def test_only_calls_of_that_kind_below_the_directory_fail(healed_process: Steered, call: Call, expression: str) -> None:
    healed_process.page.fail(call, errno.EIO)
    assert healed_process.ask(expression.format("ours")) == "OSError 5"
    assert "Error" not in healed_process.ask(expression.format("other"))
    healed_process.page.fail(Call(~call & 63), errno.EIO)
    assert "Error" not in healed_process.ask(expression.format("ours"))


@needs_compiler
def test_names_need_room_and_old_ones_do_not(healed_process: Steered) -> None:
    healed_process.page.fail(Call.NAME, errno.ENOSPC)
    assert healed_process.ask("os.open(sys.argv[1] + '/new', os.O_CREAT | os.O_RDWR)") == "OSError 28"
    assert "Error" not in healed_process.ask("os.open(sys.argv[1] + '/ours', os.O_CREAT | os.O_RDWR)")
    assert healed_process.ask("os.rename(sys.argv[1] + '/ours', sys.argv[1] + '/new')") == "OSError 28"
    assert "Error" not in healed_process.ask("os.open(sys.argv[2] + '/new', os.O_CREAT | os.O_RDWR)")


@needs_compiler
def test_a_short_write_takes_half_and_our_disk_writes_the_rest(healed_process: Steered) -> None:
    healed_process.page.shorten_writes(2)
    assert healed_process.ask("os.pwritev(ours, [b'abcd', b'ef'], 0)") == "3"
    assert healed_process.ask("(file.write_at(0, [b'abcd', b'ef']), file.read_at(0, 9))[1]") == "b'abcdef'"
    assert healed_process.page[Word.SHORTENED] == 2
    assert healed_process.ask("os.pwritev(ours, [b'abcd', b'ef'], 0)") == "6"


@needs_compiler
def test_a_slow_sync_takes_its_time_and_a_lying_one_does_nothing(healed_process: Steered) -> None:
    healed_process.page.delay_syncs(50_000_000)
    began = time.monotonic()
    assert healed_process.ask("file.sync()") == "None"
    assert time.monotonic() - began > 0.05
    healed_process.page.heal_disk()
    healed_process.page.fail(Call.SYNC, errno.EIO)
    healed_process.page.lie_about_syncs(True)
    assert healed_process.ask("file.sync()") == "None"
    assert (healed_process.page[Word.DELAYED], healed_process.page[Word.LIED], healed_process.page[Word.FAILED]) == (
        1,
        1,
        0,
    )


@needs_compiler
def test_what_is_mapped_is_written_back_as_slowly(healed_process: Steered) -> None:
    healed_process.page.delay_syncs(50_000_000)
    began = time.monotonic()
    assert healed_process.ask("mapped.flush()") == "None"
    assert time.monotonic() - began > 0.05
    healed_process.page.heal_disk()
    healed_process.page.fail(Call.SYNC, errno.EIO)
    assert healed_process.ask("mapped.flush()") == "OSError 5"
    assert healed_process.page[Word.DELAYED] == 1


@needs_compiler
def test_no_sync_slips_past_the_library_through_the_kernel_while_syncs_are_steered(healed_process: Steered) -> None:
    if healed_process.ask("kernel is None") == "True":
        pytest.skip("the kernel offers no asynchronous fdatasync here")
    by_kernel = "kernel.begin(ours) and kernel.end()"
    page = healed_process.page
    steers: list[Callable[[], None]] = [
        lambda: page.delay_syncs(1),
        lambda: page.lie_about_syncs(True),
        lambda: page.fail(Call.SYNC, errno.EIO),
        lambda: page.fail(Call.SYNC | Call.WRITE, errno.EIO),
    ]
    for steer in steers:
        assert healed_process.ask(by_kernel) == "0", "nothing is steered"
        steer()
        assert healed_process.ask(by_kernel) == "False"
        page.heal_disk()
    page.fail(~Call.SYNC, errno.EIO)
    assert healed_process.ask(by_kernel) == "0", "only other calls are"


@needs_compiler
def test_a_page_as_it_is_made_changes_nothing(healed_process: Steered) -> None:
    assert healed_process.ask("os.pwritev(ours, [b'abcd', b'ef'], 0)") == "6"
    assert healed_process.ask("file.sync()") == "None"
    assert all(healed_process.page[word] == 0 for word in Word if word > Word.MONOTONIC_REAL_NS)


@needs_compiler
def test_a_cache_whose_path_the_loader_would_split_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "john doe:s"))
    (tmp_path / "data").mkdir()
    process = Steered(FaultPage(tmp_path / "page", tmp_path / "data"), tmp_path)
    process.page.jump_wall(3600 * SECOND_NS)
    assert abs(float(process.ask("time.time()")) - time.time() - 3600) < 5
    process.page.check_heeded()
    process.end()
    process.page.remove()
    assert machine.lacking(Need.LIBRARY) is None


def test_a_library_that_does_not_load_is_lacking_and_steers_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(preload, "library", lambda: tmp_path / "faults.so")
    assert "faults.so is not heeded by this Python; run one that is" in (machine.lacking(Need.LIBRARY) or "")
    assert not [name for name in usable(Here(3)) if Need.LIBRARY in KINDS[name].needs]
    (way,) = (injector for injector in doctor.injectors() if "disk-full" in injector.kinds)
    assert "is not heeded" in (way.lack or "")


@pytest.mark.cluster
async def test_a_cluster_whose_nodes_do_not_heed_the_library_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(preload, "library", lambda: tmp_path / "faults.so")
    with pytest.RaisesGroup(pytest.RaisesExc(NoLibrary, match="not heeded"), flatten_subgroups=True):
        async with open_raft_cluster(tmp_path / "nodes", nodes=1, needs=frozenset({Need.LIBRARY})):
            pytest.fail("it began")


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(preload, "COMPILERS", ())
    with pytest.raises(NoLibrary, match="apt-get install gcc"):
        preload.library()


@needs_compiler
def test_a_compiler_that_fails_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(preload, "FLAGS", ("--no-such-flag",))
    with pytest.raises(NoLibrary, match="no-such-flag"):
        preload.library()
    assert not list((tmp_path / "quorumlog").iterdir())
