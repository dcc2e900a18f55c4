"""RocketMQ's remoting protocol as the load generator speaks it: frames that are encoded once, answers that are looked
at no further than needed.

A frame is a template in which only the number of the request differs: its `opaque`, and the id of each message
(UNIQ_KEY), which contains it. Messages have the properties that RocketMQ's own producers give them. An answer is
SUCCESS or a refusal; that of a message that is stored with less than its mode promises (10, 11, 12) is a refusal, too.
"""

import re
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import attrs

from jepsen_like.bench.conversation import NotAnAnswer, payload
from jepsen_like.cluster.ports import LOOPBACK
from rocketmq_compat.records import InnerMessage, join_messages, write_properties
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import ANSWER_HEADER_BYTES_MAX, Command, decode, encode
from rocketmq_compat.remoting.headers.pulling import HAS_SUBSCRIPTION, PullMessageRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader

QUEUES: Final = 4
"""Of a topic that is made because a message was sent to it."""
GROUP: Final = "bench"
FIRST_OPAQUE: Final = 1_000_000_000
"""From here on all numbers have ten digits."""
PULLED_MESSAGES: Final = 32
ASK_WITHIN_S: Final = 3.0
RECEIVE_BYTES: Final = 256 * 1024
CERTAINLY_NOT_STORED: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Refusals after which a message is not there. After any other it may be."""
_NUMBER: Final = b"%d" % FIRST_OPAQUE
_LENGTH: Final = struct.Struct("!I")
_HEADS: Final = struct.Struct("!II")
_CODE: Final = re.compile(rb'"code":(\d+)')
_OPAQUE: Final = re.compile(rb'"opaque":(\d+)')
_NEXT: Final = re.compile(rb'"nextBeginOffset":"?(\d+)')


def send_template(topic: str, queue_id: int, record_bytes: int, batch: int = 1) -> Sequence[bytes]:
    """Returns the parts of a request that stores `batch` messages, between which its number goes."""
    texts = [
        write_properties({"UNIQ_KEY": f"7F00000A{'0' * 10}{number:04d}{FIRST_OPAQUE}", "WAIT": "true"})
        for number in range(batch)
    ]
    header = SendMessageRequestHeader(
        producer_group=GROUP,
        topic=topic,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_123,
        flag=0,
        properties=texts[0] if batch == 1 else "",
        batch=batch > 1,
    )
    if batch == 1:
        code, body = RequestCode.SEND_MESSAGE_V2, payload(record_bytes, queue_id)
    else:
        code = RequestCode.SEND_BATCH_MESSAGE
        body = join_messages(InnerMessage(0, payload(record_bytes, number), text) for number, text in enumerate(texts))
    frame = b"".join(encode(Command(code, FIRST_OPAQUE, header.ext_v2(), body)))
    parts = frame.split(_NUMBER)
    assert len(parts) == batch + 2, "the number is in the header and in each id, and nowhere else"
    return parts


@attrs.define
class RocketAnswer:
    """The parts of an answer that are looked at."""

    code: int
    opaque: int
    header: bytes


class AnswerReader:
    """Cuts a stream of answers into frames."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, chunk: bytes) -> list[RocketAnswer]:
        """Returns the answers that are whole now. Raises `NotAnAnswer` for bytes outside of the protocol."""
        data = self._left + chunk if self._left else chunk
        at, end, found = 0, len(data), list[RocketAnswer]()
        while end - at >= _HEADS.size:
            size, word = _HEADS.unpack_from(data, at)
            header_bytes = word & 0xFFFFFF
            if word >> 24 or header_bytes + _LENGTH.size > size:
                raise NotAnAnswer(f"a frame of {size} bytes whose header has {header_bytes}")
            if end - at < _LENGTH.size + size:
                break
            header = data[at + _HEADS.size : at + _HEADS.size + header_bytes]
            code, opaque = _CODE.search(header), _OPAQUE.search(header)
            if code is None or opaque is None:
                raise NotAnAnswer(f"a header without code or opaque: {header[:80]!r}")
            found.append(RocketAnswer(int(code[1]), int(opaque[1]), header))
            at += _LENGTH.size + size
        self._left = data[at:]
        return found


