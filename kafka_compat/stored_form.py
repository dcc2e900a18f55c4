"""The form in which a topic stores the batches of clients: `compression.type` and `message.timestamp.type`. Pure.

A batch whose codec is the topic's keeps its bytes. Another one is compressed again from the records that were walked, so
that its size changes and its records do not. A stamp changes the header alone: `max_timestamp` is then the time of all
records, whatever their deltas say (KIP-32).
"""

from collections.abc import Mapping
from typing import Final

import attrs

from kafka_compat.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from kafka_compat.protocol.batch_header import (
    COMPRESSION,
    HEADER_BYTES,
    LENGTH_END,
    TIMESTAMP_TYPE,
    BatchHeader,
    encode_batch_header,
)
from log.values import frozen
from raft.net.decoder import Buffer

PRODUCER: Final = "producer"
"""The `compression.type` that keeps the codec of each batch."""
CODECS: Final[Mapping[str, int]] = {"uncompressed": NONE, "zstd": ZSTD, "lz4": LZ4, "snappy": SNAPPY, "gzip": GZIP}
LEVELLED: Final[Mapping[int, str]] = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
"""The codecs with a setting `compression.NAME.level` (KIP-390)."""
NO_STAMP: Final = -1


@frozen
class StoredForm:
    """The codec that batches get, or None for the producer's; its level; and whether the leader stamps them."""

    codec: int | None
    level: int
    stamps: bool

    def changes(self, header: BatchHeader) -> bool:
        """Returns True if a batch with this header is stored in another form than it came."""
        return self.stamps or self.codec not in (None, header.compression)

    def packs(self, header: BatchHeader) -> bool:
        """Returns True if the records of a batch with this header are packed again."""
        return self.codec not in (None, header.compression)

    def apply(
        self, header: BatchHeader, batch: Buffer, records: Buffer, newest_ms: int, now_ms: int
    ) -> tuple[BatchHeader, Buffer]:
        """Returns header and bytes of a batch in this form.

        `records` are the decompressed ones, and `newest_ms` is their newest time. `now_ms` is the stamp.
        """
        body = memoryview(batch)[HEADER_BYTES : header.size]
        attributes = header.attributes
        if self.packs(header):
            assert self.codec is not None, "a batch keeps its codec"
            body = memoryview(compress(self.codec, records, self.level))
            attributes = attributes & ~COMPRESSION | self.codec
        if self.stamps:
            attributes |= TIMESTAMP_TYPE
            newest_ms = now_ms
        stored = attrs.evolve(
            header, length=HEADER_BYTES - LENGTH_END + len(body), attributes=attributes, max_timestamp=newest_ms
        )
        return stored, b"".join((encode_batch_header(stored, body), body))
