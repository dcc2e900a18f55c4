"""A log that brokers' own compaction works on, as a run would show it: the judge finds nothing wrong, and enough to judge."""

import json
import random
from pathlib import Path

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.files import DumpWriter, HistoryWriter, read_dump
from jepsen_like.history.keyed_values import keyed_value
from jepsen_like.systems.kafka.batch_values import records_of, whole_batches
from jepsen_like.systems.kafka.final_log import FinalLogWriter
from jepsen_like.systems.kafka.final_log import keyed_value as value_of
from jepsen_like.workload.client_rows import EndRow
from jepsen_like.workload.keyed import FINAL_SCAN, SCAN, KeyedRecorder, encode_keyed
from kafka_compat.config import CompactionRule
from kafka_compat.protocol.batch_header import BatchHeader, encode_batch_header, read_batch_header
from kafka_compat.records import encode_kept, encode_varint, read_records
from kafka_compat.storage.compaction import Compactor
from kafka_compat.storage.partition_log import PartitionLog
from tests.kafka_compat.storage.partition_model import memory_disk, new_log, read_all

MS = 1_000_000
STEPS, STEP_MS = 300, 50
RULE = CompactionRule(delete_retention_ms=4000, min_lag_ms=1000, dirty_ratio=0.01)


def batch_of(values: list[int], now_ms: int) -> bytes:
    """A batch of keyed records, with their headers."""
    body = b""
    for delta, value in enumerate(values):
        key, content, headers = encode_keyed(value, 40)
        ((name, number),) = headers
        record = b"\0\0" + encode_varint(delta)
        for part in (key, content):
            record += encode_varint(-1) if part is None else encode_varint(len(part)) + part
        record += encode_varint(1)
        for part in (name.encode(), number or b""):
            record += encode_varint(len(part)) + part
        body += encode_varint(len(record)) + record
    last = len(values) - 1
    header = BatchHeader(0, 0, 1, 2, 0, 0, last, now_ms, now_ms, -1, -1, -1, len(values))
    return encode_batch_header(header, body) + body


def scan(log: PartitionLog, recorder: KeyedRecorder, now_ms: int, level: int) -> None:
    """Reads all of the log at once."""
    content = b"".join(read_all(log))
    found = [one for position, header in whole_batches(content) for one in records_of(content, position, header)]
    process = recorder.new_process()
    values, offsets = [value_of(one) for one in found], [one.offset for one in found]
    recorder.record_poll(values, offsets, partition=0, process=process, t_inv=now_ms * MS, t_ret=now_ms * MS)
    recorder.record_scan(EndRow(0, level, 0, 0, log.end_offset, now_ms * MS, now_ms * MS), process=process)


def test_the_compaction_of_a_broker_keeps_what_the_judge_asks_for(tmp_path: Path) -> None:
    rng, compactor, now_ms, serial = random.Random(1), Compactor(), 1000, 0
    store, log = new_log(memory_disk())
    with HistoryWriter(tmp_path / "history.parquet") as history:
        recorder = KeyedRecorder(history)
        producer = recorder.new_process()
        for step in range(STEPS):
            values = []
            for _ in range(rng.randint(1, 4)):
                serial += 1
                key = rng.choice((rng.randrange(4), 4 + step // 10))
                values.append(keyed_value(serial, key, is_deletion=rng.random() < 0.3))
            base, _ = log.append_as_leader([batch_of(values, now_ms)], 1)
            for delta, value in enumerate(values):
                about = {"partition": 0, "process": producer, "t_inv": now_ms * MS + delta, "t_ret": now_ms * MS + 9}
                recorder.record_send(value, offset=base + delta, **about)
            if step % 5 == 0:
                store.flush()
                found = compactor.begin(log, RULE, high_watermark=log.end_offset, now_ms=now_ms)
                if found is not None:
                    found.run()
            if step % 7 == 0:
                scan(log, recorder, now_ms, SCAN)
            now_ms += STEP_MS
        scan(log, recorder, now_ms, FINAL_SCAN)
    with DumpWriter(tmp_path / "dump.parquet") as dump:
        dump.begin(1, 0, 0)
        writer = FinalLogWriter(dump, 1, 0, 0, value_of)
        writer.take(memoryview(b"".join(read_all(log))), log.end_offset)
        writer.close()
        dump.dumped_ns = now_ms * MS
    (tmp_path / "test.json").write_text(json.dumps({"compaction": {"min_lag_ms": 1000, "delete_retention_ms": 4000}}))
    verdict = check_run(tmp_path, Model.COMPACTED, Engine.LOCAL)
    assert verdict.valid is True, verdict.as_json()["checks"]
    assert verdict.not_tested == ()
    assert verdict.compaction is not None
    assert verdict.compaction.removed > 400
    assert verdict.compaction.deleted_keys >= 3


def test_the_dump_of_a_compacted_batch_has_its_gaps(tmp_path: Path) -> None:
    values = [keyed_value(serial, key=serial, is_deletion=serial == 3) for serial in (1, 2, 3)]
    whole = batch_of(values, 1000)
    first, _, last = read_records(whole)
    left = encode_kept(read_batch_header(whole), [first, last])
    with DumpWriter(tmp_path) as dump:
        writer = FinalLogWriter(dump, 1, 0, 0, value_of)
        writer.take(memoryview(left), 3)
    table = read_dump(tmp_path)
    assert table.column("offset").to_pylist() == [0, 2]
    assert table.column("a").to_pylist() == [values[0], values[2]]