class RocketConversation(ABC):
    """One connection of a client, see `Conversation`: its requests have numbers."""

    def __init__(self, lane: int = 0) -> None:
        self.greeted = True
        self.owed = b""
        self.refusal = ""
        self.number = FIRST_OPAQUE + 10_000_000 * lane
        """Of the last request."""
        self.answered: list[int] = []
        """The numbers of the requests that the last bytes completed with success."""
        self._reader = AnswerReader()

    def hello(self) -> bytes:
        """Nothing: the protocol has no handshake."""
        return b""

    @abstractmethod
    def request(self) -> bytes:
        """The next request; `number` is its number then."""

    @abstractmethod
    def take(self, chunk: bytes) -> int:
        """Returns how many requests these bytes completed; `answered` are their numbers then."""

    def _refuse(self, answer: RocketAnswer) -> None:
        self.refusal = f"code {answer.code}: {answer.header.decode(errors='replace')[:300]}"


class SendConversation(RocketConversation):
    """One connection of a producer; `lane` is the first queue, and the next message goes to the next one."""

    def __init__(self, topic: str, record_bytes: int, batch: int = 1, lane: int = 0) -> None:
        super().__init__(lane)
        self.is_definite = False
        """True if what the last refusal refused is certainly not stored."""
        self._queue = lane
        self._templates = [send_template(topic, queue, record_bytes, batch) for queue in range(QUEUES)]

    def request(self) -> bytes:
        """The next message or batch."""
        self.number += 1
        self._queue = (self._queue + 1) % QUEUES
        return (b"%d" % self.number).join(self._templates[self._queue])

    def take(self, chunk: bytes) -> int:
        """See `Conversation`."""
        self.answered = []
        for answer in self._reader.take(chunk):
            if answer.code == ResponseCode.SUCCESS:
                self.answered.append(answer.opaque)
            else:
                self._refuse(answer)
                self.is_definite = answer.code in CERTAINLY_NOT_STORED
        return len(self.answered)


class PullConversation(RocketConversation):
    """One connection of a consumer that reads a queue from its beginning to its end, again and again."""

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__()
        self.messages = 0
        """So many were read."""
        self._topic = topic
        self._queue_id = queue_id
        self._offset = 0

    def request(self) -> bytes:
        """The next messages."""
        self.number += 1
        header = PullMessageRequestHeader(
            consumer_group=GROUP,
            topic=self._topic,
            queue_id=self._queue_id,
            queue_offset=self._offset,
            max_msg_nums=PULLED_MESSAGES,
            sys_flag=HAS_SUBSCRIPTION,
            subscription="*",
        )
        return b"".join(encode(Command(RequestCode.PULL_MESSAGE, self.number, header.ext())))

    def take(self, chunk: bytes) -> int:
        """Returns how many requests these bytes completed."""
        self.answered = []
        for answer in self._reader.take(chunk):
            found = _NEXT.search(answer.header)
            if answer.code == ResponseCode.SUCCESS and found is not None:
                self.messages += int(found[1]) - self._offset
                self._offset = int(found[1])
            elif answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED):
                self._offset = 0  # from the beginning again, where Apache's broker may not show the first message yet
            else:
                self._refuse(answer)
            self.answered.append(answer.opaque)
        return len(self.answered)


def ask(port: int, request: Command, within_s: float = ASK_WITHIN_S) -> Command:
    """One question over a connection of its own. Raises `OSError` if there is no answer in time."""
    with socket.create_connection((LOOPBACK, port), timeout=within_s) as stream:
        stream.sendall(b"".join(encode(request)))
        return decode(_receive(stream, _LENGTH.unpack(_receive(stream, _LENGTH.size))[0]), ANSWER_HEADER_BYTES_MAX)


def _receive(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = stream.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the connection was closed")
        data += chunk
    return bytes(data)
