"""Fuzzed requests against a real Kafka broker process: each may end its own connection, and nothing else.

`python -m tests.fuzz.kafka --frames 100000 --seed 1` starts one broker with a secret, sends that many requests of every API and version
(and frames of the raft wire; `--only 57 64` of these APIs), each on a connection of its own, and prints what came of them. A third come from a broker that has
proven who it is, and speaks for others. It fails unless

- every request with valid encoding, and no longer than its API takes, is answered, but for those whose errors have no place in an answer
  (Produce with acks=0, and DescribeTopicPartitions), and those of a broker that speaks for another one,
- every whole request is answered by a response that can be decoded, or its connection is closed with a logged reason; only Fetch,
  JoinGroup and SyncGroup may wait,
- a healthy client's produce requests are acknowledged throughout, and what was acknowledged can be read afterwards,
- of many batches with right headers and absurd records, each that the broker takes can be read, record by record,
- the broker's log on stderr stays empty, and the broker stops cleanly,
- at least half of the frames reached the decoder of their API,
- the broker's memory grew by less than 128 MiB, and it wrote nothing outside of its directory.
"""

import argparse
import contextlib
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.cluster.ports import ReservedPorts
from kafka_compat.broker.proving import MemberProof
from kafka_compat.config_keys import STANDARD_AUTHORIZER
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicsRequest
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.batch_header import HEADER_BYTES, batch_headers
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.registry import APIS, BROKER_APIS, require_size
from kafka_compat.records import encode_records, read_records
from raft.secret_file import credentials_of
from raft.trust import Secret
from tests.fuzz.kafka_requests import CLUSTER, HEALTHY, TARGET, FuzzedFrame, fuzzed_frame, records

MEMORY_GROWTH_MAX = 128 * 1024 * 1024
MEMORY_EVERY = 250
WARM_UP = 1_000
MAY_WAIT = (1, 11, 14)
"""Fetch, JoinGroup and SyncGroup."""
MAY_CLOSE = (0, 75)
"""Produce and DescribeTopicPartitions."""
WAIT_S = 0.02
HANG_S = 15.0
BATCHES = "fuzz-batches"
MARKER = 0x5AFE
"""The correlation id of a request that follows each fuzzed one: its answer tells that the fuzzed one has none."""
HEALTHY_PAUSE_S = 0.005
SECRET = Secret("what-the-broker-knows-and-a-stranger-does-not")
MEMBER = "2"
OF_BROKERS = (FETCH.key, *BROKER_APIS)
"""The requests that end the connection of a broker that speaks for another one."""
ALL: dict[int, Api[Any, Any]] = {**APIS, **BROKER_APIS}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # what is produced here bears times long ago
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
}
AUTHORIZES = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


@attrs.define
class Process:
    """A broker process, its events and the reasons it gave for closing connections."""

    process: subprocess.Popen[str]
    port: int
    serving: threading.Event = attrs.field(factory=threading.Event)
    reasons: Counter[str] = attrs.field(factory=Counter)
    last_events: list[str] = attrs.field(factory=list)

    def listen(self) -> None:
        """Take in the broker's events until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "serving":
                self.serving.set()
            elif event["event"] in ("failed", "stopping", "proposes"):
                self.last_events.append(line)
                del self.last_events[:-5]
            elif event["event"] == "connection_closed":
                self.reasons[str(event["reason"])] += 1

    def memory_bytes(self) -> int:
        """Resident memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextlib.contextmanager
def running_broker(directory: Path, *, authorizes: bool = False) -> Iterator[Process]:
    """A broker alone, whose data is in `directory/data` and whose log in `directory/stderr`.

    If it `authorizes`, each request passes its guard, which lets all through as long as there is no ACL.
    """
    with ReservedPorts(1) as reserved, (directory / "stderr").open("w") as errors:
        (port,) = reserved.ports
        command = [sys.executable, "-m", "kafka_compat.process", "--id", "1", "--cluster-id", CLUSTER]
        secret = directory / "secret"
        secret.touch(0o600)
        secret.write_text(SECRET.text)
        command += ["--listen", f"127.0.0.1:{port}", "--data", str(directory / "data"), "--secret-file", str(secret)]
        command += [f"--set={name}={value}" for name, value in (SETTINGS | (AUTHORIZES if authorizes else {})).items()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        broker = Process(process, port)
        listener = threading.Thread(target=broker.listen)
        listener.start()
        try:
            assert broker.serving.wait(30), "the broker did not start"
            yield broker
        finally:
            process.terminate()
            process.wait(30)
            listener.join()
            assert process.stdout is not None
            process.stdout.close()


def read_body(connection: socket.socket) -> bytes:
    """The body of the next whole frame; `EOFError` if the broker closed instead."""
    (length,) = struct.unpack(">i", read_exactly(connection, 4))
    assert 0 <= length < 2**27, "the broker sent an absurd length"
    return read_exactly(connection, length)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def ask(connection: socket.socket, api: Api[Any, Any], version: int, request: Any) -> Any:
    """The response to a valid request."""
    connection.sendall(b"".join(api.encode_request(RequestHeader(api.key, version, 7, "healthy"), request)))
    return api.decode_response(read_body(connection), version)[1]


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=HANG_S)


