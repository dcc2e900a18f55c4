"""Decides what passes between one client and one broker: frames in, frames out, and the answers that a test asked for.

Requests and answers stay opaque but for their headers, unless a rule or an address needs more. A client gets its answers
in the order of its requests, as from a broker: one that is late holds back those after it.
"""

import math
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, assert_never

import attrs

from jepsen_like.systems.kafka.answers.addresses import (
    Translate,
    carries_addresses,
    readable_versions,
    with_own_addresses,
)
from jepsen_like.systems.kafka.answers.refusals import ANSWERED_BY_EDIT, NoErrorThere, error_answer
from jepsen_like.systems.kafka.answers.rules import BEFORE, AnswerRule, Rules
from kafka_compat.protocol import primitives
from kafka_compat.protocol.api import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_correlation_id,
    decode_request_start,
    skip_tags,
)
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionRange, ApiVersionsResponse
from kafka_compat.protocol.apis.metadata import METADATA
from kafka_compat.protocol.apis.produce import PRODUCE
from kafka_compat.protocol.apis.sasl import SASL_HANDSHAKE
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import CannotEncode, MalformedMessage
from kafka_compat.protocol.registry import APIS, decode_request
from raft.net.decoder import PREFIX, BodyDecoder, Buffer

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""As Kafka's socket.request.max.bytes."""
REQUESTS_MAX: Final = 1000
"""Requests of one connection that wait for their answers; with more, the client is not read."""
HELD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of answers that wait for their time; with more, the broker is not read."""
NAMES_MAX: Final = 100_000


@attrs.frozen
class FromClient:
    """Bytes arrived from the client."""

    chunk: Buffer


@attrs.frozen
class FromBroker:
    """Bytes arrived from the broker."""

    chunk: Buffer


@attrs.frozen
class TimePassed:
    """Something may be due, or a rule was undone."""


Event = FromClient | FromBroker | TimePassed


@attrs.frozen
class ToClient:
    """Send a frame, in pieces."""

    pieces: tuple[Buffer, ...]


@attrs.frozen
class ToBroker:
    """Send a frame, in pieces."""

    pieces: tuple[Buffer, ...]


@attrs.frozen
class Close:
    """End both connections after what was sent; `reason` is empty if a test asked for it."""

    reason: str = ""


Effect = ToClient | ToBroker | Close


@attrs.define(eq=False)
class _Exchange:
    header: RequestHeader
    rule: AnswerRule | None = None
    is_own: bool = False
    """The broker never saw the request."""
    answer: tuple[Buffer, ...] | None = None
    due: float = 0.0

    @property
    def is_cut(self) -> bool:
        return self.rule is not None and self.rule.disconnect is not None


@attrs.define(eq=False)
class AnswerDesk:
    """One connection of a client. `translate` is set if answers are to carry the proxy's addresses."""

    rules: Rules
    topic_names: dict[bytes, str]
    """Names by id, as far as an answer has told; shared by the connections."""
    translate: Translate | None = None
    is_over: bool = False
    held_bytes: int = 0
    _pending: deque[_Exchange] = attrs.field(factory=deque)
    _requests: BodyDecoder = attrs.field(factory=lambda: BodyDecoder(FRAME_BYTES_MAX))
    _answers: BodyDecoder = attrs.field(factory=lambda: BodyDecoder(FRAME_BYTES_MAX))

    @property
    def reads_client(self) -> bool:
        """True if one more request may come."""
        return len(self._pending) < REQUESTS_MAX

    @property
    def reads_broker(self) -> bool:
        """True if more of the answers may come."""
        return self.held_bytes < HELD_BYTES_MAX

    @property
    def wakes_at(self) -> float:
        """The time at which an answer is due; infinity if none waits for its time."""
        return self._due(self._pending[0]) if self._pending and self._is_answered(self._pending[0]) else math.inf

    def step(self, now: float, event: Event) -> list[Effect]:
        """Returns what to send, in order. After `Close` nothing follows."""
        if self.is_over:
            return []
        effects: list[Effect] = []
        try:
            match event:
                case FromClient(chunk):
                    for body in self._requests.feed(chunk):
                        effects += self._on_request(body)
                    failure = self._requests.failure
                case FromBroker(chunk):
                    for body in self._answers.feed(chunk):
                        self._on_answer(now, body)
                    failure = self._answers.failure
                case TimePassed():
                    failure = None
                case _:
                    assert_never(event)
            effects += self._release(now)
            if failure is not None and not self.is_over:
                effects += self._close(str(failure))
        except MalformedMessage as error:
            effects += self._close(str(error))
        return effects

    def _close(self, reason: str = "") -> list[Effect]:
        self.is_over = True
        self._pending.clear()
        self.held_bytes = 0
        return [Close(reason)]

    # ---------------------------------------------------------------- requests

    def _on_request(self, body: Buffer) -> Iterable[Effect]:
        header, position = decode_request_start(memoryview(body))
        if header.api_key == SASL_HANDSHAKE.key and header.api_version == 0:
            raise MalformedMessage("SaslHandshake 0 is followed by bytes that no proxy can read; clients use 1", "sasl")
        exchange = _Exchange(header)
        if (own := self._answer_of_proxy(header)) is not None:
            self._answer_now(exchange, own)
            return ()
        request: list[Any] = []

        def read() -> Any:
            if not request:
                try:
                    request.append(decode_request(body))
                except MalformedMessage:
                    request.append(None)
            return request[0]

        exchange.rule = rule = self.rules.choose(
            header, lambda: None if read() is None else _topics_of(read().body, self.topic_names)
        )
        is_silent = _is_silent(header, body, position)
        if rule is not None and (rule.disconnect == BEFORE or (is_silent and rule.error is not None)):
            # A broker closes the connection, too, for an error of a produce that awaits no answer.
            exchange.is_own = True
            self._pending.append(exchange)
            return ()
        if rule is not None and rule.error is not None and header.api_key not in ANSWERED_BY_EDIT:
            if read() is None:
                raise MalformedMessage(f"no error can be built for {rule.api} in version {header.api_version}")
            try:
                self._answer_now(exchange, error_answer(APIS[header.api_key], read(), rule.error))
            except (NoErrorThere, CannotEncode) as error:
                raise MalformedMessage(f"no error for {rule.api}: {error}") from error
            return ()
        if not is_silent or exchange.is_cut:
            exchange.is_own = is_silent  # without an answer to wait for, the connection ends at once
            self._pending.append(exchange)
        return (ToBroker(frame_of(body)),)

    def _answer_now(self, exchange: _Exchange, answer: Iterable[Buffer]) -> None:
        exchange.is_own = True
        exchange.answer = tuple(answer)
        self.held_bytes += sum(map(len, exchange.answer))
        self._pending.append(exchange)

    def _answer_of_proxy(self, header: RequestHeader) -> list[Buffer] | None:
        """A version of ApiVersions that is not known here is refused as a broker does (KIP-511)."""
        if self.translate is None or header.api_key != API_VERSIONS_KEY or header.api_version in API_VERSIONS.versions:
            return None
        known = ApiVersionRange(api_key=API_VERSIONS_KEY, min_version=0, max_version=API_VERSIONS.version_max)
        refusal = ApiVersionsResponse(error_code=KafkaErrorCode.UNSUPPORTED_VERSION, api_keys=(known,))
        return API_VERSIONS.encode_response(0, header.correlation_id, refusal)

    # ---------------------------------------------------------------- answers

    def _on_answer(self, now: float, body: Buffer) -> None:
        exchange = next((each for each in self._pending if not each.is_own and each.answer is None), None)
        correlation_id = decode_correlation_id(body)
        if exchange is None or exchange.header.correlation_id != correlation_id:
            raise MalformedMessage(f"the broker answers {correlation_id}, which was not asked next")
        exchange.answer = self._edit(exchange, body)
        self.held_bytes += sum(map(len, exchange.answer))
        rule = exchange.rule
        exchange.due = now + rule.delay_s if rule is not None and rule.delay_s is not None else now

    def _edit(self, exchange: _Exchange, body: Buffer) -> tuple[Buffer, ...]:
        header, rule = exchange.header, exchange.rule
        key, version = header.api_key, header.api_version
        if key == API_VERSIONS_KEY:
            return frame_of(body) if self.translate is None else _edit_versions(header, body)
        api = APIS.get(key)
        is_read = key == METADATA.key or (self.translate is not None and carries_addresses(key, version))
        if api is None or not is_read:
            return frame_of(body)
        if version not in api.versions:
            if self.translate is None:
                return frame_of(body)
            raise MalformedMessage(f"{api.name} in version {version} may carry addresses that cannot be read here")
        answer = original = api.decode_response(body, version)[1]
        if key == METADATA.key:
            self._learn(answer)
            if rule is not None and rule.error is not None:
                answer = _metadata_with(answer, rule.error)
        if self.translate is not None:
            answer = with_own_addresses(key, answer, self.translate)
        return (
            frame_of(body) if answer is original else tuple(api.encode_response(version, header.correlation_id, answer))
        )

    def _learn(self, answer: Any) -> None:
        for topic in answer.topics:
            if topic.name and any(topic.topic_id) and len(self.topic_names) < NAMES_MAX:
                self.topic_names[topic.topic_id] = topic.name

    def _is_answered(self, exchange: _Exchange) -> bool:
        return exchange.answer is not None or exchange.is_own

    def _due(self, exchange: _Exchange) -> float:
        return 0.0 if exchange.rule is not None and exchange.rule.is_undone else exchange.due

    def _release(self, now: float) -> list[Effect]:
        """Everything that is answered and due, up to the first that is not."""
        effects: list[Effect] = []
        while self._pending and self._is_answered(self._pending[0]) and self._due(self._pending[0]) <= now:
            exchange = self._pending.popleft()
            if exchange.answer is None or exchange.is_cut:
                return effects + self._close()
            self.held_bytes -= sum(map(len, exchange.answer))
            effects.append(ToClient(exchange.answer))
        return effects


