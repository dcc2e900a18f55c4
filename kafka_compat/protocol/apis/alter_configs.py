"""AlterConfigs (33): replaces all settings of a resource by those in the request. Older clients know no other way."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.incremental_alter_configs import IncrementalAlterConfigsResult
from kafka_compat.protocol.schema import Message, array, boolean, int8, int32, string


class AlterConfig(Message):
    """One setting; the value is never null."""

    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Message):
    """All settings that the resource has from now on: the others go back to their defaults."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[AlterConfig, ...] = array(AlterConfig)


class AlterConfigsRequest(Message):
    """Replaces settings, or only checks whether they could be replaced."""

    resources: tuple[AlterConfigsResource, ...] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResponse(Message):
    """The outcome for each resource."""

    throttle_time_ms: int = int32(default=0)
    responses: tuple[IncrementalAlterConfigsResult, ...] = array(IncrementalAlterConfigsResult)


ALTER_CONFIGS = Api.of(33, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse, versions="0-2", flexible="2+")
