"""ZooKeeper's wire (jute over TCP), as far as creating, setting and looking at nodes needs it.

Every connection writes its own nodes: `setData`, or `multi` of as many for a batch. A node's version counts its writes,
so the sum of the versions is in the end how many writes are really there.
"""

import struct

from jepsen_like.bench.conversation import LoadShape, NotAnAnswer, payload

CREATE, EXISTS, SET_DATA, MULTI = 1, 3, 5, 14
XID = 1
SESSION_TIMEOUT_MS = 30_000
REPLY = struct.Struct("!iqi")
"""xid, zxid, error."""
VERSION_IN_STAT = 32
STAT_BYTES = 68
NODE_EXISTS = -110


def path_of(lane: int, number: int) -> str:
    """The node that a connection writes its `number`th record of a batch to."""
    return f"/bench-{lane}-{number}"


def frame(body: bytes) -> bytes:
    """One message."""
    return struct.pack("!i", len(body)) + body


def buffer(data: bytes) -> bytes:
    """A string or a buffer."""
    return struct.pack("!i", len(data)) + data


def connect_request() -> bytes:
    """A new session."""
    return frame(struct.pack("!iqiq", 0, 0, SESSION_TIMEOUT_MS, 0) + buffer(bytes(16)) + b"\0")


def create_request(path: str) -> bytes:
    """Create an empty node that anybody may change."""
    acl = struct.pack("!ii", 1, 31) + buffer(b"world") + buffer(b"anyone")
    return frame(struct.pack("!ii", XID, CREATE) + buffer(path.encode()) + buffer(b"") + acl + struct.pack("!i", 0))


def exists_request(path: str) -> bytes:
    """Ask for a node's Stat."""
    return frame(struct.pack("!ii", XID, EXISTS) + buffer(path.encode()) + b"\0")


def set_request(lane: int, load: LoadShape) -> bytes:
    """Write one record, or a batch of them atomically."""
    bodies = [
        buffer(path_of(lane, number).encode()) + buffer(payload(load.record_bytes, number)) + struct.pack("!i", -1)
        for number in range(load.batch)
    ]
    if load.batch == 1:
        return frame(struct.pack("!ii", XID, SET_DATA) + bodies[0])
    parts = b"".join(struct.pack("!i?i", SET_DATA, False, -1) + body for body in bodies)
    return frame(struct.pack("!ii", XID, MULTI) + parts + struct.pack("!i?i", -1, True, -1))


class ZooKeeperConversation:
    """See `Conversation`."""

    def __init__(self, load: LoadShape, lane: int) -> None:
        self.greeted = False
        self.owed = b""
        self.refusal = ""
        self.last = b""
        """The newest reply behind its header: a Stat, if one was requested."""
        self.error = 0
        self._is_batch = load.batch > 1
        self._request = set_request(lane, load)
        self._rest = b""

    def hello(self) -> bytes:
        """Ask for a session."""
        return connect_request()

    def request(self) -> bytes:
        """`setData` or `multi`."""
        return self._request

    def take(self, chunk: bytes) -> int:
        """Replies without an error count."""
        if self._rest:
            chunk = self._rest + chunk
        done = at = 0
        while len(chunk) - at >= 4:
            length = int.from_bytes(chunk[at : at + 4], "big")
            end = at + 4 + length
            if length > 2**24:
                raise NotAnAnswer(f"a reply of {length} bytes")
            if end > len(chunk):
                break
            done += self._reply(chunk[at + 4 : end])
            at = end
        self._rest = chunk[at:]
        return done

    def _reply(self, body: bytes) -> int:
        if not self.greeted:
            session = struct.unpack_from("!iiq", body)[2]
            if session == 0:
                raise NotAnAnswer("no session was given")
            self.greeted = True
            return 0
        xid, _, error = REPLY.unpack_from(body)
        if xid != XID:
            raise NotAnAnswer(f"a reply to request {xid}, which was never sent")
        self.error, self.last = error, body[REPLY.size :]
        if error == 0 and self._is_batch:
            error = struct.unpack_from("!i", self.last)[0] != SET_DATA
        if error:
            self.refusal = f"error {self.error}"
            return 0
        return 1
