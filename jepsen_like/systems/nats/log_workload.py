"""The log workload: publish messages and wait for JetStream's acknowledgement, and read messages by their place.

The sequence number of a message less one is its offset. A read that finds nothing is no answer about the log: NATS promises
nothing about reads from a leader that has been replaced, so such a read is recorded as one that failed. Every value that is read counts.
"""

import base64
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.nats.clients import NatsConnection, NoQuorum, NotThere
from jepsen_like.systems.nats.stream import API, STREAM, make_stream
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import decode_value, encode_value, value_ids

LOG: Final = 0
"""The object of the history."""
PUBLISH_PART: Final = 0.65
"""The rest is reads."""
RECENT_PART: Final = 0.7
"""Of the reads: among the newest messages; the rest anywhere."""
RECENT_RECORDS: Final = 64
RECORD_BYTES: Final = 100
LAST_READS: Final = 32
EMPTY: Final = {"empty": True}
"""The answer to a probe of a stream without any message."""
FRESH_FOR_S: Final = 2.5
"""A leader with a majority has had a sign of it within this time: followers answer a heartbeat each second."""


@attrs.define
class StreamLogWorkload:
    """One stream, object 0 of the history."""

    copies: int = 3
    name: str = "log"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _end: int = 0
    """The end of the log by the last acknowledgement; a log that was lost begins again."""

    def request(self, rng: random.Random) -> Request:
        """Publish or read."""
        if not self._end or rng.random() < PUBLISH_PART:
            return self.write(rng)
        recent = rng.random() < RECENT_PART
        return _read(rng.randrange(max(0, self._end - RECENT_RECORDS) if recent else 0, self._end))

    def write(self, rng: random.Random) -> Request:
        """Publish one message."""
        value = next(self._ids)
        record = encode_value(value, RECORD_BYTES)
        return Request(
            Action.APPEND,
            lambda connection: connection.ask_api(STREAM, record),
            a=value,
            values=(value,),
            anywhere=True,
        )

    def probe(self, rng: random.Random) -> Request:
        """Read the newest message from a leader that has a majority. A stream that is gone is made again, as applications do."""
        return Request(Action.READ, lambda connection: _read_newest(connection, self.copies))

    def final_reads(self) -> Sequence[Request]:
        """The newest messages."""
        return [_read(offset) for offset in range(max(0, self._end - LAST_READS), self._end)]

    def claimed_ends(self) -> Mapping[int, int]:
        """No answer claims an end."""
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """The stream keeps all messages."""
        raise Nonsense(f"{request.f.name} at {request.offset} was answered by a log that begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Offsets and values."""
        match request.f, answer:
            case Action.APPEND, {"stream": str(), "seq": int(sequence)} if sequence > 0 and not answer.get("duplicate"):
                self._end = sequence
                return Seen(request.values, sequence - 1)
            case Action.READ, {"message": {"seq": int(sequence), "data": str(data)}} if request.offset in (
                NONE,
                sequence - 1,
            ):
                value, is_whole = decode_value(base64.b64decode(data))
                return Seen((value,), sequence - 1, is_whole=is_whole)
            case Action.READ, {"empty": True} if request.offset == NONE:
                return Seen((NONE,), 0)
            case _:
                raise Nonsense(f"{answer} does not answer {request.f.name}")


def _read(offset: int) -> Request:
    return Request(Action.READ, lambda connection: _get(connection, offset + 1), offset=offset, anywhere=True)


async def _get(connection: NatsConnection, sequence: int) -> dict[str, Any]:
    wanted = json.dumps({"seq": sequence}).encode()
    return await connection.ask_api(f"{API}.STREAM.MSG.GET.{STREAM}", wanted)


async def _read_newest(connection: NatsConnection, copies: int) -> dict[str, Any]:
    """Raises `NoQuorum`, and the errors of `ask_api`."""
    try:
        found = await connection.ask_api(f"{API}.STREAM.INFO.{STREAM}", b"")
    except NotThere:
        await make_stream(connection, copies)
        raise
    if not has_majority(found):
        raise NoQuorum
    last = int(found["state"]["last_seq"])
    return await _get(connection, last) if last else EMPTY


def has_majority(info: Mapping[str, Any]) -> bool:
    """Returns True if a stream's leader has had a sign of a majority lately, itself included."""
    others = info.get("cluster", {}).get("replicas", ())
    fresh = sum(1 for other in others if 0 <= other.get("active", NONE) < FRESH_FOR_S * 1e9)
    return 2 * (1 + fresh) > 1 + len(others)
