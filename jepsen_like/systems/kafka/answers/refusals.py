"""Error answers for any API: built from its table, with the topics, partitions and keys of the request in them.

Every field of an answer that holds an error code gets the code: of the answer itself, and of each part that answers a
part of the request. Of the rest only identities are copied from the request; unknown positions are -1, as in Kafka.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka_compat.protocol.api import Api, ApiRequest
from kafka_compat.protocol.apis.fetch import FETCH
from kafka_compat.protocol.apis.metadata import METADATA
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import INT32, INT64, Kind, rows
from raft.net.decoder import Buffer

ANSWERED_BY_EDIT: Final = frozenset({METADATA.key})
"""A client that gets no brokers is lost: the broker answers these, and the error is put into its answer."""
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": ("topics",),
    "partitions": ("partitions", "partition_indexes"),
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "groups": ("groups", "group_ids"),
    "coordinators": ("coordinator_keys",),
    "results": (
        "feature_updates",
        "creations",
        "resources",
        "topics",
        "groups_names",
        "upsertions",
        "deletions",
        "users",
    ),
    "filter_results": ("filters",),
    "markers": ("markers",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_partition": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "transaction_states": ("transactional_ids",),
    "entries": ("entries",),
    "entity": ("entity",),
}
"""By array of an answer: the arrays of a request whose elements it answers, one by one."""
UNANSWERED: Final = frozenset({"DescribeLogDirs", "ListPartitionReassignments", "ListGroups", "ListTransactions"})
"""APIs whose parts are the broker's to choose: their error is that of the whole."""
IDENTITIES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_id",
        "index",
        "partition",
        "partition_index",
        "group_id",
        "member_id",
        "session_id",
        "key",
        "resource_type",
        "resource_name",
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "entity_type",
        "entity_name",
        "feature",
    }
)
KEYS_OF_PARTS: Final = ("partition_index", "partition_id", "key", "name", "group_id", "transactional_id", "user")
"""The fields of an answer that name an element of a request, if it is a number or text."""
NOT_OF_THE_REQUEST: Final = "topic_config_error_code"


class NoErrorThere(ValueError):
    """The answer of this API has no error code in this version."""


def error_answer(api: Api[Any, Any], request: ApiRequest[Any], code: KafkaErrorCode) -> list[Buffer]:
    """Returns the whole frame of an answer with this error. Raises `NoErrorThere`."""
    version, coded = request.header.api_version, [0]
    values = _values(api, api.response, request.body, version, int(code), coded)
    if api is FETCH and values.get("responses") and not code.name.startswith("FETCH_SESSION"):
        values["error_code"] = 0  # that of the whole is the session's
    if not coded[0]:
        raise NoErrorThere(f"{api.name} has no error code in version {version} for this request")
    return api.encode_response(version, request.header.correlation_id, api.response(**values))


def _values(api: Api[Any, Any], cls: Any, asked: Any, version: int, code: int, coded: list[int]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for row in rows(cls):
        name, field = row.name, row.field
        if version not in field.versions:
            continue
        if name.endswith("error_code") and name != NOT_OF_THE_REQUEST:
            values[name] = code
            coded[0] += 1
        elif field.is_array and not isinstance(field.of, Kind):
            parts = () if api.name in UNANSWERED else _parts(name, asked)
            values[name] = tuple(_element(api, field.of, part, version, code, coded) for part in parts)
        elif not field.is_array and name in IDENTITIES and (source := _source(name, asked)):
            values[name] = getattr(asked, source)
        elif not field.is_array and (field.of is INT64 or (field.of is INT32 and name.endswith(("_id", "port")))):
            values[name] = -1
    return values


def _source(name: str, asked: Any) -> str | None:
    """Returns the field of a request that has this identity."""
    return next((each for each in (name, name.removesuffix("_index")) if hasattr(asked, each)), None)


def _parts(name: str, asked: Any) -> tuple[Any, ...]:
    found = [getattr(asked, source, None) or () for source in PARTS.get(name, ())]
    return tuple(part for parts in found for part in parts)


def _element(api: Api[Any, Any], cls: Any, part: Any, version: int, code: int, coded: list[int]) -> Any:
    values = _values(api, cls, part, version, code, coded)
    names = {row.name for row in rows(cls)}
    if isinstance(part, int | str):
        values[next(name for name in KEYS_OF_PARTS if name in names)] = part
    elif "user" in names:
        values["user"] = part.name
    return cls(**values)
