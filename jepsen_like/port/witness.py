"""Acknowledgements that clients report, and whether the cluster holds them: the port between a cluster that is up and its check.

Reports are JSON objects. A record's bytes are text in `value`, or base64 in `value_base64`; null stands for none.
"""

import abc
import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import attrs

HELD_BYTES_MAX: Final = 256 * 1024 * 1024
RECORD_BYTES: Final = 200
"""A reported record takes about so much memory in addition to its bytes."""


class WrongReport(ValueError):
    """A report that makes no sense; the text names the place and the reason."""


class TooMuchReported(Exception):
    """More was reported than is kept."""


@attrs.frozen
class CheckFinding:
    """The result of a check, as of the fixtures."""

    valid: bool
    text: str
    acknowledged: int
    """Records that were reported as acknowledged."""
    compared: int
    """Logs of which all copies were compared."""
    broken: tuple[str, ...] = ()
    """The promises that do not hold, in words."""


@attrs.define
class ReportedRecord:
    """The fields of a record as a client reported it; each is read by its kind, and no other may be there."""

    place: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, place: str, found: object) -> "ReportedRecord":
        """Raises `WrongReport` if it is no object."""
        if not isinstance(found, dict):
            raise WrongReport(f"{place} is no JSON object")
        return cls(place, dict(found))

    def text(self, name: str) -> str:
        """Takes a name. Raises `WrongReport`."""
        found = self.fields.pop(name, None)
        if not isinstance(found, str) or not found:
            raise WrongReport(f"{self.place}: {name} is a text")
        return found

    def number(self, name: str) -> int:
        """Takes a number from 0 on. Raises `WrongReport`."""
        found = self.fields.pop(name, None)
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise WrongReport(f"{self.place}: {name} is a number from 0 on")
        return found

    def content(self, name: str, *, is_needed: bool = True) -> bytes | None:
        """Takes bytes; None for null, and for what need not be given. Raises `WrongReport`."""
        encoded = f"{name}_base64"
        given = [each for each in (name, encoded) if each in self.fields]
        if len(given) > 1 or (is_needed and not given):
            raise WrongReport(f"{self.place}: give one of {name} and {encoded}")
        found = self.fields.pop(given[0]) if given else None
        if found is None:
            return None
        if not isinstance(found, str):
            raise WrongReport(f"{self.place}: {given[0]} is a text, or null")
        try:
            return found.encode() if given == [name] else base64.b64decode(found, validate=True)
        except (binascii.Error, ValueError) as error:
            raise WrongReport(f"{self.place}: {given[0]}: {error}") from None

    def end(self) -> None:
        """Raises `WrongReport` if there is more."""
        if self.fields:
            raise WrongReport(f"{self.place}: there is no {min(self.fields)}")


class Witness(abc.ABC):
    """Keeps what clients reported, and looks for it on the nodes."""

    def __init__(self) -> None:
        self._held_bytes = 0

    def note(self, words: Mapping[str, Any]) -> int:
        """Keep all records of `words["records"]`, or none. Returns how many. Raises `WrongReport` and `TooMuchReported`."""
        found = words.get("records")
        if not isinstance(found, list):
            raise WrongReport('a report has records: {"records": [...]}')
        parsed, size = [], self._held_bytes
        for number, fields in enumerate(found):
            record = ReportedRecord.of(f"records[{number}]", fields)
            kept = self.parse(record)
            record.end()
            parsed.append(kept)
            size += RECORD_BYTES + sum(len(part) for part in attrs.astuple(kept) if isinstance(part, bytes))
        if size > HELD_BYTES_MAX:
            raise TooMuchReported(f"over {HELD_BYTES_MAX} bytes are reported; check, and forget what was reported")
        self._held_bytes = size
        for kept in parsed:
            self.keep(kept)
        return len(parsed)

    def forget(self) -> None:
        """Forget what was reported so far."""
        self._held_bytes = 0
        self.start_over()

    @abc.abstractmethod
    def parse(self, record: ReportedRecord) -> Any:
        """Takes the fields of a record. Returns it as a value of attrs. Raises `WrongReport`."""

    @abc.abstractmethod
    def keep(self, record: Any) -> None:
        """Have the check look for this record."""

    @abc.abstractmethod
    def start_over(self) -> None:
        """Have the check look for nothing."""

    @abc.abstractmethod
    async def compare(self, *, within_s: float) -> CheckFinding:
        """Wait until all copies agree, compare them, and look for what was reported; nothing may be broken, and no client write.

        Raises `NotServing` if they do not agree in time.
        """
