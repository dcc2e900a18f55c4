"""The records of a client's batch, walked one by one before a leader takes it, as Apache Kafka's LogValidator does.

An accepted batch is readable for everyone: it holds as many records as its header counts, each as long as its length
states, with offset deltas from 0 on without a gap, and no byte behind the last. Keys, values and headers stay opaque;
only their lengths are read.

This is the one place of the broker whose cost grows with each record, so `_walk_to_pair` is written for speed: it reads
short numbers in place, leaves long ones to `_number`, and knows no reasons. `_alike` compares records laid out like the
one before them as bytes. At a deviation `_fault` reads that record again, and returns the reason.
"""

from typing import Final, NoReturn

from kafka_compat.compression import NONE, CannotDecompress, decompress
from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, InvalidBatch
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen
from raft.net.decoder import Buffer

TAKEN_BYTES_MAX: Final = 32 << 20
"""The largest size of the decompressed records of a batch; a larger batch is refused."""
RECORDS_IN_PART: Final = 10_000
"""The records that are walked without a pause, some 10 ms of work."""
RECORD_BYTES_MIN: Final = 7

_NO_TIME: Final = -1
_COPIED_RECORD_BYTES_MAX: Final = 4096
"""Records that are smaller on average are walked in a copy, since bytes are read faster than a view."""
_FAR: Final = 1 << 70
_TWO_BYTES_MAX: Final = 0x3FFF
_THREE_BYTES_MAX: Final = 0x1FFFFF
_ONE_BYTE_DELTAS: Final = 64
_TWO_BYTE_DELTAS: Final = 8192
_DELTAS: Final = tuple(
    [
        bytes((2 * number,)) if number < _ONE_BYTE_DELTAS else bytes((2 * number & 0x7F | 0x80, number >> 6))
        for number in range(_TWO_BYTE_DELTAS)
    ]
)
"""The offset deltas of up to two bytes, as they are written."""
_IN_VAIN_MAX: Final = 3
"""The number of vain searches by `_alike` after which a part is walked record by record to its end."""
_INT_BITS: Final = 32
_LONG_BITS: Final = 64


@frozen
class TimeBounds:
    """The first and the last time that a record may have, in ms since 1970.

    A record without a time (-1) is not compared.
    """

    earliest_ms: int
    latest_ms: int

    @classmethod
    def without_limits(cls) -> "TimeBounds":
        """Returns the bounds of a topic whose leader stamps records: the producer's times do not count."""
        return cls(-_FAR, _FAR)

    @classmethod
    def around(cls, now_ms: int, before_max_ms: int, after_max_ms: int) -> "TimeBounds":
        """Returns the bounds of `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`, in 64 bits."""
        return cls(max(now_ms - before_max_ms, -(2**63)), min(now_ms + after_max_ms, 2**63 - 1))


class RecordWalk:
    """One batch of a client, walked in parts of `RECORDS_IN_PART` records.

    `batch` is whole, and its CRC was found right. With `keyed` every record needs a key, as in a compacted topic.
    """

    __slots__ = ("_at", "_batch", "_body", "_header", "_keyed", "_newest", "_oldest", "_times", "_walked")

    def __init__(self, header: BatchHeader, batch: Buffer, times: TimeBounds, *, keyed: bool = False) -> None:
        self._header = header
        self._batch = batch
        self._times = times
        self._keyed = keyed
        self._body: Buffer | None = None
        self._at = 0
        self._walked = 0
        self._newest, self._oldest = -_FAR, _FAR

    @property
    def part(self) -> int:
        """The number of records that the next step will walk."""
        return min(max(self._header.count - self._walked, 0), RECORDS_IN_PART)

    @property
    def newest_ms(self) -> int:
        """The newest time of the records walked so far, -1 if none has a time."""
        return max(self._header.base_timestamp + self._newest, _NO_TIME)

    @property
    def records(self) -> Buffer:
        """The decompressed records, once a step was made."""
        assert self._body is not None, "no step was made"
        return self._body

    def step(self) -> bool:
        """Walk the next part; the first step also decompresses. Returns True if that was the last.

        Raises `InvalidBatch` for a batch to refuse: INVALID_RECORD for unreadable bytes, INVALID_TIMESTAMP for a time
        out of bounds.
        """
        header = self._header
        body = self._body
        if body is None:
            body = self._body = _body_of(header, self._batch)
        last, start = self._walked + self.part, self._at
        self._at, self._newest, self._oldest = _walk_part(
            body, self._at, self._walked, last, self._newest, self._oldest
        )
        if self._keyed:
            _check_keys(body, start, self._walked, last)
        self._walked = last
        if last < header.count:
            return False
        if self._at != len(body):
            raise _invalid(f"{len(body) - self._at} bytes follow the {header.count} records that the batch counts")
        times, base = self._times, header.base_timestamp
        if base + self._newest > times.latest_ms or base + self._oldest < times.earliest_ms:
            _check_times(body, header, times)
        return True


