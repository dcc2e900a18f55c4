"""Consumer groups as configured (`SubscriptionGroupManager`): with `autoCreateSubscriptionGroup`, on first use."""

from collections.abc import Mapping
from typing import Final

import attrs

from rocketmq_compat.consumers.model import RequestRefused, WatchedTable, next_version
from rocketmq_compat.consumers.topic_names import has_legal_characters
from rocketmq_compat.remoting.bodies import DataVersion, SubscriptionGroupConfig
from rocketmq_compat.remoting.codes import ResponseCode

GROUP_NAME_MAX: Final = 120
"""The longest name, in characters, so that the names of its retry and dead-letter topics fit a topic's limit."""
GROUPS_MAX: Final = 100_000
"""Groups that are created by their first use; an operator may create more."""


@attrs.define
class GroupTable(WatchedTable[str]):
    """All groups that this broker knows."""

    auto_create: bool = True
    groups_max: int = GROUPS_MAX
    groups: dict[str, SubscriptionGroupConfig] = attrs.field(factory=dict)
    """Every group by its name."""

    def require(self, time_ms: int, name: str) -> SubscriptionGroupConfig:
        """Returns the group, creating it if that is allowed.

        Raises `RequestRefused` with SUBSCRIPTION_GROUP_NOT_EXIST if it is not allowed, or if the name is illegal.
        """
        found = self.groups.get(name)
        if found is None:
            if not self.auto_create or not is_group_name(name) or len(self.groups) >= self.groups_max:
                raise RequestRefused(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist"
                )
            found = SubscriptionGroupConfig(group_name=name)
            self.groups[name] = found
            self._note_change(time_ms, (name,))
        return found

    def update(self, time_ms: int, group: SubscriptionGroupConfig) -> None:
        """Create or change a group for an operator. Raises `RequestRefused` with SYSTEM_ERROR for an illegal name."""
        if not is_group_name(group.group_name):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"a consumer group cannot be called {group.group_name!r}")
        self.groups[group.group_name] = group
        self._note_change(time_ms, (group.group_name,))

    def delete(self, time_ms: int, name: str) -> None:
        """Delete a group for an operator; an unknown one changes nothing."""
        if self.groups.pop(name, None) is not None:
            self._note_change(time_ms, (name,))

    def merge(self, time_ms: int, groups: Mapping[str, SubscriptionGroupConfig], *, theirs_count: bool) -> None:
        """Add the groups of another copy; where both have one, `theirs_count` decides whose is kept."""
        self.groups = {**self.groups, **groups} if theirs_count else {**groups, **self.groups}
        self.version = next_version(self.version, time_ms)
        self._note_all()

    def load(self, version: DataVersion, groups: Mapping[str, SubscriptionGroupConfig]) -> None:
        """Replace all groups by the content of a checkpoint, or of a slave's master."""
        self.version = version
        self.groups = dict(groups)
        self._note_all()


def is_group_name(name: str) -> bool:
    """Returns True if a group may have this name."""
    return 0 < len(name) <= GROUP_NAME_MAX and has_legal_characters(name)
