"""Reading a segment from its beginning to the end of its whole frames, and what the bytes behind them are."""

import contextlib

import attrs

from log.disk import File
from log.errors import ForeignLog
from log.frame import HEADER_BYTES, MAGIC, DamagedFrame, ForeignFrame, Header, checksum, decode_header, written_for
from log.index import SegmentIndex
from log.segment import Segment, Window

CHUNK_BYTES = 1 << 18


@attrs.define(eq=False)
class Scan:
    """The result of reading one segment.

    `durable_end` is the greatest that any whole header records, also behind the damage. `rest` is whether what follows
    the frames was never written for this place, or only with zeros.
    """

    index: SegmentIndex
    valid_bytes: int = 0
    durable_end: int = 0
    first: Header | None = None
    damage: DamagedFrame | None = None
    rest: bool = False


def scan(segment: Segment, file: File, *, log_id: int, interval_bytes: int) -> Scan:
    """Returns what a segment holds up to its end or its first invalid byte. Raises `CorruptLog` for a foreign frame."""
    window = Window(file, segment.size, CHUNK_BYTES)
    found = Scan(SegmentIndex(segment.base, interval_bytes))
    position = 0
    try:
        while position < segment.size:
            header = window.header(position, base=segment.base, log_id=log_id)
            if found.first is None:
                found.first = header
            elif objection := found.index.tail.objection(header):
                raise DamagedFrame(objection, header)
            payload = window.at(position + HEADER_BYTES, header.payload_bytes)
            if len(payload) < header.payload_bytes:
                raise DamagedFrame("the file ends inside the frame", header)
            if checksum(payload) != header.payload_crc:
                raise DamagedFrame("the checksum of the payload does not match", header)
            found.durable_end = max(found.durable_end, header.durable_end)
            found.index.note(header, position)
            position += header.frame_bytes
    except DamagedFrame as damage:
        recorded = durable_end_behind(segment, file, position, log_id)
        found.damage = damage
        found.durable_end = max(found.durable_end, recorded or 0)
        found.rest = recorded is None and _never_written(window.at(position, HEADER_BYTES), position, log_id)
    except ForeignFrame as foreign:
        raise ForeignLog(segment.path, position, foreign.reason) from None
    found.valid_bytes = position
    return found


def _never_written(view: memoryview, position: int, log_id: int) -> bool:
    """Returns whether there are only zeros; or, at the very beginning, a frame of the file's former use."""
    if not any(view):
        return True
    if position:
        return False
    try:
        decode_header(view, 0, log_id=log_id, address=written_for(view, 0))
    except (DamagedFrame, ForeignFrame):
        return False
    return True


def durable_end_behind(segment: Segment, file: File, position: int, log_id: int) -> int | None:
    """Returns the greatest durable end in any whole header from `position` on, at any byte, or None."""
    durable_end: int | None = None
    for start in range(position, segment.size, CHUNK_BYTES):
        # A header that begins in this chunk may end in the next.
        content = file.read_at(start, CHUNK_BYTES + HEADER_BYTES)
        view = memoryview(content)
        at = content.find(MAGIC)
        while 0 <= at < CHUNK_BYTES:
            address = segment.base + start + at
            # Asked first, because a recycled file is full of frames that were written for other addresses.
            if written_for(view, at) == address:
                with contextlib.suppress(DamagedFrame, ForeignFrame):
                    header = decode_header(view, at, log_id=log_id, address=address)
                    durable_end = max(durable_end or 0, header.durable_end)
            at = content.find(MAGIC, at + len(MAGIC))
    return durable_end
