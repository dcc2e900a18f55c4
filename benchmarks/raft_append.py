"""Durable appends of 100 B from 64 closed-loop connections to three raft nodes on loopback, beside two yardsticks.

One run measures, in turn and several times over, on the same machine and disk:

- the disk: three processes that append a batch of 64 records and fdatasync, all at once. No durable log with 64 requests
  in flight and three copies on this disk can acknowledge more than 64 records a flush;
- PySyncObj: three processes, `appendEntriesUseBatch=False` (its fast path), 64 outstanding calls made inside the leader's
  process, so without any client connection. It acknowledges from memory: nothing is on disk;
- quorumlog: three `quorumlog node` processes with default settings, 64 TCP connections, one request in flight on each. An
  acknowledgement means that a majority has flushed.

Medians of the repeats are printed with each repeat beside them; the ratios are those of the medians. A last pass of
quorumlog, not counted, samples where the leader's time goes.

    python benchmarks/raft_append.py [--seconds 8] [--repeats 3] [--output benchmarks/results/NAME.txt]

Needs the `bench` extra. The workers are this same file, called with the name of their part.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
NODES = 3
CONNECTIONS = 64
RECORD_BYTES = 100
WARM_UP_S = 2.0
PATIENCE_S = 30.0
CLUSTER = "benchmark"
FRAME_HEADER = struct.Struct("!IBBHI")


@attrs.frozen
class Result:
    """One repeat of one contender. Rates per second, latencies in milliseconds, CPU in microseconds an operation."""

    ops_s: float
    p50_ms: float
    p99_ms: float
    leader_us: float = math.nan
    all_us: float = math.nan
    """All processes: nodes and load generator."""
    flushes_s: float = math.nan
    flush_ms: float = math.nan
    entries_s: float = math.nan


def main() -> None:
    """Run the benchmark, or one worker of it."""
    if len(sys.argv) > 1 and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="measured time of each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the text here")
    parser.add_argument(
        "--directory", type=Path, default=ROOT / "runs", help="where the logs go: the disk that is measured"
    )
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="benchmark-", dir=given.directory))
    try:
        text = benchmark(work, given.seconds, given.repeats)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(text)
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(text + "\n")


def benchmark(work: Path, seconds: float, repeats: int) -> str:
    """All contenders, interleaved, so that a slow minute of the machine hits all of them."""
    head = list(heading(work, seconds, repeats))
    results: dict[str, list[Result]] = {"disk": [], "pysyncobj": [], "quorumlog": []}
    for repeat in range(repeats):
        for name, measure in (
            ("disk", measure_disk),
            ("pysyncobj", measure_pysyncobj),
            ("quorumlog", measure_quorumlog),
        ):
            directory = work / f"{name}-{repeat}"
            directory.mkdir()
            results[name].append(measure(directory, seconds))
            print(f"{name:<10} {repeat + 1}/{repeats}  {results[name][-1].ops_s:>10,.0f} /s", file=sys.stderr)
            shutil.rmtree(directory)
    directory = work / "profile"
    directory.mkdir()
    profile = profile_quorumlog(directory, seconds)
    return "\n".join([*head, "", *table(results), "", *where(results["quorumlog"]), "", *profile])


# -------------------------------------------------------------------- the text


def heading(work: Path, seconds: float, repeats: int) -> Iterator[str]:
    """What was measured, on what."""
    yield f"Appends of {RECORD_BYTES} B, {CONNECTIONS} in flight, {NODES} processes on loopback; {repeats} repeats of {seconds:g} s."
    yield f"Machine: {os.cpu_count()} cores ({cpu_name()}), Linux {platform.release().partition('-')[0]}, {disk_kind(work)}."
    yield f"Python {platform.python_version()}, {versions()}."
    yield f"Load average before: {os.getloadavg()[0]:.1f}. The load generator shares the cores with the nodes; ratios hold better than figures."


def cpu_name() -> str:
    """The processor, as the kernel names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def disk_kind(directory: Path) -> str:
    """The file system that holds the logs, and what it lies on."""
    best: tuple[int, str] = (0, "unknown disk")
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            device, place, kind, *_ = line.split()
            if directory.is_relative_to(place) and len(place) >= best[0]:
                on = "virtual disk" if Path(device).name.startswith("vd") else Path(device).name
                best = (len(place), f"{kind} on {on}")
    return best[1]


