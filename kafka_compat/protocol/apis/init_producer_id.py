"""InitProducerId (22): a producer id and epoch, for idempotent and transactional producers."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message):
    """Asks for a producer id. A null transactional id means that the producer is only idempotent.

    From version 3 on it may state the id and epoch that the producer has (KIP-360). From version 6 on it may ask for
    two-phase commit (KIP-939).
    """

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)


class InitProducerIdResponse(Message):
    """The producer id and its epoch; -1 for the transaction that was kept, as none is."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


INIT_PRODUCER_ID = Api.of(
    22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse, versions="0-6", flexible="2+"
)
