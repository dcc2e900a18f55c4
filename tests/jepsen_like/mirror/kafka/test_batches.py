"""Batches become batches of the target: no record more, none less, each as it was, and each offset known."""

import attrs
import pytest

from jepsen_like.mirror.kafka.batches import CopiedBatch, copy_batches, next_sequence
from jepsen_like.mirror.offset_map import RecordRun
from kafka_compat.compression import GZIP, compress
from kafka_compat.markers import Marker, encode_marker
from kafka_compat.protocol.apis.fetch import FetchAbortedTransaction
from kafka_compat.protocol.batch_header import (
    HEADER_BYTES,
    TIMESTAMP_TYPE,
    InvalidBatch,
    check_batch,
    encode_batch_header,
    read_batch_header,
)
from kafka_compat.records import encode_kept, encode_records, read_records

BIG = b"x" * (40 << 10)


def make_batch(offset: int, *values: bytes, producer: tuple[int, int] = (-1, -1)) -> bytes:
    records = [(b"k", value) for value in values]
    return encode_records(records, range(1_000, 1_000 + len(values)), base_offset=offset, producer=producer)


def keep_only(batch: bytes, *offsets: int) -> bytes:
    """Returns the batch as compaction leaves it."""
    return encode_kept(read_batch_header(batch), [each for each in read_records(batch) if each.offset in offsets])


def pack(batch: bytes) -> bytes:
    header = attrs.evolve(read_batch_header(batch), attributes=GZIP)
    body = compress(GZIP, batch[HEADER_BYTES:], -1)
    return encode_batch_header(header, body) + bytes(body)


def stamp(batch: bytes, time_ms: int) -> bytes:
    header = attrs.evolve(read_batch_header(batch), attributes=TIMESTAMP_TYPE, max_timestamp=time_ms)
    return encode_batch_header(header, batch[HEADER_BYTES:]) + batch[HEADER_BYTES:]


def marker(offset: int, producer_id: int, *, commits: bool) -> bytes:
    written = bytearray(encode_marker(Marker(producer_id, 0, commits, 0), 1_000))
    written[:8] = offset.to_bytes(8, "big")
    return bytes(written)


def contents(batches: tuple[CopiedBatch, ...]) -> list[tuple[int, bytes | None, int]]:
    """Returns the source's offset, the value and the time of each record, from what the target gets."""
    found: list[tuple[int, bytes | None, int]] = []
    for batch in batches:
        encoded = batch.encode((7, 1), 0)
        assert check_batch(encoded).is_transactional
        sources = [run.source + number for run in batch.runs for number in range(run.count)]
        places = [run.target + number for run in batch.runs for number in range(run.count)]
        records = list(read_records(encoded))
        assert places == [record.offset for record in records] == list(range(batch.count))
        found += [(source, record.value, record.timestamp_ms) for source, record in zip(sources, records, strict=True)]
    return found


def test_small_batches_are_joined() -> None:
    fetched = copy_batches(make_batch(5, b"a", b"b") + make_batch(7, b"c"), (), 5)
    assert [batch.count for batch in fetched.batches] == [3]
    assert contents(fetched.batches) == [(5, b"a", 1000), (6, b"b", 1001), (7, b"c", 1000)]
    assert fetched.next_offset == 8


def test_no_batch_is_joined_beyond_what_the_topic_takes() -> None:
    log = b"".join(make_batch(number, b"x" * 40) for number in range(20))
    fetched = copy_batches(log, (), 0, joined_bytes_max=500)
    assert len(contents(fetched.batches)) == 20
    assert 1 < len(fetched.batches) < 20
    assert max(batch.size for batch in fetched.batches) <= 500


@pytest.mark.parametrize("source", [make_batch(5, BIG, b"b"), pack(make_batch(5, b"a", b"b"))], ids=["big", "packed"])
def test_a_dense_batch_passes_with_the_same_bytes(source: bytes) -> None:
    fetched = copy_batches(source, (), 5)
    (batch,) = fetched.batches
    assert bytes(batch.body) == source[HEADER_BYTES:]
    assert batch.runs == (RecordRun(5, 0, 2),)
    assert len(contents(fetched.batches)) == 2


def test_a_batch_that_compaction_has_thinned_is_closed_and_its_gaps_are_in_the_map() -> None:
    thin = keep_only(make_batch(10, b"a", b"b", b"c", b"d", b"e"), 11, 12, 14)
    fetched = copy_batches(thin, (), 10)
    assert contents(fetched.batches) == [(11, b"b", 1001), (12, b"c", 1002), (14, b"e", 1004)]
    assert fetched.batches[0].runs == (RecordRun(11, 0, 2), RecordRun(14, 2, 1))
    assert fetched.next_offset == 15


def test_a_batch_that_compaction_has_emptied_is_passed() -> None:
    fetched = copy_batches(keep_only(make_batch(10, b"a")), (), 10)
    assert (fetched.batches, fetched.next_offset) == ((), 11)


def test_a_reader_that_begins_within_a_batch_gets_the_rest_of_it() -> None:
    for source in (make_batch(5, b"a", b"b", b"c"), pack(make_batch(5, b"a", b"b", b"c"))):
        fetched = copy_batches(source, (), 6)
        assert contents(fetched.batches) == [(6, b"b", 1001), (7, b"c", 1002)]
    assert copy_batches(make_batch(5, b"a"), (), 6).batches == ()


@pytest.mark.parametrize("value", [b"a", BIG], ids=["small", "big"])
def test_times_that_a_broker_stamped_become_those_of_the_records(value: bytes) -> None:
    fetched = copy_batches(stamp(make_batch(0, value, b"b"), 5_000), (), 0)
    assert contents(fetched.batches) == [(0, value, 5000), (1, b"b", 5000)]


def test_aborted_records_and_markers_are_left_out_and_others_of_their_producer_are_not() -> None:
    log = (
        make_batch(0, b"aborted", producer=(1, 0))
        + make_batch(1, b"other", producer=(2, 0))
        + marker(2, 1, commits=False)
        + make_batch(3, b"later", producer=(1, 0))
        + marker(4, 1, commits=True)
        + marker(5, 2, commits=True)
        + make_batch(6, b"plain")
    )
    fetched = copy_batches(log, [FetchAbortedTransaction(producer_id=1, first_offset=0)], 0)
    assert [value for _, value, _ in contents(fetched.batches)] == [b"other", b"later", b"plain"]
    assert fetched.next_offset == 7


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole, cut = make_batch(0, b"a"), make_batch(1, b"b")[:-3]
    fetched = copy_batches(whole + cut, (), 0)
    assert (len(fetched.batches), fetched.next_offset) == (1, 1)
    with pytest.raises(InvalidBatch):
        copy_batches(cut, (), 1)


def test_sequence_numbers_wrap_at_31_bits() -> None:
    assert next_sequence(2**31 - 2, 1) == 2**31 - 1
    assert next_sequence(2**31 - 2, 3) == 1
