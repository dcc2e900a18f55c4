"""All supported APIs, by key: the list for clients, and the way from a request's frame to its message."""

from collections.abc import Mapping
from typing import Any

from kafka_compat.protocol.api import (
    API_VERSIONS_KEY,
    Api,
    ApiRequest,
    build_unsupported,
    decode_request_start,
    skip_tags,
)
from kafka_compat.protocol.apis.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from kafka_compat.protocol.apis.alter_configs import ALTER_CONFIGS
from kafka_compat.protocol.apis.api_versions import API_VERSIONS, ApiVersionRange, ApiVersionsResponse
from kafka_compat.protocol.apis.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from kafka_compat.protocol.apis.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from kafka_compat.protocol.apis.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from kafka_compat.protocol.apis.controller import BROKER_HEARTBEAT, CONTROLLER_COMMAND
from kafka_compat.protocol.apis.create_partitions import CREATE_PARTITIONS
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS
from kafka_compat.protocol.apis.delete_groups import DELETE_GROUPS
from kafka_compat.protocol.apis.delete_records import DELETE_RECORDS
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER
from kafka_compat.protocol.apis.describe_configs import DESCRIBE_CONFIGS
from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS
from kafka_compat.protocol.apis.describe_log_dirs import DESCRIBE_LOG_DIRS
from kafka_compat.protocol.apis.describe_quorum import DESCRIBE_QUORUM
from kafka_compat.protocol.apis.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from kafka_compat.protocol.apis.describe_transactions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS
from kafka_compat.protocol.apis.fetch import FETCH
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT
from kafka_compat.protocol.apis.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID
from kafka_compat.protocol.apis.join_group import JOIN_GROUP
from kafka_compat.protocol.apis.leave_group import LEAVE_GROUP
from kafka_compat.protocol.apis.list_config_resources import LIST_CONFIG_RESOURCES
from kafka_compat.protocol.apis.list_groups import LIST_GROUPS
from kafka_compat.protocol.apis.list_offsets import LIST_OFFSETS
from kafka_compat.protocol.apis.metadata import METADATA
from kafka_compat.protocol.apis.offset_commit import OFFSET_COMMIT
from kafka_compat.protocol.apis.offset_delete import OFFSET_DELETE
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH
from kafka_compat.protocol.apis.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
from kafka_compat.protocol.apis.produce import PRODUCE
from kafka_compat.protocol.apis.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_compat.protocol.apis.scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from kafka_compat.protocol.apis.sync_group import SYNC_GROUP
from kafka_compat.protocol.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
)
from kafka_compat.protocol.apis.txn_markers import WRITE_TXN_MARKERS
from kafka_compat.protocol.apis.unregister_broker import UNREGISTER_BROKER
from kafka_compat.protocol.apis.update_features import UPDATE_FEATURES
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import MalformedMessage, UnsupportedVersion
from raft.net.decoder import Buffer

APIS: Mapping[int, Api[Any, Any]] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        SYNC_GROUP,
        HEARTBEAT,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        LEAVE_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        DELETE_GROUPS,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        CREATE_PARTITIONS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        OFFSET_FOR_LEADER_EPOCH,
        DESCRIBE_ACLS,
        CREATE_ACLS,
        DELETE_ACLS,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        INCREMENTAL_ALTER_CONFIGS,
        DESCRIBE_CLUSTER,
        DESCRIBE_LOG_DIRS,
        ELECT_LEADERS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        DESCRIBE_TOPIC_PARTITIONS,
        OFFSET_DELETE,
        SASL_HANDSHAKE,
        SASL_AUTHENTICATE,
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        ALTER_USER_SCRAM_CREDENTIALS,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        WRITE_TXN_MARKERS,
        TXN_OFFSET_COMMIT,
        DESCRIBE_PRODUCERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        DESCRIBE_CLIENT_QUOTAS,
        ALTER_CLIENT_QUOTAS,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        UNREGISTER_BROKER,
        LIST_CONFIG_RESOURCES,
    )
}