def prove(connection: socket.socket) -> None:
    """Prove to be broker `MEMBER`."""
    steps = MemberProof(credentials_of(SECRET, CLUSTER, MEMBER), 1).begin()
    calls = list(steps.first)
    while calls:
        calls += steps.step(ask(connection, *calls.pop(0)))
    assert steps.is_done


@attrs.define
class HealthyClient:
    """Produces with acks=all all the time, on one connection, and reads everything at the end."""

    port: int
    acknowledged: dict[int, bytes] = attrs.field(factory=dict)
    longest_s: float = 0.0
    failure: str = ""
    stopped: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        """Until `stopped`; whatever fails is kept in `failure`."""
        try:
            with connect(self.port) as connection:
                number = 0
                while not self.stopped.wait(HEALTHY_PAUSE_S):
                    self._produce(connection, number)
                    number += 1
        except Exception as error:  # noqa: BLE001 - told by the thread that asks
            self.failure = f"{type(error).__name__}: {error}"

    def _produce(self, connection: socket.socket, number: int) -> None:
        batch = encode_records([(None, b"healthy %d" % number)], 1)
        partition = ProducePartition(index=0, records=batch)
        topic = ProduceTopic(name=HEALTHY, partition_data=(partition,))
        began = time.monotonic()
        response = ask(connection, PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,)))
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == 0, f"a healthy produce got error {answer.error_code}"
        self.acknowledged[answer.base_offset] = batch[HEADER_BYTES:]

    def check(self) -> None:
        """Everything that was acknowledged is there, and nothing else."""
        found: dict[int, bytes] = {}
        with connect(self.port) as connection:
            while len(found) < len(self.acknowledged):
                partition = FetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=2**20)
                topic = FetchTopic(topic=HEALTHY, partitions=(partition,))
                request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,))
                (answer,) = ask(connection, FETCH, 4, request).responses[0].partitions
                assert answer.error_code == 0, f"a healthy fetch got error {answer.error_code}"
                records = bytes(answer.records or b"")
                assert records, f"{len(found)} of {len(self.acknowledged)} acknowledged batches are there"
                for at, header in batch_headers(records):
                    found[header.base_offset] = records[at + HEADER_BYTES : at + header.size]
        assert found == self.acknowledged, "what was acknowledged is not what is there"


def send_batches(port: int, count: int, rng: random.Random) -> Counter[str]:
    """Batches in requests that are right; the outcomes by their errors."""
    outcomes: Counter[str] = Counter()
    with connect(port) as connection:
        for _ in range(count):
            partition = ProducePartition(index=0, records=records(rng))
            topic = ProduceTopic(name=BATCHES, partition_data=(partition,))
            response = ask(connection, PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,)))
            outcomes[KafkaErrorCode(response.responses[0].partition_responses[0].error_code).name] += 1
    return outcomes


def check_taken(port: int) -> int:
    """Returns how many batches were taken. Raises `InvalidBatch` for one that cannot be read."""
    count, offset = 0, 0
    with connect(port) as connection:
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**20)
            topic = FetchTopic(topic=BATCHES, partitions=(partition,))
            request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,))
            (answer,) = ask(connection, FETCH, 4, request).responses[0].partitions
            content = bytes(answer.records or b"")
            if not content:
                return count
            for at, header in batch_headers(content):
                found = list(read_records(content[at : at + header.size]))
                assert [each.offset for each in found] == list(range(header.base_offset, header.end_offset))
                assert max(-1, *(each.timestamp_ms for each in found)) == header.max_timestamp
                count, offset = count + 1, header.end_offset


def is_short_enough(frame: FuzzedFrame) -> bool:
    """Returns False for a request that is longer than its API takes."""
    try:
        require_size(frame.data[4:])
    except MalformedMessage:
        return False
    return True


def send_fuzzed(port: int, frame: FuzzedFrame, *, by_broker: bool) -> str:
    """One fuzzed frame of a stranger or of a broker, on a connection of its own, and its fate.

    "answered", "no answer" (acks=0), "waiting" (still, when the client left), "closed" by the broker; and "left": the frame was
    not whole, or native, and the connection ended when the client did not send the rest.
    """
    with connect(port) as connection:
        if by_broker:
            prove(connection)
        try:
            connection.sendall(frame.data)
            if not frame.whole:
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(EOFError):
                    while True:
                        read_body(connection) if not frame.native else read_exactly(connection, 1)
                return "left"
            marker = RequestHeader(API_VERSIONS.key, 0, MARKER)
            connection.sendall(b"".join(API_VERSIONS.encode_request(marker, ApiVersionsRequest())))
            connection.settimeout(WAIT_S if frame.key in MAY_WAIT else HANG_S)
            body = read_body(connection)
        except TimeoutError:
            assert frame.whole and frame.key in MAY_WAIT, f"no answer to {frame}"
            return "waiting"
        except (EOFError, OSError):
            return "closed" if frame.whole else "left"
    if body[:4] == struct.pack(">i", MARKER) and frame.correlation_id != MARKER:
        assert frame.key == PRODUCE.key, f"no answer to {frame}"
        return "no answer"
    api = ALL[frame.key]
    version = frame.version if frame.version in api.versions else 0
    correlation_id, _ = api.decode_response(body, version)
    assert correlation_id == frame.correlation_id, f"another request was answered: {frame}"
    return "answered"


