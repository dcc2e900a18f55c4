"""The tables of a broker with a fixed role: a master that has lost its own gets them from its slaves."""

import json
import zlib
from collections.abc import Mapping
from typing import Final

import attrs

from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.tables import (
    BrokerTables,
    Saved,
    group_wrapper,
    offset_snapshot,
    offset_wrapper,
    topic_wrapper,
)
from rocketmq_compat.remoting.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.storage.checkpoints import CheckpointName

TABLES_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of another broker's tables, as JSON."""


def tables_payload(context: Context, delays: Mapping[int, int]) -> bytes:
    """Returns all tables of this broker for a master that has lost its own, compressed."""
    content = [
        json.loads(wrapper.encode())
        for wrapper in (
            topic_wrapper(context.topics),
            group_wrapper(context.groups),
            offset_wrapper(context.offsets.snapshot()),
            DelayOffsetSerializeWrapper(offset_table=dict(delays)),
        )
    ]
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode())


def adopt_tables(context: Context, delays: Mapping[int, int], payload: bytes) -> Mapping[int, int]:
    """Adds the tables of a slave (`tables_payload`) to the context's.

    Returns the joined delay offsets; `delays` are the broker's own. Of topics and groups, this broker's tables take
    precedence if it still has them; lost tables come from the slave. The greater of two offsets counts. Raises
    `BadBody` for malformed tables, and changes nothing.
    """
    try:
        unpacker = zlib.decompressobj()
        topics, groups, offsets, theirs = json.loads(unpacker.decompress(payload, TABLES_BYTES_MAX))
    except (zlib.error, ValueError, RecursionError) as error:
        raise BadBody(f"no tables: {error}", "tables") from None
    found_topics, found_groups = TopicConfigSerializeWrapper.of(topics), SubscriptionGroupWrapper.of(groups)
    snapshot = offset_snapshot(ConsumerOffsetSerializeWrapper.of(offsets))
    found_delays = DelayOffsetSerializeWrapper.of(theirs).offset_table
    now, lost = context.wall_ms(), context.lost_tables
    context.topics.merge(now, found_topics.topic_config_table, theirs_count=CheckpointName.TOPICS in lost)
    context.groups.merge(now, found_groups.subscription_group_table, theirs_count=CheckpointName.GROUPS in lost)
    context.offsets.merge(now, snapshot)
    return {level: max(delays.get(level, 0), found_delays.get(level, 0)) for level in {*delays, *found_delays}}


@attrs.frozen
class TablesOfPair:
    """The tables of a broker with a fixed role, for its copy. See `CopiedTables`."""

    context: Context
    files: BrokerTables
    delays: DelayedMessages

    def payload(self) -> bytes:
        """See `CopiedTables`."""
        return tables_payload(self.context, self.delays.offsets)

    def adopt(self, payload: bytes) -> None:
        """See `CopiedTables`."""
        self.delays.follow(adopt_tables(self.context, self.delays.offsets, payload))

    def save(self, done: Saved) -> None:
        """See `CopiedTables`."""
        self.files.save(done)
