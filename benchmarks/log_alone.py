"""The log by itself: what a flush costs, how fast large frames are appended, what a restart and 10^7 frames cost.

    python benchmarks/log_alone.py [flush|large|restart|memory ...] [--directory DIR] [--repeats 3] [--output FILE]

`flush`: one small frame a flush, with and without zeros written ahead, taking turns frame by frame so that both meet the
same machine. `large`: eight frames of 512 KiB a flush, by one and by three processes at once: into growing files that stay
in the page cache, into growing files that leave it (the default), and into recycled ones. `restart`: opening a log of
1 GiB that was killed. `memory`: what a process holds after 10^6 and after 10^7 frames.
"""

import argparse
import contextlib
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from log.config import LogConfig
from log.disk import RealDisk
from log.frame import HEADER_BYTES, Frame, FrameKind, checksum
from log.segmented_log import SegmentedLog

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGE_BYTES, LARGE_FRAMES, LARGE_S = 512 * KIB, 8, 2.0
KEEP_EVERYTHING = 1_000_000


@contextlib.contextmanager
def open_log(directory: Path, config: LogConfig) -> Iterator[SegmentedLog]:
    """Opens a new log, which is removed in the end."""
    shutil.rmtree(directory, ignore_errors=True)
    log = SegmentedLog.open(RealDisk(), str(directory), config, log_id=1)
    try:
        yield log
    finally:
        log.close()
        shutil.rmtree(directory)


def append(log: SegmentedLog, payload: bytes, crc: int, count: int, span: int = 1) -> None:
    """`count` frames in one write."""
    index, offset = log.last_index + 1, log.end_offset
    log.reserve(count * (HEADER_BYTES + len(payload)))
    log.append(
        [Frame(FrameKind.RECORDS, 0, 1, index + at, offset + at * span, span, 1, payload, crc) for at in range(count)]
    )


def flush_part(directory: Path, repeats: int) -> Iterator[str]:
    """Quartiles, because a shared disk makes the median of one moment that of another."""
    yield "one frame a flush, sync in us: p10 p25 p50 p75, growing | zeros written ahead"
    for size in (100, 4 * KIB, 16 * KIB, 64 * KIB):
        payload = os.urandom(size)
        crc = checksum(payload)
        times: dict[int, list[float]] = {0: [], 512 * KIB: []}
        with contextlib.ExitStack() as stack:
            logs = {
                ahead: stack.enter_context(open_log(directory / str(ahead), LogConfig(zero_ahead_bytes=ahead)))
                for ahead in times
            }
            for _ in range(1_000 * repeats):
                for ahead, log in logs.items():
                    append(log, payload, crc, 1)
                    flush = log.begin_flush()
                    begun = time.perf_counter()
                    flush.run()
                    times[ahead].append(time.perf_counter() - begun)
                    log.end_flush(flush)
        columns = [" ".join(f"{1e6 * at:6.0f}" for at in _quantiles(each)) for each in times.values()]
        yield f"{size:>8} B  {columns[0]} | {columns[1]}"


def _quantiles(times: list[float]) -> tuple[float, ...]:
    cuts = statistics.quantiles(times, n=20)
    return cuts[1], cuts[4], cuts[9], cuts[14]


LARGE_MODES = {"growing, all of it cached": KEEP_EVERYTHING, "growing": 2, "recycled": 2}


def large_worker(
    directory: Path, mode: str, begin: float, result: "multiprocessing.Queue[tuple[float, float]]"
) -> None:
    """One writer; tells MB/s and the processor time of a flush."""
    payload = os.urandom(LARGE_BYTES)
    crc = checksum(payload)
    with open_log(directory, LogConfig(cached_segments_max=LARGE_MODES[mode])) as log:

        def once() -> None:
            append(log, payload, crc, LARGE_FRAMES)
            log.flush()
            if mode == "recycled":
                log.trim(log.last_index)

        for _ in range(80):
            once()
        while time.time() < begin:
            time.sleep(0.001)
        count, cpu, begun = 0, time.process_time(), time.perf_counter()
        while (took := time.perf_counter() - begun) < LARGE_S:
            once()
            count += 1
        cpu = time.process_time() - cpu
        result.put((count * LARGE_FRAMES * LARGE_BYTES / MIB / took, cpu / count))


