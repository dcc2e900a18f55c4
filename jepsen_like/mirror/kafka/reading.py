"""Reads of a cluster for the mirror: ends of partitions, whole topics, records to copy, and groups' offsets."""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import trio

from jepsen_like.mirror.ends import ClusterRefused, LinkBroken
from jepsen_like.mirror.kafka.batches import JOINED_BYTES_MAX, Fetched, copy_batches
from jepsen_like.mirror.kafka.client import GROUP, ClusterClient, check
from jepsen_like.mirror.kept import LINKS_TOPIC, KeptLink, Partition, decode_links, is_status
from jepsen_like.mirror.link import LinkStatus
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS, ListGroupsRequest, ListGroupsResponse
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse
from kafka_compat.protocol.batch_header import InvalidBatch
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import read_records

END: Final = -1
START: Final = -2
FETCH_VERSION: Final = 11
FETCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20
READ_COMMITTED: Final = 1
READS_WITHIN_S: Final = 30.0
LOOK_EVERY_S: Final = 0.05


@attrs.frozen
class Ends:
    """The reach of a partition."""

    start: int
    stable: int
    """Before the first open transaction."""
    end: int


@attrs.frozen
class PartitionRead:
    """The answer of a leader about one partition: what to copy, and the partition's end."""

    partition: Partition
    fetched: Fetched
    stable: int
    end: int
    start: int
    is_out_of_range: bool = False


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Returns the numbers of partitions by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


async def list_offsets(
    client: ClusterClient, partitions: Iterable[Partition], at: int, isolation: int = 0
) -> dict[Partition, int]:
    """Returns the start or the end of each partition. Raises `LinkBroken` if a leader does not give it."""
    found: dict[Partition, int] = {}
    for leader, mine in client.by_leader(partitions).items():
        topics = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(ListOffsetsPartition(partition_index=number, timestamp=at) for number in numbers),
            )
            for topic, numbers in by_topic(mine).items()
        )
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        answer: ListOffsetsResponse = await client.ask(leader, LIST_OFFSETS, 6, request)
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"the end of {topic.name}-{each.partition_index}")
                found[topic.name, each.partition_index] = each.offset
    return found


async def read_ends(client: ClusterClient, partitions: Iterable[Partition]) -> dict[Partition, Ends]:
    """Returns the reach of each partition. Raises `LinkBroken`."""
    asked = tuple(partitions)
    starts = await list_offsets(client, asked, START)
    # The stable end first: what is decided in between is then seen as undecided, never the other way around.
    stable = await list_offsets(client, asked, END, READ_COMMITTED)
    ends = await list_offsets(client, asked, END)
    return {at: Ends(starts[at], stable[at], ends[at]) for at in asked}


