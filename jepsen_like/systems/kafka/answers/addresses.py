"""The answers that carry addresses of brokers: read, and written again with the proxy's own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.api_versions import API_VERSIONS
from kafka_compat.protocol.apis.describe_cluster import DESCRIBE_CLUSTER
from kafka_compat.protocol.apis.fetch import FETCH
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR
from kafka_compat.protocol.apis.metadata import METADATA
from kafka_compat.protocol.apis.produce import PRODUCE

Translate = Callable[[str, int], tuple[str, int]]
"""Returns the proxy's address for that of a broker."""
ADDRESSES: Final[Mapping[int, tuple[Api[Any, Any], str, int]]] = {
    api.key: (api, field, since)
    for api, field, since in (
        (METADATA, "brokers", 0),
        (DESCRIBE_CLUSTER, "brokers", 0),
        (FIND_COORDINATOR, "coordinators", 0),
        (PRODUCE, "node_endpoints", 10),
        (FETCH, "node_endpoints", 16),
    )
}
"""By key: the API, the array with addresses, and the first version that has it."""
UNREADABLE: Final = frozenset({76, 78, 79})
"""ShareGroupHeartbeat, ShareFetch and ShareAcknowledge, whose answers may carry addresses and are not known here."""


def carries_addresses(key: int, version: int) -> bool:
    """Returns True if the answer may name brokers."""
    return key in ADDRESSES and version >= ADDRESSES[key][2]


def with_own_addresses(key: int, answer: Any, translate: Translate) -> Any:
    """Returns the answer with the proxy's addresses; the same object if it carries none."""
    field = ADDRESSES[key][1]
    named = getattr(answer, field)
    changed = {} if not named else {field: tuple(_own(each, translate) for each in named)}
    if key == FIND_COORDINATOR.key and answer.port > 0:
        changed |= _own_values(answer, translate)
    return attrs.evolve(answer, **changed) if changed else answer


def _own(each: Any, translate: Translate) -> Any:
    return attrs.evolve(each, **_own_values(each, translate)) if each.host and each.port > 0 else each


def _own_values(each: Any, translate: Translate) -> dict[str, Any]:
    host, port = translate(each.host, each.port)
    return {"host": host, "port": port}


def readable_versions(answer: Any) -> Any:
    """Returns the list without what the proxy cannot read although addresses may be in it: no client goes past it."""
    return attrs.evolve(answer, api_keys=tuple(_readable(answer.api_keys)))


def _readable(listed: Iterable[Any]) -> Iterable[Any]:
    for each in listed:
        if each.api_key in UNREADABLE:
            continue
        api = API_VERSIONS if each.api_key == API_VERSIONS.key else None
        if each.api_key in ADDRESSES:
            api = ADDRESSES[each.api_key][0]
        most = each.max_version if api is None else min(each.max_version, api.version_max)
        if most >= each.min_version:
            yield attrs.evolve(each, max_version=most)