def large_part(directory: Path, repeats: int) -> Iterator[str]:
    """Each mode in turn, several times over."""
    yield f"{LARGE_FRAMES} frames of 512 KiB a flush: MB/s of each writer, processor time of a flush in us"
    for _ in range(repeats):
        for mode in LARGE_MODES:
            for writers in (1, 3):
                result: multiprocessing.Queue[tuple[float, float]] = multiprocessing.Queue()
                begin = time.time() + 2 * writers
                work = [
                    multiprocessing.Process(target=large_worker, args=(directory / str(at), mode, begin, result))
                    for at in range(writers)
                ]
                for each in work:
                    each.start()
                told = [result.get() for _ in work]
                for each in work:
                    each.join()
                rates = " ".join(f"{rate:5.0f}" for rate, _ in told)
                yield f"{mode:<26} {writers} at once: {rates:<18} {1e6 * statistics.mean(cpu for _, cpu in told):6.0f}"


def restart_part(directory: Path, repeats: int) -> Iterator[str]:
    """A log that was killed: the newest segment is read, and the head of every older index."""
    yield "opening a log of 1 GiB: wall ms, processor ms (median)"
    for name, size, span, count in (
        ("100 B records, 64 a frame", 6_400, 64, 20),
        ("512 KiB frames", LARGE_BYTES, 1, 8),
        ("100 B records, one a frame", 100, 1, 500),
    ):
        shutil.rmtree(directory, ignore_errors=True)
        payload = os.urandom(size)
        crc = checksum(payload)
        child = multiprocessing.Process(target=fill_and_die, args=(directory, payload, crc, count, span))
        child.start()
        child.join()
        wall, cpu, held = [], [], ""
        for _ in range(repeats):
            before = time.perf_counter(), time.process_time()
            log = SegmentedLog.open(RealDisk(), str(directory), LogConfig(), log_id=1)
            wall.append(time.perf_counter() - before[0])
            cpu.append(time.process_time() - before[1])
            held = f"{log.last_index} frames, {len(log.segment_facts())} segments"
            log.close()
        shutil.rmtree(directory)
        yield f"{name:<28} {1e3 * statistics.median(wall):6.0f} {1e3 * statistics.median(cpu):6.0f}   ({held})"


def fill_and_die(directory: Path, payload: bytes, crc: int, count: int, span: int) -> None:
    """A gibibyte, and no orderly end."""
    log = SegmentedLog.open(RealDisk(), str(directory), LogConfig(), log_id=1)
    while log.end < GIB:
        append(log, payload, crc, count, span)
        log.flush()
    os._exit(0)


def memory_part(directory: Path, repeats: int) -> Iterator[str]:
    """Resident memory of this process, with a read at the old end and in the middle now and then."""
    del repeats
    yield "frames of 100 B appended: resident MiB, segments"
    payload = bytes(100)
    crc = checksum(payload)
    with open_log(directory, LogConfig()) as log:
        for goal in (1_000, 10**6, 3 * 10**6, 10**7):
            while log.last_index < goal:
                append(log, payload, crc, 1_000)
                if log.last_index % 100_000 == 0:
                    log.flush()
                    log.read(1, 1)
                    log.read(log.last_index // 2, 1)
            yield f"{goal:>10} {_resident_mib():7.1f} {len(log.segment_facts()):4}"


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


PARTS: dict[str, Callable[[Path, int], Iterator[str]]] = {
    "flush": flush_part,
    "large": large_part,
    "restart": restart_part,
    "memory": memory_part,
}


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the parts that were named, or all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--directory", type=Path, default=Path("runs/log_alone"), help="on the disk to be measured")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the text here")
    options = parser.parse_args()
    lines = [f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"]
    _show(lines[0])
    for name in options.parts or PARTS:
        for line in PARTS[name](options.directory, options.repeats):
            _show(line)
            lines.append(line)
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
