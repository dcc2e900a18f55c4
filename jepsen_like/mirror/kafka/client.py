"""A client of one Kafka cluster for the mirror: connections that stay, requests on their way at once, and who leads what."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from jepsen_like.mirror.ends import ClusterRefused, LinkBroken, ProducerFenced
from jepsen_like.mirror.kept import Partition
from jepsen_like.mirror.plan import LinkEnd
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.kafka.login import LoginRefused
from jepsen_like.systems.kafka.wire import CLIENT_ID, FRAME_BYTES_MAX, NoAnswer, log_in
from jepsen_like.systems.tls_of import Stream, open_stream
from kafka_compat.protocol.api import CORRELATION_ID, Api, RequestHeader, decode_correlation_id
from kafka_compat.protocol.apis.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode, known_error
from kafka_compat.protocol.errors import MalformedMessage
from raft.net.decoder import PREFIX

ANSWERS_WITHIN_S: Final = 15.0
CONNECTS_WITHIN_S: Final = 5.0
METADATA_VERSION: Final = 9
GROUP, TRANSACTION = 0, 1
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, MalformedMessage)


FENCED: Final = {
    KafkaErrorCode.INVALID_PRODUCER_EPOCH,
    KafkaErrorCode.PRODUCER_FENCED,
    KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING,
    KafkaErrorCode.INVALID_TXN_STATE,
    KafkaErrorCode.TRANSACTION_COORDINATOR_FENCED,
}
REFUSED: Final = {
    KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED,
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED,
    KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaErrorCode.MESSAGE_TOO_LARGE,
    KafkaErrorCode.RECORD_LIST_TOO_LARGE,
    KafkaErrorCode.INVALID_TIMESTAMP,
    KafkaErrorCode.INVALID_RECORD,
    KafkaErrorCode.CORRUPT_MESSAGE,
    KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    KafkaErrorCode.INVALID_TRANSACTION_TIMEOUT,
    KafkaErrorCode.INVALID_CONFIG,
    KafkaErrorCode.INVALID_REPLICATION_FACTOR,
    KafkaErrorCode.POLICY_VIOLATION,
    KafkaErrorCode.UNSUPPORTED_VERSION,
}


def check(code: int, doing: str) -> None:
    """Raises the error that a code stands for, if it is one."""
    if code == KafkaErrorCode.NONE:
        return
    error = known_error(code)
    text = f"{doing}: {error.name}"
    if error in FENCED:
        raise ProducerFenced(text)
    if error in REFUSED:
        raise ClusterRefused(text)
    raise LinkBroken(text)


@attrs.frozen
class SentRequest:
    """A request that is on its way."""

    correlation: int
    api: Api[Any, Any]
    version: int


class Connection:
    """One connection to one broker. Several requests may be on their way; answers come in the order of the requests."""

    def __init__(self, stream: Stream, name: str) -> None:
        """`name` is the broker in errors."""
        self._stream = stream
        self._name = name
        self._sending = trio.Lock()
        self._receiving = trio.Lock()
        self._sent = 0
        self._received = bytearray()
        self._answers: dict[int, bytes] = {}
        self.is_broken = False

    @classmethod
    async def open(cls, address: Address, end: LinkEnd) -> "Connection":
        """Returns a connection on which the user is known. Raises `LinkBroken` and `ClusterRefused`."""
        name = text_of(address)
        try:
            with trio.fail_after(CONNECTS_WITHIN_S):
                stream = await open_stream(address, end.access.tls)
                if end.access.login is not None:
                    await log_in(stream, end.access.login)
        except LoginRefused as error:
            raise ClusterRefused(f"{name}: {error}") from None
        except (trio.TooSlowError, NoAnswer, *BROKEN) as error:
            raise LinkBroken(f"{name}: {str(error) or type(error).__name__}") from None
        return cls(stream, name)

    async def ask(self, api: Api[Any, Any], version: int, body: Any) -> Any:
        """Returns the broker's response. Raises `LinkBroken`; the request may have been served."""
        return await self.receive(await self.send(api, version, body))

    async def send(self, api: Api[Any, Any], version: int, body: Any) -> SentRequest:
        """Send a request behind all others. Raises `LinkBroken`."""
        async with self._guard(api), self._sending:
            self._sent += 1
            frame = api.encode_request(RequestHeader(api.key, version, self._sent, CLIENT_ID), body)
            request = SentRequest(self._sent, api, version)
            await self._stream.send_all(b"".join(frame))
            return request
        raise AssertionError("the guard raises what it stops")

    async def receive(self, request: SentRequest) -> Any:
        """Returns the response to a request that was sent. Raises `LinkBroken`; the request may have been served."""
        async with self._guard(request.api):
            while request.correlation not in self._answers:
                async with self._receiving:
                    # The reader also takes the answers of the others.
                    if request.correlation not in self._answers:
                        (length,) = PREFIX.unpack(await self._exactly(PREFIX.size))
                        if not CORRELATION_ID.size <= length <= FRAME_BYTES_MAX:
                            raise LinkBroken(f"{self._name}: a frame of {length} bytes")
                        body = await self._exactly(length)
                        self._answers[decode_correlation_id(body)] = body
            return request.api.decode_response(self._answers.pop(request.correlation), request.version)[1]
        raise AssertionError("the guard raises what it stops")

    @asynccontextmanager
    async def _guard(self, api: Api[Any, Any]) -> AsyncIterator[None]:
        """The connection is broken unless the body ends well, in time."""
        if self.is_broken:
            raise LinkBroken(f"{self._name}: the connection has ended")
        is_done = False
        try:
            with trio.fail_after(ANSWERS_WITHIN_S):
                yield
            is_done = True
        except trio.TooSlowError:
            raise LinkBroken(f"{self._name}: no answer to {api.name} within {ANSWERS_WITHIN_S:g} s") from None
        except BROKEN as error:
            raise LinkBroken(f"{self._name}: {api.name}: {str(error) or type(error).__name__}") from None
        finally:
            self.is_broken |= not is_done

    async def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            chunk = await self._stream.receive_some(max(65536, count - len(self._received)))
            if not chunk:
                raise LinkBroken(f"{self._name}: the broker closed the connection")
            self._received += chunk
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    async def close(self) -> None:
        """End the connection."""
        self.is_broken = True
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stream)


