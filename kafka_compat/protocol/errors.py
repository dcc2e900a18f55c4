"""The errors of a message: in bytes that arrived, or in a value to be sent."""

import attrs

from raft.net.errors import WireError


@attrs.define
class MalformedMessage(WireError):
    """The bytes do not form a message of the API and version that they claim; their connection is closed.

    `path` names the field, as in `topics[3].partitions[0].records`; `offset` counts the body's bytes before it.
    """

    path: str = ""
    offset: int = 0

    def within(self, name: str) -> None:
        """Extends the path on the left, as the error leaves a field or an element (`[3]`)."""
        self.path = join_path(name, self.path)

    def __str__(self) -> str:
        return f"malformed message: {self.path or 'body'} at byte {self.offset}: {self.detail}"


@attrs.define
class UnsupportedVersion(MalformedMessage):
    """A request for an API or a version outside of the registry; decoding stopped after its header.

    The connection is closed, as Kafka does, unless the API is ApiVersions (18): such a client expects an answer in
    version 0 that lists the supported versions (`registry.encode_unsupported_version`).
    """

    api_key: int = -1
    api_version: int = -1
    correlation_id: int = -1


@attrs.define
class CannotEncode(ValueError):
    """A value does not fit its field (a null, a number or a length out of range).

    The mistake is ours, and no bytes were sent.
    """

    detail: str
    path: str = ""

    def within(self, name: str) -> None:
        """Extends the path on the left."""
        self.path = join_path(name, self.path)

    def __str__(self) -> str:
        return f"cannot encode {self.path or 'the message'}: {self.detail}"


def join_path(name: str, path: str) -> str:
    """Returns the path of a field within `name`."""
    return name + path if not path or path.startswith("[") else f"{name}.{path}"
