"""The messages between the harness and its worker processes, over the pipe of `workload.client_process`.

To a worker: first its `WorkerPlan`, then `["stop"]` (start nothing new), `["final"]` (the last writes or reads, on a
healed cluster) and `["quit"]`; the end of the stream means quit.

From a worker, rows gathered over some milliseconds:
- `["sends", incarnation, rows]`, a row `SentRow`;
- `["reads", rows]`, a row `ReadRow`;
- `["member", incarnation, rows]`: what happened to a member of a group, in order; a row begins with one of the words
  below;
- `["tail", partition, start, end, t_inv, t_ret]`: a final read of a whole partition begins; its reads follow;
- `["note", text]`: an answer that made no sense;
- `["stopped"]`: nothing is under way any more;
- `["final", answered, ends]`: whether all was answered, and the end of each partition that was told.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import attrs

from jepsen_like.history.ops import NONE
from jepsen_like.workload.client_process import ClientPipe

FLUSH_EVERY_NS: Final = 20_000_000
ROWS_MAX: Final = 512
SENDER, READER, MEMBER = "sender", "reader", "member"
"""Roles. The messages of a member have the name of its role."""
SENDS, READS, NOTE, STOPPED, TAIL = "sends", "reads", "note", "stopped", "tail"
POLLED, ASSIGNED, REVOKED, COMMITTED, POSITION, SOUGHT = (
    "polled",
    "assigned",
    "revoked",
    "committed",
    "position",
    "sought",
)
"""The first word of a member's row, and what follows: partition, values, offsets, whether whole, begin, end;
partitions, starts, time; partitions, whether lost, time; partition, offset, code, begin, end; partition, offset, begin,
end; partition, offset, time.
"""


@attrs.frozen(kw_only=True)
class WorkerPlan:
    """The plan of one worker. Of `workers` of its kind it is number `index`, from 0; a `rate` of 0 is closed loop."""

    role: str
    client: Mapping[str, Any]
    """The configuration of its librdkafka client."""
    topic: str
    partitions: int
    seed: int
    index: int = 0
    workers: int = 1
    slots: int = 1
    """The number of messages that may be under way; each is a client of its own to the history."""
    rate: float = 0.0
    record_bytes: int = 100
    group: int = NONE
    """Of a member: the number of its group; `NONE`: it takes all partitions by itself, and commits nothing."""
    reads_whole: bool = False
    """A reader that reads nothing under load, and in the end all that there is."""


class SentRow(NamedTuple):
    """One message: what the delivery report said, or `outcomes.NOT_QUEUED`. Times on the monotonic clock."""

    slot: int
    value: int
    partition: int
    t_inv: int
    t_ret: int
    code: int
    offset: int
    late_us: int
    """Open loop: how much later than due it was sent; -1 in a closed loop."""


class ReadRow(NamedTuple):
    """One read: consecutive values from `offset` on, as one leader epoch wrote them."""

    partition: int
    offset: int
    values: list[int]
    epoch: int
    is_whole: bool
    t_inv: int
    t_ret: int


class WorkerPipe(ClientPipe):
    """A worker's side."""

    def plan(self) -> WorkerPlan:
        """Wait for the plan."""
        return WorkerPlan(**self.fields())