BROKER_APIS: Mapping[int, Api[Any, Any]] = {api.key: api for api in (CONTROLLER_COMMAND, BROKER_HEARTBEAT)}
"""The APIs between brokers: they are served, and not listed to clients."""

SMALL_REQUEST_BYTES = 256 * 1024
LARGE_REQUEST_BYTES = 1024 * 1024
_UNBOUNDED = frozenset(api.key for api in (PRODUCE, JOIN_GROUP, SYNC_GROUP, CONTROLLER_COMMAND))
"""APIs with opaque bytes, which cost nothing to decode; the port's own bound holds."""
_LARGE = frozenset(
    api.key
    for api in (
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        OFFSET_FOR_LEADER_EPOCH,
        DESCRIBE_CONFIGS,
        DESCRIBE_TOPIC_PARTITIONS,
        ADD_PARTITIONS_TO_TXN,
        WRITE_TXN_MARKERS,
        TXN_OFFSET_COMMIT,
        DESCRIBE_PRODUCERS,
    )
)
"""They may name tens of thousands of topics or partitions."""


def require_size(body: Buffer) -> None:
    """Raises `MalformedMessage` for a request that is longer than its API needs, before its content costs time."""
    if len(body) <= SMALL_REQUEST_BYTES:
        return
    key = int.from_bytes(body[:2], "big")
    if key in _UNBOUNDED:
        return
    most = LARGE_REQUEST_BYTES if key in _LARGE else SMALL_REQUEST_BYTES
    if len(body) > most:
        raise MalformedMessage(
            f"a request of {len(body)} bytes is too long: API {key} takes at most {most}; ask in parts"
        )


def decode_request(body: Buffer) -> ApiRequest[Any]:
    """Returns the request in a frame's body; raises `MalformedMessage`, and its subclass `UnsupportedVersion`.

    Records in it are views of `body`, all else is copied.
    """
    buffer = memoryview(body)
    header, position = decode_request_start(buffer)
    api = APIS.get(header.api_key) or BROKER_APIS.get(header.api_key)
    if api is None:
        raise build_unsupported(header, f"API {header.api_key} is not supported")
    if header.api_version not in api.versions:
        raise build_unsupported(header, f"{api.name} is not supported in version {header.api_version}")
    if header.api_version in api.flexible:
        position = skip_tags(buffer, position)
    return ApiRequest(header, api.decode_request_body(buffer, position, header.api_version))


def list_advertised() -> tuple[ApiVersionRange, ...]:
    """Returns the list of ApiVersions: each API with its lowest and highest version, by key."""
    return tuple(
        ApiVersionRange(api_key=api.key, min_version=api.advertised_min, max_version=api.version_max)
        for _, api in sorted(APIS.items())
    )


def encode_unsupported_version(error: UnsupportedVersion) -> list[Buffer] | None:
    """Returns the frame that answers an ApiVersions request in a version that is too high.

    It has version 0, error 35 and the list of supported versions, in one of which the client repeats its request
    (KIP-511). Returns None for any other API, which gets no answer.
    """
    if error.api_key != API_VERSIONS_KEY:
        return None
    response = ApiVersionsResponse(error_code=KafkaErrorCode.UNSUPPORTED_VERSION, api_keys=list_advertised())
    return API_VERSIONS.encode_response(0, error.correlation_id, response)


def table() -> str:
    """Returns the supported APIs and versions as a Markdown table, by key."""
    lines = ["| key | API | versions | flexible from |", "|---|---|---|---|"]
    for key, api in sorted(APIS.items()):
        first, last = api.versions.start, api.version_max
        versions = str(first) if first == last else f"{first}-{last}"
        flexible = str(max(first, api.flexible.start)) if api.flexible.start <= last else "-"
        lines.append(f"| {key} | {api.name} | {versions} | {flexible} |")
    return "\n".join(lines) + "\n"
