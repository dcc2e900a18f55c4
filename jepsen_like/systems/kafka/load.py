"""Clients at work on a Kafka cluster: confluent-kafka as it is, in processes of its own, and what they report as rows of the history.

A message is one operation, from before `produce()` to its delivery report, with a value of its own; a slot of a producer is one client.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Any, Final

import attrs
import msgpack
import trio

from jepsen_like.cluster.process import die_with_parent
from jepsen_like.cluster.wires import Address
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.outcomes import outcome_of
from jepsen_like.systems.kafka.pipes import (
    FINAL,
    NOTE,
    QUIT,
    READER,
    READS,
    SENDER,
    SENDS,
    STOP,
    STOPPED,
    ReadRow,
    SentRow,
    WorkerPlan,
)
from jepsen_like.systems.port import NotServing
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.recorder import Recorder

SENDERS: Final = 2
MESSAGE_WITHIN_MS: Final = 8000
"""librdkafka gives a message up, and its outcome is unknown."""
REQUEST_WITHIN_MS: Final = 2000
FINAL_WITHIN_S: Final = 20.0
QUIT_WITHIN_S: Final = 2.0
STDERR_TAIL_BYTES: Final = 2000

COMMON: Final[Mapping[str, Any]] = {
    "socket.timeout.ms": 2500,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "log_level": 0,
}
"""Short times: a client that waits long for a broker that is gone measures its own patience."""


def bootstrap(addresses: Mapping[int, Address]) -> str:
    """`bootstrap.servers` of a cluster."""
    return ",".join(f"{host}:{port}" for _, (host, port) in sorted(addresses.items()))


def producer_config(mode: KafkaMode, servers: str) -> dict[str, Any]:
    """The configuration of a producer. Without a producer id nothing is sent twice, so that a message can be stored once only."""
    config = {
        **COMMON,
        "bootstrap.servers": servers,
        "acks": mode.acks,
        "enable.idempotence": mode.is_idempotent,
        "linger.ms": 1,
        "message.timeout.ms": MESSAGE_WITHIN_MS,
        "request.timeout.ms": REQUEST_WITHIN_MS,
    }
    return config if mode.is_idempotent else {**config, "retries": 0}


def consumer_config(servers: str, group: str) -> dict[str, Any]:
    """The configuration of a consumer that commits nothing by itself."""
    return {
        **COMMON,
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 50,
    }


@attrs.define(eq=False)
class Worker:
    """A client process, as the harness holds it."""

    plan: WorkerPlan
    popen: "subprocess.Popen[bytes]"
    stdout: trio.lowlevel.FdStream
    stderr: IO[bytes]
    unpacker: msgpack.Unpacker = attrs.field(factory=lambda: msgpack.Unpacker(strict_map_key=False))

    @classmethod
    def start(cls, plan: WorkerPlan) -> "Worker":
        """Start it; it begins at once."""
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the worker
        popen = subprocess.Popen(
            [sys.executable, "-m", "jepsen_like.systems.kafka.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            process_group=0,
            preexec_fn=die_with_parent(),
        )
        assert popen.stdout is not None
        stdout = trio.lowlevel.FdStream(os.dup(popen.stdout.fileno()))
        popen.stdout.close()
        worker = cls(plan, popen, stdout, stderr)
        worker._write(attrs.asdict(plan))
        return worker

    def tell(self, command: str) -> None:
        """A command; one that has ended is told nothing."""
        try:
            self._write([command])
        except OSError:
            return

    def _write(self, message: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(msgpack.packb(message))

    async def messages(self) -> list[Any]:
        """What it has said since; waits for something. Raises `NotServing` if it has ended."""
        chunk = await self.stdout.receive_some()
        if not chunk:
            self.popen.wait()
            self.stderr.seek(0)
            told = self.stderr.read()[-STDERR_TAIL_BYTES:].decode(errors="replace").strip()
            raise NotServing(f"a client process ended with status {self.popen.returncode}: {told}")
        self.unpacker.feed(chunk)
        return list(self.unpacker)

    async def end(self) -> None:
        """Let it end, or end it."""
        self.tell(QUIT)
        deadline = trio.current_time() + QUIT_WITHIN_S
        while self.popen.poll() is None and trio.current_time() < deadline:  # noqa: ASYNC110 - only the kernel knows
            await trio.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """End it now."""
        self.popen.kill()
        self.popen.wait()
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        self.stderr.close()


class KafkaLoad:
    """All clients of a run (`workload.load.RunningLoad`): producers and a consumer, which live until the final reads are over."""

    def __init__(self, mode: KafkaMode, recorder: Recorder, servers: str, topic: str, plan: LoadPlan) -> None:
        self.recorder = recorder
        self._plans = _plans(mode, servers, topic, plan)
        self._may_retry = mode.is_idempotent
        self._workers: list[Worker] = []
        self._processes: dict[tuple[str, int, int], int] = {}
        """By role, worker and slot."""
        self._is_stopping = False
        self._ends: dict[int, int] = {}

    async def run(self) -> None:
        """Drive all clients; returns when `stop` was called and every message has its report. Raises `NotServing`, in a group, if one ends."""
        try:
            self._workers += [Worker.start(plan) for plan in self._plans]
            if self._is_stopping:
                self.stop()
            async with trio.open_nursery() as nursery:
                for worker in self._workers:
                    nursery.start_soon(self._listen, worker, STOPPED)
        except BaseException:
            self._kill()
            raise

    def stop(self) -> None:
        """Start no more operations."""
        self._is_stopping = True
        for worker in self._workers:
            worker.tell(STOP)

    async def final_reads(self) -> bool:
        """A last message to every partition, then where each ends and its newest records. Returns False if not all was answered."""
        try:
            with trio.move_on_after(FINAL_WITHIN_S * 2):
                for role in (SENDER, READER):
                    told = [worker for worker in self._workers if worker.plan.role == role]
                    for worker in told:
                        worker.tell(FINAL)
                    answers: list[Any] = []
                    async with trio.open_nursery() as nursery:
                        for worker in told:
                            nursery.start_soon(self._listen, worker, FINAL, answers)
                    if not all(answered for answered, _ in answers):
                        return False
                return True
            return False
        finally:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for worker in self._workers:
                        nursery.start_soon(worker.end)

    def claimed_ends(self) -> Mapping[int, int]:
        """By partition: the end that the consumer was told after everything."""
        return dict(self._ends)

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    # ---------------------------------------------------------------- what they say

    async def _listen(self, worker: Worker, until: str, answers: list[Any] | None = None) -> None:
        """Record what a worker reports, until it says that it is done."""
        while True:
            for what, *content in await worker.messages():
                if what == SENDS:
                    for row in content[1]:
                        self._sent(worker, SentRow(*row))
                elif what == READS:
                    for row in content[0]:
                        self._read(worker, ReadRow(*row))
                elif what == NOTE:
                    self.recorder.note_nonsense(content[0])
                if what == FINAL and answers is not None:
                    answers.append(content)
                    self._ends |= content[1]
                if what == until:
                    return

    def _process(self, worker: Worker, slot: int) -> tuple[str, int, int]:
        key = (worker.plan.role, worker.plan.index, slot)
        if key not in self._processes:
            self._processes[key] = self.recorder.new_process()
        return key

    def _sent(self, worker: Worker, row: SentRow) -> None:
        request = Request(Action.APPEND, _never_asked, object=row.partition, a=row.value, values=(row.value,))
        outcome, code = outcome_of(row.code, may_retry=self._may_retry)
        if outcome is Outcome.OK and row.offset < 0:
            # It is stored, but who asks again for a batch that was acknowledged long ago is not told where.
            outcome, code = Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME
        key = self._process(worker, row.slot)
        process = self._processes[key]
        if outcome is Outcome.OK:
            late_s = row.late_us / 1e6 if row.late_us >= 0 else None
            seen = Seen((row.value,), row.offset)
            self.recorder.ok(request, seen, process=process, node=NONE, t_inv=row.t_inv, t_ret=row.t_ret, late_s=late_s)
            return
        self.recorder.ended(request, outcome, code, process=process, node=NONE, t_inv=row.t_inv, t_ret=row.t_ret)
        if outcome is Outcome.INFO:
            del self._processes[key]

    def _read(self, worker: Worker, row: ReadRow) -> None:
        request = Request(Action.READ, _never_asked, object=row.partition, offset=row.offset)
        seen = Seen(row.values, row.offset, epoch=row.epoch, is_whole=row.is_whole)
        process = self._processes[self._process(worker, 0)]
        # A read of several epochs is several rows of one time, each an operation of its own.
        del self._processes[worker.plan.role, worker.plan.index, 0]
        self.recorder.ok(request, seen, process=process, node=NONE, t_inv=row.t_inv, t_ret=row.t_ret)


async def _never_asked(connection: Any) -> Any:
    """The request was carried out in another process."""
    raise AssertionError(connection)


def _plans(mode: KafkaMode, servers: str, topic: str, plan: LoadPlan) -> list[WorkerPlan]:
    """Producers that share the concurrency and the rate, and one consumer beside them."""
    senders = min(SENDERS, plan.concurrency)
    shares = [plan.concurrency // senders + (number < plan.concurrency % senders) for number in range(senders)]
    reader = WorkerPlan(
        role=READER,
        client=consumer_config(servers, f"readers-{plan.seed}"),
        topic=topic,
        partitions=mode.partitions,
        seed=plan.seed,
    )
    producers = [
        attrs.evolve(
            reader,
            role=SENDER,
            client=producer_config(mode, servers),
            index=number,
            workers=senders,
            slots=slots,
            rate=plan.rate / senders,
        )
        for number, slots in enumerate(shares)
    ]
    return [*producers, reader]
