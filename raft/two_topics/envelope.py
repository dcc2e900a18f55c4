"""The marks that a message carries in its headers: who wrote it, as which, in which epoch and when. Pure."""

from collections.abc import Mapping
from typing import Final

import attrs

WRITER, NUMBER, EPOCH, SENT_MS = "tt-writer", "tt-number", "tt-epoch", "tt-sent-ms"
NAMES: Final = (WRITER, NUMBER, EPOCH, SENT_MS)


class ForeignMessage(Exception):
    """A message without these marks: no producer of two topics has written it."""


@attrs.frozen(kw_only=True)
class Envelope:
    """The marks of one message."""

    writer: str
    """Two producers never share it, and a producer that starts again has a new one."""
    number: int
    """Counts the messages of the writer, from 1."""
    epoch: int
    """Grows each time the writer leaves a cluster."""
    sent_ms: int
    """The time at which the application gave the message to the writer, by its wall clock."""

    def headers(self) -> dict[str, str]:
        """As headers or properties."""
        values = (self.writer, self.number, self.epoch, self.sent_ms)
        return {name: str(value) for name, value in zip(NAMES, values, strict=True)}

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Envelope":
        """From headers or properties. Raises `ForeignMessage`."""
        try:
            writer, *numbers = (headers[name] for name in NAMES)
            number, epoch, sent_ms = map(int, numbers)
        except (KeyError, ValueError) as error:
            raise ForeignMessage(f"not written for two topics: {error}") from error
        return cls(writer=writer, number=number, epoch=epoch, sent_ms=sent_ms)
