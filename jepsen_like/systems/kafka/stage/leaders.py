"""A client's search for the leader of one partition: it asks all brokers at once and takes the first answer that is newer than what it knows."""

from collections.abc import Mapping
from typing import Final

import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.wire import NoAnswer, ask
from kafka_compat.model import NO_LEADER
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic

VERSION: Final = 12
ANSWERS_WITHIN_S: Final = 0.5


class LeaderSearch:
    """Keeps the leader until `forget`."""

    def __init__(self, topic: str, partition: int, addresses: Mapping[int, Address]) -> None:
        self._topic = topic
        self._partition = partition
        self._addresses = addresses
        self._known: tuple[int, int] | None = None
        """Epoch and broker."""
        self._epoch = -1
        """The newest epoch in which the leader was found wanting."""

    def forget(self, node: int) -> None:
        """This broker does not serve the partition: look again."""
        if self._known is not None and self._known[1] == node:
            self._epoch, self._known = self._known[0], None

    async def find(self) -> int | None:
        """Returns the leader; None while no broker names one."""
        if self._known is None:
            found: list[tuple[int, int]] = []
            async with trio.open_nursery() as nursery:

                async def look(node: int) -> None:
                    leader = await self._ask(node)
                    if leader is not None:
                        found.append(leader)
                        if leader[0] > self._epoch:
                            nursery.cancel_scope.cancel()

                for node in self._addresses:
                    nursery.start_soon(look, node)
            self._known = max(found, default=None)
        return None if self._known is None else self._known[1]

    async def _ask(self, node: int) -> tuple[int, int] | None:
        wanted = MetadataRequestTopic(name=self._topic)
        request = MetadataRequest(topics=(wanted,), allow_auto_topic_creation=False)
        try:
            answer = await ask(self._addresses[node], METADATA, VERSION, request, within_s=ANSWERS_WITHIN_S)
        except NoAnswer:
            return None
        for topic in answer.topics:
            for state in topic.partitions:
                if state.partition_index == self._partition and state.leader_id != NO_LEADER:
                    return state.leader_epoch, state.leader_id
        return None