def _body_of(header: BatchHeader, batch: Buffer) -> Buffer:
    body: Buffer = memoryview(batch)[HEADER_BYTES : header.size]
    if header.compression != NONE:
        try:
            body = decompress(header.compression, body, TAKEN_BYTES_MAX)
        except CannotDecompress as error:
            raise _invalid(str(error)) from None
    size, count = len(body), header.count
    if not 0 < count <= size // RECORD_BYTES_MIN:
        raise _invalid(f"{count} records in {size} bytes")
    return bytes(body) if size <= count * _COPIED_RECORD_BYTES_MAX else body


def _walk_part(body: Buffer, at: int, first: int, last: int, newest: int, oldest: int) -> tuple[int, int, int]:
    """Walks the records numbered `first` to `last` (exclusive); the first begins at `at`.

    Returns the position of the next record, and the newest and the oldest time delta, including the given ones.
    """
    in_vain = 0
    while first < last:
        first, start, at, newest, oldest = _walk_to_pair(
            body, at, first, last, newest, oldest, pairs=in_vain < _IN_VAIN_MAX
        )
        if first < last:
            alike = _alike(body, start, at, first, last)
            in_vain += alike == 0
            first += alike
            at += alike * (at - start)
    return at, newest, oldest


def _walk_to_pair(
    body: Buffer, at: int, first: int, last: int, newest: int, oldest: int, *, pairs: bool
) -> tuple[int, int, int, int, int]:
    """Walks to `last`, or with `pairs` until two records in a row have one length and time.

    Returns the next number, begin and end of the last record, and times as `_walk_part`. Odd numbers are negative.
    """
    start, number, last_time, last_length = at, first, -1, -1
    try:
        for number in range(first, last):
            start = at
            length = body[at]
            at += 1
            if length > 127:
                length += (body[at] << 7) - 128
                at += 1
                if length > _TWO_BYTES_MAX:
                    length, at = _number(body, start, _INT_BITS)
            end = at + (length >> 1)
            time = body[at + 1]  # behind the attributes
            at += 2
            if time > 127:
                time += (body[at] << 7) - 128
                at += 1
                if time > _TWO_BYTES_MAX:
                    time, at = _number(body, at - 2, _LONG_BITS)
            if time != last_time:
                last_time, last_length = time, -1
                time = -((time + 1) >> 1) if time & 1 else time >> 1
                newest, oldest = max(newest, time), min(oldest, time)
            delta = body[at]
            at += 1
            if delta > 127:
                delta += (body[at] << 7) - 128
                at += 1
                if delta > _TWO_BYTES_MAX:
                    delta += (body[at] << 14) - 0x4000
                    at += 1
                    if delta > _THREE_BYTES_MAX:
                        delta, at = _number(body, at - 3, _INT_BITS)
            if delta != number + number:
                _fault(body, start, number)
            key = body[at]
            at += 1
            if key != 1:  # no key
                if key > 127:
                    key, at = _number(body, at - 1, _INT_BITS)
                if key & 1:
                    _fault(body, start, number)
                at += key >> 1
            value = body[at]
            at += 1
            if value != 1:
                if value > 127:
                    value += (body[at] << 7) - 128
                    at += 1
                    if value > _TWO_BYTES_MAX:
                        value, at = _number(body, at - 2, _INT_BITS)
                if value & 1:
                    _fault(body, start, number)
                at += value >> 1
            at = _after_headers(body, at, end) if body[at] else at + 1
            if at != end or length & 1:
                _fault(body, start, number)
            if length == last_length and pairs:
                break
            last_length = length
    except (IndexError, _NotANumber):
        _fault(body, start, number)
    return number + 1, start, at, newest, oldest


