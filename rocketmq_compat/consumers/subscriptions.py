"""Filters of consumers: the tags that a group wants from a topic (`SubscriptionData`, `FilterAPI`).

A tag expression is `*`, or tags joined by `||`. The broker filters by the hash of a message's tag, which its consume
queue holds, so it may send one whose tag has the same hash; the client compares tags. SQL92 is not offered.
"""

from typing import Final

from log.values import frozen
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.record_layout import java_hash
from rocketmq_compat.remoting.codes import ResponseCode

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"
TAGS_MAX: Final = 10_000
"""The most tags of one expression: more than any client has, and a bound of the broker's memory."""


@frozen
class TagSubscription:
    """The subscription of one group to one topic."""

    topic: str
    expression: str = ALL
    tags: frozenset[str] = frozenset()
    tag_hashes: frozenset[int] = frozenset()
    version: int = 0
    """`subVersion`: when the client made it, in milliseconds; a higher one is newer."""
    expression_type: str = TAG

    @property
    def wants_all(self) -> bool:
        """True if every message passes."""
        return self.expression == ALL

    def matches(self, tag: str | None) -> bool:
        """Returns True if a message with this tag (None: without one) passes."""
        return self.expression == ALL or tag in self.tags


def parse_subscription(
    topic: str, expression: str | None, version: int = 0, expression_type: str | None = TAG
) -> TagSubscription:
    """Returns the subscription of an expression; without an expression, to all messages.

    An SQL92 expression is kept as it is and matches no message (see `require_tags`). Raises `RequestRefused` with
    SUBSCRIPTION_PARSE_FAILED if no tag is left between the `||`, and for more than `TAGS_MAX` tags.
    """
    kind = expression_type or TAG
    if kind != TAG:
        return TagSubscription(topic, expression or "", version=version, expression_type=kind)
    if not expression or expression == ALL:
        return TagSubscription(topic, version=version)
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"parse the consumer's subscription failed: {expression!r} has no tag",
        )
    if len(tags) > TAGS_MAX:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"parse the consumer's subscription failed: {len(tags)} tags, at most {TAGS_MAX}",
        )
    return TagSubscription(topic, expression, tags, frozenset(map(java_hash, tags)), version)


def require_tags(subscription: TagSubscription) -> TagSubscription:
    """Returns the subscription if it filters by tags.

    Otherwise raises `RequestRefused` with SYSTEM_ERROR, as a broker does that has `enablePropertyFilter` off.
    """
    if subscription.expression_type != TAG:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {subscription.expression_type}",
        )
    return subscription
