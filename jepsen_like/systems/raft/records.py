"""The records of a run: what clients append, and how a record that is read becomes a value of the history."""

import zlib
from typing import Final

import attrs

from jepsen_like.workload.payload import DAMAGED, decode_value, encode_value

OTHERS: Final = 1 << 60
"""Added to a CRC of a record that others have appended, and of its place: no id that is drawn comes so far."""


@attrs.frozen
class RecordCodec:
    """In a log to which others append, each record of the run begins with its `prefix`; every other one is theirs."""

    prefix: bytes = b""

    def encode(self, value: int, size: int) -> bytes:
        """Returns a record of a value, `size` bytes behind the prefix."""
        return self.prefix + encode_value(value, size)

    def decode(self, record: bytes, place: int) -> tuple[int, bool]:
        """Returns the value of a record at a place of the log, and whether its bytes are whole.

        Those of others are taken as they are, and told from each other by their places, too.
        """
        if not record.startswith(self.prefix):
            return OTHERS + zlib.crc32(record, place), True
        return decode_value(record[len(self.prefix) :])


ALL_OURS: Final = RecordCodec()
"""Of a log to which the run alone appends."""


def is_of_others(value: int) -> bool:
    """Returns True for the value of a record that another client has appended."""
    return OTHERS <= value < DAMAGED
