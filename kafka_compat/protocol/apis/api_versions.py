"""ApiVersions (18): which APIs and versions a broker supports: the first request of nearly every client.

Its responses always have header version 0. A request in an unsupported version is answered in version 0 (KIP-511): see
`registry.encode_unsupported_version`.
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message):
    """Asks for the supported APIs; from version 3 with the client's name and version."""

    client_software_name: str = string("3+", default="")
    client_software_version: str = string("3+", default="")


class ApiVersionRange(Message):
    """An API and the versions that are supported, both inclusive."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    """A feature of the cluster and its levels that this broker supports."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Message):
    """A feature of the cluster and its level in force."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message):
    """The supported APIs and features. Features are tagged fields from version 3."""

    error_code: int = int16()
    api_keys: tuple[ApiVersionRange, ...] = array(ApiVersionRange)
    throttle_time_ms: int = int32("1+", default=0)
    supported_features: tuple[SupportedFeatureKey, ...] = array(SupportedFeatureKey, "3+", default=(), tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = array(FinalizedFeatureKey, "3+", default=(), tag=2)
    zk_migration_ready: bool = boolean("3+", default=False, tag=3)


API_VERSIONS = Api.of(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, versions="0-4", flexible="3+")
