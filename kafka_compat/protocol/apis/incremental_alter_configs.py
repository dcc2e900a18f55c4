"""IncrementalAlterConfigs (44): sets, deletes, or adds to and subtracts from settings (KIP-339)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, int8, int16, int32, string


class IncrementalAlterConfig(Message):
    """A change of one setting: operation 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from it."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsResource(Message):
    """The changes for one resource: all of them or none."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[IncrementalAlterConfig, ...] = array(IncrementalAlterConfig)


class IncrementalAlterConfigsRequest(Message):
    """Changes settings, or only checks whether they could be changed."""

    resources: tuple[IncrementalAlterConfigsResource, ...] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


class IncrementalAlterConfigsResult(Message):
    """The outcome for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Message):
    """The outcome for each resource."""

    throttle_time_ms: int = int32(default=0)
    responses: tuple[IncrementalAlterConfigsResult, ...] = array(IncrementalAlterConfigsResult)


INCREMENTAL_ALTER_CONFIGS = Api.of(
    44,
    "IncrementalAlterConfigs",
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    versions="0-1",
    flexible="1+",
)
