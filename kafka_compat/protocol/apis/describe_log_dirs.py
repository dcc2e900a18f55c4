"""DescribeLogDirs (35): the directories of a broker's logs and the size of each log."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, int64, string


class DescribeLogDirsRequestTopic(Message):
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(INT32)


class DescribeLogDirsRequest(Message):
    """Asks about logs; null topics mean all."""

    topics: tuple[DescribeLogDirsRequestTopic, ...] | None = array(DescribeLogDirsRequestTopic, nullable="0+")


class DescribeLogDirsPartition(Message):
    """The size of a log in bytes, and how many records it lacks."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Message):
    """The logs of one topic."""

    name: str = string()
    partitions: tuple[DescribeLogDirsPartition, ...] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Message):
    """A directory, its logs, and the bytes of its file system (-1: not known)."""

    error_code: int = int16()
    log_dir: str = string()
    topics: tuple[DescribeLogDirsTopic, ...] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+", default=False)


class DescribeLogDirsResponse(Message):
    """The directories of this broker."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("3+", default=0)
    results: tuple[DescribeLogDirsResult, ...] = array(DescribeLogDirsResult)


DESCRIBE_LOG_DIRS = Api.of(
    35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse, versions="1-5", flexible="2+"
)
