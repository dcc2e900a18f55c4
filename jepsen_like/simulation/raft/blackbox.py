"""The client's side: what each request asked, when it began and ended, what it saw; and whether that can be true.

The checks know nothing of terms, nodes or disks. Each value is unique, whether it was appended as a record or written by
a command, so the final log of records, or of commands, decides most of them: an acknowledged value stands where it was
promised (B-lost), once (B-duplicate), nothing stands there that was refused
or never sent (B-phantom); a value never moves (B-moved); what ended before another request began is not overtaken by it
(B-order for appends, B-stale for reads) and nothing is seen before it was sent (B-future).

Moments are ticks of one counter that moves at every invocation and return, so that "before" is never a tie.
"""

import enum
from collections.abc import Collection, Iterator, Sequence

import attrs

NEVER = 1 << 62
UNSEEN = -1


class RequestOutcome(enum.Enum):
    """The outcome of a request."""

    OK = "ok"
    FAIL = "fail"
    """Certainly had no effect."""
    UNKNOWN = "unknown"
    """May have had its effect, or may still have it."""


@attrs.frozen
class NodeLog:
    """The final log of one node, as clients read it: its values from offset `first` on, each with its term."""

    node: int
    first: int
    values: Sequence[int]
    terms: Sequence[int]


@attrs.define
class ClientRequest:
    """One request. An append has `values`; a read saw the log end at `end_offset`, after the value `last_value`.

    With a `key` it concerns a register, in the log of the commands: a command has one value, and a query has none.
    """

    client: int
    node: int
    values: tuple[int, ...]
    invoked: int
    returned: int = NEVER
    outcome: RequestOutcome = RequestOutcome.UNKNOWN
    base_offset: int = -1
    end_offset: int = -1
    last_value: int = UNSEEN
    term: int = -1
    """The term of the leader that took the records."""
    key: int = -1
    expected: int | None = None
    """The value that a compare-and-set asked for; None for a plain write."""
    found: int | None = None
    """The value of the register that a query or a compare-and-set has found."""

    @property
    def is_read(self) -> bool:
        """True if it only asked."""
        return not self.values


Fault = tuple[str, str]
"""Which check failed, and a sentence about how."""


def check(history: Sequence[ClientRequest], records: Sequence[int], commands: Sequence[int] = ()) -> list[Fault]:
    """Everything in `history` that the final logs contradict, which are lists of values by offset."""
    of_records = [op for op in history if op.key < 0]
    of_commands = [op for op in history if op.key >= 0]
    return [
        fault
        for ops, final in ((of_records, records), (of_commands, commands))
        for fault in (*_placement(ops, final), *_real_time(ops), *_reads(ops, final))
    ]


def without_lost(
    history: Sequence[ClientRequest], kept: Collection[int], taken: Collection[int], healed: int
) -> list[ClientRequest]:
    """Returns a history without what power cuts explain, if nodes acknowledge what is not durable.

    What was acknowledged is of unknown outcome if it is not `kept` and a power cut has `taken` it from a disk. What was
    read before the moment `healed` may have been lost after it was read.
    """
    return [
        attrs.evolve(op, outcome=RequestOutcome.UNKNOWN, returned=NEVER, base_offset=-1, end_offset=-1)
        if op.outcome is RequestOutcome.OK and any(value in taken and value not in kept for value in op.values)
        else op
        for op in history
        if not op.is_read or op.invoked > healed
    ]


def _placement(history: Sequence[ClientRequest], final: Sequence[int]) -> Iterator[Fault]:
    place: dict[int, int] = {}
    for offset, value in enumerate(final):
        if value in place:
            yield "B-duplicate", f"value {value} stands at offsets {place[value]} and {offset}"
        place[value] = offset
    sent: set[int] = set()
    for op in history:
        sent.update(op.values)
        if op.outcome is RequestOutcome.FAIL:
            for value in op.values:
                if value in place:
                    yield "B-phantom", f"value {value} was refused, but stands at offset {place[value]}"
        elif op.outcome is RequestOutcome.OK:
            for count, value in enumerate(op.values):
                promised = op.base_offset + count
                found = place.get(value)
                if found is None:
                    yield "B-lost", f"value {value} was acknowledged at offset {promised} and is gone"
                elif found != promised:
                    yield "B-moved", f"value {value} was acknowledged at offset {promised}, stands at {found}"
    for value, offset in place.items():
        if value not in sent:
            yield "B-phantom", f"value {value} at offset {offset} was never sent"


def _real_time(history: Sequence[ClientRequest]) -> Iterator[Fault]:
    """Of two requests, one of which ended before the other began, the later sees at least what the earlier saw."""
    finished = sorted((op for op in history if op.outcome is RequestOutcome.OK), key=lambda op: op.returned)
    started = sorted(finished, key=lambda op: op.invoked)
    floor = 0
    done = 0
    for op in started:
        while done < len(finished) and finished[done].returned < op.invoked:
            floor = max(floor, finished[done].end_offset)
            done += 1
        if op.is_read and op.end_offset < floor:
            yield "B-stale", f"a read saw the log end at {op.end_offset} after it was known to reach {floor}"
        elif not op.is_read and op.base_offset < floor:
            yield "B-order", f"value {op.values[0]} went to offset {op.base_offset} after the log reached {floor}"


def _reads(history: Sequence[ClientRequest], final: Sequence[int]) -> Iterator[Fault]:
    invoked = {value: op.invoked for op in history for value in op.values}
    newest = [0]
    for value in final:
        newest.append(max(newest[-1], invoked.get(value, 0)))
    for op in history:
        if not op.is_read or op.outcome is not RequestOutcome.OK:
            continue
        if op.end_offset > len(final):
            yield "B-lost", f"a read saw the log end at {op.end_offset}; it ends at {len(final)}"
        elif op.end_offset and op.last_value not in (UNSEEN, final[op.end_offset - 1]):
            kept = final[op.end_offset - 1]
            yield "B-moved", f"a read saw {op.last_value} at offset {op.end_offset - 1}, where {kept} stands"
        elif newest[op.end_offset] > op.returned:
            yield "B-future", f"a read saw the log end at {op.end_offset} before all of that was sent"
