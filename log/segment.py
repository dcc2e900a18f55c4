"""Segment files: their names, their place in the stream, and the few of them that are kept open.

A segment is named by the address of its first byte, so the names alone tell whether one is missing. Only the newest is
written to. A segment is *sealed* when the next one begins; once its bytes are durable its index goes into a sidecar
file, and from then on the sidecar vouches for the segment at the next start.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Sequence

import attrs

from log.disk import Disk, File
from log.errors import NoSpace
from log.frame import HEADER_BYTES, Address, Buffer, Header, decode_header
from log.index import SegmentIndex, SparseIndex

SEGMENT_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SPARE_SUFFIX = ".spare"
RESET_SUFFIX = ".reset"

_PAGE_BYTES = 4096
_ZEROS = memoryview(bytes(512 * 1024))


def _page_end(position: int) -> int:
    return -(-position // _PAGE_BYTES) * _PAGE_BYTES


def segment_name(base: int) -> str:
    """Returns the file name of the segment that begins at this address; names sort like addresses."""
    return f"{base:020d}{SEGMENT_SUFFIX}"


def index_name(base: int) -> str:
    """Returns the file name of the sidecar of the segment at this address."""
    return f"{base:020d}{INDEX_SUFFIX}"


def spare_name(base: int) -> str:
    """Returns the file name of a retired segment kept for reuse; the address is that of its former use."""
    return f"{base:020d}{SPARE_SUFFIX}"


def reset_name(base: int) -> str:
    """Returns the file name that the new first segment of a reset log has until the log-start checkpoint is durable."""
    return f"{base:020d}{RESET_SUFFIX}"


def base_of(name: str, suffix: str) -> Address | None:
    """Returns the address in a file name with this suffix; None for any other file."""
    digits = name.removesuffix(suffix)
    return Address(int(digits)) if len(digits) == 20 and name != digits and digits.isdecimal() else None


@attrs.define(eq=False)
class Segment:
    """One file of the log. Sizes and positions in bytes from its beginning.

    `size` is where its frames end. The file may be longer: zeros follow up to `zeroed`, and in a recycled file the
    bytes of its former use up to `filled`. The bytes of a header behind `size` are always zeros or beyond the end of
    the file, so that after a kill the end of the log differs from a torn write.

    `first_index` is the first index that lives here, with its offset; those of the next segment if none does.
    `newest_ms` is the greatest timestamp of a sealed segment's frames, None if that is not known.

    `index` and `live`, its logical view, are kept until the sidecar is written; `reserved` is how much of the file the
    disk has promised room for.
    """

    base: Address
    path: str
    size: int = 0
    first_index: int = 0
    first_offset: int = 0
    newest_ms: int | None = None
    index: SegmentIndex | None = None
    live: SparseIndex | None = None
    file: File | None = None
    reserved: int = 0
    zeroed: int = 0
    filled: int = 0

    @property
    def end(self) -> Address:
        """The address after the last frame."""
        return Address(self.base + self.size)

    def overwrite(self, buffers: Sequence[Buffer], size: int) -> None:
        """Write frames of `size` bytes in all at the end, beyond `zeroed`. Raises what the disk raises."""
        end = self.size + size
        zeroed = max(end, self.zeroed)
        if zeroed < self.filled:
            # Up to a whole page, which the disk can write without reading what was there.
            zeroed = _page_end(end + HEADER_BYTES)
            buffers = [*buffers, _ZEROS[: zeroed - end]]
        # Noted first: part of a write that meets a full disk is there, and has to be cut.
        self.filled = max(self.filled, zeroed)
        self._open_file().write_at(self.size, buffers)
        self.size, self.zeroed = end, zeroed

    def zero_ahead(self, end: int) -> None:
        """Write zeros up to about `end`. A full disk is no error: there are fewer zeros then."""
        start = max(self.size, self.zeroed)
        end = _page_end(end)
        with contextlib.suppress(NoSpace):
            for position in range(start, end, len(_ZEROS)):
                stop = min(position + len(_ZEROS), end)
                # Noted first, as above.
                self.filled = max(self.filled, stop)
                self._open_file().write_at(position, [_ZEROS[: stop - position]])
                self.zeroed = stop

    def cut(self) -> None:
        """Truncate the file after its last frame, and release what was reserved."""
        if max(self.reserved, self.filled) > self.size:
            self._open_file().cut(self.size)
        self.reserved = self.zeroed = self.filled = self.size

    def _open_file(self) -> File:
        assert self.file is not None, "a segment that is written to is open"
        return self.file


def cut_segments(segments: Sequence[Segment], index: int, offset: int) -> None:
    """Remove everything from `index` on from these segments; the next frame begins with `offset`."""
    for segment in reversed(segments):
        if segment.first_index < index:
            break
        segment.first_index = index
        segment.first_offset = offset


class OpenSegments:
    """Handles for reading: a segment is opened when it is first asked for; past the bound, the idlest is closed.

    Segments that still wait for a sync are none of its business: they hold their own file until they are proven.
    """

    __slots__ = ("_disk", "_files_max", "_idle")

    def __init__(self, disk: Disk, files_max: int) -> None:
        self._disk = disk
        self._files_max = files_max
        self._idle: OrderedDict[Address, Segment] = OrderedDict()

    def file(self, segment: Segment) -> File:
        """Returns the open file of a segment."""
        if segment.file is None:
            segment.file = self._disk.open(segment.path, create=False)
            self.adopt(segment)
        elif segment.base in self._idle:
            self._idle.move_to_end(segment.base)
        return segment.file

    def close(self, segment: Segment) -> None:
        """Close the file of a segment that is not read any more."""
        self._idle.pop(segment.base, None)
        if segment.file is not None:
            segment.file.close()
            segment.file = None

    def adopt(self, segment: Segment) -> None:
        """Take over a segment's open file, which may be closed when its descriptor is needed for another."""
        self._idle[segment.base] = segment
        while len(self._idle) > self._files_max:
            _, idlest = self._idle.popitem(last=False)
            if idlest.file is not None:
                idlest.file.close()
                idlest.file = None


class Window:
    """A view that slides over a file, so that frame by frame does not mean read by read.

    Reads `chunk_bytes` at least, and never past `end`.
    """

    __slots__ = ("_chunk_bytes", "_end", "_file", "_start", "_view")

    def __init__(self, file: File, end: int, chunk_bytes: int) -> None:
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._view = memoryview(b"")

    def at(self, position: int, size: int) -> memoryview:
        """Returns the bytes from `position` on; fewer than `size` only at the end."""
        size = min(size, self._end - position)
        begin = position - self._start
        if begin < 0 or begin + size > len(self._view):
            wanted = min(max(size, self._chunk_bytes), self._end - position)
            self._view = memoryview(self._file.read_at(position, wanted))
            self._start = position
            begin = 0
        return self._view[begin : begin + size]

    def header(self, position: int, *, base: int, log_id: int) -> Header:
        """Returns the frame header at `position`. Raises as `decode_header` does."""
        if not 0 <= position - self._start <= len(self._view) - HEADER_BYTES:
            self.at(position, HEADER_BYTES)
        return decode_header(self._view, position - self._start, log_id=log_id, address=base + position)
