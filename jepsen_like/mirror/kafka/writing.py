"""The transactions of a link in its target: the transactional id is the link's, so its taker fences the one before."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from jepsen_like.mirror.core import Offsets
from jepsen_like.mirror.ends import open_bare_nursery
from jepsen_like.mirror.kafka.batches import CopiedBatch, copy_batches, next_sequence
from jepsen_like.mirror.kafka.client import GROUP, TRANSACTION, ClusterClient, SentRequest, check
from jepsen_like.mirror.kafka.reading import by_topic
from jepsen_like.mirror.kept import LINKS_TOPIC, KeyAndValue, Partition
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from kafka_compat.protocol.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsTopic,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records

TRANSACTION_TIMEOUT_MS: Final = 20_000
"""The coordinator aborts the transaction of a mirror that died after this time; the next mirror does it at once."""
PRODUCE_TIMEOUT_MS: Final = 10_000
TAKES_WITHIN_S: Final = 20.0
TRY_AGAIN_S: Final = 0.05
IN_FLIGHT_MAX: Final = 5
"""Requests on their way to one leader; with more, a broker could not put the batches of a producer in order."""
AGAIN: Final = {KafkaErrorCode.CONCURRENT_TRANSACTIONS, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
ALL_IN_SYNC: Final = -1
PRODUCE_VERSION: Final = 9
LINKS_PARTITION: Final = (LINKS_TOPIC, 0)


def transactional_id(link: str) -> str:
    """Returns the transactional id of a link in its target."""
    return f"quorumlog-link-{link}"


class LinkWriter:
    """The holder of a link's transactional id. One transaction is open at a time."""

    def __init__(self, client: ClusterClient, link: str, producer: tuple[int, int]) -> None:
        """Use `take`."""
        self._client = client
        self._name = transactional_id(link)
        self._producer = producer
        self._sequences: dict[Partition, int] = {}
        self._is_open = False

    @classmethod
    async def take(cls, client: ClusterClient, link: str) -> "LinkWriter":
        """Fence the holder before, end its transaction, and return the new holder. Raises `LinkBroken`."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id(link), transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        deadline = trio.current_time() + TAKES_WITHIN_S
        while True:
            answer: InitProducerIdResponse = await client.ask_coordinator(
                TRANSACTION, transactional_id(link), INIT_PRODUCER_ID, 4, request
            )
            if answer.error_code not in AGAIN or trio.current_time() > deadline:
                check(answer.error_code, f"taking the link {link}")
                return cls(client, link, (answer.producer_id, answer.producer_epoch))
            await trio.sleep(TRY_AGAIN_S)

    # ---------------------------------------------------------------- one transaction

    async def append(self, batches: Mapping[Partition, Sequence[CopiedBatch]]) -> dict[Partition, tuple[int, ...]]:
        """Begin a transaction with these batches. Returns the offset of each. Raises the errors of `check`."""
        self._is_open = True
        await self._add_partitions((*batches, LINKS_PARTITION))
        bases: dict[Partition, list[int]] = {at: [] for at in batches}
        async with open_bare_nursery() as nursery:
            for leader, mine in self._client.by_leader(batches).items():
                nursery.start_soon(self._append_at, leader, {at: batches[at] for at in mine}, bases)
        return {at: tuple(those) for at, those in bases.items()}

    async def write_links(self, records: Sequence[KeyAndValue]) -> None:
        """Write records of the links' topic in the open transaction."""
        if records:
            batch = encode_records(records, time.time_ns() // 1_000_000)
            ((leader, _),) = self._client.by_leader([LINKS_PARTITION]).items()
            copied = copy_batches(batch, (), 0).batches
            await self._append_at(leader, {LINKS_PARTITION: copied}, {LINKS_PARTITION: []})

    async def commit(self, offsets: Offsets) -> None:
        """Write the offsets of groups, and commit the transaction. An error other than a refusal leaves it unknown."""
        for group, committed in offsets.items():
            await self._commit_offsets(group, committed)
        await self._end(commits=True)

    async def abort(self) -> None:
        """Abort the transaction, if one is open."""
        if self._is_open:
            await self._end(commits=False)

    async def _end(self, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=commits,
        )
        while True:
            answer: EndTxnResponse = await self._client.ask_coordinator(TRANSACTION, self._name, END_TXN, 3, request)
            if answer.error_code not in AGAIN:
                break
            await trio.sleep(TRY_AGAIN_S)
        check(answer.error_code, "the end of a transaction")
        self._is_open = False

    async def commit_status(self, records: Sequence[KeyAndValue]) -> None:
        """Write records of the links' topic in a transaction of their own."""
        await self.append({})
        await self.write_links(records)
        await self.commit({})

    # ---------------------------------------------------------------- requests

    async def _add_partitions(self, partitions: Sequence[Partition]) -> None:
        topics = tuple(
            AddPartitionsTopic(name=topic, partitions=tuple(numbers)) for topic, numbers in by_topic(partitions).items()
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=topics,
        )
        deadline = trio.current_time() + TAKES_WITHIN_S
        while True:
            answer: AddPartitionsToTxnResponse = await self._client.ask_coordinator(
                TRANSACTION, self._name, ADD_PARTITIONS_TO_TXN, 3, request
            )
            codes = {
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            } - {KafkaErrorCode.OPERATION_NOT_ATTEMPTED}
            # The end of the transaction before may still be on its way to the partitions.
            if not codes & AGAIN or trio.current_time() > deadline:
                break
            await trio.sleep(TRY_AGAIN_S)
        for code in codes:
            check(code, "adding partitions to a transaction")

    async def _append_at(
        self, leader: int, batches: Mapping[Partition, Sequence[CopiedBatch]], bases: dict[Partition, list[int]]
    ) -> None:
        """Send the batches of each partition in order: a request has one of each, and several are on their way."""
        connection = await self._client.connect(leader)
        under_way: deque[SentRequest] = deque()
        for number in range(max(map(len, batches.values()))):
            turn = {
                at: those[number].encode(self._producer, self._advance(at, those[number].count))
                for at, those in batches.items()
                if number < len(those)
            }
            if len(under_way) == IN_FLIGHT_MAX:
                _note_bases(await connection.receive(under_way.popleft()), bases)
            under_way.append(await connection.send(PRODUCE, PRODUCE_VERSION, self._request_of(turn)))
        while under_way:
            _note_bases(await connection.receive(under_way.popleft()), bases)

    def _advance(self, at: Partition, count: int) -> int:
        """Returns the sequence number of the next record of a partition, and takes `count` of them."""
        sequence = self._sequences.get(at, 0)
        self._sequences[at] = next_sequence(sequence, count)
        return sequence

    def _request_of(self, encoded: Mapping[Partition, bytes]) -> ProduceRequest:
        topics = tuple(
            ProduceTopic(
                name=topic,
                partition_data=tuple(
                    ProducePartition(index=number, records=encoded[topic, number]) for number in numbers
                ),
            )
            for topic, numbers in by_topic(encoded).items()
        )
        return ProduceRequest(
            transactional_id=self._name, acks=ALL_IN_SYNC, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=topics
        )

    async def _commit_offsets(self, group: str, committed: Mapping[Partition, int]) -> None:
        producer_id, producer_epoch = self._producer
        added: AddOffsetsToTxnResponse = await self._client.ask_coordinator(
            TRANSACTION,
            self._name,
            ADD_OFFSETS_TO_TXN,
            3,
            AddOffsetsToTxnRequest(
                transactional_id=self._name, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group
            ),
        )
        check(added.error_code, f"adding the group {group} to a transaction")
        topics = tuple(
            TxnOffsetCommitTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitPartition(
                        partition_index=number, committed_offset=committed[topic, number], committed_metadata=""
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(committed).items()
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=topics,
        )
        answer: TxnOffsetCommitResponse = await self._client.ask_coordinator(
            GROUP, group, TXN_OFFSET_COMMIT, 3, request
        )
        for topic_answer in answer.topics:
            for each in topic_answer.partitions:
                check(each.error_code, f"the offsets of the group {group}")


def _note_bases(answer: ProduceResponse, bases: dict[Partition, list[int]]) -> None:
    for topic in answer.responses:
        for each in topic.partition_responses:
            detail = f": {each.error_message}" if each.error_message else ""
            check(each.error_code, f"appending to {topic.name}-{each.index} of the target{detail}")
            bases[topic.name, each.index].append(each.base_offset)