async def fetch(
    client: ClusterClient,
    leader: int,
    wanted: Mapping[Partition, int],
    wait_ms: int,
    limits: Mapping[str, int] | None = None,
) -> list[PartitionRead]:
    """Returns what a leader has from these offsets on, committed. Raises `LinkBroken` and `ClusterRefused`.

    `limits` are the largest batches that topics take.
    """
    topics = tuple(
        FetchTopic(
            topic=topic,
            partitions=tuple(
                FetchPartition(
                    partition=number, fetch_offset=wanted[topic, number], partition_max_bytes=PARTITION_BYTES
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(wanted).items()
    )
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED, topics=topics
    )
    answer: FetchResponse = await client.ask(leader, FETCH, FETCH_VERSION, request)
    check(answer.error_code, "a fetch")
    return [
        _read_partition(each, (topic.topic, each.partition_index), wanted, (limits or {}).get(topic.topic))
        for topic in answer.responses
        for each in topic.partitions
    ]


def _read_partition(
    answer: FetchPartitionResponse, at: Partition, wanted: Mapping[Partition, int], limit: int | None
) -> PartitionRead:
    position, start = wanted[at], answer.log_start_offset
    stable, end = answer.last_stable_offset, answer.high_watermark
    if answer.error_code == KafkaErrorCode.OFFSET_OUT_OF_RANGE:
        return PartitionRead(at, Fetched((), position), stable, end, start, is_out_of_range=True)
    check(answer.error_code, f"a fetch of {at[0]}-{at[1]}")
    records = answer.records
    assert not isinstance(records, tuple), "an answer that was received is one piece"
    try:
        joined_max = JOINED_BYTES_MAX if limit is None else min(limit, JOINED_BYTES_MAX)
        fetched = copy_batches(records or b"", answer.aborted_transactions or (), position, joined_max)
    except InvalidBatch as error:
        raise ClusterRefused(f"{at[0]}-{at[1]} at offset {position} cannot be read: {error}") from None
    return PartitionRead(at, fetched, stable, end, start)


async def read_topic(
    client: ClusterClient, partition: Partition, *, waits: bool = True
) -> list[tuple[bytes | None, bytes | None]]:
    """Returns all committed records of a partition up to its end as it is now, once no transaction is open below it.

    Without `waits` it returns those below the first open transaction. Raises `LinkBroken`, also if one stays open too
    long.
    """
    try:
        with trio.fail_after(READS_WITHIN_S):
            end = (await list_offsets(client, [partition], END, 0 if waits else READ_COMMITTED))[partition]
            while (await list_offsets(client, [partition], END, READ_COMMITTED))[partition] < end:  # noqa: ASYNC110
                await trio.sleep(LOOK_EVERY_S)
            found: list[tuple[bytes | None, bytes | None]] = []
            position = (await list_offsets(client, [partition], START))[partition]
            (leader,) = client.by_leader([partition])
            while position < end:
                (read,) = await fetch(client, leader, {partition: position}, 100)
                for batch in read.fetched.batches:
                    found += [(each.key, each.value) for each in read_records(batch.encode((-1, -1), -1))]
                position = read.start if read.is_out_of_range else read.fetched.next_offset
            return found
    except trio.TooSlowError:
        raise LinkBroken(f"{partition[0]} cannot be read to its end within {READS_WITHIN_S:g} s") from None


async def count_records(client: ClusterClient, partition: Partition, position: int, end: int) -> int:
    """Returns the number of committed records from `position` to `end`. Raises `LinkBroken`."""
    count = 0
    (leader,) = client.by_leader([partition])
    while position < end:
        (read,) = await fetch(client, leader, {partition: position}, 100)
        if read.is_out_of_range or (not read.fetched.batches and read.fetched.next_offset == position):
            if read.stable <= position < read.end:
                raise LinkBroken(f"{partition[0]}-{partition[1]} has an open transaction at offset {position}")
            break
        count += sum(batch.count for batch in read.fetched.batches)
        position = read.fetched.next_offset
    return count


async def read_links(client: ClusterClient, *, waits: bool = True) -> dict[str, KeptLink]:
    """Returns the links that a cluster is the target of. Without `waits` they may be older. Raises `LinkBroken`."""
    await client.refresh()
    if LINKS_TOPIC not in client.partition_counts():
        return {}
    return dict(decode_links(await read_topic(client, (LINKS_TOPIC, 0), waits=waits)))


async def read_statuses(client: ClusterClient, link: str, since: int | None) -> tuple[int, LinkStatus | None]:
    """Returns the newest status of a link that was written from an offset on, and the offset from which to go on.

    Without an offset it begins at the end. Raises `LinkBroken`.
    """
    partition = (LINKS_TOPIC, 0)
    if since is None:
        return (await list_offsets(client, [partition], END, READ_COMMITTED))[partition], None
    (leader,) = client.by_leader([partition])
    (read,) = await fetch(client, leader, {partition: since}, 0)
    records = [
        (each.key, each.value)
        for batch in read.fetched.batches
        for each in read_records(batch.encode((-1, -1), -1))
        if is_status(each.key)
    ]
    kept = decode_links(records).get(link, KeptLink())
    return read.start if read.is_out_of_range else read.fetched.next_offset, kept.status


async def list_groups(client: ClusterClient) -> dict[str, str]:
    """Returns the state of each group. Raises `LinkBroken`."""
    found: dict[str, str] = {}
    for broker in client.brokers:
        answer: ListGroupsResponse = await client.ask(broker, LIST_GROUPS, 4, ListGroupsRequest())
        check(answer.error_code, "the list of groups")
        found.update((each.group_id, each.group_state) for each in answer.groups)
    return found


async def committed_offsets(client: ClusterClient, group: str) -> dict[Partition, int]:
    """Returns the committed offsets of a group. Raises `LinkBroken`."""
    request = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)
    answer: OffsetFetchResponse = await client.ask_coordinator(GROUP, group, OFFSET_FETCH, 7, request)
    check(answer.error_code, f"the offsets of {group}")
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == KafkaErrorCode.NONE and each.committed_offset >= 0
    }
