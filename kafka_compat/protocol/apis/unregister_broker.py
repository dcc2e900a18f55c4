"""UnregisterBroker (64): forget a broker that has gone for good."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message):
    """Names the broker."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Message):
    """The outcome."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


UNREGISTER_BROKER = Api.of(
    64, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse, versions="0", flexible="0+"
)
