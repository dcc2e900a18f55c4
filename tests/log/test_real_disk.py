"""The real disk, and a log on it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from log.config import LogConfig
from log.disk import RealDisk, replace_file
from log.errors import DirectoryLocked, NoSpace, StorageFailed
from log.frame import Buffer
from tests.log.frames import LOG_ID, SMALL, content, entries, frame, frames, numbers, open_log, size_of


def test_a_log_on_a_real_disk_is_found_again(tmp_path: Path) -> None:
    directory = str(tmp_path / "deep" / "log")
    log = open_log(RealDisk(), directory=directory)
    log.save_state(b"vote")
    for first in range(1, 400, 5):
        log.reserve(2_000)
        log.append(frames(first, first + 4))
        log.flush()
    log.append(frames(300, 310, 2))
    log.truncate(305)
    before = content(log)
    opened = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
    assert (
        1
        <= len([path for path in opened if path.startswith(directory) and path.endswith(".log")])
        <= SMALL.open_files_max + 1
    )
    log.close()
    reopened = open_log(RealDisk(), directory=directory)
    assert (content(reopened), reopened.state) == (before, b"vote")
    assert (reopened.recovery.segments_scanned, reopened.recovery.indexes_rebuilt) == (1, 0)
    assert len(list(Path(directory).glob("*.log"))) > 5
    reopened.close()


def test_a_torn_tail_on_a_real_disk_is_cut(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    log.append([frame(1)])
    log.close()
    (file,) = tmp_path.glob("*.log")
    with file.open("ab") as stream:
        stream.write(b"QLOG torn")
    reopened = open_log(RealDisk(), directory=str(tmp_path))
    assert numbers(reopened) == [(1, 1)]
    assert reopened.recovery.torn_bytes_cut == 9
    assert file.stat().st_size == size_of(frame(1))
    reopened.close()


def test_two_processes_cannot_open_one_directory(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    with pytest.raises(DirectoryLocked, match="this process has this log open"):
        open_log(RealDisk(), directory=str(tmp_path))
    program = (
        "import sys\n"
        "from log.disk import RealDisk, DirectoryLocked\n"
        "from log.segmented_log import SegmentedLog, LogConfig\n"
        "try:\n"
        f"    SegmentedLog.open(RealDisk(), sys.argv[1], LogConfig(), log_id={LOG_ID})\n"
        "except DirectoryLocked as refused:\n"
        "    sys.exit(str(refused))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "another process has this log open" in refused.stderr
    log.close()
    assert subprocess.run(command, check=False).returncode == 0


def test_reserving_allocates_blocks_and_keeps_the_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = RealDisk().open(str(path), create=True)
    file.write_at(0, [b"x"])
    file.reserve(1_000_000)
    reserved = path.stat()
    assert (reserved.st_size, file.size()) == (1, 1)
    assert reserved.st_blocks * 512 >= 1_000_000
    file.cut(1)
    assert path.stat().st_blocks * 512 < 100_000
    file.sync()
    file.close()


def test_what_a_sealed_segment_had_reserved_is_given_back(tmp_path: Path) -> None:
    log = open_log(RealDisk(), LogConfig(segment_bytes_max=8192), directory=str(tmp_path))
    for first in range(1, 300, 10):
        log.reserve(2_000)
        log.append(frames(first, first + 9))
    log.close()
    assert len(list(tmp_path.glob("*.log"))) > 2
    for file in tmp_path.glob("*.log"):
        assert file.stat().st_blocks * 512 <= file.stat().st_size + 8192


def test_more_room_than_there_is_cannot_be_reserved(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    with pytest.raises((NoSpace, StorageFailed)):
        file.reserve(1 << 60)
    file.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    whole = os.pwritev

    def short(descriptor: int, buffers: list[Buffer], position: int) -> int:
        return whole(descriptor, [b"".join(buffers)[:limit]], position)

    monkeypatch.setattr(os, "pwritev", short)
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.write_at(2, [b"ab", b"", b"cdef", memoryview(b"g"), b"hijklmnop"])
    assert file.read_at(0, 99) == b"\0\0abcdefghijklmnop"
    file.close()


def test_a_cut_is_made_durable_by_a_full_sync_and_bytes_by_a_cheaper_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: calls.append("fdatasync"))
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    for _ in range(2):
        file.write_at(0, [b"bytes"])
        file.sync()
        file.cut(2)
        file.sync()
    assert calls == ["fdatasync", "fsync"] * 2
    file.close()


def test_more_buffers_than_one_call_takes_are_written(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.write_at(0, [bytes([each % 251]) for each in range(5_000)])
    assert file.read_at(0, 9_999) == bytes(each % 251 for each in range(5_000))
    assert file.read_at(4_998, 9) == bytes([4_998 % 251, 4_999 % 251])
    file.close()


def test_many_frames_are_one_append(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path))
    written = frames(1, 3_000)
    log.append(written)
    assert content(log) == entries(written)
    log.close()


def test_what_the_system_refuses_says_what_and_where(tmp_path: Path) -> None:
    disk = RealDisk()
    missing = str(tmp_path / "missing")
    for call in (
        lambda: disk.open(missing, create=False),
        lambda: disk.remove(missing),
        lambda: disk.rename(missing, missing + "2"),
        lambda: disk.list_directory(missing),
        lambda: disk.sync_directory(missing),
        lambda: disk.lock(missing + "/lock"),
    ):
        with pytest.raises(StorageFailed, match="No such file or directory"):
            call()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match="make directory"):
        disk.make_directory(str(tmp_path / "file" / "below"))


def test_files_are_not_inherited(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    log = open_log(RealDisk(), SMALL, directory=str(tmp_path))
    opened = set(os.listdir("/proc/self/fd")) - before
    assert opened
    for descriptor in opened:
        try:
            assert not os.get_inheritable(int(descriptor))
        except OSError:
            continue
    log.close()
    assert not set(os.listdir("/proc/self/fd")) - before


def test_a_small_file_is_replaced_whole(tmp_path: Path) -> None:
    disk = RealDisk()
    for version in (b"a long first version", b"second"):
        replace_file(disk, str(tmp_path), "file", version)
        assert (tmp_path / "file").read_bytes() == version
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_forgetting_a_file_in_memory_loses_nothing_and_never_fails(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.write_at(0, [b"x" * 10_000])
    RealDisk().drop_cache(str(tmp_path / "file"))
    assert file.read_at(0, 20_000) == b"x" * 10_000
    file.close()
    RealDisk().drop_cache(str(tmp_path / "missing"))


def test_a_log_that_is_trimmed_on_a_real_disk_reuses_its_files(tmp_path: Path) -> None:
    log = open_log(RealDisk(), LogConfig(segment_bytes_max=16_384), directory=str(tmp_path))
    inodes = set()
    for first in range(1, 2_000, 10):
        log.append(frames(first, first + 9, size=120))
        log.flush()
        log.trim(log.last_index)
        inodes |= {path.stat().st_ino for path in tmp_path.glob("*.log")}
    before = content(log)
    assert log.first_index > 1_800
    assert len(inodes) <= 4
    log.close()
    reopened = open_log(RealDisk(), LogConfig(segment_bytes_max=16_384), directory=str(tmp_path))
    assert content(reopened) == before
    reopened.close()


def test_appends_beside_flushes_that_write_zeros_ahead_are_never_overwritten(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes_max=100_000, zero_ahead_bytes=4096)
    log = open_log(RealDisk(), config, directory=str(tmp_path))
    written = 0
    with ThreadPoolExecutor(1) as pool:
        flush = log.begin_flush()
        running = pool.submit(flush.run)
        for index in range(1, 3_000):
            log.append([frame(index, payload=b"%d." % index * (index * 7 % 150))])
            if running.done() or index % 150 == 0:
                running.result()
                log.end_flush(flush)
                written += 1
                if log.last_index > 500:
                    log.trim(log.last_index - 400)
                flush = log.begin_flush()
                running = pool.submit(flush.run)
        running.result()
        log.end_flush(flush)
    before = content(log)
    assert written >= 19
    assert all(payload == b"%d." % index * (index * 7 % 150) for index, *_, payload in before)
    log.close()
    reopened = open_log(RealDisk(), config, directory=str(tmp_path))
    assert content(reopened) == before
    reopened.close()


def test_a_directory_that_was_just_made_by_someone_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(RealDisk, "sync_directory", lambda self, path: synced.append(path))
    (tmp_path / "made").mkdir()
    disk = RealDisk()
    disk.make_directory(str(tmp_path / "made"))
    assert synced == [str(tmp_path)]
    (tmp_path / "made" / "log").touch()
    disk.make_directory(str(tmp_path / "made"))
    assert synced == [str(tmp_path)]
    disk.make_directory(str(tmp_path / "made" / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "made"), str(tmp_path / "made" / "a")]


def test_a_directory_that_somebody_made_where_we_may_not_look_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    opened = os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if path == str(tmp_path):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    RealDisk().make_directory(str(tmp_path / "made"))
    with pytest.raises(StorageFailed, match="Permission denied"):
        RealDisk().make_directory(str(tmp_path / "ours"))
