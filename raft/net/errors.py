"""The error of this package: bytes that cannot be what the other side should have sent."""

import attrs


@attrs.define
class WireError(Exception):
    """The other side sent invalid bytes. Only its connection is closed. A wire may raise subclasses of its own."""

    detail: str

    def __str__(self) -> str:
        return f"protocol error: {self.detail}"
