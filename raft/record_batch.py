"""Batches of records: the form in which records travel, rest in the log and come back to readers.

A batch is a msgpack array of binaries. A server checks that it is one and counts it, but never takes it apart.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgpack

from raft.errors import InvalidRequest, ProtocolError
from raft.net.decoder import Buffer

RECORDS_MAX = 65536
"""Records in one batch."""
FEW_RECORDS = 64
"""So many are unpacked with the array around them, which is quickest.

For an array msgpack makes room for as many elements as it claims to have, and so at each of the 1,024 levels of arrays
in arrays that it goes down: with this bound half a megabyte, with `RECORDS_MAX` half a gigabyte. What holds more
records is unpacked element by element, with no room for arrays in it.
"""
_ONE_SHORT_RECORD = b"\x91\xc4"
"""An array of one binary of less than 256 bytes begins with these bytes in msgpack; its length is the next byte."""
_ONE_LONG_RECORD = b"\x91\xc6"
"""Of one of 64 KiB and more; its length is the next four bytes."""
_MANY = {0xDC: 3, 0xDD: 5}
"""The first byte of a msgpack array of more than 15 elements, and the position at which its elements begin."""


def pack_batch(records: Sequence[bytes]) -> bytes:
    """Returns the records as one batch.

    Raises `InvalidRequest` unless they are a sequence of one to `RECORDS_MAX` bytes objects.
    """
    if not _is_sequence(records):
        raise InvalidRequest(f"records must be a list of bytes, not {type(records).__name__}")
    if not 1 <= len(records) <= RECORDS_MAX:
        raise InvalidRequest(f"a batch holds 1 to {RECORDS_MAX} records, not {len(records)}")
    if set(map(type, records)) != {bytes}:
        raise InvalidRequest("every record must be bytes")
    packed: bytes = msgpack.packb(records if type(records) is list else list(records))
    return packed


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def count_batch(batch: Buffer) -> int:
    """Returns how many records a batch holds. Raises `ProtocolError` unless it is exactly one batch."""
    # What most clients send is plain without a parser, which would copy it: an array of one binary that fills the rest.
    if batch[:2] == _ONE_SHORT_RECORD and len(batch) > 2 and len(batch) == 3 + batch[2]:
        return 1
    if batch[:2] == _ONE_LONG_RECORD and len(batch) == 6 + int.from_bytes(batch[2:6], "big"):
        return 1
    try:
        records = msgpack.unpackb(batch, max_array_len=min(FEW_RECORDS, len(batch)), max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        records = _unpack_many(batch)
    # The set of the types is built in C: nothing here runs once per record in Python.
    if type(records) is not list or set(map(type, records)) != {bytes}:
        raise ProtocolError("the records are not an array of one or more binaries")
    return len(records)


def _unpack_many(batch: Buffer) -> list[object]:
    """The elements of an array of more than `FEW_RECORDS`, none of which may be an array that is not empty."""
    begin = _MANY.get(batch[0] if batch else 0, 1)
    count = int.from_bytes(batch[1:begin], "big")
    if FEW_RECORDS < count <= min(RECORDS_MAX, len(batch) // 2):  # a record takes two bytes at least
        unpacker = msgpack.Unpacker(max_buffer_size=len(batch), max_array_len=0, max_map_len=0, max_ext_len=0)
        unpacker.feed(memoryview(batch)[begin:])
        with suppress(ValueError, TypeError, OverflowError, msgpack.UnpackException):
            records = list(unpacker)
            if len(records) == count and unpacker.tell() == len(batch) - begin:
                return records
    raise ProtocolError("the records are not one msgpack array")


def unpack_batches(data: Buffer, span: int) -> list[bytes]:
    """Returns the records of batches laid end to end. Raises `ProtocolError` if they are not `span` binaries."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data), max_array_len=min(RECORDS_MAX, len(data)), max_map_len=0)
    records: list[bytes] = []
    try:
        unpacker.feed(data)
        for batch in unpacker:
            records += batch
        read_to_the_end = unpacker.tell() == len(data)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise ProtocolError(f"the data of an entry is not made of batches: {error}") from None
    if not read_to_the_end or len(records) != span or not set(map(type, records)) <= {bytes}:
        raise ProtocolError(f"the data of an entry does not hold its {span} records")
    return records
