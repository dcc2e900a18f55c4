"""Sends the markers of decided transactions to the leaders of their partitions, until each is committed.

A partition that has no leader, or whose leader does not answer, is asked again after a pause. One that no longer exists
needs no marker. To each broker one request is under way at a time, with all markers that wait for it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.broker.marker_writer import MarkerOrder, MarkerWriter, Outcomes
from kafka_compat.broker.peers import Peer, PeerFailed
from kafka_compat.markers import Marker
from kafka_compat.model import NO_LEADER, TopicPartition
from kafka_compat.protocol.apis.txn_markers import (
    WRITE_TXN_MARKERS,
    TxnMarker,
    TxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode, known_error
from kafka_compat.transactions.effects import SendMarkers

RETRY_S = 0.05
CALL_TIMEOUT_S = 10.0
VERSION = 2
NEVER = float("inf")
_FENCED = (KafkaErrorCode.INVALID_PRODUCER_EPOCH, KafkaErrorCode.TRANSACTION_COORDINATOR_FENCED)


@attrs.define(eq=False)
class _Sending:
    """The markers of one transaction."""

    owner: object
    marker: Marker
    version: int
    done: Callable[[KafkaErrorCode], None]
    left: set[TopicPartition]
    under_way: set[TopicPartition] = attrs.field(factory=set)
    not_before: float = 0.0


class MarkerSender:
    """The markers of all coordinators of one broker. `pump` is to be called once a round."""

    def __init__(self, context: Context, writer: MarkerWriter, peers: Mapping[int, Peer]) -> None:
        self._context = context
        self._writer = writer
        self._peers = peers
        self._sendings: dict[_Sending, None] = {}
        self._busy: set[int] = set()
        """The brokers with a request under way."""
        self.deadline = NEVER
        """The time at which `pump` is due."""
        self.resent = 0
        """Markers that were sent again."""

    def send(
        self, owner: object, order: SendMarkers, coordinator_epoch: int, done: Callable[[KafkaErrorCode], None]
    ) -> None:
        """Send the markers of a transaction; `done` is called once, unless the owner cancels.

        It gets NONE when all are committed, or the error of a leader that has seen a newer epoch.
        """
        marker = Marker(order.producer_id, order.producer_epoch, order.commits, coordinator_epoch)
        self._sendings[_Sending(owner, marker, order.version, done, set(order.partitions))] = None
        self.deadline = self._context.clock()

    def cancel(self, owner: object) -> None:
        """Send no more for this coordinator."""
        for sending in [each for each in self._sendings if each.owner is owner]:
            del self._sendings[sending]

    def pump(self, now: float) -> None:
        """Send what waits to the brokers that are not busy."""
        if self.deadline > now:
            return
        self.deadline = NEVER
        by_leader: dict[int, list[tuple[_Sending, list[TopicPartition]]]] = {}
        for sending in tuple(self._sendings):
            if sending.not_before > now:
                self.deadline = min(self.deadline, sending.not_before)
                continue
            for leader, partitions in self._leaders_of(sending).items():
                by_leader.setdefault(leader, []).append((sending, partitions))
        for leader, parts in by_leader.items():
            if leader not in self._busy:
                self._send_to(leader, parts)

    def _leaders_of(self, sending: _Sending) -> dict[int, list[TopicPartition]]:
        """Returns the partitions that wait by their leaders; those that are gone are done."""
        found: dict[int, list[TopicPartition]] = {}
        for partition in sorted(sending.left - sending.under_way):
            state = self._context.image.partition(partition)
            if state is None:
                sending.left.discard(partition)
            elif state.leader == NO_LEADER or not (
                state.leader == self._context.broker_id or state.leader in self._peers
            ):
                self._pause(sending)
            else:
                found.setdefault(state.leader, []).append(partition)
        self._end(sending)
        return found

    def _pause(self, sending: _Sending) -> None:
        sending.not_before = self._context.clock() + RETRY_S
        self.deadline = min(self.deadline, sending.not_before)

    def _end(self, sending: _Sending, error: KafkaErrorCode = KafkaErrorCode.NONE) -> None:
        if sending in self._sendings and (error is not KafkaErrorCode.NONE or not sending.left):
            del self._sendings[sending]
            sending.done(error)

    def _send_to(self, leader: int, parts: list[tuple[_Sending, list[TopicPartition]]]) -> None:
        self._busy.add(leader)
        for sending, partitions in parts:
            sending.under_way.update(partitions)
        if leader == self._context.broker_id:
            orders = [MarkerOrder(sending.marker, sending.version, partitions) for sending, partitions in parts]
            self._writer.write(orders, partial(self._on_outcomes, leader, parts))
            return
        request = WriteTxnMarkersRequest(markers=tuple(_encode(*each) for each in parts))
        self._peers[leader].call(
            WRITE_TXN_MARKERS, VERSION, request, partial(self._on_response, leader, parts), timeout_s=CALL_TIMEOUT_S
        )

    def _on_response(
        self,
        leader: int,
        parts: list[tuple[_Sending, list[TopicPartition]]],
        response: WriteTxnMarkersResponse | PeerFailed | Any,
    ) -> None:
        outcomes: list[Outcomes] = [{} for _ in parts]
        if isinstance(response, WriteTxnMarkersResponse):
            for outcome, marker in zip(outcomes, response.markers, strict=False):
                for topic in marker.topics:
                    for each in topic.partitions:
                        partition = TopicPartition(topic.name, each.partition_index)
                        outcome[partition] = known_error(each.error_code)
        self._on_outcomes(leader, parts, outcomes)

    def _on_outcomes(
        self, leader: int, parts: list[tuple[_Sending, list[TopicPartition]]], outcomes: list[Outcomes]
    ) -> None:
        """A partition without an outcome, or with another error, is asked again."""
        self._busy.discard(leader)
        for (sending, partitions), found in zip(parts, outcomes, strict=True):
            refused = KafkaErrorCode.NONE
            for partition in partitions:
                sending.under_way.discard(partition)
                error = found.get(partition, KafkaErrorCode.NETWORK_EXCEPTION)
                if error is KafkaErrorCode.NONE:
                    sending.left.discard(partition)
                elif error in _FENCED:
                    refused = error
                else:
                    self.resent += 1
                    self._pause(sending)
            self._end(sending, refused)
        if self._sendings:  # others may have waited for this broker
            self.deadline = min(self.deadline, self._context.clock())


def _encode(sending: _Sending, partitions: list[TopicPartition]) -> TxnMarker:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return TxnMarker(
        producer_id=sending.marker.producer_id,
        producer_epoch=sending.marker.producer_epoch,
        transaction_result=sending.marker.commits,
        topics=tuple(TxnMarkerTopic(name=name, partition_indexes=tuple(each)) for name, each in topics.items()),
        coordinator_epoch=sending.marker.coordinator_epoch,
        transaction_version=sending.version,
    )
