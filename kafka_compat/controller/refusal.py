"""Refuses a part of a command with a Kafka error code and a text for people."""

import attrs

from kafka_compat.protocol.error_codes import KafkaErrorCode


@attrs.define
class Refused(Exception):
    """This part of a command has no effect; the machine puts code and message into the result."""

    code: KafkaErrorCode
    message: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
