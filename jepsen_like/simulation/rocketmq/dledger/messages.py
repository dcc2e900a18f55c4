"""Messages between simulated brokers of a raft group: messages of raft, and parts of commit logs that are copied."""

from typing import TypeAlias

import attrs

from jepsen_like.simulation.raft.tracing import describe_message
from raft.messages import Message
from rocketmq_compat.broker.copying import CopyAnswer
from rocketmq_compat.remoting.headers.copying import CopyCommitLogRequestHeader


@attrs.frozen
class CopyRequest:
    """Asks for what a commit log lacks; `process` and `number` name it in the answer."""

    process: int
    number: int
    header: CopyCommitLogRequestHeader


@attrs.frozen
class CopyReply:
    """The answer."""

    process: int
    number: int
    answer: CopyAnswer


DledgerMessage: TypeAlias = Message | CopyRequest | CopyReply


def describe_parcel(message: DledgerMessage) -> str:
    """The message in a few words."""
    match message:
        case CopyRequest(header=header):
            return f"copy from {header.offset} of epoch {header.epoch} up to {header.end}?"
        case CopyReply(answer=answer):
            at = "" if answer.header is None else f" at {answer.header.offset} of epoch {answer.header.epoch}"
            return f"copied, code {answer.code}{at}: {len(answer.body)} bytes"
        case _:
            return describe_message(message)
