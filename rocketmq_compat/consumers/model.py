"""What the modules of this package have in common: refusals, versions of tables, the topics of a group."""

from typing import Final

import attrs

from rocketmq_compat.remoting.bodies import DataVersion
from rocketmq_compat.remoting.codes import ResponseCode

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"


@attrs.define
class RequestRefused(Exception):
    """A request has no effect: the shell answers with this code, and this text as the remark."""

    code: ResponseCode
    remark: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.remark}"


def next_version(version: DataVersion, time_ms: int) -> DataVersion:
    """Returns the version of a table after a change at this time, in milliseconds of the wall clock."""
    return DataVersion(state_version=version.state_version, timestamp=time_ms, counter=version.counter + 1)


def retry_topic(group: str) -> str:
    """Returns the topic to which messages of a consumer group go that are to be consumed again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Returns the topic to which messages of a consumer group go that were sent back too often."""
    return DEAD_LETTER_PREFIX + group
