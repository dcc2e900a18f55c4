"""A broker of a raft group copies missing parts of its commit log from another one. Not RocketMQ's."""

from rocketmq_compat.remoting.headers.fields import ExtHeader, Long


class CopyCommitLogRequestHeader(ExtHeader):
    """Asks for the records from the physical offset `offset` on, at most up to `end`: COPY_COMMIT_LOG."""

    offset: Long
    epoch: Long
    """The epoch of the bytes before `offset`; 0 without any."""
    end: Long


class CopyCommitLogResponseHeader(ExtHeader):
    """The body holds records from `offset` on.

    With PULL_OFFSET_MOVED it is empty, and a log with other content begins at `offset`.
    """

    offset: Long
    epoch: Long = 0
    crc: Long = 0
    """CRC-32C of the body."""
