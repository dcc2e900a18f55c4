"""The native wire, as a load generator speaks it: one append, encoded once, sent again and again."""

from jepsen_like.bench.conversation import LoadShape, NotAnAnswer, payload
from raft import client_codec
from raft.admission import Greeting
from raft.net.framing import HEADER, PROTOCOL_VERSION, Frame
from raft.record_batch import pack_batch
from raft.secret_file import credentials_of
from raft.trust import ADMIN, ANY, SecretSource

CLUSTER_ID = "bench"


def greeting(secret: SecretSource | None) -> Greeting:
    """Returns the beginning of a connection: the proof of the secret, where there is one, and HELLO."""
    credentials = None if secret is None else credentials_of(secret, CLUSTER_ID, ADMIN)
    return Greeting(lambda: client_codec.Hello(CLUSTER_ID, client_codec.CLIENT, 0), ANY, credentials)


class QuorumlogConversation:
    """See `Conversation`. Headers are checked whole; whether the records are there is counted at the end of a run."""

    def __init__(self, load: LoadShape, secret: SecretSource | None = None) -> None:
        self.greeted = False
        self.owed = b""
        self.refusal = ""
        self._greeting = greeting(secret)
        records = [payload(load.record_bytes, number) for number in range(load.batch)]
        self._request = client_codec.encode_append(1, pack_batch(records))
        self._rest = b""

    def hello(self) -> bytes:
        """HELLO, or the opening of the proof before it."""
        return self._greeting.begin()

    def request(self) -> bytes:
        """APPEND."""
        return self._request

    def take(self, chunk: bytes) -> int:
        """APPENDED counts; ERROR is a refusal."""
        if self._rest:
            chunk = self._rest + chunk
        done = at = 0
        while len(chunk) - at >= HEADER.size:
            length, version, message_type, _, _ = HEADER.unpack_from(chunk, at)
            if version != PROTOCOL_VERSION:
                raise NotAnAnswer(f"protocol version {version}")
            end = at + HEADER.size + length
            if end > len(chunk):
                break
            if message_type == client_codec.APPENDED:
                done += 1
            else:
                self._other((message_type, chunk[at + HEADER.size : end], 0))
            at = end
        self._rest = chunk[at:]
        return done

    def _other(self, frame: Frame) -> None:
        message_type, body, _ = frame
        if message_type == client_codec.ERROR:
            self.refusal = str(client_codec.decode_error(body)[1])
        elif self.greeted:
            raise NotAnAnswer(f"message type {message_type} answers no append")
        else:
            answer = self._greeting.answer(frame)
            self.greeted = not isinstance(answer, bytes)
            self.owed += answer if isinstance(answer, bytes) else b""


class EchoConversation:
    """The same requests and acknowledgements without a log behind them: what loopback and this generator can do."""

    ANSWER_BYTES = 24
    """About what an APPENDED takes."""

    def __init__(self, load: LoadShape) -> None:
        self.greeted = True
        self.owed = b""
        self.refusal = ""
        self._request = QuorumlogConversation(load).request()
        self._span = load.batch
        self._arrived = 0

    def hello(self) -> bytes:
        """Returns the first message: the length of its requests, and the number of records in each."""
        return len(self._request).to_bytes(8, "big") + self._span.to_bytes(8, "big")

    def request(self) -> bytes:
        """As many bytes as an append."""
        return self._request

    def take(self, chunk: bytes) -> int:
        """Answers are counted by their bytes."""
        done, self._arrived = divmod(self._arrived + len(chunk), self.ANSWER_BYTES)
        return done