class ClusterClient:
    """One cluster: its brokers, leaders and coordinators, as they were learned last."""

    def __init__(self, end: LinkEnd) -> None:
        """Use it as an asynchronous context manager, which closes its connections."""
        self.end = end
        self.view: MetadataResponse = MetadataResponse(brokers=(), topics=())
        self._addresses: dict[int, Address] = {}
        self._leaders: dict[Partition, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, trio.Lock] = {}

    async def __aenter__(self) -> "ClusterClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers."""
        return tuple(sorted(self._addresses))

    async def refresh(self) -> MetadataResponse:
        """Ask any broker for all topics and leaders. Raises `LinkBroken` if none answers."""
        reasons: list[str] = []
        for address in dict.fromkeys((*self._addresses.values(), *self.end.addresses)):
            try:
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                answer = await (await self._connect(address)).ask(METADATA, METADATA_VERSION, request)
            except LinkBroken as error:
                reasons.append(str(error))
                continue
            assert isinstance(answer, MetadataResponse)
            self.view = answer
            self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
            self._leaders = {
                (topic.name or "", each.partition_index): each.leader_id
                for topic in answer.topics
                for each in topic.partitions
            }
            return answer
        raise LinkBroken("; ".join(reasons) or "no address")

    def partition_counts(self) -> dict[str, int]:
        """Returns the number of partitions of each topic that was there at the last refresh."""
        return {
            topic.name or "": len(topic.partitions)
            for topic in self.view.topics
            if topic.error_code == KafkaErrorCode.NONE and topic.partitions
        }

    def by_leader(self, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
        """Returns partitions by their leaders. Raises `LinkBroken` if one has none."""
        found: dict[int, list[Partition]] = {}
        for partition in partitions:
            leader = self._leaders.get(partition, -1)
            if leader not in self._addresses:
                raise LinkBroken(f"{partition[0]}-{partition[1]} has no leader")
            found.setdefault(leader, []).append(partition)
        return found

    async def ask(self, broker: int, api: Api[Any, Any], version: int, body: Any) -> Any:
        """Returns a broker's response. Raises `LinkBroken` and `ClusterRefused`."""
        return await (await self.connect(broker)).ask(api, version, body)

    async def connect(self, broker: int) -> Connection:
        """Returns the connection to a broker. Raises `LinkBroken` and `ClusterRefused`."""
        if broker not in self._addresses:
            raise LinkBroken(f"broker {broker} is not there")
        return await self._connect(self._addresses[broker])

    async def ask_any(self, api: Api[Any, Any], version: int, body: Any) -> Any:
        """Returns the response of the controller, or of any other broker that answers. Raises as `ask`."""
        failure = LinkBroken("no broker is known")
        for broker in sorted(self._addresses, key=lambda each: each != self.view.controller_id):
            try:
                return await self.ask(broker, api, version, body)
            except LinkBroken as error:
                failure = error
        raise failure

    async def ask_coordinator(self, kind: int, name: str, api: Api[Any, Any], version: int, body: Any) -> Any:
        """Returns the response of the coordinator of a group or a transactional id. Raises as `ask`."""
        broker = self._coordinators.get((kind, name))
        if broker is None:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(name,))
            answer: FindCoordinatorResponse = await self.ask_any(FIND_COORDINATOR, 4, request)
            (found,) = answer.coordinators
            check(found.error_code, f"the coordinator of {name}")
            broker = self._coordinators[kind, name] = found.node_id
            self._addresses.setdefault(broker, (found.host, found.port))
        return await self.ask(broker, api, version, body)

    def forget(self) -> None:
        """Forget the coordinators, which may have moved."""
        self._coordinators.clear()

    async def _connect(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, trio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.is_broken:
                if connection is not None:
                    await connection.close()
                connection = self._connections[address] = await Connection.open(address, self.end)
            return connection
