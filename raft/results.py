"""The results of a client's calls: values that hold what a node answered."""

import attrs

from raft.record_batch import unpack_batches


@attrs.frozen
class Appended:
    """The records are committed at `base_offset` up to `base_offset + count`, in this term."""

    base_offset: int
    count: int
    epoch: int


@attrs.frozen
class RecordBatch:
    """One committed entry: `span` records from `base_offset` on; `data` holds their batches end to end."""

    base_offset: int
    epoch: int
    span: int
    data: bytes

    def records(self) -> list[bytes]:
        """Returns the records, in order of their offsets.

        Raises `ProtocolError` if `data` does not hold `span` of them.
        """
        return unpack_batches(self.data, self.span)


@attrs.frozen
class Records:
    """The result of a read, and the end of the committed log."""

    committed_end: int
    batches: tuple[RecordBatch, ...]


@attrs.frozen
class Tail:
    """The end of the committed log, and its term."""

    committed_end: int
    epoch: int


@attrs.frozen
class Applied:
    """The state machine's answer, at log index `index`."""

    index: int
    result: bytes
