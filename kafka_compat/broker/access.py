"""The rights of one caller, as guards ask for them, and the report of refusals."""

from collections.abc import Callable
from typing import Final

import attrs

from kafka_compat.acls import CLUSTER_NAME, Authorizer, ResourceType
from kafka_compat.config import Settings
from kafka_compat.controller.image import ClusterImage
from kafka_compat.protocol.authorized import EVERYTHING, AclOperation
from raft.net.seldom import Seldom

NAMED_MAX: Final = 300
"""Characters of a name in a report."""


@attrs.define(eq=False)
class Refusals:
    """Reports who was refused what, seldom for the same."""

    tell: Callable[..., None]
    """Called with an event and its fields."""
    _seldom: Seldom

    def note(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Take note of a refusal."""
        principal, resource = principal[:NAMED_MAX], f"{kind.name} {name[:NAMED_MAX]}"
        times = self._seldom.note((principal, operation, resource))
        if times is not None:
            more = {"times": times} if times > 1 else {}
            self.tell("denied", principal=principal, host=host, operation=operation.name, resource=resource, **more)


@attrs.define(eq=False)
class Access:
    """The rights of one caller during one request, and what else guards look at.

    A broker of this cluster that has proven itself may do everything.
    """

    authorizer: Authorizer
    principal: str
    host: str
    is_member: bool
    image: ClusterImage
    settings: Settings
    refusals: Refusals

    def may(
        self, operation: AclOperation, kind: ResourceType, name: str = CLUSTER_NAME, *, quiet: bool = False
    ) -> bool:
        """Returns True if the caller may do this; reports it if not, unless `quiet` as the caller did not ask for it."""
        if self.operations(kind, name) >> operation & 1:
            return True
        if not quiet:
            self.refusals.note(self.principal, self.host, operation, kind, name)
        return False

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Returns the bits of all that the caller may do with a resource."""
        if self.is_member:
            return EVERYTHING
        return self.authorizer.operations(self.principal, self.host, kind, name)

    def may_some(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Returns True if there may be a resource of this kind with which the caller may do this."""
        return self.is_member or self.authorizer.allows_any(self.principal, self.host, operation, kind)
