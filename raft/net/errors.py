"""The errors of this package: bytes that the other side should not have sent, and what ends the process."""

from typing import Final

import attrs

from log.errors import LogError


class EndsProcess(Exception):
    """Root of failures after which a process must not go on, whichever connection met them."""


ENDS_PROCESS: Final = (EndsProcess, LogError, AssertionError)
"""The disk has failed, an invariant is broken, or a subclass of `EndsProcess` was raised.

Any other error ends the one connection that it came by.
"""


@attrs.define
class WireError(Exception):
    """The other side sent invalid bytes. Only its connection is closed. A wire may raise subclasses of its own."""

    detail: str

    def __str__(self) -> str:
        return f"protocol error: {self.detail}"
