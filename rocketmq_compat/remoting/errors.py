"""The errors of a command: in the bytes of a frame, in its fields, in its body, or in a command to be sent."""

import attrs

from raft.net.errors import WireError


@attrs.define
class MalformedFrame(WireError):
    """The bytes are no remoting frame; their connection is closed."""

    def __str__(self) -> str:
        return f"malformed frame: {self.detail}"


@attrs.define
class BadHeader(ValueError):
    """The frame is sound, but an ext field of its request is missing or invalid.

    The request is refused, and the connection stays.
    """

    detail: str
    name: str = ""
    """The field, as it is called on the wire."""

    def __str__(self) -> str:
        return f"bad field {self.name}: {self.detail}" if self.name else f"bad fields: {self.detail}"


@attrs.define
class BadBody(ValueError):
    """The frame is sound, but its body does not fit the request. The request is refused, and the connection stays.

    `path` leads to the value, as in `consumerDataSet[0].groupName`.
    """

    detail: str
    path: str = ""

    def within(self, name: str) -> None:
        """Extends the path on the left, as the error leaves a field or an element (`[3]`)."""
        self.path = name + self.path if not self.path or self.path.startswith("[") else f"{name}.{self.path}"

    def __str__(self) -> str:
        return f"bad body: {self.path}: {self.detail}" if self.path else f"bad body: {self.detail}"


@attrs.define
class UnencodableCommand(ValueError):
    """A command does not fit into a frame: a mistake of ours, or a body over the bound. No bytes were sent."""

    detail: str

    def __str__(self) -> str:
        return f"cannot encode the command: {self.detail}"
