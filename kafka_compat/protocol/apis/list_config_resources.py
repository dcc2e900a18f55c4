"""ListConfigResources (74): the names of what has settings (KIP-1142). Version 0 lists clients' metrics (KIP-714)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT8, Message, array, int8, int16, int32, string

CLIENT_METRICS = 16


class ListConfigResourcesRequest(Message):
    """Asks for kinds of resources; none stands for all."""

    resource_types: tuple[int, ...] = array(INT8, "1+", default=())


class ConfigResource(Message):
    """One resource."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=CLIENT_METRICS)


class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: tuple[ConfigResource, ...] = array(ConfigResource, default=())


LIST_CONFIG_RESOURCES = Api.of(
    74, "ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse, versions="0-1", flexible="0+"
)
