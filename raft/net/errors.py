"""The error of this package: bytes that cannot be what the other side should have sent."""

import attrs


@attrs.define
class WireError(Exception):
    """The other side sent nonsense; its connection is closed and nothing else happens. Wires may raise classes of their own below it."""

    detail: str

    def __str__(self) -> str:
        return f"protocol error: {self.detail}"
