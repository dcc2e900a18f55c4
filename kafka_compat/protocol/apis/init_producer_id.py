"""InitProducerId (22): a producer id and epoch, for idempotent and transactional producers."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, int16, int32, int64, string


class InitProducerIdRequest(Message):
    """Asks for a producer id. A null transactional id means that the producer is only idempotent."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Message):
    """The producer id and its epoch."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()


INIT_PRODUCER_ID = Api.of(
    22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse, versions="0-5", flexible="2+"
)
