"""A batch of records, the unit of a log of a store: opaque but for its offsets, its epoch and its newest time."""

from typing import Self

from log.frame import FrameKind, Header, Payload, checksum, encode_header
from log.values import frozen


@frozen
class StoredBatch:
    """Takes the offsets from `base_offset` up to `end_offset`, exclusive. Times in ms since 1970; none = 0.

    `payload_crc` is the CRC-32C of `payload`, computed once where the bytes arrived. A payload that was read is a view
    of a larger buffer, which it keeps alive. `tag` is one byte of the owner's.
    """

    base_offset: int
    span: int
    epoch: int
    timestamp_ms: int
    payload: Payload
    payload_crc: int
    tag: int = 0

    @classmethod
    def of(
        cls, payload: bytes | memoryview, *, base_offset: int, span: int = 1, epoch: int, timestamp_ms: int = 0
    ) -> Self:
        """Returns a batch whose payload checksum is computed here."""
        return cls(base_offset, span, epoch, timestamp_ms, payload, checksum(payload))

    @classmethod
    def read(cls, header: Header, payload: memoryview) -> Self:
        """Returns the batch of a frame."""
        return cls(
            header.base_offset, header.span, header.epoch, header.timestamp_ms, payload, header.payload_crc, header.tag
        )

    @property
    def end_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.span

    def objection(self, end_offset: int, epoch: int) -> str | None:
        """Returns why this batch cannot follow a log that ends with `end_offset` and `epoch`, or None if it can.

        Gaps are allowed.
        """
        if self.base_offset >= end_offset and self.epoch >= epoch and self.span >= 1:
            return None
        named = f"offset {self.base_offset}, span {self.span}, epoch {self.epoch}"
        return f"the batch ({named}) does not follow offset {end_offset}, epoch {epoch}"

    def header(self, *, log_id: int, address: int, durable_end: int) -> bytes:
        """Returns the frame header that precedes the payload.

        Its index is the base offset, because a store's log has no other index.
        """
        return encode_header(
            FrameKind.RECORDS,
            self.tag,
            log_id,
            address,
            self.epoch,
            self.base_offset,
            self.base_offset,
            self.timestamp_ms,
            durable_end,
            self.span,
            len(self.payload),
            self.payload_crc,
        )