def frame_of(body: Buffer) -> tuple[Buffer, ...]:
    """Returns the frame of a body, in pieces."""
    return (PREFIX.pack(len(body)), body)


def _is_silent(header: RequestHeader, body: Buffer, position: int) -> bool:
    """Returns True for a produce with acks=0, which no broker answers."""
    if header.api_key != PRODUCE.key or header.api_version not in PRODUCE.versions:
        return False
    buffer, is_flexible = memoryview(body), header.api_version in PRODUCE.flexible
    if is_flexible:
        position = skip_tags(buffer, position)
    try:
        _, position = primitives.string(compact=is_flexible, nullable=True).read(buffer, position)
        return int(primitives.INT16_WIRE.read(buffer, position)[0]) == 0
    except (IndexError, UnicodeDecodeError, struct.error):
        raise MalformedMessage("the frame ends before it", "acks", position) from None


def _topics_of(message: Any, names: dict[bytes, str]) -> set[str]:
    """Returns the topics that a request names, at any depth."""
    found = set[str]()
    for topic in _topic_parts(message):
        name = topic if isinstance(topic, str) else getattr(topic, "name", None) or getattr(topic, "topic", None)
        found.add(name or names.get(getattr(topic, "topic_id", b""), ""))
    return found - {""}


def _topic_parts(message: Any) -> Iterable[Any]:
    for field in ("topics", "topic_data", "topic_names", "v3_and_below_topics", "topic_partitions"):
        yield from getattr(message, field, None) or ()
    yield from getattr(message, "subscribed_topic_names", None) or ()
    for field in ("transactions", "markers", "groups"):
        for each in getattr(message, field, None) or ():
            if not isinstance(each, str):
                yield from _topic_parts(each)


def _edit_versions(header: RequestHeader, body: Buffer) -> tuple[Buffer, ...]:
    version = header.api_version
    try:
        answer = API_VERSIONS.decode_response(body, version)[1]
    except MalformedMessage:
        version = 0  # a broker that knows fewer versions refuses in the first
        answer = API_VERSIONS.decode_response(body, version)[1]
    return tuple(API_VERSIONS.encode_response(version, header.correlation_id, readable_versions(answer)))


def _metadata_with(answer: Any, error: KafkaErrorCode) -> Any:
    topics = tuple(attrs.evolve(topic, error_code=int(error), partitions=()) for topic in answer.topics)
    return attrs.evolve(answer, topics=topics, error_code=int(error) if not topics else answer.error_code)
