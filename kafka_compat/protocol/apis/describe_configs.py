"""DescribeConfigs (32): the settings of topics and brokers, with their sources."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import STRING, Message, array, boolean, int8, int16, int32, string

GROUP_RESOURCE = 32
"""The kind of resource that a group by KIP-848 is."""


class DescribeConfigsResource(Message):
    """The resource whose settings are requested: type 2 is a topic, 4 a broker. Null keys mean all settings."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: tuple[str, ...] | None = array(STRING, nullable="0+")


class DescribeConfigsRequest(Message):
    """Asks for settings."""

    resources: tuple[DescribeConfigsResource, ...] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribedConfigSynonym(Message):
    """A setting that this one can take its value from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class DescribedConfig(Message):
    """A setting and where its value comes from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: tuple[DescribedConfigSynonym, ...] = array(DescribedConfigSynonym)
    config_type: int = int8("3+", default=0)
    documentation: str | None = string("3+", nullable="0+", default=None)


class DescribeConfigsResult(Message):
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[DescribedConfig, ...] = array(DescribedConfig)


class DescribeConfigsResponse(Message):
    """The settings of each resource."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[DescribeConfigsResult, ...] = array(DescribeConfigsResult)


DESCRIBE_CONFIGS = Api.of(
    32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse, versions="1-4", flexible="4+"
)
