"""DescribeLogDirs (35): the directories of a broker's logs and the size of each log."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, array, boolean, int16, int32, int64, message, string


@message
class DescribeLogDirsRequestTopic:
    """The partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(INT32)


@message
class DescribeLogDirsRequest:
    """Asks about logs; null topics mean all."""

    topics: tuple[DescribeLogDirsRequestTopic, ...] | None = array(DescribeLogDirsRequestTopic, nullable="0+")


@message
class DescribeLogDirsPartition:
    """The size of a log in bytes, and how many records it lacks."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@message
class DescribeLogDirsTopic:
    """The logs of one topic."""

    name: str = string()
    partitions: tuple[DescribeLogDirsPartition, ...] = array(DescribeLogDirsPartition)


@message
class DescribeLogDirsResult:
    """A directory, its logs, and the bytes of its file system (-1: not known)."""

    error_code: int = int16()
    log_dir: str = string()
    topics: tuple[DescribeLogDirsTopic, ...] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+", default=False)


@message
class DescribeLogDirsResponse:
    """The directories of this broker."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("3+", default=0)
    results: tuple[DescribeLogDirsResult, ...] = array(DescribeLogDirsResult)


DESCRIBE_LOG_DIRS = Api.of(
    35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse, versions="1-5", flexible="2+"
)
