"""Records with keys, some of which delete theirs, and consumers that read whole partitions again and again.

A record carries its id in a header, for a deletion has no value. A *scan* reads a partition from its begin to its end: a
client of its own, whose polls are followed by the end that it reached.
"""

import zlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from jepsen_like.history.keyed_values import is_deletion, key_of
from jepsen_like.history.ops import Action, Outcome
from jepsen_like.workload.client_rows import ClientPlan, EndRow, FoundRow, NoteRow, Row, SentRow, outcome_of
from jepsen_like.workload.client_sinks import Processes
from jepsen_like.workload.payload import DAMAGED, decode_value, encode_value
from jepsen_like.workload.queue_recorder import QueueRecorder

ID_HEADER: Final = "id"
ID_BYTES: Final = 8
SCAN, FINAL_SCAN = 0, 1
"""Levels of a scan: one under load, and one when all is over."""

Headers = Sequence[tuple[str, bytes | None]]


def encode_key(key: int) -> bytes:
    """Returns the key of a record as bytes."""
    return b"key-%d" % key


def encode_keyed(value: int, size: int) -> tuple[bytes, bytes | None, Headers]:
    """Returns key, value and headers of a record; a value has `size` bytes, and a deletion none."""
    content = None if is_deletion(value) else encode_value(value, size)
    return encode_key(key_of(value)), content, [(ID_HEADER, encode_value(value, ID_BYTES))]


def decode_keyed(key: bytes | None, content: bytes | None, headers: Headers) -> tuple[int, bool]:
    """Returns the id of a record and whether all of it is whole; a damaged one has an id above `DAMAGED`."""
    ids = [found for name, found in headers if name == ID_HEADER and found is not None]
    value, is_whole = decode_value(ids[0]) if len(ids) == 1 else (DAMAGED, False)
    if is_whole and key == encode_key(key_of(value)):
        if is_deletion(value) and content is None:
            return value, True
        if not is_deletion(value) and content is not None and decode_value(content) == (value, True):
            return value, True
    return DAMAGED + zlib.crc32(repr((key, content, ids)).encode()), False


class KeyedRecorder(QueueRecorder):
    """Writes the history of a `compacted` topic."""

    def record_scan(self, end: EndRow, *, process: int) -> None:
        """The client `process` has read a partition from its begin to this end, whose `isolation` is `FINAL_SCAN` or `SCAN`."""
        times = {"t_inv": end.t_inv, "t_ret": end.t_ret}
        about = {"partition": end.object, "process": process, "b": end.isolation, "seen": end.start, "offset": end.end}
        self._record(Action.TAIL, Outcome.OK, **about, **times)


class KeyedSink:
    """Producers of keyed records, and scans (`ClientSink`)."""

    def __init__(self, recorder: KeyedRecorder) -> None:
        self._recorder = recorder
        self._processes = Processes(recorder)

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """See `ClientSink`."""
        match row:
            case SentRow():
                self._send(row, self._processes.of(plan.role, plan.index, incarnation))
            case FoundRow():
                values, offsets = array("q", row.values), array("q", row.offsets)
                process = self._processes.of(plan.role, row.life)
                keys = {"partition": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
                self._recorder.record_poll(values, offsets, is_whole=row.is_whole, **keys)
            case EndRow():
                self._recorder.record_scan(row, process=self._processes.of(plan.role, row.life))
            case NoteRow():
                self._recorder.note_nonsense(row.text)
            case _:
                raise AssertionError(row)

    def place(self, objects: Mapping[int, int]) -> None:
        """See `ClientSink`. Every row was placed."""
        return

    def _send(self, row: SentRow, process: int) -> None:
        outcome, error = outcome_of(row)
        keys = {"partition": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            self._recorder.record_send(row.value, offset=row.offset, **keys)
        else:
            self._recorder.not_sent(row.value, outcome, error, **keys)