def _alike(body: Buffer, start: int, end: int, first: int, last: int) -> int:
    """Returns the length of the run of records that are laid out like the one from `start` to `end`.

    They differ from it only in delta, key and value, at the same places, and have no headers. Their numbers begin at
    `first`. The run ends before `last`, and before a wider delta.
    """
    if not isinstance(body, bytes) or first >= _TWO_BYTE_DELTAS:
        return 0
    _, at = _number(body, start, _INT_BITS)
    _, delta_at = _number(body, at + 1, _LONG_BITS)
    _, delta_end = _number(body, delta_at, _INT_BITS)
    key, key_at = _number(body, delta_end, _INT_BITS)
    value_at = key_at + (0 if key == 1 else key >> 1)
    value, value_end = _number(body, value_at, _INT_BITS)
    if delta_end - delta_at != len(_DELTAS[first]) or value_end + (0 if value == 1 else value >> 1) + 1 != end:
        return 0
    head, key_head, value_head = body[start:delta_at], body[delta_end:key_at], body[value_at:value_end]
    size, value_in_record, at = end - start, value_at - start, end
    width_ends = _ONE_BYTE_DELTAS if first < _ONE_BYTE_DELTAS else _TWO_BYTE_DELTAS
    last = min(last, width_ends, first + (len(body) - end) // size)
    has = body.startswith
    for number in range(first, last):
        if (
            not has(head + _DELTAS[number] + key_head, at)
            or not has(value_head, at + value_in_record)
            or body[at + size - 1]
        ):
            return number - first
        at += size
    return max(last - first, 0)


class _NotANumber(Exception):
    """A number that is too long, or not whole."""


def _number(body: Buffer, at: int, bits: int) -> tuple[int, int]:
    """Returns a number, still zig-zag, and its end. Raises `_NotANumber`, or `IndexError` at the end of `body`."""
    value = shift = 0
    while shift < bits:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, at
        shift += 7
    raise _NotANumber


def _after_headers(body: Buffer, at: int, end: int) -> int:
    """Returns where the headers end whose count is at `at`; -1 if they are none. Raises as `_number`."""
    count, at = _number(body, at, _INT_BITS)
    if count & 1 or count > end - at:  # two bytes at least for each
        return -1
    for _ in range(count >> 1):
        key, at = _number(body, at, _INT_BITS)
        if key & 1:
            return -1
        value, at = _number(body, at + (key >> 1), _INT_BITS)
        if value & 1 and value != 1:
            return -1
        at += value >> 1
    return at


# Reasons


def _fault(body: Buffer, start: int, number: int) -> NoReturn:
    """Raises with the reason why the record at `start` is wrong."""
    try:
        length, at = _read_signed(body, start, _INT_BITS)
        end = at + length
        if length < RECORD_BYTES_MIN - 1 or end > len(body):
            raise _invalid(f"record {number} has a length of {length} bytes, {len(body) - at} are left", number)
        _, at = _read_signed(body, at + 1, _LONG_BITS)
        delta, at = _read_signed(body, at, _INT_BITS)
        if delta != number:
            raise _invalid(f"record {number} has the offset delta {delta}", number)
        for name in ("key", "value"):
            size, at = _read_signed(body, at, _INT_BITS)
            if not -1 <= size <= end - at:
                raise _invalid(f"record {number} has a {name} of {size} bytes, {end - at} are left", number)
            at += max(size, 0)
        count, _ = _read_signed(body, at, _INT_BITS)
        raise _invalid(
            f"record {number} ends elsewhere than its length states, with a count of headers of {count}", number
        )
    except (IndexError, _NotANumber):
        raise _invalid(f"record {number} holds a number that is not whole, or too long", number) from None


def _read_signed(body: Buffer, at: int, bits: int) -> tuple[int, int]:
    value, at = _number(body, at, bits)
    return (value >> 1) ^ -(value & 1), at


def _check_keys(body: Buffer, at: int, first: int, last: int) -> None:
    """Raises for the first record without a key. The caller knows that the records are valid."""
    for number in range(first, last):
        length, start = _number(body, at, _INT_BITS)
        at = start + (length >> 1)
        _, start = _number(body, start + 1, _LONG_BITS)
        _, start = _number(body, start, _INT_BITS)
        if body[start] == 1:
            raise _invalid(f"record {number} has no key, which a compacted topic needs", number)


def _check_times(body: Buffer, header: BatchHeader, times: TimeBounds) -> None:
    """Raises for the first time out of bounds.

    The caller knows that some time is out of bounds or missing, and that the records are valid.
    """
    at = 0
    for number in range(header.count):
        length, at = _read_signed(body, at, _INT_BITS)
        delta, _ = _read_signed(body, at + 1, _LONG_BITS)
        time = header.base_timestamp + delta
        if time != _NO_TIME and not times.earliest_ms <= time <= times.latest_ms:
            raise InvalidBatch(
                KafkaErrorCode.INVALID_TIMESTAMP,
                f"record {number} has the time {time}, which is not between {times.earliest_ms} and {times.latest_ms}",
                HEADER_BYTES,
                number,
            )
        at += length


def _invalid(detail: str, record: int | None = None) -> InvalidBatch:
    return InvalidBatch(KafkaErrorCode.INVALID_RECORD, detail, HEADER_BYTES, record)
