"""The plans of the worker processes: each runs one client of librdkafka."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.workload.client_rows import ClientPlan

WORKER: Final = "jepsen_like.systems.kafka.worker"
SENDER, READER, MEMBER = "sender", "reader", "member"
FEEDER, TRANSFORMER, STABLE_READER = "feeder", "transformer", "stable reader"
KEYED_SENDER, SCANNER = "keyed sender", "scanner"
PACED_SENDER: Final = "paced sender"
"""Roles."""


@attrs.frozen(kw_only=True)
class WorkerPlan(ClientPlan):
    """The plan of one worker."""

    client: Mapping[str, Any]
    """The configuration of its librdkafka client."""
    partitions: int
    may_retry: bool
    """True if the client may send a message more than once."""
    reads_whole: bool = False
    """A reader that reads nothing under load, and in the end all that there is."""
    consumer: Mapping[str, Any] = attrs.field(factory=dict)
    """The configuration of a transformer's consumer."""
    transactional_id: int = 0
    input: int = 0
    """The partition that a transformer reads."""
    inputs: int = 0
    """The first so many partitions are inputs, the others outputs."""
    first_number: int = 0
    numbers_step: int = 1
    """Values and transactions are numbered from the one by the other, so that no two clients share a number."""
    order: Sequence[int] = ()
    """The partitions to which a paced sender sends in turn."""
    authority: str | None = None
    """The file by which brokers are known, as PEM; None: the client speaks no TLS."""
    keystore: str | None = None
    """The client's key and certificate in one file."""