def fuzz(frames: int, seed: int, only: Collection[int] = ()) -> dict[str, Any]:
    """Send the frames; what happened. `AssertionError` if more than single connections suffered."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            outcome = _fuzz(frames, random.Random(seed), Path(directory), only, authorizes=seed % 2 == 1)
        except AssertionError as error:
            error.add_note("the broker logged: " + (Path(directory) / "stderr").read_text()[-8000:])
            raise
        errors = (Path(directory) / "stderr").read_text()
        assert not errors, f"the broker logged: {errors[-4000:]}"
        assert {each.name for each in Path(directory).iterdir()} == {"data", "secret", "stderr"}, (
            "a file outside of the directory"
        )
        assert {each.name for each in (Path(directory) / "data").iterdir()} <= {"metadata", "partitions"}
    return outcome


def _fuzz(
    frames: int, rng: random.Random, directory: Path, only: Collection[int], *, authorizes: bool
) -> dict[str, Any]:
    fates: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    reached = 0
    with running_broker(directory, authorizes=authorizes) as broker:
        with connect(broker.port) as connection:
            topics = tuple(
                CreateTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
                for name in (HEALTHY, TARGET, BATCHES)
            )
            ask(connection, CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        healthy = HealthyClient(broker.port)
        thread = threading.Thread(target=healthy.run)
        thread.start()
        began, baseline, peak = time.monotonic(), broker.memory_bytes(), 0
        try:
            for count in range(frames):
                frame = fuzzed_frame(rng, only)
                by_broker = not frame.native and rng.random() < 1 / 3
                try:
                    fate = send_fuzzed(broker.port, frame, by_broker=by_broker)
                except OSError as error:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        broker.process.wait(10)
                    raise AssertionError(
                        f"frame {count}, {frame}: {error!r}; exit {broker.process.poll()} {broker.last_events}"
                    ) from error
                valid = frame.flaw == "values" and frame.key not in MAY_CLOSE and is_short_enough(frame)
                valid = valid and not (by_broker and frame.key in OF_BROKERS)
                assert fate != "closed" or not valid, f"a request that can be decoded was not answered: {frame}"
                fates[fate] += 1
                kinds[frame.flaw] += 1
                reached += frame.reaches_decoder
                if count % MEMORY_EVERY == 0:
                    peak = max(peak, broker.memory_bytes())
                    baseline = peak if count <= WARM_UP else baseline
                    assert not healthy.failure, f"after frame {count} {frame}: {healthy.failure}"
        finally:
            seconds = time.monotonic() - began
            healthy.stopped.set()
            thread.join()
        assert not healthy.failure, healthy.failure
        healthy.check()
        batches = send_batches(broker.port, frames // 5, rng)
        assert check_taken(broker.port) == batches["NONE"], "what was taken is not what can be read"
    assert broker.process.returncode == 0, f"the broker ended with {broker.process.returncode}"
    unsendable = [reason for reason in broker.reasons if reason.startswith("the answer to")]
    assert not unsendable, f"answers that have no place in their version: {unsendable[:5]}"
    logged = sum(count for reason, count in broker.reasons.items() if "reset" not in reason.lower())
    assert logged >= fates["closed"], f"{fates['closed']} connections were closed, {logged} with a logged reason"
    assert reached * 2 >= frames, f"only {reached} frames reached a decoder"
    assert peak - baseline < MEMORY_GROWTH_MAX, f"memory grew by {peak - baseline} bytes"
    return {
        "frames": frames,
        "frames_per_s": round(frames / seconds),
        "reached_decoder": reached,
        "kinds": dict(kinds),
        "fates": dict(fates),
        "closed_with_reason": logged,
        "memory_before_bytes": baseline,
        "memory_peak_bytes": peak,
        "batches": dict(batches),
        "healthy_acknowledged": len(healthy.acknowledged),
        "healthy_longest_s": round(healthy.longest_s, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", default=(), metavar="KEY", help="the keys of the APIs to send")
    arguments = parser.parse_args()
    sys.stdout.write(json.dumps(fuzz(arguments.frames, arguments.seed, arguments.only), indent=2) + "\n")


if __name__ == "__main__":
    main()
