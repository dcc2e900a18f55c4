"""DescribeClientQuotas (48) and AlterClientQuotas (49): limits of users and clients (KIP-546)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, float64, int8, int16, int32, string


class QuotaFilter(Message):
    """A part of the entities that are asked for: match 0 is a name, 1 the default, 2 any."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+", default=None)


class DescribeClientQuotasRequest(Message):
    """Asks for the quotas of entities."""

    components: tuple[QuotaFilter, ...] = array(QuotaFilter)
    strict: bool = boolean()


class QuotaEntity(Message):
    """A part of an entity: a kind, and a name or null for the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+", default=None)


class QuotaValue(Message):
    """One limit."""

    key: str = string()
    value: float = float64()


class DescribedQuota(Message):
    """The limits of one entity."""

    entity: tuple[QuotaEntity, ...] = array(QuotaEntity)
    values: tuple[QuotaValue, ...] = array(QuotaValue)


class DescribeClientQuotasResponse(Message):
    """The limits that were found."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entries: tuple[DescribedQuota, ...] | None = array(DescribedQuota, nullable="0+")


class QuotaOperation(Message):
    """Sets a limit, or removes it."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class QuotaAlteration(Message):
    """The changes of one entity."""

    entity: tuple[QuotaEntity, ...] = array(QuotaEntity)
    ops: tuple[QuotaOperation, ...] = array(QuotaOperation)


class AlterClientQuotasRequest(Message):
    """Alters quotas."""

    entries: tuple[QuotaAlteration, ...] = array(QuotaAlteration)
    validate_only: bool = boolean()


class AlteredQuota(Message):
    """The outcome for one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: tuple[QuotaEntity, ...] = array(QuotaEntity)


class AlterClientQuotasResponse(Message):
    """The outcome for each entity."""

    throttle_time_ms: int = int32(default=0)
    entries: tuple[AlteredQuota, ...] = array(AlteredQuota)


DESCRIBE_CLIENT_QUOTAS = Api.of(
    48, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse, versions="0-1", flexible="1+"
)
ALTER_CLIENT_QUOTAS = Api.of(
    49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse, versions="0-1", flexible="1+"
)