def versions() -> str:
    """The packages that matter."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("quorumlog", "trio", "pysyncobj"))


def table(results: dict[str, list[Result]]) -> Iterator[str]:
    """One row a contender, the figures of every repeat, and the ratios of the medians."""
    names = {
        "disk": "disk limit (64 records a flush, 3 writers)",
        "pysyncobj": "PySyncObj, not durable, calls in the leader",
        "quorumlog": "quorumlog, durable on a majority, over TCP",
    }
    yield f"{'':<45}{'ops/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'leader us/op':>14}{'all us/op':>11}   each repeat, ops/s"
    for key, runs in results.items():
        yield (
            f"{names[key]:<45}{middle(runs, 'ops_s'):>10,.0f}{middle(runs, 'p50_ms'):>9.2f}{middle(runs, 'p99_ms'):>9.2f}"
            f"{figure(middle(runs, 'leader_us')):>14}{figure(middle(runs, 'all_us')):>11}"
            f"   {', '.join(f'{run.ops_s:,.0f}' for run in runs)}"
        )
    own = middle(results["quorumlog"], "ops_s")
    yield ""
    yield f"quorumlog : PySyncObj   {own / middle(results['pysyncobj'], 'ops_s'):.2f}"
    yield f"quorumlog : disk limit  {own / middle(results['disk'], 'ops_s'):.2f}"


def middle(runs: Sequence[Result], name: str) -> float:
    """The median of one figure."""
    return float(statistics.median(getattr(run, name) for run in runs))


def figure(value: float) -> str:
    """A figure, or a dash for one that was not taken."""
    return "-" if math.isnan(value) else f"{value:.1f}"


def where(runs: Sequence[Result]) -> Iterator[str]:
    """Where quorumlog's time goes: flushes, batches, cores."""
    ops, flushes, entries = middle(runs, "ops_s"), middle(runs, "flushes_s"), middle(runs, "entries_s")
    flush_ms = middle(runs, "flush_ms")
    yield "quorumlog, the leader:"
    yield f"  flushes/s            {flushes:10,.0f}   mean {flush_ms:.2f} ms: the disk works {flushes * flush_ms / 10:.0f} % of the time"
    yield f"  records a flush      {ops / flushes:10.1f}   of {CONNECTIONS} in flight"
    yield f"  entries/s            {entries:10,.0f}   {ops / entries:.1f} records each"
    yield f"  CPU of the leader    {middle(runs, 'leader_us') * ops / 1e4:10.0f} % of a core"
    yield f"  CPU of all processes {middle(runs, 'all_us') * ops / 1e4:10.0f} % of {(os.cpu_count() or 1) * 100} %"


# -------------------------------------------------------------------- processes


