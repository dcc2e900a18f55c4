"""NATS core protocol with JetStream acknowledgements: publish with a reply subject, wait for the stream's word on each
record.
"""

import json

from jepsen_like.bench.conversation import LoadShape, NotAnAnswer, payload

STREAM = "BENCH"
SUBJECT = "bench"


class NatsConversation:
    """See `Conversation`.

    A batch is `batch` messages sent at once; it is done when the stream has acknowledged each.
    """

    def __init__(self, load: LoadShape, lane: int, subject: str = SUBJECT) -> None:
        self.greeted = False
        self.owed = b""
        self.refusal = ""
        self.replies: list[bytes] = []
        """Whole replies, if `keep` was set: for questions about the stream."""
        self.keep = False
        self._inbox = b"_INBOX.bench.%d" % lane
        self._batch = load.batch
        self._acknowledged = 0
        self._rest = b""
        self._request = b"".join(
            self.publish(subject.encode(), payload(load.record_bytes, number)) for number in range(load.batch)
        )

    def publish(self, subject: bytes, body: bytes) -> bytes:
        """One message that asks for a reply."""
        return b"PUB %s %s %d\r\n%s\r\n" % (subject, self._inbox, len(body), body)

    def hello(self) -> bytes:
        """CONNECT and the inbox; the PONG that follows means that both were taken."""
        options = {"verbose": False, "pedantic": False, "lang": "bench", "version": "1", "protocol": 1}
        return b"CONNECT %s\r\nSUB %s 1\r\nPING\r\n" % (json.dumps(options).encode(), self._inbox)

    def request(self) -> bytes:
        """A batch."""
        return self._request

    def take(self, chunk: bytes) -> int:
        """Count the stream's acknowledgements, a batch at a time."""
        if self._rest:
            chunk = self._rest + chunk
        at = 0
        while (line_end := chunk.find(b"\r\n", at)) >= 0:
            line = chunk[at:line_end]
            if line.startswith(b"MSG "):
                body_at = line_end + 2
                body_end = body_at + int(line[line.rindex(b" ") + 1 :])
                if body_end + 2 > len(chunk):
                    break
                self._message(chunk[body_at:body_end])
                at = body_end + 2
            else:
                self._other(line)
                at = line_end + 2
        self._rest = chunk[at:]
        done, self._acknowledged = divmod(self._acknowledged, self._batch)
        return done

    def _message(self, body: bytes) -> None:
        if self.keep:
            self.replies.append(body)
        elif b'"seq":' in body and b'"error"' not in body:
            self._acknowledged += 1
        else:
            self.refusal = body.decode(errors="replace") or "no stream takes this subject"

    def _other(self, line: bytes) -> None:
        if line == b"PING":
            self.owed += b"PONG\r\n"
        elif line == b"PONG":
            self.greeted = True
        elif line.startswith(b"-ERR"):
            self.refusal = line.decode(errors="replace")
        elif not line.startswith((b"INFO ", b"+OK")):
            raise NotAnAnswer(f"{line[:80]!r} is no line of this protocol")
