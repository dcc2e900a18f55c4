"""The final logs of all partitions, once all replicas are in sync and end alike: what a check compares."""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from jepsen_like.systems.kafka.batch_values import whole_batches
from jepsen_like.systems.kafka.control import START, KafkaControl
from jepsen_like.systems.kafka.wire import NoAnswer
from jepsen_like.testing.faulty import WaitedTooLong
from jepsen_like.testing.kafka.ledger import ReplicaRecords
from kafka_compat.model import NO_LEADER, TopicPartition

POLL_S: Final = 0.01

Agreed = Mapping[TopicPartition, tuple[int, tuple[int, ...]]]
"""By partition its end and its replicas."""
Logs = dict[TopicPartition, dict[int, ReplicaRecords]]


async def agreed_logs(control: KafkaControl, brokers: Collection[int], *, within_s: float) -> Logs:
    """Returns the logs of every replica. Raises `WaitedTooLong` if they do not agree in time."""
    why = "no broker answers"
    with trio.move_on_after(within_s):
        while True:
            try:
                found = await _agree(control, brokers)
                if not isinstance(found, str):
                    return {
                        name: {node: await read_replica(control, node, name, end) for node in replicas}
                        for name, (end, replicas) in found.items()
                    }
                why = found
            except NoAnswer as error:
                why = str(error)
            await trio.sleep(POLL_S)
    raise WaitedTooLong(f"the replicas do not agree {within_s:g} s after everything was healed: {why}")


async def _agree(control: KafkaControl, brokers: Collection[int]) -> Agreed | str:
    """Returns the end of every partition and its replicas, or why they do not agree yet."""
    view, agreed = await control.view(), {}
    if view.brokers != set(brokers):
        return f"only brokers {sorted(view.brokers)} of {list(brokers)} are registered and unfenced"
    for name, state in view.partitions.items():
        if state.leader_id == NO_LEADER:
            return f"{name} has no leader"
        if set(state.isr_nodes) != set(state.replica_nodes):
            return f"of {name}, on brokers {sorted(state.replica_nodes)}, only {sorted(state.isr_nodes)} are in sync"
        ends = {node: (await control.ends(node, [name]) or {}).get(name) for node in state.replica_nodes}
        end = ends[state.leader_id]
        if end is None or set(ends.values()) != {end}:
            return f"{name} ends at {ends}, by broker"
        committed = (await control.read_own(state.leader_id, name, end)).high_watermark
        if committed != end:
            return f"{name} ends at {end} and is committed to {committed}"
        agreed[name] = end, tuple(state.replica_nodes)
    return agreed


async def read_replica(control: KafkaControl, node: int, name: TopicPartition, end: int) -> ReplicaRecords:
    """Returns what a broker's own copy of a partition holds up to `end`. Raises `NoAnswer` if it does not show that."""
    starts = await control.ends(node, [name], START)
    if starts is None:
        raise NoAnswer(f"broker {node} does not tell where its {name} begins")
    offset = starts[name]
    log = ReplicaRecords(offset)
    while offset < end:
        read = (await control.read_own(node, name, offset)).records or b""
        data = b"".join(read) if isinstance(read, tuple) else bytes(read)
        before = offset
        for position, header in whole_batches(data):
            log.batches[header.base_offset] = data[position : position + header.size]
            offset = max(offset, header.end_offset)
        if offset == before:
            raise NoAnswer(f"broker {node} has {name} up to {end} and shows {offset}")
    return log