@contextlib.contextmanager
def workers(commands: Sequence[Sequence[str]], directory: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Start this file's workers; at the end ask them to stop, then insist. Their stderr goes to a file each."""
    started: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as files:
        try:
            for number, command in enumerate(commands):
                errors = files.enter_context((directory / f"stderr-{number}").open("w"))
                started.append(
                    subprocess.Popen(
                        [sys.executable, str(HERE), *command],
                        text=True,
                        cwd=ROOT,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                    )
                )
            yield started
        finally:
            for process in started:
                process.terminate()
            for process in started:
                try:
                    process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def free_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago."""
    with contextlib.ExitStack() as open_sockets:
        taken = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile_ms(latencies_ns: Sequence[int], share: float) -> float:
    """A quantile in milliseconds."""
    ordered = sorted(latencies_ns)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / 1e6


# -------------------------------------------------------------------- the disk


def measure_disk(directory: Path, seconds: float) -> Result:
    """Three writers at once; the majority's pace is the second fastest writer's."""
    commands = [["disk-writer", str(directory / f"log-{number}"), str(seconds)] for number in range(NODES)]
    with workers(commands, directory) as writers:
        told = [json.loads(writer.stdout.readline()) for writer in writers if writer.stdout is not None]
    middle_one = sorted(told, key=lambda row: float(row["flushes_s"]))[len(told) // 2]
    rate = float(middle_one["flushes_s"])
    return Result(CONNECTIONS * rate, middle_one["p50_ms"], middle_one["p99_ms"], flushes_s=rate)


def disk_writer(path: str, seconds: str) -> None:
    """Append one batch and fdatasync, over and over."""
    batch = os.urandom(CONNECTIONS * (RECORD_BYTES + 2) + 80)  # 80: a frame header
    took: list[int] = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    warm = time.monotonic() + WARM_UP_S / 2
    end = warm + float(seconds)
    while (now := time.monotonic()) < end:
        started = time.perf_counter_ns()
        os.write(descriptor, batch)
        os.fdatasync(descriptor)
        if now >= warm:
            took.append(time.perf_counter_ns() - started)
    print(
        json.dumps(
            {
                "flushes_s": len(took) / float(seconds),
                "p50_ms": quantile_ms(took, 0.5),
                "p99_ms": quantile_ms(took, 0.99),
            }
        )
    )


# -------------------------------------------------------------------- PySyncObj


def measure_pysyncobj(directory: Path, seconds: float) -> Result:
    """Three nodes; whichever comes to lead makes the calls and tells what came of them."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(NODES)]
    commands = [["pysyncobj-node", str(seconds), one, *(a for a in addresses if a != one)] for one in addresses]
    with workers(commands, directory) as nodes:
        leader = first_to_speak(nodes)
        read_line(leader)  # the warm-up is over
        before = [cpu_s(node.pid) for node in nodes]
        row = json.loads(read_line(leader))
        used = [cpu_s(node.pid) - start for node, start in zip(nodes, before, strict=True)]
    per_op = 1e6 / row["ops"]
    return Result(
        row["ops"] / row["seconds"],
        row["p50_ms"],
        row["p99_ms"],
        leader_us=used[nodes.index(leader)] * per_op,
        all_us=sum(used) * per_op,
    )


def first_to_speak(processes: Sequence[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """The process that prints first."""
    by_stream = {process.stdout: process for process in processes if process.stdout is not None}
    ready, _, _ = select.select(list(by_stream), [], [], PATIENCE_S)
    if not ready:
        raise TimeoutError("no process said anything; its stderr lies beside the logs")
    return by_stream[ready[0]]


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that a worker prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a worker ended early, with status {process.wait()}")
    return line


def pysyncobj_node(seconds: str, own: str, *others: str) -> None:
    """One node; the leader keeps 64 calls outstanding, each call made by the answer to another."""
    from pysyncobj import SyncObj, SyncObjConf, replicated

    class Log(SyncObj):  # type: ignore[misc] # it ships no types
        def __init__(self) -> None:
            super().__init__(own, list(others), SyncObjConf(appendEntriesUseBatch=False))
            self.records: list[bytes] = []

        @replicated  # type: ignore[untyped-decorator] # nor this
        def append(self, record: bytes) -> None:
            self.records.append(record)

    log = Log()
    log.waitReady()
    while not log._isLeader():
        time.sleep(0.2)
    record = os.urandom(RECORD_BYTES)
    took: list[int] = []

    def call() -> None:
        started = time.perf_counter_ns()

        def answered(result: object, error: int) -> None:
            if error:
                raise RuntimeError(f"PySyncObj refused with {error}")
            took.append(time.perf_counter_ns() - started)
            call()

        log.append(record, callback=answered)

    for _ in range(CONNECTIONS):
        call()
    time.sleep(WARM_UP_S)
    first, began = len(took), time.perf_counter()
    print("measuring", flush=True)
    time.sleep(float(seconds))
    window, lasted = took[first:], time.perf_counter() - began
    row = {
        "ops": len(window),
        "seconds": lasted,
        "p50_ms": quantile_ms(window, 0.5),
        "p99_ms": quantile_ms(window, 0.99),
    }
    print(json.dumps(row), flush=True)
    threading.Event().wait()


# -------------------------------------------------------------------- quorumlog


def measure_quorumlog(directory: Path, seconds: float) -> Result:
    """Three nodes with default settings; the leader gets the load."""
    with quorumlog_nodes(directory, profile=False) as (nodes, ports):
        leader = leader_of(ports)
        pids = [node.pid for node in nodes]
        load = Load(ports[leader])
        load.run(WARM_UP_S)
        status, own_cpu, began = ask_status(ports[leader]), time.process_time(), time.monotonic_ns()
        before = [cpu_s(pid) for pid in pids]
        took = load.run(seconds)
        ended = time.monotonic_ns()
        used = [cpu_s(pid) - start for pid, start in zip(pids, before, strict=True)]
        own_cpu = time.process_time() - own_cpu
        later = ask_status(ports[leader])
        load.close()
    lasted = (ended - began) / 1e9
    flushes = [
        end - start for start, end in json.loads(report_of(directory, leader).read_text()) if began <= end <= ended
    ]
    return Result(
        len(took) / lasted,
        quantile_ms(took, 0.5),
        quantile_ms(took, 0.99),
        leader_us=used[leader] / len(took) * 1e6,
        all_us=(sum(used) + own_cpu) / len(took) * 1e6,
        flushes_s=len(flushes) / lasted,
        flush_ms=statistics.fmean(flushes) / 1e6,
        entries_s=(later["last_index"] - status["last_index"]) / lasted,
    )


def profile_quorumlog(directory: Path, seconds: float) -> list[str]:
    """The same load once more, with the leader sampled: which of our rooms use its main thread's CPU."""
    with quorumlog_nodes(directory, profile=True) as (_, ports):
        leader = leader_of(ports)
        load = Load(ports[leader])
        load.run(seconds)
        load.close()
    samples = Counter(json.loads(report_of(directory, leader).with_suffix(".profile").read_text()))
    total = samples.total()
    rooms: Counter[str] = Counter()
    for place, count in samples.items():
        rooms[place.partition(":")[0]] += count
    lines = [f"Where the leader's CPU goes ({total} samples of its main thread; system calls count to their caller):"]
    lines += [f"  {100 * count / total:5.1f} %  {room}" for room, count in rooms.most_common(14)]
    lines += ["  by function:"]
    return lines + [f"  {100 * count / total:5.1f} %  {place}" for place, count in samples.most_common(14)]


@contextlib.contextmanager
def quorumlog_nodes(directory: Path, *, profile: bool) -> Iterator[tuple[list[subprocess.Popen[str]], list[int]]]:
    """Three nodes; their flush reports are written when they stop."""
    ports = free_ports(NODES)
    commands = []
    for number, port in enumerate(ports):
        command = ["quorumlog-node", str(report_of(directory, number)), "profile" if profile else "plain"]
        command += ["--id", str(number + 1), "--cluster-id", CLUSTER, "--listen", f"127.0.0.1:{port}"]
        command += ["--data", str(directory / f"node-{number}")]
        for other, address in enumerate(ports):
            if other != number:
                command += ["--peer", f"{other + 1}=127.0.0.1:{address}"]
        commands.append(command)
    with workers(commands, directory) as nodes:
        yield nodes, ports


def report_of(directory: Path, number: int) -> Path:
    """Where a node writes its flushes."""
    return directory / f"flushes-{number}"


def leader_of(ports: Sequence[int]) -> int:
    """Wait until one node leads; its place in the list."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for number, port in enumerate(ports):
            with contextlib.suppress(OSError):
                if ask_status(port)["role"] == "leader":
                    return number
        time.sleep(0.05)
    raise TimeoutError("no node came to lead; their stderr lies beside the logs")


def greeted(port: int) -> socket.socket:
    """A connection on which the handshake is done."""
    from raft import client_codec

    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(client_codec.encode_hello(client_codec.Hello(CLUSTER, client_codec.CLIENT, 0)))
    receive_frame(connection)
    return connection


def receive_frame(connection: socket.socket) -> tuple[int, bytes]:
    """One whole frame: its type and body."""
    header = b""
    while len(header) < FRAME_HEADER.size:
        header += connection.recv(FRAME_HEADER.size - len(header)) or no_answer()
    length, _, message_type, _, _ = FRAME_HEADER.unpack(header)
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body)) or no_answer()
    return message_type, body


def no_answer() -> bytes:
    """For where a node should have said something."""
    raise ConnectionError("the node closed the connection")


def ask_status(port: int) -> dict[str, Any]:
    """STATUS of one node."""
    from raft import client_codec

    with greeted(port) as connection:
        connection.sendall(client_codec.encode_bare(client_codec.STATUS, 1))
        _, status = client_codec.decode_reply(*receive_frame(connection))
    assert isinstance(status, dict)
    return status


class Load:
    """64 connections to one node, each with one append in flight; as little Python an answer as can be."""

    def __init__(self, port: int) -> None:
        from raft import client_codec

        self._appended = client_codec.APPENDED
        self._request = client_codec.encode_append(1, client_codec.pack_batch([os.urandom(RECORD_BYTES)]))
        self._sockets = [greeted(port) for _ in range(CONNECTIONS)]
        self._by_fd = {one.fileno(): one for one in self._sockets}
        self._started = {one.fileno(): 0 for one in self._sockets}
        self._epoll = select.epoll()
        for descriptor in self._by_fd:
            self._epoll.register(descriptor, select.EPOLLIN)

    def run(self, seconds: float) -> list[int]:
        """Load for so long; the latencies in nanoseconds, without those still in flight at the end."""
        took: list[int] = []
        end = time.perf_counter_ns() + int(seconds * 1e9)
        for descriptor, connection in self._by_fd.items():
            self._started[descriptor] = time.perf_counter_ns()
            connection.sendall(self._request)
        sending = len(self._sockets)
        while sending:
            for descriptor, _ in self._epoll.poll():
                connection = self._by_fd[descriptor]
                self._take(connection)
                now = time.perf_counter_ns()
                took.append(now - self._started[descriptor])
                if now < end:
                    self._started[descriptor] = now
                    connection.send(self._request)
                else:
                    sending -= 1
        return took

    def _take(self, connection: socket.socket) -> None:
        answer = connection.recv(4096)
        if len(answer) < FRAME_HEADER.size or len(answer) != FRAME_HEADER.size + FRAME_HEADER.unpack_from(answer)[0]:
            raise ConnectionError(f"not one whole answer: {answer!r}")
        if FRAME_HEADER.unpack_from(answer)[2] != self._appended:
            raise ConnectionError(f"an append was refused: {answer!r}")

    def close(self) -> None:
        """Close every connection."""
        self._epoll.close()
        for one in self._sockets:
            one.close()


def quorumlog_node(report: str, mode: str, *arguments: str) -> None:
    """`quorumlog node` with its flushes counted and, if asked, its main thread sampled."""
    from raft.node import node

    flushes: list[tuple[int, int]] = []
    fdatasync = os.fdatasync

    def timed(descriptor: int) -> None:
        started = time.monotonic_ns()
        fdatasync(descriptor)
        flushes.append((started, time.monotonic_ns()))

    os.fdatasync = timed  # type: ignore[assignment] # the log passes descriptors only
    samples: Counter[str] = Counter()
    if mode == "profile":
        sample_into(samples)
    try:
        node(arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(report).write_text(json.dumps(flushes))
        if mode == "profile":
            Path(report).with_suffix(".profile").write_text(json.dumps(samples))


def sample_into(samples: Counter[str]) -> None:
    """Count, every millisecond of CPU, which function runs."""

    def sample(number: int, frame: FrameType | None) -> None:
        if frame is not None:
            path = Path(frame.f_code.co_filename)
            ours = path.is_relative_to(ROOT) and ".venv" not in path.parts
            room = path.relative_to(ROOT) if ours else Path(path.parent.name, path.name)
            samples[f"{room}:{frame.f_code.co_name}"] += 1

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)


WORKERS: dict[str, Callable[..., None]] = {
    "disk-writer": disk_writer,
    "pysyncobj-node": pysyncobj_node,
    "quorumlog-node": quorumlog_node,
}

if __name__ == "__main__":
    main()
