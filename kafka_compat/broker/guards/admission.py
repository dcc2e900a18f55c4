"""A guard's decision about a request, and helpers to make one."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs

from kafka_compat.acls import ResourceType
from kafka_compat.broker.access import Access
from kafka_compat.protocol.authorized import NOT_ASKED, AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve

Item = TypeVar("Item")
TOPIC_FAILED = KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = KafkaErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_FAILED = KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@attrs.frozen
class Admitted:
    """The handler serves `request`, and `complete` makes the whole answer of its own."""

    request: Any
    complete: Callable[[Any], Any] | None = None


@attrs.frozen
class Denied:
    """The handler is not asked."""

    response: Any
    closes: bool = False
    """True for a request without an answer: its connection is closed."""


Admission = Admitted | Denied
Guard = Callable[[Access, int, Any], Admission]
"""Takes the caller's rights, the version of the request, and the request."""


def split(
    access: Access,
    operation: AclOperation,
    kind: ResourceType,
    items: Iterable[Item],
    name: Callable[[Item], str | None],
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Returns the items that the caller is authorized for, and the others. An item without a name is let through."""
    allowed: list[Item] = []
    denied: list[Item] = []
    for item in items:
        named = name(item)
        (allowed if named is None or access.may(operation, kind, named) else denied).append(item)
    return tuple(allowed), tuple(denied)


def admit_some(
    request: Any,
    field: str,
    split_items: tuple[tuple[Any, ...], tuple[Any, ...]],
    merge: Callable[[Any], Any],
    nothing: Any,
) -> Admission:
    """Returns the admission of a request of whose `field` a part was denied.

    `merge` adds that part to a response; `nothing` is the response to a request for nothing.
    """
    allowed, denied = split_items
    if not denied:
        return Admitted(request)
    if not allowed:
        return Denied(merge(nothing))
    return Admitted(evolve(request, **{field: allowed}), merge)


def with_operations(access: Access, kind: ResourceType, name: str | None, told: int) -> int:
    """Returns the operations that the caller may do, of those that a handler `told` without regard to ACLs."""
    return told if told == NOT_ASKED or name is None else told & access.operations(kind, name)


def appending(field: str, added: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Returns a function that appends to a tuple of a response."""
    return lambda response: evolve(response, **{field: (*getattr(response, field), *added)})
